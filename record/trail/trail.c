/* SPDX-License-Identifier: MIT */
/* The public API of trails: open and close. waymark/trail.h documents its promises. */
#include "record/trail/trail.h"

#include "base/notify.h"
#include "target/process/program.h"
#include "target/process/target.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define BYTES_DEFAULT (4u << 20)
#define LAST_BYTES_MAX (UINT64_C(256) << 20)
#define WATERMARK_PERCENT 50
#define FLAGS_ALL                                                                                  \
	(WM_TRAIL_FLAG_SWITCHES | WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS |                 \
	 WM_TRAIL_FLAG_KERNEL | WM_TRAIL_FLAG_THREAD)

static _Thread_local char open_detail[TRAIL_DETAIL_BYTES]; /* of what could not be opened */

int trail_fail(struct wm_trail *trail, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(trail->detail, sizeof(trail->detail), format, arguments);
	va_end(arguments);
	return error;
}

const char *wm_trail_detail(const struct wm_trail *trail)
{
	return trail ? trail->detail : open_detail;
}

/* ---- options ---- */

/*
 * Options of another size than ours: shorter ones are older; longer ones may ask for nothing new.
 */
static int options_copy(struct wm_trail *trail, const struct wm_trail_options *from)
{
	const unsigned char *bytes = (const unsigned char *)from;
	struct wm_trail_options *to = &trail->options;

	*to = (struct wm_trail_options)WM_TRAIL_OPTIONS_INIT;
	to->flags = WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS;
	if (!from)
		return 0;
	if (from->size < offsetof(struct wm_trail_options, origin))
		return trail_fail(trail, -EINVAL, "options.size: %zu", from->size);
	for (size_t i = sizeof(*to); i < from->size; i++)
		if (bytes[i])
			return trail_fail(trail, -E2BIG, "options.size: something behind byte %zu",
					  sizeof(*to));
	*to = (struct wm_trail_options)WM_TRAIL_OPTIONS_INIT;
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	if (!to->engine_path)
		return 0;
	to->engine_path = strdup(to->engine_path);
	trail->how.machine.engine = to->engine_path;
	return to->engine_path ? 0 : -ENOMEM;
}

static int options_check(struct wm_trail *trail)
{
	const struct wm_trail_options *options = &trail->options;
	int err;

	if (options->bytes &&
	    (options->bytes < TRAIL_STORE_BYTES_MIN || options->bytes > TRAIL_STORE_BYTES_MAX))
		return trail_fail(trail, -EINVAL, "options.bytes: %llu, from %u to %llu",
				  (unsigned long long)options->bytes, TRAIL_STORE_BYTES_MIN,
				  (unsigned long long)TRAIL_STORE_BYTES_MAX);
	if (options->flags & ~FLAGS_ALL)
		return trail_fail(trail, -EINVAL, "options.flags: %#x is not known",
				  options->flags & ~FLAGS_ALL);
	if (options->flags & WM_TRAIL_FLAG_THREAD && options->follow == WM_FOLLOW_CHILDREN)
		return trail_fail(
			trail, -EINVAL,
			"options.follow: WM_FOLLOW_CHILDREN is not for WM_TRAIL_FLAG_THREAD");
	if (options->follow > WM_FOLLOW_CHILDREN)
		return trail_fail(trail, -EINVAL, "options.follow: %d", (int)options->follow);
	if (options->policy > WM_POLICY_NOTIFY)
		return trail_fail(trail, -EINVAL, "options.policy: %d", (int)options->policy);
	if (options->engine_path && options->engine_path[0] != '/')
		return trail_fail(trail, -EINVAL, "options.engine_path: %s is not absolute",
				  options->engine_path);
	err = notify_check(options->policy, options->notify_fd, options->notify_signal);
	if (err)
		return trail_fail(trail, err, "options.notify_fd: %d, options.notify_signal: %d",
				  options->notify_fd, options->notify_signal);
	if (options->watermark_percent > 100)
		return trail_fail(trail, -EINVAL, "options.watermark_percent: %u",
				  options->watermark_percent);
	if (options->policy != WM_POLICY_NOTIFY &&
	    (options->notify_signal || options->watermark_percent))
		return trail_fail(
			trail, -EINVAL,
			"options.notify_signal, options.watermark_percent: for WM_POLICY_NOTIFY alone");
	return 0;
}

/* Of each thread: as much as the trail keeps. */
static uint64_t last_bytes(const struct wm_trail *trail)
{
	uint64_t bytes = trail->options.bytes ? trail->options.bytes : BYTES_DEFAULT;

	return bytes < LAST_BYTES_MAX ? bytes : LAST_BYTES_MAX;
}

static int choose(struct wm_trail *trail, int is_default)
{
	const struct origin_wanted wanted = {
		.origin = trail->options.origin,
		.flags = trail->options.flags |
			 (trail->options.follow == WM_FOLLOW_CHILDREN ? TRAIL_FOLLOWS : 0),
		.must_hold = trail->options.policy == WM_POLICY_BLOCK,
		.may_do_less = is_default,
	};
	int err = origin_choose(&trail->can, &trail->how, &wanted, trail->detail,
				sizeof(trail->detail));

	if (err)
		return err;
	trail->options.flags &= trail->can->can;
	trail->options.origin = trail->can->origin;
	trail->how.follows = !!(wanted.flags & trail->can->can & TRAIL_FOLLOWS);
	/* do not wait for records that are overwritten anyway */
	trail->how.last_bytes = trail->options.policy == WM_POLICY_CYCLIC ? last_bytes(trail) : 0;
	return 0;
}

static int options_take(struct wm_trail *trail, const struct wm_trail_options *from)
{
	struct wm_trail_options *options = &trail->options;
	int err = options_copy(trail, from);

	if (!options->policy)
		options->policy = WM_POLICY_CYCLIC;
	if (!err)
		err = options_check(trail);
	if (!err)
		err = choose(trail, !from);
	options->size = sizeof(*options);
	options->bytes = options->bytes ? options->bytes : BYTES_DEFAULT;
	options->bytes -= options->bytes % 4096;
	if (!options->watermark_percent)
		options->watermark_percent = WATERMARK_PERCENT;
	return err;
}

/* ---- a trail made, and released ---- */

static int trail_new(struct wm_trail **out)
{
	struct wm_trail *trail = calloc(1, sizeof(*trail));
	pthread_mutexattr_t checked;
	pthread_condattr_t clock;

	*out = trail;
	if (!trail)
		return -ENOMEM;
	trail->owner = getpid();
	trail->fd = -1;
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&trail->lock, &checked);
	pthread_mutexattr_destroy(&checked);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&trail->changed, &clock);
	pthread_condattr_destroy(&clock);
	trail_sink_init(trail);
	return 0;
}

void wm_trail_close(struct wm_trail *trail)
{
	if (!trail)
		return;
	if (trail->owner == getpid()) {
		int state;

		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		trail_thread_stop(trail);
		if (trail->is_traced)
			tracer_stop(&trail->tracer);
		trail_memory_give(trail);
		trail_recorded_close(trail->recorded);
		pthread_mutex_destroy(&trail->lock);
		pthread_cond_destroy(&trail->changed);
		pthread_setcancelstate(state, &state);
	}
	if (trail->fd >= 0)
		close(trail->fd);
	free((char *)trail->options.engine_path);
	free(trail);
}

static int opening(struct wm_trail **trail, const struct wm_trail_options *options,
		   const struct origin_machine *machine, int *cancel)
{
	int err;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
	err = trail_new(trail);
	if (!err && machine)
		(*trail)->how.machine = *machine;
	return err ? err : options_take(*trail, options);
}

/* What could not be opened is released; its words are kept for wm_trail_detail(NULL). */
static int opened(struct wm_trail **out, struct wm_trail *trail, int result, int cancel)
{
	open_detail[0] = '\0';
	if (result >= 0) {
		*out = trail;
	} else if (trail) {
		memcpy(open_detail, trail->detail, sizeof(open_detail));
		wm_trail_close(trail);
	}
	pthread_setcancelstate(cancel, &cancel);
	return result;
}

/* ---- opened ---- */

/* Why a process can't be had. */
static int attach_failed(struct wm_trail *trail, pid_t pid, int error)
{
	struct target target;

	if (error != -EPERM && error != -ESRCH)
		return trail_fail(trail, error, "pid %d", (int)pid);
	if (target_read(&target, pid))
		return trail_fail(trail, -ESRCH, "pid %d: no such process", (int)pid);
	if (error == -EPERM && target.tracer_pid)
		return trail_fail(trail, -WM_E_TRACED, "pid %d, by pid %d", (int)pid,
				  (int)target.tracer_pid);
	if (error == -EPERM)
		return target_denied(&target,
				     (struct detail){ trail->detail, sizeof(trail->detail) });
	return trail_fail(trail, error, "pid %d", (int)pid);
}

static int attach(struct wm_trail *trail, pid_t pid)
{
	int is_thread = !!(trail->options.flags & WM_TRAIL_FLAG_THREAD), err;
	const char *detail = trail->tracer.detail;
	struct target target;

	if (pid <= 0)
		return trail_fail(trail, -EINVAL, "pid %d", (int)pid);
	err = target_read(&target, pid);
	if (err)
		return trail_fail(trail, err, "pid %d: no such process", (int)pid);
	if (target.pid == getpid())
		return trail_fail(trail, -EINVAL, "pid %d: a process cannot trace itself",
				  (int)pid);
	if (target.pid != pid && !is_thread)
		return trail_fail(
			trail, -EINVAL,
			"pid %d: a thread of process %d; options.flags: WM_TRAIL_FLAG_THREAD takes it",
			(int)pid, (int)target.pid);
	if (trail->how.follows && trail->how.origin == ORIGIN_SOFT)
		return trail_fail(trail, -WM_E_TRAIL_ASKED,
				  "options.follow: WM_FOLLOW_CHILDREN: the origin soft follows no "
				  "children of a program that was running before; launch it");
	err = trail_memory_take(trail);
	if (err)
		return err;
	err = tracer_attach(&trail->tracer, &trail->sink, &trail->how, target.pid,
			    is_thread ? pid : 0);
	if (err && detail[0])
		return trail_fail(trail, err, "pid %d: %s", (int)pid, detail);
	if (err)
		return attach_failed(trail, pid, err);
	if (detail[0])
		trail_fail(trail, 0, "%s", detail);
	trail->pid = target.pid;
	trail->is_traced = 1;
	err = trail_thread_start(trail);
	return err ? trail_fail(trail, err, "pid %d: no thread to take what it does", (int)pid) : 0;
}

int wm_trail_open(struct wm_trail **out, pid_t pid, const struct wm_trail_options *options)
{
	struct wm_trail *trail = NULL;
	int err, cancel;

	if (!out)
		return -EINVAL;
	*out = NULL;
	err = opening(&trail, options, NULL, &cancel);
	if (!err)
		err = attach(trail, pid);
	return opened(out, trail, err, cancel);
}

/* Of a program that can't be recorded nothing is to be left, not even its end to wait for. */
static void end_program(struct wm_trail *trail)
{
	kill(trail->pid, SIGKILL);
	tracer_stop(&trail->tracer);
	trail->is_traced = 0;
	while (waitpid(trail->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int launch(struct wm_trail *trail, char *const argv[])
{
	const char *detail = trail->tracer.detail;
	struct program program;
	int err;

	if (trail->options.flags & WM_TRAIL_FLAG_THREAD)
		return trail_fail(trail, -EINVAL,
				  "options.flags: WM_TRAIL_FLAG_THREAD is for running threads");
	if (!argv || !argv[0])
		return trail_fail(trail, -EINVAL, "argv: names no program");
	err = program_find(&program, argv[0]);
	/* what keeps the agent out is no hindrance */
	if (err && err != -WM_E_STATIC_PROGRAM && err != -WM_E_FOREIGN_LIBC)
		return trail_fail(trail, err, "%s", argv[0]);
	err = trail_memory_take(trail);
	if (err)
		return err;
	err = tracer_launch(&trail->tracer, &trail->sink, &trail->how, program.path, argv);
	if (err)
		return trail_fail(trail, err, "%s%s%s", argv[0], detail[0] ? ": " : "", detail);
	if (detail[0])
		trail_fail(trail, 0, "%s", detail);
	trail->pid = trail->tracer.pid;
	trail->is_traced = 1;
	err = trail_thread_start(trail);
	if (!err)
		return (int)trail->pid;
	end_program(trail);
	return trail_fail(trail, err, "%s: no thread to take what it does", argv[0]);
}

int trail_launch_on(struct wm_trail **out, char *const argv[],
		    const struct wm_trail_options *options, const struct origin_machine *machine)
{
	struct wm_trail *trail = NULL;
	int result, cancel;

	if (!out)
		return -EINVAL;
	*out = NULL;
	result = opening(&trail, options, machine, &cancel);
	if (!result)
		result = launch(trail, argv);
	return opened(out, trail, result, cancel);
}

int wm_trail_launch(struct wm_trail **out, char *const argv[],
		    const struct wm_trail_options *options)
{
	return trail_launch_on(out, argv, options, NULL);
}

int wm_trail_open_dir(struct wm_trail **out, const char *dir)
{
	struct wm_trail *trail = NULL;
	int err, cancel;

	if (!out)
		return -EINVAL;
	*out = NULL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = trail_new(&trail);
	if (!err)
		err = dir ? trail_recorded_open(trail, dir)
			  : trail_fail(trail, -EINVAL, "dir: names no folder");
	return opened(out, trail, err, cancel);
}

/* ---- used ---- */

int trail_enter(struct wm_trail *trail, int *state)
{
	int err;

	if (!trail)
		return -EINVAL;
	if (trail->owner != getpid())
		return -ECHILD;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, state);
	err = pthread_mutex_lock(&trail->lock);
	if (err)
		pthread_setcancelstate(*state, state);
	return -err;
}

void trail_leave(struct wm_trail *trail, int state)
{
	pthread_mutex_unlock(&trail->lock);
	pthread_setcancelstate(state, &state);
}

/* ---- the descriptor ---- */

void trail_fd_raise(struct wm_trail *trail)
{
	const uint64_t one = 1;

	if (trail->fd >= 0 && !trail->is_raised)
		trail->is_raised = write(trail->fd, &one, sizeof(one)) == sizeof(one);
}

void trail_fd_lower(struct wm_trail *trail)
{
	uint64_t count;

	if (trail->is_raised && trail->state == WM_TRAIL_STATE_LIVE)
		trail->is_raised = read(trail->fd, &count, sizeof(count)) != sizeof(count);
}

int wm_trail_fd(struct wm_trail *trail)
{
	int state, result = trail_enter(trail, &state);

	if (result)
		return result;
	if (trail->fd < 0) {
		trail->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		result = trail->fd < 0 ? trail_fail(trail, -errno, "a descriptor to poll") : 0;
		trail_fd_raise(trail); /* there may be records already */
	}
	result = result ? result : trail->fd;
	trail_leave(trail, state);
	return result;
}

int wm_trail_flush(struct wm_trail *trail, int timeout_ms)
{
	int state, result = trail_enter(trail, &state);

	if (result)
		return result;
	result = trail_fetch(trail, timeout_ms);
	if (result > 0)
		trail_fd_lower(trail);
	trail_leave(trail, state);
	return result;
}

int wm_trail_wait(struct wm_trail *trail, int timeout_ms)
{
	struct timespec until;
	int state, err = trail_enter(trail, &state);

	if (err)
		return err;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += timeout_ms % 1000 * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (trail->state == WM_TRAIL_STATE_LIVE && !err && timeout_ms)
		err = timeout_ms < 0
			      ? pthread_cond_wait(&trail->changed, &trail->lock)
			      : pthread_cond_timedwait(&trail->changed, &trail->lock, &until);
	err = trail->state != WM_TRAIL_STATE_LIVE;
	trail_leave(trail, state);
	return err;
}
