/* SPDX-License-Identifier: MIT */
/*
 * Trails: every branch that a thread takes, in memory of a fixed size, for debuggers and profilers
 * to ask how a program came to where it is. Link with -lwaymark.
 *
 *	struct wm_trail_step step = WM_TRAIL_STEP_INIT;
 *	struct wm_trail_cursor *cursor;
 *	struct wm_trail *trail;
 *	int pid = wm_trail_launch(&trail, argv, NULL);
 *	...
 *	wm_trail_cursor_open(&cursor, trail, 0);			of the first thread
 *	while (wm_trail_cursor_previous(cursor, WM_TRAIL_UNIT_BRANCHES, &step) > 0)
 *		...							newest first
 *
 * A trail has records: branches, and between them events, which report why else a thread continued
 * elsewhere. The code that ran between two branches is the range from the first one's target to the
 * second one's source. Waymark runs no code in the traced program, except the engine of
 * WM_TRAIL_ORIGIN_SOFT, and nothing stays in it afterwards.
 *
 * A branch whose target faults at once is no record, for nothing ran there: `from` of the event
 * behind it is the instruction that faulted.
 *
 * Whatever the origin, a helper process of Waymark traces (ptrace(2)). It is a child of the caller,
 * so wait(2) for any child may report its end. A helper thread in the caller, which blocks all
 * signals, receives its records. If the caller dies, the program continues untraced.
 *
 * Forked children are not recorded unless the options ask for WM_FOLLOW_CHILDREN. Then the trail
 * includes the threads of all descendants, and it is over when all of them have ended. execve(2)
 * and a thread's end are events. An execve(2) ends the old program's part of the trail, and the new
 * program's part follows it.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Calls for one trail wait for each other, so that several threads may use it.
 *
 * Functions return 0 or a count for success, and a negative error (waymark/error.h) for failure;
 * wm_trail_detail() names its object. All that take a trail or a cursor return -EINVAL for NULL;
 * further errors are listed at each function.
 */
#ifndef WAYMARK_TRAIL_H
#define WAYMARK_TRAIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_trail;
struct wm_trail_cursor;

/* Where records come from. */
enum wm_trail_origin {
	/* the best that can do what is asked for; wm_trail_detail() says why not another */
	WM_TRAIL_ORIGIN_AUTO = 0,
	WM_TRAIL_ORIGIN_PT = 2,	  /* Intel Processor Trace */
	WM_TRAIL_ORIGIN_BTS = 3,  /* Branch Trace Store */
	WM_TRAIL_ORIGIN_SOFT = 5, /* a translator inside of the process, of all its threads */
};

/* To be recorded beside branches in user space: */
#define WM_TRAIL_FLAG_SWITCHES 1u /* when threads lose the processor and get it back */
#define WM_TRAIL_FLAG_SIGNALS 2u  /* each that is delivered */
#define WM_TRAIL_FLAG_SYSCALLS 4u /* each that comes back, with its result */
#define WM_TRAIL_FLAG_KERNEL 8u	  /* branches in the kernel; without it user space alone */
/* and the scope: */
#define WM_TRAIL_FLAG_THREAD                                                                       \
	16u /* the pid is a thread's id: that one alone, and none that it starts */

/* A field that is 0 has its default. In `flags` 0 sets none, and notify_fd is -1 for none. */
struct wm_trail_options {
	size_t size;
	/*
	 * Of memory, all that the trail has; rounded down to 4 KiB. Default 4 MiB. At least 32 KiB,
	 * which hold some 4,000 branches of a loop.
	 */
	uint64_t bytes;
	uint32_t flags; /* WM_TRAIL_*; those that the origin can't do are refused */
	enum wm_trail_origin origin;
	/*
	 * Default WM_POLICY_CYCLIC: each thread keeps its newest records, and none waits. With
	 * WM_POLICY_BLOCK threads wait until some are read.
	 */
	enum wm_policy policy;
	/* Default WM_FOLLOW_NONE. WM_FOLLOW_CHILDREN is not for WM_TRAIL_FLAG_THREAD. */
	enum wm_follow follow;
	int notify_fd;			/* WM_POLICY_NOTIFY: an eventfd to write; -1: none */
	int notify_signal;		/* WM_POLICY_NOTIFY: a signal to raise here; 0: none */
	unsigned int watermark_percent; /* WM_POLICY_NOTIFY: of bytes, 1 to 100; default 50 */
	/*
	 * 0: the memory is locked by mlock(2), and so counts against RLIMIT_MEMLOCK, if we have no
	 * CAP_IPC_LOCK. Else it is not locked, and all such trails of this process together may
	 * have so much.
	 */
	uint64_t cap_bytes;
	/*
	 * WM_TRAIL_ORIGIN_SOFT: libwaymark-trail.so, absolute; copied. NULL: as waymark(7) says,
	 * ENVIRONMENT: what WAYMARK_ENGINE names, or the one beside libwaymark.so.
	 */
	const char *engine_path;
};

#define WM_TRAIL_OPTIONS_INIT WM__INIT_NOTIFY(wm_trail_options)

/*
 * In a record's flags. At most one of those from JUMP to FALL; no flag if the cause is unknown.
 */
#define WM_BRANCH_JUMP 1u	 /* a jump */
#define WM_BRANCH_CONDITIONAL 2u /* a conditional one, taken */
#define WM_BRANCH_NOT_TAKEN 4u	 /* a conditional one, not taken */
#define WM_BRANCH_CALL 8u
#define WM_BRANCH_RETURN 16u
#define WM_BRANCH_SYSCALL 32u
#define WM_BRANCH_FAR 64u
#define WM_BRANCH_FALL                                                                             \
	128u /* none: straight on, into code that something leads to, or that is long */
#define WM_BRANCH_INDIRECT 256u /* with JUMP or CALL: by register or memory */
#define WM_BRANCH_EVENT 512u	/* no branch: an event; see `event` */

enum wm_trail_event {
	WM_TRAIL_EVENT_DEPART = 0, /* the thread lost the processor */
	WM_TRAIL_EVENT_ARRIVE = 1, /* it has it again */
	/*
	 * values: number, handler; `from` was interrupted, `to` is the handler; of number 0 it is
	 * an interrupt, or a fault
	 */
	WM_TRAIL_EVENT_SIGNAL = 2,
	WM_TRAIL_EVENT_SYSCALL = 3, /* values: number, result; it has come back */
	WM_TRAIL_EVENT_LOST = 4,    /* values: blocks that are missing; 0: the number is unknown */
	/*
	 * values: why: 0 natively, 1 in the kernel, 2 recording was suspended, 3 in modules that
	 * were not chosen; 4: nothing is missing, another tool's breakpoint is there
	 */
	WM_TRAIL_EVENT_GAP = 5,
	WM_TRAIL_EVENT_FORK = 6, /* values: the id of a process or a thread */
	WM_TRAIL_EVENT_EXEC = 7, /* the process runs another program; the trail continues with it */
	/*
	 * values: 0 exited, 1 killed, 2 let go, 3 ended with the process, as the signal killed
	 * another thread; and the status or the signal
	 */
	WM_TRAIL_EVENT_END = 8,
};

/*
 * A record: control went from `from` to `to`, and then ran up to the instruction `last`. Of an
 * event, `from` is where it found the thread and `to` is where the thread continues. 0: not known.
 */
struct wm_branch {
	size_t size; /* set by the caller; by us in callbacks */
	uint64_t from, to, last;
	uint32_t flags;	       /* WM_BRANCH_* */
	uint32_t event;	       /* enum wm_trail_event */
	uint64_t values[2];    /* the event's */
	uint64_t monotonic_ns; /* no later than this; of an event, then */
	uint32_t instructions; /* that ran from `to` to `last` */
	int32_t tid;
	int32_t pid; /* the thread's process: with WM_FOLLOW_CHILDREN there may be several */
	int32_t reserved;
};

#define WM_BRANCH_INIT WM__INIT(wm_branch)

enum wm_trail_state {
	WM_TRAIL_STATE_LIVE = 0,     /* it records */
	WM_TRAIL_STATE_OVER = 1,     /* all threads have ended; the records are there */
	WM_TRAIL_STATE_FAILED = 2,   /* it broke off; what came before is there */
	WM_TRAIL_STATE_RECORDED = 3, /* it is from a folder: wm_trail_open_dir() */
};

struct wm_trail_status {
	size_t size; /* set by the caller */
	enum wm_trail_state state;
	enum wm_trail_origin origin; /* never WM_TRAIL_ORIGIN_AUTO */
	int error;		     /* WM_TRAIL_STATE_FAILED: why */
	int32_t pid;
	uint32_t threads;	    /* that have records, or live */
	uint32_t live;		    /* that live */
	uint64_t bytes, used_bytes; /* that it may have, and has; 0 of one that was read */
	uint64_t branches, events;  /* kept */
	/*
	 * Branches, ever. `branches` and `lost` are all that ran up to the last fetch, if nothing
	 * was read or cleared and no WM_TRAIL_EVENT_LOST has 0.
	 */
	uint64_t lost;
	uint64_t lost_events;
	uint64_t read;	       /* records that wm_trail_read() took, ever */
	uint64_t lost_threads; /* ever: threads without any record, for want of memory */
	uint64_t unfollowed;   /* unrecorded children, past the limit; once the trail is over */
};

#define WM_TRAIL_STATUS_INIT WM__INIT(wm_trail_status)

/*
 * Begin to record a running process, or with WM_TRAIL_FLAG_THREAD one thread. Its threads, and
 * those that it starts, are stopped for a moment. `options` may be NULL: then signals and system
 * calls are recorded. *trail is NULL after an error, else released with wm_trail_close().
 *
 * -EINVAL for an option that can't be, -E2BIG for one we don't know, -WM_E_TRAIL_ASKED for what the
 * origin does not do, -WM_E_MEMORY_LIMIT for more memory than may be had, -ESRCH, -EPERM,
 * -WM_E_TRACED for the process; of an origin that was asked for by name why it can't be had:
 * -WM_E_TRAIL_NO_UNIT, -WM_E_PERF_DENIED, -WM_E_PERF_TAKEN, -WM_E_MEMORY_LIMIT; -ENOMEM, -EMFILE,
 * -ENFILE, -EAGAIN where the system has no more, -ETIMEDOUT where the process could not be stopped
 * in 30 s. The detail names each, with figures.
 */
int wm_trail_open(struct wm_trail **trail, pid_t pid, const struct wm_trail_options *options);

/*
 * The same for a program that is started for it, found as execvp(3) does, from its first
 * instruction on; argv[] is not kept. Returns its pid; it is the caller's child, to be waited for
 * by the caller, also once the trail is closed. Errors as above, and those of execve(2), among them
 * -ENOENT and -EACCES; -WM_E_SECURE_PROGRAM for one that gains privileges. After an error nothing
 * of it is left.
 */
int wm_trail_launch(struct wm_trail **trail, char *const argv[],
		    const struct wm_trail_options *options);

/*
 * A trail that was recorded into a trace's folder. It has status, records and cursors; it can be
 * neither cleared nor read by wm_trail_read(). Where the trace is damaged, what could be read is
 * there, and wm_trail_detail() says what could not. 0; *trail is NULL after an error:
 * -WM_E_NOT_A_TRACE, -WM_E_NOT_RECORDED, -WM_E_TRACE_UNPACKED_SIZE, -ENOMEM, that of open(2), or
 * -WM_E_TRACE_IN_USE, as of wm_trace_open().
 */
int wm_trail_open_dir(struct wm_trail **trail, const char *dir);

/*
 * Fetch what the program has done until now, and wait for that for up to timeout_ms; -1: for ever.
 * Returns 1 when it can be read; always for a trail that has ended or comes from
 * wm_trail_open_dir(). Returns 0 after that time; or with WM_POLICY_BLOCK if there is no room until
 * wm_trail_read().
 *
 * The functions below that read do the same by themselves, if the last time is 0.1 s ago, and wait
 * for up to 1 s.
 */
int wm_trail_flush(struct wm_trail *trail, int timeout_ms);

/*
 * A descriptor for an event loop: epoll(7), poll(2), select(2). It becomes readable when records
 * have come since the last wm_trail_read(), wm_trail_flush(), wm_trail_clear() or
 * wm_trail_cursor_open(), and it stays readable once the trail is over. With WM_TRAIL_ORIGIN_SOFT
 * the library looks for records every 100 ms then; otherwise the descriptor never wakes an idle
 * loop. The first time may find nothing. Only poll the descriptor. The trail owns it;
 * wm_trail_close() closes it. Returns the descriptor, the same in each call; -EMFILE, -ENFILE,
 * -ENOMEM.
 */
int wm_trail_fd(struct wm_trail *trail);

/*
 * Wait until it has ended, timeout_ms at most, -1: for ever. 1: it has, as one that was read
 * always; 0: not yet. Any number of threads may wait, and others call meanwhile.
 */
int wm_trail_wait(struct wm_trail *trail, int timeout_ms);

/* Fill in *status, as much of it as its size says. 0, -EINVAL for an invalid size. */
int wm_trail_status_get(struct wm_trail *trail, struct wm_trail_status *status);

/*
 * The ids of the threads that have records, or live: `room` at most into tids[]. Those of a process
 * are in the order in which they began. How many there are; -EINVAL if `tids` is NULL and `room` is
 * not 0.
 */
int wm_trail_threads(struct wm_trail *trail, pid_t *tids, size_t room);

/* Below, tid 0 means the first thread of that list. -ESRCH if no thread has the id. */

/* How many records a thread has, events too. */
int64_t wm_trail_records(struct wm_trail *trail, pid_t tid);

/*
 * One record by its index, 0 being the newest. 1, or 0 if no record is so old. The caller sets
 * branch's size; -EINVAL for an invalid size. While the program runs, each new record shifts the
 * indices; a cursor's records stay. The call takes longer the more records there are, so use a
 * cursor to read many.
 */
int wm_trail_get(struct wm_trail *trail, pid_t tid, uint64_t index, struct wm_branch *branch);

/*
 * Forget all records. Recording continues, and so do threads that wait for room. 0,
 * -EINVAL for one that was read from a folder.
 */
int wm_trail_clear(struct wm_trail *trail);

/*
 * Give each thread's records, oldest first, to a callback, and forget them. It ends where the
 * callback returns other than 0, and returns that; the record was taken. 0: all were given. The
 * callback runs in the caller's thread, and *branch is there until it returns. The program is held
 * meanwhile where it must be. In the callback, calls for the same trail say -EDEADLK; it must not
 * longjmp() or throw out. -EINVAL for a trail that was read from a folder, or no callback.
 */
int wm_trail_read(struct wm_trail *trail, int (*branch)(const struct wm_branch *branch, void *data),
		  void *data);

/*
 * What the last error was about, a limit with its figures for one; or "". The trail's own, until
 * its next error, of whichever thread, and before the first why WM_TRAIL_ORIGIN_AUTO took no better
 * origin; of NULL: of this thread's last call that opened, until the next, or "". Also in a forked
 * child. Never NULL.
 */
const char *wm_trail_detail(const struct wm_trail *trail);

/*
 * Let the program run on natively, discard unread records, and release everything. NULL is allowed.
 * No other call for the trail may be in progress.
 */
void wm_trail_close(struct wm_trail *trail);

/* ---- cursors ---- */

/* What a cursor goes by. Events are met in all of them. */
enum wm_trail_unit {
	WM_TRAIL_UNIT_BRANCHES = 0,	/* those that were taken */
	WM_TRAIL_UNIT_BLOCKS = 1,	/* code without a branch in it */
	WM_TRAIL_UNIT_INSTRUCTIONS = 2, /* each that ran */
	WM_TRAIL_UNIT_LINES = 3,	/* runs of instructions of one source line */
	WM_TRAIL_UNIT_CALLS = 4,	/* calls and returns alone, and signals' handlers */
};

/*
 * What a cursor went over: a piece of code that ran, or an event. Texts and code live as long as
 * the cursor.
 */
struct wm_trail_step {
	size_t size; /* set by the caller */
	/* how it was reached, or the event; its from and flags are 0 within a block */
	struct wm_branch branch;
	uint64_t start, last; /* the piece's first and last instruction */
	uint32_t instructions;
	uint32_t code_bytes; /* of its first instruction; 0: not known */
	const unsigned char *code;
	const char *module, *function; /* where it begins; NULL: not known */
	uint64_t function_start;
	const char *source; /* NULL: not known */
	unsigned int line;
	int depth; /* calls less returns since the trail's begin, after it: may be below 0 */
};

#define WM_TRAIL_STEP_INIT WM__INIT(wm_trail_step)

#define WM_TRAIL_OLDEST UINT64_MAX

/*
 * A cursor over a thread's records as they are now, to be walked both ways; it starts behind the
 * newest. It has memory of its own, which no limit counts, and later changes of the trail do not
 * affect it. Close it before the trail. A forked child may use its copy of a cursor. 0, -ESRCH if
 * there is no such thread, -ENOMEM.
 */
int wm_trail_cursor_open(struct wm_trail_cursor **cursor, struct wm_trail *trail, pid_t tid);
/* NULL is allowed. */
void wm_trail_cursor_close(struct wm_trail_cursor *cursor);

/*
 * Go over one unit, on or back, which may change from call to call: 1 and *step, or 0 at the end.
 * -EINVAL for what is no unit, or no size.
 */
int wm_trail_cursor_next(struct wm_trail_cursor *cursor, enum wm_trail_unit unit,
			 struct wm_trail_step *step);
int wm_trail_cursor_previous(struct wm_trail_cursor *cursor, enum wm_trail_unit unit,
			     struct wm_trail_step *step);

/*
 * Go to before the record of that index, 0 being the cursor's newest; too old, as WM_TRAIL_OLDEST
 * is: before the oldest. 0.
 */
int wm_trail_cursor_seek(struct wm_trail_cursor *cursor, uint64_t index);

/* Go behind the newest. */
void wm_trail_cursor_seek_end(struct wm_trail_cursor *cursor);

#ifdef __cplusplus
}
#endif
#endif
