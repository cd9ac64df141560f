/* SPDX-License-Identifier: MIT */
#include "record/trail/origin_choice.h"

#include <errno.h>
#include <stdio.h>
#include <waymark/error.h>

/* What all hardware does. */
#define HARDWARE (WM_TRAIL_FLAG_SWITCHES | WM_TRAIL_FLAG_THREAD | WM_TRAIL_FLAG_KERNEL)

static const struct origin_can all[ORIGINS + 1] = {
	[ORIGIN_PT] = { WM_TRAIL_ORIGIN_PT, HARDWARE, 0 },
	[ORIGIN_BTS] = { WM_TRAIL_ORIGIN_BTS, HARDWARE, 0 },
	[ORIGIN_SOFT] = { WM_TRAIL_ORIGIN_SOFT,
			  WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS | TRAIL_FOLLOWS, 1 },
	[ORIGIN_ORACLE] = { TRAIL_ORIGIN_ORACLE,
			    WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS | WM_TRAIL_FLAG_THREAD |
				    TRAIL_FOLLOWS,
			    1 },
};

static const struct {
	uint32_t flag;
	const char *name;
} flags[] = { { WM_TRAIL_FLAG_SWITCHES, "WM_TRAIL_FLAG_SWITCHES" },
	      { WM_TRAIL_FLAG_SIGNALS, "WM_TRAIL_FLAG_SIGNALS" },
	      { WM_TRAIL_FLAG_SYSCALLS, "WM_TRAIL_FLAG_SYSCALLS" },
	      { WM_TRAIL_FLAG_KERNEL, "WM_TRAIL_FLAG_KERNEL" },
	      { WM_TRAIL_FLAG_THREAD, "WM_TRAIL_FLAG_THREAD" },
	      { TRAIL_FOLLOWS, "WM_FOLLOW_CHILDREN" } };

/* Whether it can do what is wanted; else why[bytes] says what it can't. */
static int can_do(int origin, const struct origin_wanted *wanted, char *why, size_t bytes)
{
	uint32_t lacks = wanted->may_do_less ? 0 : wanted->flags & ~all[origin].can;

	if (wanted->must_hold && !all[origin].can_hold) {
		snprintf(why, bytes,
			 "options.policy: the origin %s can't hold threads for WM_POLICY_BLOCK",
			 origin_name((enum origin)origin));
		return 0;
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (lacks & flags[i].flag) {
			snprintf(why, bytes, "options: the origin %s has no %s",
				 origin_name((enum origin)origin), flags[i].name);
			return 0;
		}
	return 1;
}

/* The best, or -1. why[bytes]: of each that was passed over. */
static int choose_best(const struct origin_state states[ORIGINS],
		       const struct origin_wanted *wanted, char *why, size_t bytes)
{
	size_t used = 0;

	why[0] = '\0';
	for (int i = 0; i < ORIGINS; i++) {
		char lacks[96] = "";

		if (!states[i].error && can_do(i, wanted, lacks, sizeof(lacks)))
			return i;
		used += (size_t)snprintf(why + used, bytes - used, "%snot %s: %s", used ? "; " : "",
					 origin_name((enum origin)i),
					 states[i].error ? wm_error_text(states[i].error) : lacks);
		used = used < bytes ? used : bytes - 1;
	}
	return -1;
}

static int of_kind(enum wm_trail_origin origin)
{
	for (int i = 0; i < ORIGINS + !!tracing_oracle; i++)
		if (all[i].origin == origin)
			return i;
	return -1;
}

int origin_choose(const struct origin_can **can, struct tracing_how *how,
		  const struct origin_wanted *wanted, char *why, size_t bytes)
{
	struct origin_state states[ORIGINS];
	int is_auto = wanted->origin == WM_TRAIL_ORIGIN_AUTO, found;
	char lacks[96] = "";

	origins_look(states, &how->machine);
	how->has_kernel = !wanted->may_do_less && wanted->flags & WM_TRAIL_FLAG_KERNEL;
	if (how->has_kernel)
		origins_need_kernel(states, &how->machine);
	found = is_auto ? choose_best(states, wanted, why, bytes) : of_kind(wanted->origin);
	if (found < 0 && !is_auto) {
		snprintf(why, bytes, "options.origin: %d", (int)wanted->origin);
		return -EINVAL;
	}
	if (found < 0) /* the one that can do most says what it can't */
		found = ORIGIN_SOFT;
	*can = &all[found];
	how->origin = (enum origin)found;
	if (!can_do(found, wanted, lacks, sizeof(lacks))) {
		snprintf(why, bytes, "%s", lacks);
		return -WM_E_TRAIL_ASKED;
	}
	if (found < ORIGINS && states[found].error) {
		snprintf(why, bytes, "options.origin: %s%s%s", origin_name(how->origin),
			 states[found].detail[0] ? ": " : "", states[found].detail);
		return states[found].error;
	}
	if (!is_auto)
		why[0] = '\0';
	return 0;
}
