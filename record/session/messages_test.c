/* SPDX-License-Identifier: MIT */
#include "record/probe/probes.h"
#include "record/session/process.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

static struct probes probes;
static struct wm_session session = { .probes = &probes };
static struct process process;
static int far; /* the agent's end of its connection */

static void connect_agent(void)
{
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	process.state = PROCESS_OPENED;
	process.pidfd = -1;
	cr_assert_eq(link_adopt(&process.link, ends[0]), 0);
	far = ends[1];
}

static void disconnect_agent(void)
{
	link_release(&process.link);
	close(far);
}

/* Send a request. Returns its serial number. */
static uint32_t request(uint16_t type)
{
	cr_assert_eq(process_request(&process, type, NULL, 0), 0);
	return process.link.serial;
}

/* The agent answers a request without an error. */
static void answer(uint32_t serial)
{
	struct {
		struct wm_message head;
		struct control_done done;
	} message = { .head = { .magic = CONTROL_MAGIC,
				.version = CONTROL_VERSION,
				.type = CONTROL_DONE,
				.serial = serial,
				.bytes = sizeof(message.done) } };

	cr_assert_eq(send(far, &message, sizeof(message), 0), sizeof(message));
	cr_assert_eq(messages_pump(&session, &process), 1);
	cr_assert_eq(process.state, PROCESS_OPENED);
}

Test(messages, quiet_answered_after_arm_leaves_process_armed, .init = connect_agent,
     .fini = disconnect_agent)
{
	uint32_t quiet = request(CONTROL_QUIET), arm;

	process.arming = PROCESS_ARMED;
	arm = request(CONTROL_ARM);
	answer(quiet);
	cr_expect_eq(process.arming, PROCESS_ARMED, "its threads write to the store");
	answer(arm);
	cr_expect_eq(process.arming, PROCESS_ARMED);
}

Test(messages, quiet_answered_makes_disarmed_process_quiet, .init = connect_agent,
     .fini = disconnect_agent)
{
	uint32_t quiet = request(CONTROL_QUIET);

	process.arming = PROCESS_DISARMED;
	answer(quiet);
	cr_expect_eq(process.arming, PROCESS_QUIET);
}
