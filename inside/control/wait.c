/* SPDX-License-Identifier: MIT */
#include "inside/control/wait.h"

#include "abi/control.h"
#include "base/kernel.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS_NS UINT64_C(1000000)
#define LOOKS 25
#define LOOK_PAUSE_NS 20000000

/* Written by the control thread alone. */
static uint64_t renewed_until_ns;

static int32_t tool; /* 0: not known */
static uint32_t is_serving;
static uint32_t may_go; /* 1: the launched program may run */

static uint64_t read_ns(const uint64_t *ns)
{
	return __atomic_load_n(ns, __ATOMIC_RELAXED);
}

static uint64_t end_ns(uint64_t begin_ns, unsigned int usual_ms, uint64_t renewed_ns,
		       uint64_t most_ns)
{
	uint64_t usual_ns = begin_ns + usual_ms * MS_NS, last_ns = begin_ns + most_ns;
	uint64_t until_ns = renewed_ns > usual_ns ? renewed_ns : usual_ns;

	return until_ns < last_ns ? until_ns : last_ns;
}

void wait_renew(unsigned int ms)
{
	uint64_t more_ns;

	if (ms > CONTROL_WAIT_MAX_MS)
		ms = CONTROL_WAIT_MAX_MS;
	more_ns = lock_now_ns() + ms * MS_NS;
	if (more_ns > read_ns(&renewed_until_ns))
		__atomic_store_n(&renewed_until_ns, more_ns, __ATOMIC_RELAXED);
}

void wait_tool(const char *path)
{
	const char *name = strrchr(path, '/');

	tool = 0;
	for (name = name ? name + 1 : path; *name >= '0' && *name <= '9'; name++)
		tool = tool * 10 + (*name - '0');
}

void wait_serving(int whether)
{
	__atomic_store_n(&is_serving, (uint32_t)whether, __ATOMIC_RELEASE);
}

/* It runs, or would if it were let (R), or waits for a disk (D). */
static int tool_runs(void)
{
	char path[32], text[TASKS_STAT_BYTES];
	char state;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)tool);
	state = *tasks_stat(path, text);
	return state == 'R' || state == 'D';
}

static int tool_is_at_work(void)
{
	for (int looks = 0; tool && looks < LOOKS; looks++) {
		if (__atomic_load_n(&is_serving, __ATOMIC_ACQUIRE) || tool_runs())
			return 1;
		kernel_sleep_ns(LOOK_PAUSE_NS);
	}
	return 0;
}

/* The current deadline of a wait for GO that began at begin_ns. */
static uint64_t go_end_ns(uint64_t begin_ns, unsigned int usual_ms, unsigned int most_ms)
{
	uint64_t most_ns = most_ms * MS_NS;
	uint64_t until_ns = end_ns(begin_ns, usual_ms, read_ns(&renewed_until_ns), most_ns);

	if (lock_now_ns() < until_ns || until_ns == begin_ns + most_ns || !tool_is_at_work())
		return until_ns;
	return end_ns(begin_ns, usual_ms, lock_now_ns() + CONTROL_WAIT_MS * MS_NS, most_ns);
}

void wait_go_begin(void)
{
	__atomic_store_n(&may_go, 0, __ATOMIC_RELEASE);
}

void wait_go_over(void)
{
	__atomic_store_n(&may_go, 1, __ATOMIC_RELEASE);
	lock_wake_word(&may_go);
}

int wait_go(unsigned int usual_ms, unsigned int most_ms)
{
	uint64_t begin_ns = lock_now_ns();

	while (!__atomic_load_n(&may_go, __ATOMIC_ACQUIRE)) {
		uint64_t until_ns = go_end_ns(begin_ns, usual_ms, most_ms);
		uint64_t now_ns = lock_now_ns();

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		lock_wait_word(&may_go, 0, (unsigned int)((until_ns - now_ns) / 1000000 + 1));
	}
	return 0;
}

void wait_forked(void)
{
	renewed_until_ns = 0;
	tool = 0;
}
