/* SPDX-License-Identifier: MIT */
#include "session/watch/sharing.h"

#include "abi/watch.h"
#include "claim/ledger.h"
#include "session/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

/* between two tries: the kernel frees a register a moment after its holder's end */
#define TRY_NS UINT64_C(20000000)
#define GIVE_UP_NS UINT64_C(3000000000) /* after that, another user must have taken it */

static int is_alive(const struct sharing_part *part)
{
	struct pollfd end = { .fd = part->pidfd, .events = POLLIN };

	return part->pidfd >= 0 && poll(&end, 1, 0) == 0;
}

static void note_alive(struct sharing_part *part)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (!is_alive(part))
		return;
	part->alive_ns[1] = part->alive_ns[0];
	part->alive_ns[0] = now_ns;
}

static void begin_part(struct sharing *sharing, const struct event_object *object, unsigned int i)
{
	struct sharing_part *part = &sharing->parts[i];
	struct claim_owner owner;

	*part = (struct sharing_part){ .pidfd = -1 };
	sharing->shared |= 1u << i;
	part->alive_ns[0] = part->alive_ns[1] = ticks_monotonic_ns();
	if (!event_object_holder(object, i, &owner)) {
		snprintf(part->holder, sizeof(part->holder), "%s %d", owner.comm, (int)owner.pid);
		part->pidfd = (int)syscall(SYS_pidfd_open, owner.pid, 0);
	}
	note_alive(part);
}

int sharing_begin(struct sharing *sharing, struct wm_session *session, struct process *process,
		  struct event_object *object, const uint32_t *numbers, unsigned int count)
{
	int found = 0;

	if (process->link.fd < 0) /* no agent */
		return 0;
	for (unsigned int i = 0; i < count; i++) {
		struct control_watch_share share = { .number = numbers[i] };
		struct iovec part = { &share, sizeof(share) };
		int err = process_request(process, CONTROL_WATCH_SHARE, &part, 1);

		if (!err)
			err = session_wait(session, process, ANSWER_WAIT_MS);
		process->error = 0;
		if (err == -WM_E_GONE || err == -WM_E_AGENT_SILENT)
			return err;
		if (err || event_object_share(object, i))
			continue;
		begin_part(sharing, object, i);
		found++;
	}
	return found;
}

void sharing_alone(struct sharing *sharing, unsigned int part, uint64_t since_ns)
{
	struct sharing_part *one;

	if (part >= EVENT_SOURCES_MAX || !(sharing->shared & 1u << part) ||
	    sharing->due & 1u << part)
		return;
	one = &sharing->parts[part];
	one->alone_ns = ticks_monotonic_ns();
	/*
	 * the holder says when it ended the watch; if it died, it surely held it when last seen
	 * alive but one
	 */
	one->since_ns = since_ns && since_ns <= one->alone_ns ? since_ns : one->alive_ns[1];
	sharing->due |= 1u << part;
}

struct settling {
	int (*settle)(void *data, unsigned int part);
	void *data;
	unsigned int part;
};

static int settle_part(void *data, uint8_t generation)
{
	const struct settling *settling = data;

	(void)generation;
	return settling->settle(settling->data, settling->part);
}

/* Returns 1 when the takeover has succeeded or finally failed; 0: try again later. */
static int try_part(struct sharing *sharing, struct event_object *object, struct settling settling,
		    struct sharing_end *end)
{
	struct sharing_part *part = &sharing->parts[settling.part];
	uint64_t now_ns = ticks_monotonic_ns();
	struct detail none = { NULL, 0 };
	int err;

	if (now_ns - part->tried_ns < TRY_NS)
		return 0;
	part->tried_ns = now_ns;
	err = event_object_take_over(object, settling.part, settle_part, &settling, none);
	if (err == -WM_E_EVENT_TAKEN && now_ns - part->alone_ns < GIVE_UP_NS)
		return 0;
	sharing->due &= ~(1u << settling.part);
	*end = (struct sharing_end){ .part = settling.part,
				     .error = err,
				     .gap_ns = ticks_monotonic_ns() - part->since_ns };
	return 1;
}

int sharing_step(struct sharing *sharing, struct event_object *object,
		 int (*settle)(void *data, unsigned int part), void *data, struct sharing_end *end)
{
	for (unsigned int i = 0; sharing->shared && i < EVENT_SOURCES_MAX; i++) {
		struct settling settling = { settle, data, i };

		if (sharing->shared & 1u << i && !sharing->parts[i].alone_ns)
			note_alive(&sharing->parts[i]);
		if (sharing->due & 1u << i && try_part(sharing, object, settling, end))
			return 1;
	}
	return 0;
}

void sharing_over(const struct sharing_end *end, struct watched_spec *result)
{
	result->taken_over += !end->error;
	result->alone_ns += end->error ? 0 : end->gap_ns;
	if (end->error && end->error != -WM_E_GONE)
		result->lost = end->error;
}

void sharing_note(const struct sharing *sharing, unsigned int part, struct watched_spec *result)
{
	const struct sharing_part *one = &sharing->parts[part];

	result->shared++;
	snprintf(result->holder, sizeof(result->holder), "%s", one->holder);
	if (sharing->due & 1u << part)
		result->alone_ns += ticks_monotonic_ns() - one->since_ns;
}

void sharing_release(struct sharing *sharing)
{
	for (unsigned int i = 0; i < EVENT_SOURCES_MAX; i++)
		if (sharing->shared & 1u << i && sharing->parts[i].pidfd >= 0)
			close(sharing->parts[i].pidfd);
	*sharing = (struct sharing){ 0 };
}
