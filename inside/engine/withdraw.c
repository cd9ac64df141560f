/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/channel.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_threads.h"
#include "inside/engine/leave.h"
#include "inside/engine/map.h"
#include "inside/engine/places.h"
#include "inside/engine/sys.h"
#include "inside/engine/trace.h"
#include "inside/engine/withdraw.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/shm.h>

static uint32_t waiting; /* for all others to leave */

/* 1: all have left, except those that also wait for that. */
static int others_left(void)
{
	int is_alone = 0;

	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	leave_together(thread_count() > 1);
	for (unsigned int i = 0; i < LEAVE_POLLS_MAX && !is_alone; i++) {
		is_alone = thread_count() <= __atomic_load_n(&waiting, __ATOMIC_SEQ_CST);
		if (!is_alone)
			leave_poll();
	}
	__atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	return is_alone;
}

void withdraw(struct thread *thread, uint64_t pc, enum engine_native why)
{
	channel_native(why);
	if (why == ENGINE_NATIVE_FILTER)
		debug_trace_close();
	others_left();
	leave(thread, pc);
}

static uint64_t pages_of(uint64_t start, uint64_t bytes)
{
	return ((start & 4095) + bytes + 4095) & ~UINT64_C(4095);
}

static int is_ours(uint64_t start, uint64_t bytes)
{
	return start && bytes && places_meet(start & ~UINT64_C(4095), pages_of(start, bytes));
}

static int break_meets(uint64_t to)
{
	uint64_t now = to ? (uint64_t)sys_call3(SYS_brk, 0, 0, 0) : 0;

	return to > now && is_ours(now, to - now);
}

/* Of a segment of shared memory that the program may not look at, one page. */
static uint64_t segment_bytes(long number)
{
	struct shmid_ds about;

	return sys_call3(SYS_shmctl, number, IPC_STAT, (long)&about) ? 4096 : about.shm_segsz;
}

/*
 * Whether the call that thread->regs ask for wants memory where ours is. is_free: or memory that
 * must be free: without us it might be.
 */
static int meets(const uint64_t *gpr, int is_free)
{
	switch (gpr[0]) {
	case SYS_mmap:
		if (gpr[10] & MAP_FIXED_NOREPLACE)
			return is_free && is_ours(gpr[7], gpr[6]);
		return gpr[10] & MAP_FIXED && is_ours(gpr[7], gpr[6]);
	case SYS_brk:
		return break_meets(gpr[7]);
	case SYS_mremap:
		return (gpr[10] & MREMAP_FIXED && is_ours(gpr[8], gpr[2])) ||
		       (gpr[2] <= gpr[6] && is_ours(gpr[7], gpr[6])); /* it unmaps the rest */
	case SYS_shmat:
		return is_ours(gpr[6], segment_bytes((long)gpr[7]));
	default:
		return 0;
	}
}

#define RENEW_POLLS 64u /* a thread may not have been where it could come from */

/*
 * Move the map, which is where programs may have memory too. Other threads must have come out of
 * the code that uses it.
 */
static void move_map(void)
{
	lock_take(&dispatch_lock);
	if (!map_move()) {
		traces_ask();
		traces_turn();
		for (unsigned int i = 0; i < LEAVE_POLLS_MAX && !traces_are_new(); i++) {
			lock_give(&dispatch_lock);
			if (i % RENEW_POLLS == 0)
				leave_renew();
			leave_poll();
			lock_take(&dispatch_lock);
			traces_drop();
		}
		if (traces_are_new())
			map_moved();
		DEBUG_TRACE("engine/withdraw", "the map moves: done %d", traces_are_new());
	}
	lock_give(&dispatch_lock);
}

long withdraw_wholly(struct thread *thread, uint64_t pc, enum engine_native why)
{
	channel_native(why); /* all were asked to leave, and do */
	if (!others_left())
		return -ENOMEM;
	leave(thread, pc);
}

long withdraw_from_memory(struct thread *thread, uint64_t pc)
{
	if (!meets(thread->regs.gpr, 1))
		return 0;
	move_map();
	if (!meets(thread->regs.gpr, 0))
		return 0;
	return withdraw_wholly(thread, pc, ENGINE_NATIVE_MEMORY);
}
