/* SPDX-License-Identifier: MIT */
/* The origin `step` for live trails: by a process of ours (stepper.h), so that nobody's wait(2) meets its stops. */
#include "session/trail/origin_calls.h"
#include "session/trail/stepper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

struct live_origin {
	struct stepper stepper;
};

static int step_launched(struct live_origin **live, struct trail_sink *sink, const char *path,
			 char *const argv[])
{
	int err;

	*live = calloc(1, sizeof(**live));
	if (!*live)
		return -ENOMEM;
	err = stepper_launch(&(*live)->stepper, sink, path, argv);
	if (err) {
		free(*live);
		*live = NULL;
	}
	return err;
}

static int step_attached(struct live_origin **live, struct trail_sink *sink, pid_t pid, pid_t only)
{
	int err;

	*live = calloc(1, sizeof(**live));
	if (!*live)
		return -ENOMEM;
	err = stepper_attach(&(*live)->stepper, sink, pid, only);
	if (err) {
		free(*live);
		*live = NULL;
	}
	return err;
}

static pid_t pid_of(const struct live_origin *live)
{
	return live->stepper.pid;
}

static void go(struct live_origin *live)
{
	stepper_go(&live->stepper);
}

static int pump(struct live_origin *live, int timeout_ms)
{
	struct pollfd ready = { .fd = live->stepper.fd, .events = POLLIN };
	int more = stepper_pump(&live->stepper);

	if (more > 0)
		poll(&ready, 1, timeout_ms);
	return more;
}

static int step_closed(struct live_origin *live)
{
	int err = stepper_stop(&live->stepper);

	free(live);
	return err;
}

const struct origin_calls origin_step_calls = {
	.origin = WM_TRAIL_STEP,
	.name = "step",
	.can = WM_TRAIL_SIGNALS | WM_TRAIL_SYSCALLS | WM_TRAIL_THREAD,
	.launch = step_launched,
	.attach = step_attached,
	.pid = pid_of,
	.go = go,
	.pump = pump,
	.close = step_closed,
};

/* Those that can be had live. */
static const struct origin_calls *const origins[] = { &origin_step_calls };

const struct origin_calls *origin_calls_of(enum wm_trail_origin origin, char *why, size_t bytes)
{
	for (size_t i = 0; i < sizeof(origins) / sizeof(*origins); i++)
		if (origin == WM_TRAIL_AUTO || origin == origins[i]->origin)
			return origins[i];
	snprintf(why, bytes, "options.origin: %d is not there for live trails; step is",
		 (int)origin);
	return NULL;
}
