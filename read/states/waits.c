/* SPDX-License-Identifier: MIT */
#include "read/states/waits.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>

static int is_same(const struct wait_sum *a, const struct wait_sum *b)
{
	return a->thread == b->thread && a->as == b->as && a->stack == b->stack &&
	       a->place == b->place && a->image == b->image && a->waker_pid == b->waker_pid &&
	       a->waker_tid == b->waker_tid;
}

static uint32_t hash_of(const struct wait_sum *sum)
{
	uint64_t key = ((uint64_t)sum->thread << 32 | sum->stack) * 0xff51afd7ed558ccdull;

	key ^= (sum->place + sum->image) * 0xc4ceb9fe1a85ec53ull;
	return slots_hash(key ^ ((uint64_t)sum->waker_tid << 8 | sum->as));
}

/* NULL: no memory. */
static struct wait_sum *sum_find(struct waits *waits, const struct wait_sum *like)
{
	uint32_t hash = hash_of(like), number;

	if (slots_fit(&waits->slots))
		return NULL;
	for (uint64_t at = hash; slots_next(&waits->slots, hash, &at, &number);)
		if (is_same(&waits->all[number], like))
			return &waits->all[number];
	if (waits->count >= WAITS_MAX && (like->place || like->stack || like->waker_tid)) {
		const struct wait_sum other = { .thread = like->thread,
						.as = like->as,
						.waker_tid = THREAD_NO_WAKER };

		if (!is_same(&other, like))
			return sum_find(waits, &other);
	}
	if (array_grow(&waits->all, &waits->room, waits->count + 1, sizeof(*waits->all)))
		return NULL;
	slots_add(&waits->slots, hash, (uint32_t)waits->count);
	waits->all[waits->count] = *like;
	return &waits->all[waits->count++];
}

int waits_add(struct waits *waits, const struct thread_off *off)
{
	const struct wait_sum like = {
		.thread = off->thread,
		.image = off->image,
		.stack = off->stack,
		.place = off->place,
		.waker_pid = off->waker_pid,
		.waker_tid = off->waker_tid,
		.as = off->as,
		.first_ns = off->from_ns,
	};
	struct wait_sum *sum = sum_find(waits, &like);
	uint64_t ns = off->to_ns - off->from_ns;

	if (!sum)
		return -ENOMEM;
	sum->count++;
	sum->off_ns += ns;
	sum->max_ns = ns > sum->max_ns ? ns : sum->max_ns;
	if (off->woken_ns) {
		sum->woken++;
		sum->asleep_ns += off->woken_ns - off->from_ns;
	}
	return 0;
}

void waits_release(struct waits *waits)
{
	free(waits->all);
	free(waits->slots.all);
	*waits = (struct waits){ 0 };
}
