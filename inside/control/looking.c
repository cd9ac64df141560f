/* SPDX-License-Identifier: MIT */
#include "inside/control/looking.h"

#include "base/kernel.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/marker/marker.h"
#include "inside/marker/restored.h"
#include "inside/runtime/lock.h"

#include <time.h>

#define LOCK_MS 1000
#define OTHERS_RUN_NS 100000
#define LANDINGS_NS UINT64_C(1000000000)
#define SHARE                                                                                      \
	50 /* looks may take one part in so many of a CPU: of very many sites there are fewer */

static uint64_t next_look_ns, next_landings_ns;

static int is_any_armed(void)
{
	return foreign_bytes_any() || restored_any();
}

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec time = { 0 };

	syscall_raw(SYS_clock_gettime, clock, (long)&time, 0, 0);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * Where the other threads have hardly run since the last look, a look can wait. What a later look
 * finds is reported as having happened since the last look that was done.
 */
static int have_others_run(void)
{
	static int64_t looked_ns;
	int64_t own_ns = (int64_t)cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	int64_t others_ns = (int64_t)cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns;

	/* a forked child's time starts at 0 again */
	if (others_ns >= looked_ns && others_ns - looked_ns < OTHERS_RUN_NS)
		return 0;
	looked_ns = others_ns;
	return 1;
}

void looking_do(const struct text *text)
{
	uint64_t begin_ns, pause_ns;
	int is_frozen;

	if (!is_any_armed() || lock_now_ns() < next_look_ns || lock_take(&agent_lock, LOCK_MS))
		return;
	begin_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	is_frozen = registry_is_frozen(text);
	/*
	 * the form "first" is dangerous as soon as a uprobe has gone, however little runs meanwhile
	 */
	if (!is_frozen && (have_others_run() || foreign_bytes_is_urgent())) {
		foreign_bytes_look(text);
		restored_look(text);
	}
	/*
	 * whether others have run or not: who maps memory and sleeps then has run for a moment only
	 */
	if (!is_frozen && lock_now_ns() >= next_landings_ns) {
		foreign_bytes_landings(text);
		next_landings_ns = lock_now_ns() + LANDINGS_NS;
	}
	lock_release(&agent_lock);
	pause_ns = (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) * SHARE;
	if (pause_ns < (uint64_t)LOOK_MS * 1000000)
		pause_ns = (uint64_t)LOOK_MS * 1000000;
	next_look_ns = lock_now_ns() + pause_ns;
}

int looking_wait_ms(uint64_t next_ns)
{
	uint64_t now_ns = lock_now_ns();

	if (is_any_armed() && next_look_ns < next_ns)
		next_ns = next_look_ns;
	return now_ns >= next_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
}
