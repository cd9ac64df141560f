/* SPDX-License-Identifier: MIT */
#include "agent/control/yield.h"

#include "agent/detour/janitor.h"
#include "agent/marker/careful.h"
#include "agent/runtime/control_life.h"
#include "agent/runtime/lock.h"
#include "agent/runtime/reentrancy_guard.h"
#include "agent/watch/watch.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <signal.h>

#define YIELD_NS UINT64_C(2000000000)
#define LOOK_MS 5 /* at threads that end */
#define LOCK_MS 200
#define HANDLED_TRIES 20
#define HANDLED_PAUSE_NS 500000

static uint32_t coming, for_all; /* threads between yield_begin() and yield_end() */
static uint32_t asked, done;	 /* grow */
static uint32_t begun;		 /* the control thread's: what it has notified its tools of */

int yield_is_asked(void)
{
	return __atomic_load_n(&coming, __ATOMIC_SEQ_CST) != 0;
}

int yield_takes_all(void)
{
	return __atomic_load_n(&for_all, __ATOMIC_ACQUIRE) && asked == done;
}

static int is_done(uint32_t mine)
{
	return (int32_t)(__atomic_load_n(&done, __ATOMIC_ACQUIRE) - mine) >= 0;
}

/* The keeper waits for the other, and ends last. */
static int any_thread_is_ours(void)
{
	int32_t keeper = __atomic_load_n(&control_keeper, __ATOMIC_RELAXED);

	return control_runs() ||
	       (keeper && !syscall_raw(SYS_tgkill, kernel_getpid(), keeper, 0, 0));
}

static void wait_for(uint32_t mine, int is_for_all)
{
	uint64_t end_ns = lock_now_ns() + YIELD_NS;

	while (!is_done(mine) && control_runs() && lock_now_ns() < end_ns)
		lock_wait_word(&done, __atomic_load_n(&done, __ATOMIC_ACQUIRE), LOOK_MS);
	while (is_for_all && any_thread_is_ours() && lock_now_ns() < end_ns)
		kernel_sleep_ns(LOOK_MS * UINT64_C(1000000));
}

void yield_begin(int is_for_all)
{
	struct hit_guard shut;
	int was = errno;
	uint64_t all = ~UINT64_C(0), before = 0;
	uint32_t mine;

	/* a handler of the program's may leave by a jump */
	syscall_raw(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&before, sizeof all);
	hit_guard(&shut);
	__atomic_add_fetch(&coming, 1, __ATOMIC_SEQ_CST);
	if (is_for_all)
		__atomic_add_fetch(&for_all, 1, __ATOMIC_SEQ_CST);
	mine = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST);
	if (control_wake())
		wait_for(mine, is_for_all);
	errno = was;
	hit_open(&shut);
	syscall_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before);
}

void yield_end(void)
{
	__atomic_sub_fetch(&coming, 1, __ATOMIC_SEQ_CST);
	/* a thread that came in between wants the same, or the control thread has ended */
	__atomic_store_n(&for_all, 0, __ATOMIC_SEQ_CST);
}

/* What came before may be in hand still, by threads that are to have the filter, too. */
static int nobody_handles(const struct text *text)
{
	for (int tries = 0; janitor_look(text) == -EAGAIN; tries++) {
		if (tries == HANDLED_TRIES)
			return 0;
		kernel_sleep_ns(HANDLED_PAUSE_NS);
	}
	return 1;
}

void yield_serve(const struct text *text)
{
	uint32_t now = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
	int is_over;

	if (now == done || lock_take(&agent_lock, LOCK_MS))
		return;
	if (begun != now) {
		begun = now;
		careful_allow(0);
		watch_yield(-WM_E_TRAP_FILTER);
	}
	is_over = !watch_any_live() &&
		  (!__atomic_load_n(&for_all, __ATOMIC_ACQUIRE) || nobody_handles(text));
	lock_release(&agent_lock);
	if (!is_over)
		return;
	__atomic_store_n(&done, now, __ATOMIC_RELEASE);
	lock_wake_word(&done);
}

void yield_forked(void)
{
	coming = for_all = 0;
	asked = done = begun = 0;
}
