/* SPDX-License-Identifier: MIT */
/*
 * Sessions: one consumer's hold on one or more processes. This is what the waymark command is made
 * of; link with -lwaymark.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Functions return 0 or a count for success and a negative error (waymark/error.h) for failure;
 * wm_session_detail() has its object. All return -EINVAL if a required pointer is NULL.
 *
 * A session that ends in any way leaves the programs running: it undoes its changes in them, and
 * what they wrote until then is read. If a consumer is killed, the agents or the next consumer do
 * that.
 *
 * Kernel events are in waymark/kevent.h: breakpoints on a whole scope, with nothing loaded into the
 * program.
 */
#ifndef WAYMARK_SESSION_H
#define WAYMARK_SESSION_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/kevent.h>
#include <waymark/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_session;

struct wm_session_options {
	size_t size;
	uint64_t buffer_bytes; /* for each process; default 32 MiB */
	/*
	 * Default WM_POLICY_DISCARD. With WM_POLICY_BLOCK the program waits for up to block_ns.
	 * With WM_POLICY_NOTIFY the session writes the folder from the watermark on.
	 */
	enum wm_policy policy;
	enum wm_follow follow; /* default WM_FOLLOW_CHILDREN */
	/*
	 * WM_POLICY_BLOCK: how long a thread waits for one event; longer on a busy machine; default
	 * 100 ms. Where the session was not polled for a second, threads wait so long once, and not
	 * again before the next poll.
	 */
	uint64_t block_ns;
	int notify_fd;	   /* WM_POLICY_NOTIFY: an eventfd to write at the watermark; -1: none */
	int notify_signal; /* WM_POLICY_NOTIFY: a signal to raise in this process; 0: none */
	unsigned int watermark_percent; /* of the buffer; default 50 */
	int strict;			/* stop every thread of the process while code changes */
	int prearm;  /* launch: patch every site once, before any code can be locked down */
	int ordered; /* times follow the order in which threads hand over data: waymark(7) */
	/*
	 * libwaymark-agent.so, absolute; copied. NULL: the one that WAYMARK_AGENT names, or the one
	 * beside libwaymark.so; see waymark(7), ENVIRONMENT.
	 */
	const char *agent_path;
	int allow_unmatched; /* start although a spec matches nothing: a later module may have it */
	/*
	 * libwaymark-trail.so for "trail/soft/", absolute; copied. NULL: what WAYMARK_ENGINE names,
	 * or the one beside libwaymark.so.
	 */
	const char *engine_path;
	/*
	 * wm_session_read() also hands out records of processes, as wm_trace_next() of
	 * waymark/trace.h does: waymark:start, waymark:fork, waymark:exec and waymark:end. A
	 * process's events come before its end, and after its start or exec. A forked child's first
	 * events may come before its fork.
	 */
	int process_events;
	/*
	 * Kernel events (count:, sample:, switch, ...) are recorded on these CPUs, whatever runs
	 * there, rather than of the session's processes: "0-3,6", or "all", also those that come
	 * later. Copied. NULL: of the processes.
	 */
	const char *cpus;
	const char *cgroup; /* with `cpus`: only what this cgroup's folder has; copied. NULL: all */
};

#define WM_SESSION_OPTIONS_INIT WM__INIT_NOTIFY(wm_session_options)

struct wm_session_status {
	size_t size;
	uint32_t processes; /* recorded now */
	uint32_t processes_ever;
	uint64_t markers, sites, refused;
	uint64_t recorded;	 /* events drained so far */
	uint64_t discarded;	 /* events lost so far, also since the last poll */
	uint64_t bytes;		 /* drained so far */
	uint64_t buffered_bytes; /* waiting in the buffers */
	/* of trails */
	uint64_t trail_instructions, trail_blocks; /* taken so far */
	uint64_t trail_lost; /* of these blocks, those that a flight recorder has overwritten */
	uint32_t trail_threads, trail_processes; /* ever */
	/* children that went on unrecorded: too many, or made untraced */
	uint64_t trail_unfollowed;
	/* what trail/soft/ wrote for these blocks, where the program ran */
	uint64_t trail_words_bytes;
	/* of probes */
	uint64_t held; /* hits of an event were missing: a breakpoint of another tool, this often */
	/* of trails: blocks that the folder did not take, and threads that are not in it */
	uint64_t trail_unwritten;
	uint32_t trail_unwritten_threads;
};

#define WM_SESSION_STATUS_INIT WM__INIT(wm_session_status)

/* One event, as wm_session_read() hands it over; valid during the callback only. */
struct wm_event {
	size_t size;
	const char *name; /* SUBSYSTEM:EVENT; of a span with ":begin" or ":end" behind */
	/*
	 * 'm' an event; 'i' a block of WAYMARK_IF that ran; 'b' and 'e' the begin and the end of a
	 * span; 's' sums (waymark-sums(7)); wm_trace_next() of waymark/trace.h has more
	 */
	char kind;
	uint32_t pid, tid;
	uint64_t realtime_ns;
	uint32_t field_count;
	const struct wm_event_field *fields;
	/*
	 * The number of the name, 1 and up: the same for all events of that name in one session or
	 * one trace. Other sessions and traces have other numbers. Events of one name may differ in
	 * their fields. 0: there are more than 1,048,576 names, or 64 MiB of them.
	 */
	uint32_t id;
	/*
	 * Of the kernel's events: the CPU that recorded it, or -1 for what is counted over several.
	 * Their pid and tid are those of the thread that the event is about; 0: unknown, or the
	 * kernel's own idle thread. -1 for all others.
	 */
	int32_t cpu;
};

struct wm_event_field {
	const char *name;
	int type;  /* WM_TYPE_*, waymark/marker/field.h; maybe with WM_TYPE_ARRAY, WM_TYPE_HEX */
	int state; /* 0 whole, 1 NULL, 2 cut at 4 KiB, 3 a string that could not be read */
	union {
		int64_t i;  /* signed integers, char */
		uint64_t u; /* unsigned integers, bool, pointers */
		double f;   /* float, double */
		struct {
			const char *start;
			size_t bytes;
		} run; /* strings (NUL-terminated, not counted), byte runs; of arrays and addresses
			  the elements, not aligned */
	} value;
};

/*
 * A field of an event by its name: NULL if the event has none, or for NULL. Valid as long as the
 * event. The functions below take its result as it is. All of them may be called by any thread and
 * in a signal handler, and in the callback of wm_session_read().
 */
const struct wm_event_field *wm_event_field_find(const struct wm_event *event, const char *name);

/*
 * The value of a number: of an integer, a bool, a char or a pointer. wm_event_field_double() takes
 * these and floating-point numbers, and rounds to the nearest double. 0; *value is unchanged after
 * an error:
 *
 *	-EINVAL			`value` is NULL
 *	-ENOENT			`field` is NULL: the event has no such field
 *	-WM_E_FIELD_TYPE	the field has another type
 *	-ERANGE			the number does not fit: it is negative, or above INT64_MAX
 */
int wm_event_field_u64(const struct wm_event_field *field, uint64_t *value);
int wm_event_field_s64(const struct wm_event_field *field, int64_t *value);
int wm_event_field_double(const struct wm_event_field *field, double *value);

/*
 * A string, terminated by NUL and valid as long as the event. *string is NULL if the target's
 * pointer was NULL. Returns 0, or 1 if the string was cut at 4 KiB. After an error *string is
 * unchanged: -EFAULT for a string that could not be read in the target, and -EINVAL, -ENOENT and
 * -WM_E_FIELD_TYPE as above.
 */
int wm_event_field_string(const struct wm_event_field *field, const char **string);

/* A spec that matched nothing, or a refused place. Valid during the callback only. */
struct wm_session_refusal {
	size_t size;
	const char *
		spec; /* as it was added, if it matched nothing that can be armed; "" for a place */
	const char *name;   /* of the place, SUBSYSTEM:EVENT; "" for a spec */
	const char *module; /* path of the program or library; "" if unknown */
	uint64_t address;   /* as linked; in the process where the module is unknown; 0: unknown */
	int error;	    /* the cause, negative: wm_error_text() */
	const char *detail; /* what the cause is about; may be "" */
	pid_t pid;	    /* of a place: a process where it was refused; 0 for a spec */
};

/*
 * Make a session. `options` may be NULL. *session is released with wm_session_close(); NULL after
 * an error: -EINVAL for an option that can't be (SIGKILL and SIGSTOP as notify_signal, and a
 * notify_fd that is no eventfd, among them), -EBADF for a notify_fd that is not open or can't be
 * written, -E2BIG for one we don't know,
 * -EMFILE and -ENFILE where no descriptor is free,
 * -WM_E_MEMORY_LIMIT for more than 64 GiB, -ENOMEM, or with WM_POLICY_NOTIFY the error from
 * creating its thread.
 */
int wm_session_open(struct wm_session **session, const struct wm_session_options *options);

/*
 * Add an event spec, which is copied: "marker:SUBSYS:EVENT", "usdt:PROVIDER:NAME",
 * "func:NAME@FILE/ret,arg1/" or "addr:FILE+OFFSET", with globs; "watch:EXPRESSION/OPTIONS/";
 * "trail/OPTIONS/", once; waymark-spec(7) has the whole grammar. Takes effect at
 * wm_session_start(). A session with only a trail loads no agent. 0;
 *
 *	-EBUSY			the session runs: see wm_session_change()
 *	-WM_E_SPEC, -WM_E_FIELD_TYPE, -WM_E_WATCH_...
 *				it is invalid: the detail names the part that is wrong
 *	-WM_E_SPEC_TWICE	there is one already, or another trail
 *	-WM_E_BREAKPOINT_DEAD	a watch, on a machine whose debug registers do not fire
 *	-WM_E_CODE_CHANGE	markers or probes, and changed code does not run reliably here
 *	-ENOMEM
 *
 * The last two come from a trial on this machine, which takes some 20 ms once (waymark-doctor(1)).
 *
 * wm_session_start() looks in each process for what a spec needs, and reports what it does not
 * find.
 */
int wm_session_add(struct wm_session *session, const char *spec);

/*
 * Have the handlers of a shared object (waymark-handler(3)) judge hits: each asks for its marker,
 * function or probe as wm_session_add() would, but a marker that a spec of the session takes
 * already. The object's own markers are recorded, too. Called before wm_session_start(), which
 * compares the types with those of each process, and has each process load the object.
 * wm_session_stop() unloads it.
 * 0; -EBUSY: the session runs; an error of wm_session_add(); -errno; or
 *
 *	-WM_E_NOT_ELF, -WM_E_FOREIGN_ARCH
 *	-WM_E_HANDLER		it has no handlers, or two for one event; the detail says more.
 *				Also of wm_session_start(): their types differ from a process's,
 *				or the process can't load it
 */
int wm_session_handler_add(struct wm_session *session, const char *path);

/*
 * Take a running process in: loads the agent into it when it is not there yet. A child of the
 * caller that ends in that moment may find its status taken: waitpid(2) then says ECHILD. A process
 * that executes another program later is recorded up to there.
 * 0; if the session runs already, wm_session_wait() arms it, and the session's kernel events have
 * begun there. After an error nothing is armed in it:
 *
 *	-EINVAL			it is the caller itself
 *	-EDEADLK		called in a callback
 *	-EEXIST			it is in this session
 *	-ESRCH, -WM_E_GONE	it does not exist, or has ended
 *	-EPERM, -WM_E_PEER_UID	it is another user's, and the caller not root
 *	-WM_E_TRACED, -WM_E_STOPPED, -WM_E_SECCOMP, -WM_E_SECURE_PROGRAM	not now
 *	-WM_E_FOREIGN_ARCH, -WM_E_FOREIGN_LIBC, -WM_E_STATIC_PROGRAM	never
 *	-WM_E_NO_AGENT, -WM_E_INJECT, -WM_E_AGENT_SILENT, -WM_E_PROTOCOL
 *				the agent does not listen
 *	-WM_E_MEMORY_LIMIT, -WM_E_NO_DESCRIPTORS, -WM_E_SESSIONS	a limit; see the detail
 *	-WM_E_..., -errno	otherwise, as of wm_session_start()
 */
int wm_session_attach(struct wm_session *session, pid_t pid);

/*
 * Start a program (found as execvp(3) does) with the agent preloaded, stopped before its own code.
 * argv[] is not kept. Returns its pid: it is the caller's child, to be waited for by the caller.
 * After an error nothing of it is left: those of wm_session_attach(), and of execve(2), among them
 * -ENOENT and -EACCES.
 */
int wm_session_launch(struct wm_session *session, char *const argv[]);

/*
 * Arm. Programs that were launched run from here on. 0. After an error nothing is armed, and
 * launched programs still wait: the session may be started again; wm_session_close() lets them run
 * unrecorded.
 *
 *	-EALREADY		the session runs
 *	-EINVAL			it had a folder, whose recording has ended
 *	-EDEADLK		called in a callback
 *	-WM_E_SPEC		no event was added
 *	-WM_E_...		why a spec is not to be had in a process, which the detail names
 *	-WM_E_NO_MARKER, -WM_E_NO_MODULE, -WM_E_NO_FUNCTION, -WM_E_NO_USDT, -WM_E_...
 *				a spec without a glob matches nothing in any process. The
 *				detail names it. The option allow_unmatched turns this off
 *	-ENOMEM, -errno
 *
 * wm_session_refusals() lists what a successful start left out.
 */
int wm_session_start(struct wm_session *session);

/*
 * List what is not recorded: each spec that matched nothing that can be armed, then each place
 * that was refused. The same place of several processes is listed once. Call it after
 * wm_session_start(), also after its error. The callback must not call functions of this session. A
 * callback that returns non-zero ends the list with that value. 0; -EDEADLK in a callback of
 * wm_session_read().
 */
int wm_session_refusals(struct wm_session *session,
			int (*refusal)(const struct wm_session_refusal *refusal, void *data),
			void *data);

/*
 * Record into a new trace folder, which is made (mode 0700) where it is not there; before
 * wm_session_start(), once. 0; -EBUSY where the session runs or has a folder, -WM_E_TRACE_DIR for
 * one that is not empty, -WM_E_OUTPUT_OWNER for a link or one that another user can change,
 * -ENOMEM, or that of mkdir(2) and open(2).
 */
int wm_session_output(struct wm_session *session, const char *dir);

/*
 * In place of a folder keep the newest events in memory: `bytes` of them, with what they need, and
 * those of the last `age_ns`; 0 is no limit, and one of both is needed. wm_session_snapshot()
 * writes them. wm_session_stop() drops them. Before wm_session_start(),
 * once. 0; -EBUSY as above; -EINVAL without a limit, with a trail, with WM_POLICY_CYCLIC or
 * WM_POLICY_NOTIFY; -ENOMEM.
 */
int wm_session_keep(struct wm_session *session, uint64_t bytes, uint64_t age_ns);

/*
 * Write what is kept in memory to a new folder, and keep it. The session continues meanwhile: a
 * thread writes, and the call works as wm_session_wait() does until it is done; up to twice the
 * memory is used then. 0; errors of wm_session_output() and of wm_session_wait(); -EINVAL without
 * wm_session_keep(); -WM_E_TRACE_FULL: the folder has what there was room for, and the session
 * continues.
 */
int wm_session_snapshot(struct wm_session *session, const char *dir);

/*
 * Close the folder, and record into a new one from here on; no event is lost or is in both. Of
 * events in memory: write them there, and keep none any more. Processes that ended more than a
 * second before are not in the new folder. 0; errors of wm_session_output(), after which the old
 * folder continues; -EINVAL without a folder, with a trail or with WM_POLICY_CYCLIC; an error of
 * writing ends the recording. A session that keeps events in memory writes them also after an error
 * that ended it, and returns that error.
 */
int wm_session_rotate(struct wm_session *session, const char *dir);

/*
 * Change what a running session records: add specs, and remove others by the text that they were
 * added with. What is new is armed as wm_session_start() would, in all processes that are there;
 * processes that come later get the new set. Specs that stay keep recording, but for these: watches
 * that share an event object with one that is removed, and the kernel's events if one of them is
 * added or removed, have a gap. The trace says when the change was and how long it took.
 *
 * All or nothing: where something new can't be armed, the session records what it did before, and
 * the detail names it. Steps the session, for as long as its processes take to answer. 0; or
 *
 *	-EINVAL			no running session
 *	-EDEADLK		called in a callback
 *	-ENOENT			no spec of the session is written so
 *	-WM_E_SPEC_FIXED	a trail, a marker with counts, or a watch from outside
 *	or an error of wm_session_add() or wm_session_start()
 */
int wm_session_change(struct wm_session *session, const char *const *add, size_t add_count,
		      const char *const *remove, size_t remove_count);

/*
 * Do what is due: requests, new processes, draining into the trace folder. Without a folder it
 * returns as soon as wm_session_read() has events to hand out, within 10 ms of them. Otherwise it
 * waits up to timeout_ms for something to do; -1: without limit. It also returns when no process is
 * left. Call it again and again while the session runs: buffers fill up, and new processes wait for
 * it. It returns early, as if the time were over, after wm_session_wake(), and after a signal
 * handler ran in this thread while it waited. A handler that runs just before the wait does not end
 * it: if the handler must, let it call wm_session_wake().
 * Returns the number of recorded processes still alive; after 0, read once more, for the last
 * events. A process that executes another program counts for 2 s, until that program is recorded.
 * If it cannot be, or the process was attached to, the process lives on unrecorded.
 * -EDEADLK in a callback; or the error that ended the recording, from writing the trace or a trail.
 */
int wm_session_wait(struct wm_session *session, int timeout_ms);

/*
 * A descriptor for an event loop: epoll(7), poll(2), select(2). It is readable when
 * wm_session_wait() has something to do: a message of a process, a process's end, events to read,
 * or wm_session_wake(). When it is readable, call wm_session_wait() with timeout_ms 0, then
 * wm_session_read(); stop when the wait returns 0. Only poll the descriptor. The session owns it;
 * wm_session_close() closes it.
 *
 * Programs write events to shared memory, which no descriptor reports. So while the session runs
 * and a process is left, the descriptor is readable every 10 ms: events are that late at most, and
 * an idle loop wakes up 100 times a second. It is quiet before wm_session_start() and after the
 * end. Returns the descriptor, the same in each call; -ENOMEM, -EMFILE, -ENFILE, -EDEADLK in a
 * callback.
 */
int wm_session_fd(struct wm_session *session);

/*
 * End the wait of wm_session_wait(): of the call that runs now, else of the next one. Several calls
 * before it returns count as one. Any thread may call this, and any signal handler: it is
 * async-signal-safe and leaves errno alone. The caller makes sure that wm_session_close() comes
 * later. 0; -ECHILD in a forked child.
 */
int wm_session_wake(struct wm_session *session);

/*
 * Drain into a callback instead of a folder: called for each event that is ready. That may be a
 * whole buffer, millions of events. A callback that returns non-zero ends the read with that value,
 * and the event counts as read; use that if the caller has other work too.
 *
 * Order: the events of one thread come in order of time, also from call to call. Threads come one
 * after another, so an event may be older than those of other threads before it. For all threads in
 * order of time, record into a folder and read it with wm_trace_next() of waymark/trace.h. Or copy
 * what a call that returned 0 has given, and sort it by realtime_ns: all threads have the same
 * clock. The next call may still give events that are older than the newest of these: by as long as
 * the call took, or as a thread was interrupted while it wrote one.
 *
 * The callback runs in the caller's thread, and must not longjmp() or throw out. Of the functions
 * here it may call wm_session_status_get(), wm_session_detail(), and all for another session. For
 * this one the others return -EDEADLK, and it must not call wm_session_close(). Returns 0 once all
 * ready events were handed out; -EBUSY if the session has a folder.
 */
int wm_session_read(struct wm_session *session,
		    int (*event)(const struct wm_event *event, void *data), void *data);

/*
 * Disarm everything, drain what is left, end the folder. All processes have stopped recording when
 * it returns; what forks while they come to that is recorded as its parent is. It takes as long as
 * they do: milliseconds, and some seconds at most for one that does not answer, which is left to
 * its agent. The session may be started again, if it has no folder. 0, also where it did not run;
 * -EDEADLK in a callback; or the first error that there was, with all else done: a process's, which
 * the detail names, or why the trace could not be written to its end.
 *
 * Where a watch had no hit, the trial of its debug register is repeated, because the machine may
 * have moved meanwhile. Then -WM_E_BREAKPOINT_DEAD or -WM_E_BREAKPOINT_UNTRIED means that the zero
 * was not measured.
 */
int wm_session_stop(struct wm_session *session);

/* Fill in *status (the caller sets its size). 0; -EINVAL for an invalid size. */
int wm_session_status_get(struct wm_session *session, struct wm_session_status *status);

/*
 * What the last error was about: a file, a pid, a limit and its figures; or "". The session's own.
 * NULL gives "". Also in a forked child, and in a callback.
 */
const char *wm_session_detail(const struct wm_session *session);

/* Stop if it runs, let the processes go, release everything. NULL is allowed. */
void wm_session_close(struct wm_session *session);

#ifdef __cplusplus
}
#endif
#endif
