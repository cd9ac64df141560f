/* SPDX-License-Identifier: MIT */
#include "inside/control/owed.h"

#include "inside/runtime/sessions.h"

#define OWED_MAX 256 /* a thread that loads more at once doesn't wait for the rest */

/* awaited -> (SEEN) gone; awaited -> (LATE) behind -> (SEEN) gone */
static struct owed {
	unsigned int count;
	unsigned int behind; /* LATE was sent, and SEEN has not come yet */
	struct {
		uint64_t base, done;
	} awaited[OWED_MAX];
} all_owed[SESSIONS_MAX];

static int find(const struct owed *owed, uint64_t base)
{
	for (unsigned int i = 0; i < owed->count; i++) {
		if (owed->awaited[i].base == base)
			return (int)i;
	}
	return -1;
}

void owed_add(unsigned int lane, uint64_t base)
{
	struct owed *owed = &all_owed[lane];

	if (owed->count == OWED_MAX)
		return;
	owed->awaited[owed->count].base = base;
	owed->awaited[owed->count++].done = 0;
}

void owed_seen(unsigned int lane, uint64_t base)
{
	struct owed *owed = &all_owed[lane];
	int at = find(owed, base);

	/* answers come in the order in which they were asked for: first what it is behind with */
	if (owed->behind)
		owed->behind--;
	else if (at >= 0)
		owed->awaited[at] = owed->awaited[--owed->count];
}

int owed_got_on(unsigned int lane, uint64_t base, uint64_t done)
{
	struct owed *owed = &all_owed[lane];
	int at = find(owed, base);

	if (at < 0 || done <= owed->awaited[at].done)
		return 0;
	owed->awaited[at].done = done;
	return 1;
}

int owed_waits(unsigned int lane)
{
	return all_owed[lane].count && !all_owed[lane].behind;
}

void owed_forgive(unsigned int lane, void (*late)(unsigned int lane, uint64_t base))
{
	struct owed *owed = &all_owed[lane];

	for (unsigned int i = 0; i < owed->count; i++)
		late(lane, owed->awaited[i].base);
	owed->behind += owed->count;
	owed->count = 0;
}

void owed_clear(unsigned int lane)
{
	all_owed[lane].count = all_owed[lane].behind = 0;
}
