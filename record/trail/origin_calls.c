/* SPDX-License-Identifier: MIT */
/*
 * The origins of live trails, all by a process of Waymark's (tracer.h), so that no wait(2) of the
 * caller's meets their stops.
 */
#include "record/trail/origin_calls.h"
#include "record/trail/tracer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

struct live_origin {
	struct tracer tracer;
};

/* A child comes out where its parent does: at a sink that takes children. */
static int on_child(void *data, const struct sink_process *process, struct trail_sink **sink)
{
	struct trail_sink *to = ((struct tracer *)data)->wire.to;

	return to->calls->child(to, sink, process);
}

static void on_end(void *data, struct trail_sink *sink, const struct sink_ending *ending)
{
	if (sink != ((struct tracer *)data)->wire.to)
		sink->calls->process_end(sink, ending);
}

/* What came of beginning. */
static int begun(struct live_origin **live, int err, char *detail)
{
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", (*live)->tracer.detail);
	(*live)->tracer.wire.on_child = on_child;
	(*live)->tracer.wire.on_end = on_end;
	if (!err)
		return 0;
	free(*live);
	*live = NULL;
	return err;
}

static int launch(struct live_origin **live, struct trail_sink *sink, const struct tracing_how *how,
		  const char *path, char *const argv[], char *detail)
{
	*live = calloc(1, sizeof(**live));
	if (!*live)
		return -ENOMEM;
	return begun(live, tracer_launch(&(*live)->tracer, sink, how, path, argv), detail);
}

static int attach(struct live_origin **live, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only, char *detail)
{
	*live = calloc(1, sizeof(**live));
	if (!*live)
		return -ENOMEM;
	return begun(live, tracer_attach(&(*live)->tracer, sink, how, pid, only), detail);
}

static pid_t pid_of(const struct live_origin *live)
{
	return live->tracer.pid;
}

static void go(struct live_origin *live)
{
	tracer_go(&live->tracer);
}

static int pump(struct live_origin *live, int timeout_ms)
{
	struct pollfd ready = { .fd = live->tracer.fd, .events = POLLIN };
	int more = tracer_pump(&live->tracer);

	if (more > 0)
		poll(&ready, 1, timeout_ms);
	return more;
}

static int fetch(struct live_origin *live)
{
	return tracer_fetch(&live->tracer);
}

static uint32_t fetched(const struct live_origin *live)
{
	return live->tracer.fetched;
}

static void discard(struct live_origin *live)
{
	tracer_discard(&live->tracer);
}

static int close_of(struct live_origin *live, uint64_t *unfollowed)
{
	int err = tracer_stop(&live->tracer);

	*unfollowed = live->tracer.result.unfollowed;
	free(live);
	return err;
}

#define CALLS                                                                                      \
	.launch = launch, .attach = attach, .pid = pid_of, .go = go, .pump = pump, .fetch = fetch, \
	.fetched = fetched, .discard = discard, .close = close_of

/* What all hardware does. */
#define HARDWARE (WM_TRAIL_FLAG_SWITCHES | WM_TRAIL_FLAG_THREAD | WM_TRAIL_FLAG_KERNEL)

static const struct origin_calls all[ORIGINS + 1] = {
	[ORIGIN_PT] = { WM_TRAIL_ORIGIN_PT, "pt", HARDWARE, 0, CALLS },
	[ORIGIN_BTS] = { WM_TRAIL_ORIGIN_BTS, "bts", HARDWARE, 0, CALLS },
	[ORIGIN_SOFT] = { WM_TRAIL_ORIGIN_SOFT, "soft",
			  WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS | TRAIL_FOLLOWS, 1,
			  CALLS },
	[ORIGIN_ORACLE] = { TRAIL_ORIGIN_ORACLE, "step",
			    WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS | WM_TRAIL_FLAG_THREAD |
				    TRAIL_FOLLOWS,
			    1, CALLS },
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
static int can_do(const struct origin_calls *calls, const struct origin_wanted *wanted, char *why,
		  size_t bytes)
{
	uint32_t lacks = wanted->may_do_less ? 0 : wanted->flags & ~calls->can;

	if (wanted->must_hold && !calls->can_hold) {
		snprintf(why, bytes,
			 "options.policy: the origin %s can't hold threads for WM_POLICY_BLOCK",
			 calls->name);
		return 0;
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (lacks & flags[i].flag) {
			snprintf(why, bytes, "options: the origin %s has no %s", calls->name,
				 flags[i].name);
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

		if (!states[i].error && can_do(&all[i], wanted, lacks, sizeof(lacks)))
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

/* Origins that can record the kernel also need the permission. Flags say which never can. */
static void need_kernel(struct origin_state states[ORIGINS], const struct origin_machine *machine)
{
	struct origin_state needed[ORIGINS];

	memcpy(needed, states, sizeof(needed));
	origins_need_kernel(needed, machine);
	for (int i = 0; i < ORIGINS; i++)
		if (all[i].can & WM_TRAIL_FLAG_KERNEL)
			states[i] = needed[i];
}

int origin_choose(const struct origin_calls **calls, struct tracing_how *how,
		  const struct origin_wanted *wanted, char *why, size_t bytes)
{
	struct origin_state states[ORIGINS];
	int is_auto = wanted->origin == WM_TRAIL_ORIGIN_AUTO, found;

	origins_look(states, &how->machine);
	how->has_kernel = !wanted->may_do_less && wanted->flags & WM_TRAIL_FLAG_KERNEL;
	if (how->has_kernel)
		need_kernel(states, &how->machine);
	found = is_auto ? choose_best(states, wanted, why, bytes) : of_kind(wanted->origin);
	if (found < 0 && !is_auto) {
		snprintf(why, bytes, "options.origin: %d", (int)wanted->origin);
		return -EINVAL;
	}
	if (found < 0) /* the one that can do most says what it can't */
		found = ORIGIN_SOFT;
	*calls = &all[found];
	how->origin = (enum origin)found;
	if (found < ORIGINS && states[found].error) {
		snprintf(why, bytes, "options.origin: %s%s%s", all[found].name,
			 states[found].detail[0] ? ": " : "", states[found].detail);
		return states[found].error;
	}
	if (is_auto && can_do(&all[found], wanted, (char[96]){ 0 }, 96))
		return 0;
	why[0] = '\0';
	return can_do(*calls, wanted, why, bytes) ? 0 : -WM_E_TRAIL_ASKED;
}
