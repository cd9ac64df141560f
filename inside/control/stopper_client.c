/* SPDX-License-Identifier: MIT */
#include "inside/control/stopper_client.h"

#include "abi/stopper.h"
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/control/message.h"
#include "inside/control/report.h"
#include "inside/control/session_table.h"
#include "inside/detour/janitor.h"
#include "inside/detour/site.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"

#include <waymark/error.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define READY_MS 2000			/* for a tool that waits for us to start a stopper */
#define OTHER_READY_MS 100		/* for any other tool: it may be stopped itself */
#define SILENT_NS UINT64_C(10000000000) /* such a one did not answer: ask none for so long */
#define ANSWER_MS (STOPPER_STOP_MAX_MS + 2000)

static int socket_fd = -1;
static uint64_t ask_from_ns;

static struct {
	struct stopper_request head;
	struct stopper_change changes[STOPPER_CHANGES_MAX];
} packet;

void stopper_release(void)
{
	if (socket_fd >= 0)
		kernel_close(socket_fd);
	socket_fd = -1;
}

void stopper_forked(void)
{
	socket_fd = -1; /* was never in this table of descriptors */
	ask_from_ns = 0;
}

/* ---- the socket ---- */

/* One packet. Its bytes, 0 if the stopper has ended, -ETIMEDOUT. */
static long receive(int fd, void *to, size_t bytes, unsigned int timeout_ms)
{
	struct iovec part = { to, bytes };
	struct msghdr head = { .msg_iov = &part, .msg_iovlen = 1 };
	uint64_t end_ns = lock_now_ns() + (uint64_t)timeout_ms * 1000000, now_ns;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	ssize_t got;

	while ((got = kernel_recvmsg(fd, &head, MSG_DONTWAIT)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return 0;
		now_ns = lock_now_ns();
		if (now_ns >= end_ns)
			return -ETIMEDOUT;
		kernel_poll(&ready, 1, (int)((end_ns - now_ns) / 1000000 + 1));
	}
	return got;
}

/* Ask one tool. 0, -WM_E_NO_PTRACE, -ETIMEDOUT. */
static int ask(int tool_fd, unsigned int timeout_ms)
{
	uint64_t patience_ns = (uint64_t)timeout_ms * 1000000;
	char byte = 0;
	int ends[2], error;
	long got;

	if (kernel_call(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, (long)ends))
		return -WM_E_NO_PTRACE;
	error = message_send(tool_fd, CONTROL_STOPPER, 0, NULL, 0, NULL, 0, ends[1], &patience_ns);
	kernel_close(ends[1]);
	got = error ? 0 : receive(ends[0], &byte, 1, timeout_ms);
	if (got > 0) {
		socket_fd = ends[0];
		return 0;
	}
	kernel_close(ends[0]);
	return got < 0 ? (int)got : -WM_E_NO_PTRACE;
}

static int open_any(void)
{
	int error = -WM_E_NO_PTRACE;

	if (socket_fd >= 0)
		return 0;
	for (unsigned int lane = 0; lane < SESSIONS_MAX && socket_fd < 0; lane++) {
		int fd = session_fd(lane), waits = report_is_serving(lane);

		if (fd < 0)
			continue;
		DEBUG_TRACE("agent/stopper", "lane %d: asked for a stopper, waits %d", lane, waits);
		if (!waits && lock_now_ns() < ask_from_ns) {
			error = -EAGAIN;
		} else if (ask(fd, waits ? READY_MS : OTHER_READY_MS) == -ETIMEDOUT) {
			error = -EAGAIN;
			ask_from_ns = lock_now_ns() + SILENT_NS;
		}
	}
	return socket_fd >= 0 ? 0 : error;
}

/* Send the packet, take the answer. 0 or an error; one that makes no sense ends the stopper. */
static int exchange(struct stopper_answer *answer)
{
	size_t bytes = sizeof packet.head + packet.head.count * sizeof *packet.changes;
	uint64_t patience_ns = 0; /* it has read all before this */

	if (message_send_whole(socket_fd, &packet, bytes, &patience_ns) ||
	    receive(socket_fd, answer, sizeof *answer, ANSWER_MS) != sizeof *answer) {
		stopper_release();
		return -EAGAIN;
	}
	return answer->error < 0 ? answer->error : 0;
}

/* ---- changes ---- */

/* Whether the stopper has to change this site; else it is done, or has its error. */
static int make_change(const struct text *text, struct janitor_site *site, int arm,
		       struct stopper_change *change)
{
	const struct control_detour *record = site->detour->record;
	size_t bytes = detour_owned(record);
	struct detour_store store;
	uint64_t first, last;

	*change = (struct stopper_change){ .address = record->address, .bytes = (uint8_t)bytes };
	site->error = text_read(text, record->address, change->expected, bytes);
	if (!site->error)
		site->error = detour_choose(site->detour, arm, change->expected, &store);
	if (site->error)
		return 0;
	memcpy(site->found, change->expected, sizeof site->found);
	site->is_done = !store.count;
	if (site->is_done)
		return 0;
	first = record->address + store.at;
	last = first + store.count - 1;
	if (detour_is_guard(site->detour) ||
	    first / STOPPER_PAGE_BYTES != last / STOPPER_PAGE_BYTES) {
		site->error = -WM_E_NO_PTRACE;
		return 0;
	}
	change->at = (uint8_t)store.at;
	change->count = (uint8_t)store.count;
	memcpy(change->stored, store.bytes, store.count);
	return 1;
}

/* Sites from `at` on, as many as one packet holds; moves `at`. 0 or an error. */
static int run_some(const struct text *text, struct janitor_site *sites, size_t count, size_t *at,
		    int arm, struct janitor_outcome *outcome)
{
	struct janitor_site *asked[STOPPER_CHANGES_MAX];
	struct stopper_answer answer = { 0 };
	int error;

	packet.head.count = 0;
	for (; *at < count && packet.head.count < STOPPER_CHANGES_MAX; ++*at) {
		struct janitor_site *site = &sites[*at];

		if (!site->is_done &&
		    make_change(text, site, arm, &packet.changes[packet.head.count]))
			asked[packet.head.count++] = site;
	}
	if (!packet.head.count)
		return 0;
	error = open_any();
	if (!error)
		error = exchange(&answer);
	if (error)
		return error;
	for (uint32_t i = 0; i < packet.head.count; i++) {
		asked[i]->is_done = answer.is_done[i];
		asked[i]->error = answer.is_done[i] ? 0 : -WM_E_SITE_CHANGED;
	}
	outcome->threads = answer.threads;
	outcome->stopped_ns += answer.stopped_ns;
	outcome->done_ns = lock_now_ns();
	return 0;
}

static int run(const struct text *text, struct janitor_site *sites, size_t count, int arm,
	       unsigned int patience_ms, struct janitor_outcome *outcome)
{
	size_t at = 0;
	int error = 0;

	packet.head.patience_ms = patience_ms;
	packet.head.filters = (uint32_t)tasks_own_filters();
	while (!error && at < count)
		error = run_some(text, sites, count, &at, arm, outcome);
	return error;
}

void stopper_begin(void)
{
	janitor_stopper = run;
}

/* ---- while a tool is there ---- */

static int is_any_armed(void)
{
	for (const struct detour *d = detour_first(); d; d = d->next) {
		if (d->is_armed && !detour_is_guard(d) && site_needs_stop(d))
			return 1;
	}
	return 0;
}

void stopper_tick(void)
{
	/* root's capabilities let the janitor stop a process that is not dumpable */
	if (socket_fd < 0 && kernel_geteuid() &&
	    kernel_call(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0) != 1 && is_any_armed())
		open_any();
}
