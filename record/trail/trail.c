/* SPDX-License-Identifier: MIT */
/* The public API of trails, without its cursors. waymark/trail.h documents its promises. */
#include "record/trail/trail.h"

#include "base/notify.h"
#include "target/claim/limits.h"
#include "target/process/program.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PUMP_MS 20
#define READ_MS 1000	/* that a call which reads waits for what is fetched */
#define FULL_NS 2000000 /* between looks at a store that is full */
/* A fetch at most so long ago is recent enough: one of a busy program takes about that long. */
#define FRESH_NS 100000000
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

/* ---- a call begins and ends ---- */

/*
 * A call begins: no cancellation, and the lock. 0, -EINVAL, -ECHILD, -EDEADLK, with nothing taken.
 * `state` is for trail_leave().
 */
static int trail_enter(struct wm_trail *trail, int *state)
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

/* There are records that no call has seen, or the trail is over. */
static void trail_fd_raise(struct wm_trail *trail)
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

/*
 * ---- memory, charged against RLIMIT_MEMLOCK, as the kernel does it, or a cap of the caller's
 */

static pthread_mutex_t cap_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t capped_bytes; /* of all trails with a cap */

static int cap_take(struct wm_trail *trail)
{
	uint64_t cap = trail->options.cap_bytes, bytes = trail->options.bytes, used;

	pthread_mutex_lock(&cap_lock);
	used = capped_bytes;
	if (used <= cap && bytes <= cap - used) {
		capped_bytes += bytes;
		trail->capped_bytes = bytes;
	}
	pthread_mutex_unlock(&cap_lock);
	if (trail->capped_bytes)
		return 0;
	return trail_fail(trail, -WM_E_MEMORY_LIMIT,
			  "%" PRIu64 " bytes asked for, cap_bytes allows %" PRIu64
			  "; other trails have %" PRIu64,
			  bytes, cap, used);
}

static void cap_give(struct wm_trail *trail)
{
	pthread_mutex_lock(&cap_lock);
	capped_bytes -= trail->capped_bytes;
	trail->capped_bytes = 0;
	pthread_mutex_unlock(&cap_lock);
}

/* Locked memory, in the ledger; and whether the administrator's limits allow it. */
static int claim_take(struct wm_trail *trail)
{
	char words[TRAIL_DETAIL_BYTES] = "";
	uint64_t id;
	int err = ledger_new(&trail->ledger);

	if (!err)
		err = claim_locked_bytes(trail->ledger, trail->options.bytes, "trail", &id,
					 (struct detail){ words, sizeof(words) });
	if (!err)
		ledger_confirm(trail->ledger, &id, 1);
	return err ? trail_fail(trail, err, "%s", words) : 0;
}

static void claim_give(struct wm_trail *trail)
{
	ledger_free(trail->ledger);
	trail->ledger = NULL;
}

/* Why mlock(2) said no: its limit, or that there is no memory. */
static int refused(struct wm_trail *trail, int err)
{
	uint64_t bytes = trail->options.bytes;
	uint64_t locked = (uint64_t)target_status_number(getpid(), "VmLck") * 1024;
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (err != -EPERM && (limit.rlim_cur == RLIM_INFINITY || locked + bytes <= limit.rlim_cur))
		return trail_fail(trail, -ENOMEM, "%" PRIu64 " bytes of memory", bytes);
	return trail_fail(trail, -WM_E_MEMORY_LIMIT,
			  "%" PRIu64 " bytes asked for, RLIMIT_MEMLOCK allows %" PRIu64 "; %" PRIu64
			  " are in use",
			  bytes, (uint64_t)limit.rlim_cur, locked);
}

/* Called under the lock, in the thread that puts the record. */
static void reached(void *data)
{
	struct wm_trail *trail = data;
	if (trail->options.policy == WM_POLICY_NOTIFY)
		notify_send(trail->options.notify_fd, trail->options.notify_signal);
}

/* The store, within the limit that the options name. */
static int trail_memory_take(struct wm_trail *trail)
{
	struct trail_store_options options = {
		.bytes = trail->options.bytes,
		.policy = trail->options.policy,
		.watermark_bytes = trail->options.bytes / 100 * trail->options.watermark_percent,
		.reached = reached,
		.data = trail,
		.is_locked = !trail->options.cap_bytes,
	};
	int err = trail->options.cap_bytes ? cap_take(trail) : claim_take(trail);

	if (err) {
		claim_give(trail);
		return err;
	}
	err = trail_store_open(&trail->store, &options);
	if (!err)
		return 0;
	claim_give(trail);
	if (options.is_locked)
		return refused(trail, err);
	cap_give(trail);
	return trail_fail(trail, err, "%" PRIu64 " bytes of memory", trail->options.bytes);
}

static void trail_memory_give(struct wm_trail *trail)
{
	trail_store_close(trail->store);
	trail->store = NULL;
	cap_give(trail);
	claim_give(trail);
}

/*
 * ---- the sink between tracer and store: it takes the lock and leaves out what was not requested;
 * where that would leave blocks that can't follow each other, it puts a gap (abi/trail.h)
 */

static struct wm_trail *trail_of(struct trail_sink *sink)
{
	return (struct wm_trail *)((char *)sink - offsetof(struct wm_trail, sink));
}

static struct trail_sink *begin(struct wm_trail *trail)
{
	pthread_mutex_lock(&trail->lock);
	return trail_store_sink(trail->store);
}

static int end(struct wm_trail *trail, int result)
{
	pthread_mutex_unlock(&trail->lock);
	return result;
}

/* The same, with a record more. */
static int end_record(struct wm_trail *trail, int result)
{
	trail_fd_raise(trail);
	return end(trail, result);
}

static int sink_begin(struct trail_sink *sink, pid_t pid)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->begin(to, pid));
}

static int sink_module(struct trail_sink *sink, const struct control_module *module,
		       const char *path)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, trail->tracer.wire.pid);
	return end(trail, to->calls->module(to, module, path));
}

static int sink_thread_begin(struct trail_sink *sink, struct sink_thread **thread, pid_t tid,
			     const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail_store_process(trail->store, trail->tracer.wire.pid);
	return end(trail, to->calls->thread_begin(to, thread, tid, comm, origin, ticks));
}

static int sink_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->thread_name(to, thread, comm));
}

static int sink_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, to->calls->since(to, thread, from));
}

static int sink_block(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = thread;
	trail->last_next = entry->start + entry->bytes;
	return end_record(trail, to->calls->block(to, thread, entry, code, ticks));
}

static uint32_t flag_of(const struct trail_between *between)
{
	switch (between->event) {
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
		return WM_TRAIL_FLAG_SWITCHES;
	case TRAIL_SIGNAL: /* 0: an interrupt, which is part of the kernel's trail */
		return between->values[0] ? WM_TRAIL_FLAG_SIGNALS : 0;
	case TRAIL_SYSCALLED:
		return WM_TRAIL_FLAG_SYSCALLS;
	default:
		return 0;
	}
}

static int sink_event(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_between *between, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);
	uint32_t flag = flag_of(between);
	struct trail_between gap = { .event = TRAIL_GAP,
				     .at = between->at,
				     .left = between->left,
				     .values = { TRAIL_GAP_KERNEL } };
	int is_straight = trail->last == thread && between->at == trail->last_next &&
			  between->event != TRAIL_SIGNAL && !between->left;

	if (between->event == TRAIL_VALUE) /* the library's events have none */
		return end(trail, 0);
	if (!flag || trail->options.flags & flag)
		return end_record(trail, to->calls->event(to, thread, between, ticks));
	if (is_straight)
		return end(trail, 0);
	if (between->event == TRAIL_SIGNAL && between->values[1])
		gap.at = between->values[1];
	return end_record(trail, to->calls->event(to, thread, &gap, ticks));
}

static int sink_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	trail->last = NULL;
	return end_record(trail, to->calls->thread_end(to, thread, ticks));
}

static int sink_is_full(struct trail_sink *sink)
{
	struct wm_trail *trail = trail_of(sink);
	struct trail_sink *to = begin(trail);

	return end(trail, !trail->must_end && to->calls->is_full(to));
}

static const struct trail_sink_calls calls = {
	.begin = sink_begin,
	.module = sink_module,
	.thread_begin = sink_thread_begin,
	.thread_name = sink_thread_name,
	.since = sink_since,
	.block = sink_block,
	.event = sink_event,
	.thread_end = sink_thread_end,
	.is_full = sink_is_full,
};

/* What children did goes where it goes of the first process. */
static int on_child(void *data, const struct sink_process *process, struct trail_sink **out)
{
	(void)process;
	*out = ((struct tracer *)data)->wire.to;
	return 0;
}

/* ---- the thread that takes what the tracer sends ---- */

/* So long from now on, for pthread_cond_timedwait() of trail->changed. */
static struct timespec time_after(uint64_t ns)
{
	uint64_t until_ns = ticks_monotonic_ns() + ns;

	return (struct timespec){ (time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000) };
}

/* Until something has changed, or that time, without one: for as long as it takes. */
static int changed_await(struct wm_trail *trail, int has_end, const struct timespec *until)
{
	return has_end ? pthread_cond_timedwait(&trail->changed, &trail->lock, until)
		       : pthread_cond_wait(&trail->changed, &trail->lock);
}

/* Whether there is room; waits a little where there is not. */
static int await_room(struct wm_trail *trail)
{
	struct timespec until = time_after(FULL_NS);

	if (!sink_is_full(&trail->sink))
		return 1;
	pthread_mutex_lock(&trail->lock);
	pthread_cond_broadcast(&trail->changed); /* pairs with is_stuck() in fetch() */
	changed_await(trail, 1, &until);
	pthread_mutex_unlock(&trail->lock);
	return 0;
}

/* What other threads' calls want and wait for. Whether the trail is to end. */
static int calls_serve(struct wm_trail *trail)
{
	uint64_t now_ns = ticks_monotonic_ns();
	int must_end;

	pthread_mutex_lock(&trail->lock);
	if (trail->tracer.fetched != trail->fetch_done) {
		trail->fetch_done = trail->tracer.fetched;
		trail->fetched_ns = now_ns;
		pthread_cond_broadcast(&trail->changed);
	}
	/* with WM_TRAIL_ORIGIN_SOFT nothing comes by itself: look for what a caller polls for */
	if (trail->fd >= 0 && !trail->is_raised && trail->options.origin == WM_TRAIL_ORIGIN_SOFT &&
	    trail->fetch_asked == trail->fetch_done && now_ns - trail->fetched_ns >= FRESH_NS &&
	    tracer_fetch(&trail->tracer))
		trail->fetch_asked++;
	must_end = trail->must_end;
	pthread_mutex_unlock(&trail->lock);
	return must_end;
}

static void *run(void *data)
{
	struct wm_trail *trail = data;
	struct pollfd ready = { .fd = trail->tracer.fd, .events = POLLIN };
	int more = 1, err;

	do {
		if (!await_room(trail))
			continue;
		more = tracer_pump(&trail->tracer);
		if (more > 0)
			poll(&ready, 1, PUMP_MS);
	} while (!calls_serve(trail) && more > 0);
	/* no call uses the tracer from here on */
	pthread_mutex_lock(&trail->lock);
	trail->is_traced = 0;
	pthread_mutex_unlock(&trail->lock);
	err = tracer_stop(&trail->tracer);
	pthread_mutex_lock(&trail->lock);
	trail->unfollowed = trail->tracer.result.unfollowed;
	trail->error = more < 0 ? more : err;
	trail->state = trail->error ? WM_TRAIL_STATE_FAILED : WM_TRAIL_STATE_OVER;
	trail_fd_raise(trail);
	pthread_cond_broadcast(&trail->changed);
	pthread_mutex_unlock(&trail->lock);
	return NULL;
}

/* The tracer has begun: let it go, and take what it sends until it is over. 0 or -errno. */
static int trail_thread_start(struct wm_trail *trail)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	trail->tracer.wire.on_child = on_child;
	/* the thread stops the tracer at its end, for which it needs the lock */
	pthread_mutex_lock(&trail->lock);
	err = pthread_create(&trail->thread, NULL, run, trail);
	trail->has_thread = !err;
	if (!err)
		tracer_go(&trail->tracer);
	pthread_mutex_unlock(&trail->lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

/* End it, and the tracer; what has not come is not wanted. */
static void trail_thread_stop(struct wm_trail *trail)
{
	if (!trail->has_thread)
		return;
	pthread_mutex_lock(&trail->lock);
	trail->must_end = 1;
	if (trail->is_traced)
		tracer_discard(&trail->tracer);
	pthread_cond_broadcast(&trail->changed);
	pthread_mutex_unlock(&trail->lock);
	pthread_join(trail->thread, NULL);
	trail->has_thread = 0;
}

/* ---- what was recorded until now ---- */

static int is_stuck(const struct wm_trail *trail)
{
	return trail->options.policy == WM_POLICY_BLOCK && trail_store_is_full(trail->store);
}

/*
 * A call has begun: fetch all that was recorded by now, and wait for that for up to `timeout_ms`;
 * -1: for ever. `joins`: a fetch in progress will do, though it began earlier. 1: it is there; 0:
 * not yet, or there is no room until the caller drains something.
 */
static int fetch(struct wm_trail *trail, int timeout_ms, int joins)
{
	struct timespec until = time_after((uint64_t)timeout_ms * 1000000);
	uint32_t wanted;
	int err = 0;

	/* no tracer: the trail is ending, and all records come by themselves */
	if (trail->state == WM_TRAIL_STATE_LIVE && trail->is_traced) {
		if (is_stuck(trail))
			return 0;
		if (!joins || trail->fetch_asked == trail->fetch_done) {
			if (!tracer_fetch(&trail->tracer))
				return 0;
			trail->fetch_asked++;
		}
	}
	wanted = trail->fetch_asked;
	while (trail->state == WM_TRAIL_STATE_LIVE && !err &&
	       (!trail->is_traced || (int32_t)(trail->fetch_done - wanted) < 0) && !is_stuck(trail))
		err = changed_await(trail, timeout_ms >= 0, &until);
	return trail->state != WM_TRAIL_STATE_LIVE ||
	       (trail->is_traced && (int32_t)(trail->fetch_done - wanted) >= 0);
}

int trail_enter_reading(struct wm_trail *trail, int *state)
{
	int err = trail_enter(trail, state);

	/* other origins send their records all the time */
	if (!err && trail->options.origin == WM_TRAIL_ORIGIN_SOFT &&
	    ticks_monotonic_ns() - trail->fetched_ns >= FRESH_NS && !fetch(trail, READ_MS, 1))
		trail->fetched_ns = ticks_monotonic_ns(); /* only one call waits for a slow fetch */
	return err;
}

/* ---- trails that were read from a trace's folder ---- */

static int read_all(struct recorded *recorded)
{
	int err = trails_read(&recorded->trails, recorded->reader);

	if (err)
		return err;
	recorded->paths = calloc(recorded->trails.path_count + 1, sizeof(*recorded->paths));
	if (!recorded->paths)
		return -ENOMEM;
	while (!err && recorded->count < recorded->trails.path_count) {
		err = snapshot_path_init(&recorded->paths[recorded->count],
					 &recorded->trails.paths[recorded->count]);
		recorded->count++;
	}
	return err;
}

static int trail_recorded_open(struct wm_trail *trail, const char *dir)
{
	struct recorded *recorded = trail->recorded = calloc(1, sizeof(*recorded));
	int err;

	if (!recorded)
		return -ENOMEM;
	trail->state = WM_TRAIL_STATE_RECORDED;
	err = trace_reader_open(&recorded->reader, dir);
	if (!err)
		err = read_all(recorded);
	if (!err && !recorded->count)
		err = -WM_E_NOT_RECORDED;
	if (err)
		return trail_fail(trail, err, "%s", dir);
	trail->pid = (pid_t)recorded->trails.paths[0].stream->pid;
	/* what could be read is there all the same */
	if (recorded->reader->damages_ever)
		trail_fail(trail, 0, "%s: %s", dir, recorded->reader->damages[0].what);
	return 0;
}

static void trail_recorded_close(struct recorded *recorded)
{
	if (!recorded)
		return;
	for (size_t i = 0; i < recorded->count; i++)
		snapshot_path_release(&recorded->paths[i]);
	free(recorded->paths);
	if (recorded->reader)
		trails_release(&recorded->trails, recorded->reader);
	trace_reader_close(recorded->reader);
	free(recorded);
}

const struct path_index *trail_recorded_path(const struct wm_trail *trail, pid_t tid)
{
	for (size_t i = 0; i < trail->recorded->count; i++)
		if (!tid || trail->recorded->paths[i].path->stream->tid == (uint32_t)tid)
			return &trail->recorded->paths[i];
	return NULL;
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

#define TRAIL_FOLLOWS (1u << 31) /* among WM_TRAIL_FLAG_*: WM_FOLLOW_CHILDREN */

/* What all hardware does. */
#define HARDWARE (WM_TRAIL_FLAG_SWITCHES | WM_TRAIL_FLAG_THREAD | WM_TRAIL_FLAG_KERNEL)

static const struct {
	enum wm_trail_origin origin;
	uint32_t can; /* WM_TRAIL_FLAG_* and TRAIL_FOLLOWS that may be asked of it */
	int can_hold; /* it stops threads while there is no room: WM_POLICY_BLOCK */
} all[ORIGINS + 1] = {
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

/* What an origin must be able to do. */
struct origin_wanted {
	uint32_t flags;	 /* WM_TRAIL_FLAG_*, TRAIL_FOLLOWS */
	int must_hold;	 /* WM_POLICY_BLOCK */
	int may_do_less; /* the user named no flags: an origin may lack some */
};

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

/*
 * For WM_TRAIL_ORIGIN_AUTO, the best of those that can do what is wanted: the words say why it is
 * not one that is better. 0 or a negative error.
 */
static int choose(struct wm_trail *trail, int is_default)
{
	struct wm_trail_options *options = &trail->options;
	struct tracing_how *how = &trail->how;
	const struct origin_wanted wanted = {
		.flags = options->flags |
			 (options->follow == WM_FOLLOW_CHILDREN ? TRAIL_FOLLOWS : 0),
		.must_hold = options->policy == WM_POLICY_BLOCK,
		.may_do_less = is_default,
	};
	int is_auto = options->origin == WM_TRAIL_ORIGIN_AUTO, found;
	struct origin_state states[ORIGINS];
	char lacks[96] = "";

	origins_look(states, &how->machine);
	how->has_kernel = !is_default && wanted.flags & WM_TRAIL_FLAG_KERNEL;
	if (how->has_kernel)
		origins_need_kernel(states, &how->machine);
	found = is_auto ? choose_best(states, &wanted, trail->detail, sizeof(trail->detail))
			: of_kind(options->origin);
	if (found < 0 && !is_auto)
		return trail_fail(trail, -EINVAL, "options.origin: %d", (int)options->origin);
	if (found < 0) /* the one that can do most says what it can't */
		found = ORIGIN_SOFT;
	if (!can_do(found, &wanted, lacks, sizeof(lacks)))
		return trail_fail(trail, -WM_E_TRAIL_ASKED, "%s", lacks);
	if (found < ORIGINS && states[found].error)
		return trail_fail(trail, states[found].error, "options.origin: %s%s%s",
				  origin_name((enum origin)found),
				  states[found].detail[0] ? ": " : "", states[found].detail);
	how->origin = (enum origin)found;
	how->follows = !!(wanted.flags & all[found].can & TRAIL_FOLLOWS);
	/* do not wait for records that are overwritten anyway */
	how->last_bytes = options->policy == WM_POLICY_CYCLIC ? last_bytes(trail) : 0;
	options->flags &= all[found].can;
	options->origin = all[found].origin;
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
	trail->sink.calls = &calls;
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
	result = fetch(trail, timeout_ms, 0);
	if (result > 0)
		trail_fd_lower(trail);
	trail_leave(trail, state);
	return result;
}

int wm_trail_wait(struct wm_trail *trail, int timeout_ms)
{
	struct timespec until = time_after((uint64_t)timeout_ms * 1000000);
	int state, err = trail_enter(trail, &state);

	if (err)
		return err;
	while (trail->state == WM_TRAIL_STATE_LIVE && !err && timeout_ms)
		err = changed_await(trail, timeout_ms >= 0, &until);
	err = trail->state != WM_TRAIL_STATE_LIVE;
	trail_leave(trail, state);
	return err;
}

struct store_thread *trail_thread_of(const struct wm_trail *trail, pid_t tid)
{
	struct store_thread *thread = NULL;

	while ((thread = trail_store_thread(trail->store, thread)))
		if (!tid || store_thread_tid(thread) == tid)
			break;
	return thread;
}

static int no_thread(struct wm_trail *trail, pid_t tid)
{
	return trail_fail(trail, -ESRCH, tid ? "tid %d: no such thread in the trail" : "no thread",
			  (int)tid);
}

/* ---- status ---- */

static void status_live(const struct wm_trail *trail, struct wm_trail_status *status)
{
	struct trail_store_status store;

	trail_store_status(trail->store, &store);
	status->origin = trail->options.origin;
	status->threads = store.threads;
	status->live = store.live;
	status->bytes = store.bytes;
	status->used_bytes = store.used_bytes;
	status->branches = store.blocks;
	status->events = store.events;
	status->lost = store.lost_blocks + store.missing_blocks;
	status->lost_events = store.lost_events;
	status->lost_threads = store.lost_threads;
}

static void status_recorded(const struct wm_trail *trail, struct wm_trail_status *status)
{
	static const enum wm_trail_origin origins[] = { [TRAIL_STEP] = TRAIL_ORIGIN_ORACLE,
							[TRAIL_PT] = WM_TRAIL_ORIGIN_PT,
							[TRAIL_BTS] = WM_TRAIL_ORIGIN_BTS,
							[TRAIL_SOFT] = WM_TRAIL_ORIGIN_SOFT };
	const struct recorded *recorded = trail->recorded;

	status->threads = (uint32_t)recorded->count;
	for (size_t i = 0; i < recorded->count; i++) {
		const struct path_index *index = &recorded->paths[i];
		uint32_t origin = index->path->origin;

		if (!i && origin < sizeof(origins) / sizeof(*origins))
			status->origin = origins[origin];
		status->branches += index->path->blocks;
		status->events += index->records - index->path->blocks;
	}
}

int wm_trail_status_get(struct wm_trail *trail, struct wm_trail_status *status)
{
	struct wm_trail_status made = { 0 };
	int state, err = trail_enter_reading(trail, &state);

	if (err)
		return err;
	if (!status || status->size < sizeof(status->size)) {
		err = trail_fail(trail, -EINVAL, "status.size: %zu", status ? status->size : 0);
	} else {
		made.size = status->size < sizeof(made) ? status->size : sizeof(made);
		made.state = trail->state;
		made.error = trail->error;
		made.pid = trail->pid;
		made.read = trail->read;
		made.unfollowed = trail->unfollowed;
		if (trail->recorded)
			status_recorded(trail, &made);
		else
			status_live(trail, &made);
		memcpy(status, &made, made.size);
	}
	trail_leave(trail, state);
	return err;
}

int wm_trail_threads(struct wm_trail *trail, pid_t *tids, size_t room)
{
	struct store_thread *thread = NULL;
	int state, count = trail_enter_reading(trail, &state);

	if (count)
		return count;
	if (!tids && room) {
		count = trail_fail(trail, -EINVAL, "tids: NULL, with room for %zu", room);
	} else if (trail->recorded) {
		const struct recorded *recorded = trail->recorded;

		for (; (size_t)count < recorded->count; count++)
			if ((size_t)count < room)
				tids[count] = (pid_t)recorded->paths[count].path->stream->tid;
	} else {
		for (; (thread = trail_store_thread(trail->store, thread)); count++)
			if ((size_t)count < room)
				tids[count] = store_thread_tid(thread);
	}
	trail_leave(trail, state);
	return count;
}

/* ---- records ---- */

int64_t wm_trail_records(struct wm_trail *trail, pid_t tid)
{
	int state, err = trail_enter_reading(trail, &state);
	const struct store_thread *thread;
	const struct path_index *path;
	int64_t count;

	if (err)
		return err;
	if (trail->recorded) {
		path = trail_recorded_path(trail, tid);
		count = path ? (int64_t)path->records : no_thread(trail, tid);
	} else {
		thread = trail_thread_of(trail, tid);
		count = thread ? (int64_t)store_thread_records(thread) : no_thread(trail, tid);
	}
	trail_leave(trail, state);
	return count;
}

/* A record of the store as branch_make() takes it. */
static struct branch_item item_of(const struct store_record *record)
{
	return (struct branch_item){ .entry = record->entry,
				     .code = record->code,
				     .between = record->entry ? NULL : &record->between,
				     .monotonic_ns = record->ticks };
}

struct branch_thread trail_thread_name(const struct wm_trail *trail,
				       const struct store_thread *thread)
{
	pid_t pid = store_thread_pid(thread);

	return (struct branch_thread){ pid ? pid : trail->pid, store_thread_tid(thread) };
}

static int get_live(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	const struct store_thread *thread = trail_thread_of(trail, tid);
	struct store_record records[3]; /* before, the one, after */
	struct branch_item items[3];
	int has_before, has_after;

	if (!thread)
		return no_thread(trail, tid);
	if (!store_thread_record(trail->store, thread, index, &records[1]))
		return 0;
	has_before = store_thread_record(trail->store, thread, index + 1, &records[0]);
	has_after = index && store_thread_record(trail->store, thread, index - 1, &records[2]);
	for (int i = !has_before; i < 2 + has_after; i++)
		items[i] = item_of(&records[i]);
	if (!has_before && store_thread_taken(thread)) {
		items[0] = (struct branch_item){ .entry = store_thread_taken(thread) };
		has_before = 1;
	}
	branch_make(branch, has_before ? &items[0] : NULL, &items[1], has_after ? &items[2] : NULL,
		    trail_thread_name(trail, thread));
	return 1;
}

static int get_recorded(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	const struct path_index *path = trail_recorded_path(trail, tid);
	struct trail_cursor cursor;

	if (!path)
		return no_thread(trail, tid);
	if (index >= path->records)
		return 0;
	snapshot_path_seek(path, path->records - index, &cursor);
	snapshot_branch(&cursor,
			(struct branch_thread){ (pid_t)path->path->stream->pid,
						(pid_t)path->path->stream->tid },
			branch);
	return 1;
}

int wm_trail_get(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch)
{
	int state, result = trail_enter_reading(trail, &state);

	if (result)
		return result;
	if (!branch || branch->size < sizeof(branch->size))
		result = trail_fail(trail, -EINVAL, "branch.size: %zu", branch ? branch->size : 0);
	else if (trail->recorded)
		result = get_recorded(trail, tid, index, branch);
	else
		result = get_live(trail, tid, index, branch);
	trail_leave(trail, state);
	return result;
}

/* ---- forgotten ---- */

static int is_read(struct wm_trail *trail, const char *what)
{
	return trail->recorded
		       ? trail_fail(trail, -EINVAL,
				    "%s: it was read from a trace; walk it with a cursor", what)
		       : 0;
}

int wm_trail_clear(struct wm_trail *trail)
{
	int state, err = trail_enter(trail, &state);

	if (err)
		return err;
	err = is_read(trail, "it can't be cleared");
	if (!err) {
		/* discard the records of the program's threads, too */
		if (trail->options.origin == WM_TRAIL_ORIGIN_SOFT)
			fetch(trail, READ_MS, 0);
		trail_store_clear(trail->store);
		trail_fd_lower(trail);
		pthread_cond_broadcast(&trail->changed);
	}
	trail_leave(trail, state);
	return err;
}

/* Take one and give it to the callback; *result is the callback's. 0: no record. */
static int drain_one(struct wm_trail *trail, struct store_thread *thread,
		     int (*branch)(const struct wm_branch *branch, void *data), void *data,
		     int *result)
{
	uint64_t records = store_thread_records(thread);
	const struct trail_entry *taken = store_thread_taken(thread);
	struct trail_entry last = taken ? *taken : (struct trail_entry){ 0 };
	struct branch_item before = { .entry = &last }, item, after;
	struct wm_branch made = { .size = sizeof(made) };
	struct store_record record, next;
	struct branch_thread of = trail_thread_name(trail, thread);
	int has_next = records > 1 && store_thread_record(trail->store, thread, records - 2, &next);

	if (!store_thread_take(trail->store, thread, &record))
		return 0;
	item = item_of(&record);
	if (has_next)
		after = item_of(&next);
	branch_make(&made, taken ? &before : NULL, &item, has_next ? &after : NULL, of);
	trail->read++;
	*result = branch(&made, data);
	return 1;
}

int wm_trail_read(struct wm_trail *trail, int (*branch)(const struct wm_branch *branch, void *data),
		  void *data)
{
	int state, result = trail_enter_reading(trail, &state);
	struct store_thread *thread, *next;

	if (result)
		return result;
	trail_fd_lower(trail);
	result = is_read(trail, "it can't be read this way");
	if (!result && !branch)
		result = trail_fail(trail, -EINVAL, "branch: no callback");
	thread = result ? NULL : trail_store_thread(trail->store, NULL);
	for (; thread && !result; thread = next) {
		next = trail_store_thread(trail->store, thread);
		while (!result && drain_one(trail, thread, branch, data, &result))
			;
	}
	if (result) /* the callback may have left some */
		trail_fd_raise(trail);
	pthread_cond_broadcast(&trail->changed);
	trail_leave(trail, state);
	return result;
}
