/* SPDX-License-Identifier: MIT */
#include "session/trail/soft.h"

#include "session/ticks.h"
#include "session/trail/soft_ended.h"
#include "session/trail/soft_launch.h"
#include "session/trail/soft_modules.h"
#include "session/trail/soft_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAP_NS 500000 /* segments take longer to fill */
#define NAP_NS_MAX 4000000
#define CLOSE_MS 2000

struct soft {
	pid_t pid;
	int end_fd;		 /* tells of its end */
	int is_waiting, is_done; /* is_done: all was taken */
	uint64_t nap_ns;
	struct soft_channel channel;
	struct soft_launch launch;
	struct soft_modules modules;
	struct soft_reader reader;
	struct soft_result result;
};

static int on_module(void *data, const struct engine_module *module, const char *path)
{
	return soft_modules_told(data, module, path);
}

/* ---- begin ---- */

static int open_all(struct soft *soft, struct trail_sink *sink, const struct soft_options *options)
{
	struct soft_sizes sizes = soft_sizes_for(options ? options->last_bytes : 0);
	int err = soft_channel_open(&soft->channel, &sizes);

	if (!err)
		err = soft_reader_init(&soft->reader, &soft->channel, sink);
	soft->modules.modules.sink = sink;
	soft->modules.pid = soft->pid;
	soft->reader.paths.on_module = on_module;
	soft->reader.paths.data = &soft->modules;
	return err;
}

static int open_image(struct soft_image *image, const struct soft_options *options, char *detail,
		      size_t bytes)
{
	char path[PATH_MAX];
	int err = 0;

	if (options && options->engine)
		snprintf(path, sizeof(path), "%s", options->engine);
	else
		err = soft_image_find(path);
	if (!err)
		err = soft_image_open(image, path);
	if (err)
		snprintf(detail, bytes, "%s", path);
	return err;
}

static void end_child(pid_t pid)
{
	int status, got;

	kill(pid, SIGKILL);
	do {
		ptrace(PTRACE_CONT, pid, 0, 0);
		got = waitpid(pid, &status, __WALL);
	} while (got > 0 && WIFSTOPPED(status));
}

/* Up to where the engine is to begin. */
static int enter(struct soft *soft, struct trail_sink *sink, const struct soft_image *image,
		 int gate, char *detail, size_t bytes)
{
	int err = soft_launch_await(&soft->launch, soft->pid, gate, &soft->channel, image);

	if (!err)
		err = sink->calls->begin(sink, soft->pid);
	if (!err)
		err = soft_modules_note(&soft->modules);
	if (!err)
		err = soft_launch_enter(&soft->launch, &soft->channel, image, detail, bytes);
	if (err)
		return err;
	soft->end_fd = ended_open(soft->pid);
	return soft->end_fd < 0 ? soft->end_fd : 0;
}

int soft_take(struct soft **out, struct trail_sink *sink, const struct soft_options *options,
	      pid_t pid, int gate, char *detail, size_t bytes)
{
	struct soft_image image = { .fd = -1 };
	struct soft *soft = calloc(1, sizeof(*soft));
	int err;

	detail[0] = '\0';
	*out = NULL;
	if (!soft)
		return -ENOMEM;
	soft->pid = pid;
	soft->end_fd = -1;
	soft->is_done = 1;
	soft->nap_ns = NAP_NS;
	err = open_all(soft, sink, options);
	if (!err)
		err = open_image(&image, options, detail, bytes);
	if (!err) {
		err = enter(soft, sink, &image, gate, detail, bytes);
		if (err)
			end_child(pid);
	}
	soft_image_close(&image);
	if (err) {
		soft_close(soft);
		return err;
	}
	soft_channel_hold(&soft->channel);
	soft->is_waiting = 1;
	soft->is_done = 0;
	*out = soft;
	return 0;
}

/* ---- run ---- */

static void go(struct soft *soft)
{
	if (soft->is_waiting)
		soft_launch_go(&soft->launch);
	soft->is_waiting = 0;
}

/* Until there may be something, or it has ended: longer each time there was nothing, where nobody waits for room but in the log. */
static void nap(struct soft *soft, uint64_t end_ns)
{
	uint64_t now_ns = ticks_monotonic_ns(), ns = soft->nap_ns;
	struct pollfd ended = { .fd = soft->end_fd, .events = POLLIN };

	if (soft->channel.sizes.policy == ENGINE_CYCLIC && ns < NAP_NS_MAX)
		soft->nap_ns = 2 * ns;
	if (now_ns >= end_ns)
		return;
	if (ns > end_ns - now_ns)
		ns = end_ns - now_ns;
	ppoll(&ended, 1, &(struct timespec){ .tv_nsec = (long)ns }, NULL);
}

/* Why the engine does not record. 0: it does, or has not begun. */
static int refusal(struct soft *soft)
{
	const struct engine_channel *head = soft_channel_head(&soft->channel);
	int error = __atomic_load_n(&head->error, __ATOMIC_RELAXED);

	if (error >= 0 || error < -(1 << 16) ||
	    __atomic_load_n(&head->state, __ATOMIC_ACQUIRE) != ENGINE_REFUSED)
		return 0;
	snprintf(soft->result.detail, sizeof(soft->result.detail), "the engine says: %s",
		 wm_error_text(error));
	return -WM_E_ENGINE_REFUSED;
}

/* What a trail ends with that the engine did not end: the process's end. */
static const struct trail_between *ending(struct soft *soft, struct trail_between *made)
{
	int status;

	if (ended_status(soft->end_fd, soft->pid, &status))
		return NULL;
	soft->result.status = status;
	*made = (struct trail_between){
		.event = TRAIL_END,
		.values = { WIFSIGNALED(status) ? TRAIL_KILLED : TRAIL_EXITED,
			    (uint64_t)(WIFSIGNALED(status) ? WTERMSIG(status)
							   : WEXITSTATUS(status)) },
	};
	return made;
}

static void note_figures(struct soft *soft)
{
	const struct engine_channel *head = soft_channel_head(&soft->channel);
	struct soft_result *result = &soft->result;

	result->blocks = soft->reader.blocks;
	result->losses = soft->reader.losses;
	result->traces = head->traces;
	result->translated_blocks = head->translated_blocks;
	result->flushes = head->flushes;
	result->faults = head->faults;
	result->lost_threads = head->lost_threads;
	if (!result->detail[0] && result->lost_threads)
		snprintf(result->detail, sizeof(result->detail),
			 "%u threads found no room to be recorded", result->lost_threads);
}

static int finish(struct soft *soft, const struct trail_between *end_with)
{
	int err = soft->is_done ? 0 : soft_reader_finish(&soft->reader, end_with);

	soft->is_done = 1;
	note_figures(soft);
	return err;
}

static int over(struct soft *soft)
{
	struct trail_between made;
	const struct trail_between *end_with;

	soft->modules.is_gone = 1;
	end_with = ending(soft, &made);
	soft->result.is_over = 1;
	return finish(soft, end_with);
}

int soft_run(struct soft *soft, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	int err;

	go(soft);
	do {
		int is_over = ended_is(
			soft->end_fd); /* before the look that takes the last of it */
		int had = soft_reader_take(&soft->reader);

		if (had < 0)
			return had;
		if (is_over && !had) {
			err = over(soft);
			return err < 0 ? err : refusal(soft);
		}
		err = is_over ? 0 : refusal(soft);
		if (err)
			return err;
		if (had)
			soft->nap_ns = NAP_NS;
		else
			nap(soft, end_ns);
	} while (ticks_monotonic_ns() < end_ns);
	return 1;
}

void soft_result(const struct soft *soft, struct soft_result *result)
{
	*result = soft->result;
}

/* ---- close ---- */

/* Whether it runs as translated code still. */
static int is_inside(const struct soft *soft)
{
	const struct engine_channel *head = soft_channel_head(&soft->channel);
	uint32_t state = __atomic_load_n(&head->state, __ATOMIC_ACQUIRE);

	return (state == ENGINE_RUNS || state == ENGINE_WAITING) && !ended_is(soft->end_fd);
}

int soft_let_go(struct soft *soft, unsigned int for_ms)
{
	const struct trail_between gone = { .event = TRAIL_END, .values = { TRAIL_DETACHED } };
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);
	struct engine_channel *head = soft_channel_head(&soft->channel);
	int had = 1;

	if (soft->is_done)
		return soft->reader.error;
	go(soft);
	__atomic_or_fetch(&head->asked, ENGINE_ASKED_STOP, __ATOMIC_RELEASE);
	while (had >= 0 && (had || is_inside(soft)) && ticks_monotonic_ns() < end_ns) {
		had = soft_reader_take(&soft->reader);
		if (!had)
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
	soft_channel_let_go(&soft->channel);
	return ended_is(soft->end_fd) ? over(soft) : finish(soft, &gone);
}

int soft_close(struct soft *soft)
{
	int err;

	if (!soft)
		return 0;
	err = soft_let_go(soft, CLOSE_MS);
	soft_reader_release(&soft->reader);
	soft_modules_release(&soft->modules);
	soft_channel_close(&soft->channel);
	if (soft->end_fd >= 0)
		close(soft->end_fd);
	free(soft);
	return err;
}
