/* SPDX-License-Identifier: MIT */
#include "inside/control/pending_modules.h"

#include "inside/runtime/sessions.h"

#define PENDING_MODULES_MAX 256 /* a thread that loads more at once doesn't wait for the rest */

/* awaited -> (SEEN) gone; awaited -> (LATE) behind -> (SEEN) gone */
static struct pending_modules {
	unsigned int count;
	unsigned int behind; /* LATE was sent, and SEEN has not come yet */
	struct {
		uint64_t base, done;
	} awaited[PENDING_MODULES_MAX];
} all_pending[SESSIONS_MAX];

static int find(const struct pending_modules *pending, uint64_t base)
{
	for (unsigned int i = 0; i < pending->count; i++) {
		if (pending->awaited[i].base == base)
			return (int)i;
	}
	return -1;
}

void pending_modules_add(unsigned int lane, uint64_t base)
{
	struct pending_modules *pending = &all_pending[lane];

	if (pending->count == PENDING_MODULES_MAX)
		return;
	pending->awaited[pending->count].base = base;
	pending->awaited[pending->count++].done = 0;
}

void pending_modules_seen(unsigned int lane, uint64_t base)
{
	struct pending_modules *pending = &all_pending[lane];
	int at = find(pending, base);

	/* answers come in the order in which they were asked for: first what it is behind with */
	if (pending->behind)
		pending->behind--;
	else if (at >= 0)
		pending->awaited[at] = pending->awaited[--pending->count];
}

int pending_modules_progress(unsigned int lane, uint64_t base, uint64_t done)
{
	struct pending_modules *pending = &all_pending[lane];
	int at = find(pending, base);

	if (at < 0 || done <= pending->awaited[at].done)
		return 0;
	pending->awaited[at].done = done;
	return 1;
}

int pending_modules_waits(unsigned int lane)
{
	return all_pending[lane].count && !all_pending[lane].behind;
}

void pending_modules_forgive(unsigned int lane, void (*late)(unsigned int lane, uint64_t base))
{
	struct pending_modules *pending = &all_pending[lane];

	for (unsigned int i = 0; i < pending->count; i++)
		late(lane, pending->awaited[i].base);
	pending->behind += pending->count;
	pending->count = 0;
}

void pending_modules_clear(unsigned int lane)
{
	all_pending[lane].count = all_pending[lane].behind = 0;
}
