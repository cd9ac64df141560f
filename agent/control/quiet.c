/* SPDX-License-Identifier: MIT */
#include "agent/control/quiet.h"

#include "agent/detour/janitor.h"
#include "agent/runtime/lock.h"
#include "agent/store/event_store.h"

#include <errno.h>

#define LOOK_MS 100 /* in a hit for so long: see whether that is so */
#define TICK_LOOK_NS UINT64_C(500000000)

/*
 * A thread that doesn't leave its hit may have left it long ago, by a jump. No further hit of that
 * thread shows it, because nothing is armed any more.
 */
int quiet_wait(unsigned int lane, const struct text *text, unsigned int timeout_ms)
{
	static uint64_t looked_ns;
	unsigned int wait_ms = LOOK_MS, left_ms = timeout_ms;
	int error = store_quiet(lane, left_ms < wait_ms ? left_ms : wait_ms);

	while (error == -ETIMEDOUT && left_ms > wait_ms) {
		janitor_forget_stranded(text);
		left_ms -= wait_ms;
		error = store_quiet(lane, left_ms < wait_ms ? left_ms : wait_ms);
	}
	if (error == -ETIMEDOUT && lock_now_ns() - looked_ns >= TICK_LOOK_NS) {
		janitor_forget_stranded(text); /* for the next time */
		looked_ns = lock_now_ns();
	}
	return error;
}
