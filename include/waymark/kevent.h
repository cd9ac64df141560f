/* SPDX-License-Identifier: MIT */
/*
 * Kernel events: one request over a whole scope, armed on all of it or on none. Link with
 * -lwaymark. (struct wm_event of waymark/session.h is another thing: an event that a session
 * recorded.)
 *
 *	struct wm_kevent_source source = WM_KEVENT_SOURCE_INIT;
 *	struct wm_kevent_request request = WM_KEVENT_REQUEST_INIT;
 *	struct wm_kevent *object;
 *	...							what to watch, and where
 *	int err = wm_kevent_open(&object, &request);
 *
 *	if (!err)
 *		err = wm_kevent_arm(object);
 *	while (!err && !done)			when wm_kevent_fd() is readable
 *		err = wm_kevent_read(object, on_hit, NULL);
 *
 * The kernel hands out events per thread and per CPU (perf_event_open(2)). An object joins them: it
 * opens each source on each thread or CPU of the scope, disabled, and enables them once all are
 * open. If the kernel refuses one, the object closes all of them, and none has fired. Threads that
 * start later inherit their creator's events without a gap; wm_kevent_rescan() adds CPUs that come
 * later. Where nothing forbids it, arming stops a process for some 30 us a thread, so that every
 * thread has each event exactly once.
 *
 * Sources are breakpoints in debug registers; an x86-64 thread has four. The ledger of claims
 * (waymark claims) lists each register that an object takes, and an error names the holder of a
 * register that is wanted. Nothing is loaded into a program that is watched this way. So a hit has
 * no value and no condition; those are for sessions and their specs, "watch:counter".
 *
 * States, in which wm_kevent_...() may be called:
 *
 *	WM_KEVENT_STATE_PREPARING	arm, close
 *	WM_KEVENT_STATE_ARMED		modify, rescan, count, coverage, read, disarm, close
 *	WM_KEVENT_STATE_DISARMED	count, coverage, read, close
 *
 * status, uncovered and detail may be called in all states. If arm fails, the object stays
 * preparing and arm may be called again. Hits outside of armed are dropped and counted (`stray`).
 *
 * Descriptors hold the events: whatever ends the calling process disarms. One is needed for each
 * source on each thread, with WM_KEVENT_FLAG_RINGS on each CPU too; they are closed at exec, and
 * arming raises this process's soft limit of them where it has to, which programs that it starts
 * from then on inherit. While an object arms, modifies or rescans, no other thread of the caller
 * may wait(2) for just any child.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Functions return 0 or a count, or a negative error (waymark/error.h); wm_kevent_detail() names
 * its object. All return -EINVAL for an object that is NULL.
 */
#ifndef WAYMARK_KEVENT_H
#define WAYMARK_KEVENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_kevent;
struct wm_claim;

enum wm_kevent_kind {
	WM_KEVENT_KIND_WRITE = 1,      /* a store to any of the bytes */
	WM_KEVENT_KIND_READ_WRITE = 2, /* a load or a store; x86 knows no loads alone */
	WM_KEVENT_KIND_EXECUTE = 3,    /* the instruction at the address is about to run */
};

enum wm_kevent_scope {
	WM_KEVENT_SCOPE_THREAD = 1,  /* one thread; with WM_FOLLOW_CHILDREN also what it starts */
	WM_KEVENT_SCOPE_PROCESS = 2, /* its threads, now and later */
	WM_KEVENT_SCOPE_CPUS = 3,    /* whatever runs on these CPUs: needs rights */
	WM_KEVENT_SCOPE_SYSTEM = 4,  /* whatever runs on CPUs that are online: needs rights */
};

/*
 * How hits are delivered; with neither flag they are only counted. Each hit is a SIGTRAP in the
 * thread that made it, before its next instruction: si_code TRAP_PERF, si_addr the watched address,
 * si_perf_data the source's data. The program needs a handler as long as a signal may arrive, which
 * is a little longer than the object is armed; without one the signal kills it. Not for CPUs.
 */
#define WM_KEVENT_FLAG_SIGNAL 1u
/*
 * Each is a record in a ring of the caller's, one for each CPU, for wm_kevent_read(). Not
 * together with WM_KEVENT_FLAG_SIGNAL.
 */
#define WM_KEVENT_FLAG_RINGS 2u
/*
 * The kernel's own loads and stores too, as of read(2) into a buffer. Needs rights:
 * perf_event_paranoid at most 1, or CAP_PERFMON.
 */
#define WM_KEVENT_FLAG_KERNEL 8u
/*
 * Never stop the process: a program that keeps starting threads is refused then, -WM_E_STRICT. With
 * WM_KEVENT_FLAG_RINGS no thread is seen on CPUs that come into the machine later, unless it is a
 * lone thread.
 */
#define WM_KEVENT_FLAG_NO_STOP 16u

#define WM_KEVENT_SOURCES_MAX 4

/*
 * One kernel event of each thread or CPU: a breakpoint. `size` is sizeof(struct wm_kevent_source),
 * by which an array of them is gone through.
 */
struct wm_kevent_source {
	size_t size;
	enum wm_kevent_kind kind;
	uint32_t bytes;	  /* 1, 2, 4 or 8; of WM_KEVENT_KIND_EXECUTE 0 */
	uint64_t address; /* in the program; a multiple of `bytes` */
	/*
	 * WM_KEVENT_FLAG_SIGNAL: si_perf_data. Its low 16 bits must be 0; bits 8 to 15 are filled
	 * in, with the generation: from 0, one more at each modify; it wraps.
	 */
	uint64_t data;
	/*
	 * in errors and the ledger, as "watch:counter"; copied, up to 127 bytes. NULL: the address
	 */
	const char *what;
};

#define WM_KEVENT_SOURCE_INIT WM__INIT(wm_kevent_source)

#define WM_KEVENT_GENERATION(data) ((uint8_t)((data) >> 8))

/* Set unused members to 0. wm_kevent_open() copies all of it. */
struct wm_kevent_request {
	size_t size;
	enum wm_kevent_scope scope;
	uint32_t flags; /* WM_KEVENT_FLAG_SIGNAL and so on */
	pid_t pid;	/* of the process; for WM_KEVENT_SCOPE_THREAD the thread's own number */
	uint32_t source_count; /* 1 to WM_KEVENT_SOURCES_MAX */
	const struct wm_kevent_source *sources;
	const unsigned int *cpus; /* WM_KEVENT_SCOPE_CPUS: their numbers */
	size_t cpu_count;
	/*
	 * WM_KEVENT_FLAG_RINGS: of each CPU's, a power of two, 4 KiB to 1 GiB; 0: 4 MiB, or down
	 * to 32 KiB where the user's locked memory allows no more. A hit takes some 250 bytes.
	 */
	uint32_t ring_bytes;
	/*
	 * Default WM_FOLLOW_NONE. WM_FOLLOW_CHILDREN: what forks too, until it executes a program,
	 * with its threads. Not for CPUs.
	 */
	enum wm_follow follow;
	/*
	 * NULL, or a claim on debug registers of this scope, at least one for each source
	 * (waymark/claim.h). wm_kevent_open() takes it over if it succeeds: do not use it from then
	 * on. wm_kevent_arm() opens the sources in its places and releases those that are left. The
	 * kernel has no way to pass a place on, so it is free meanwhile, for some 30 us a thread:
	 * if another tool takes it, arming fails and names that tool, and the claim has its places
	 * again as far as they can be had. wm_kevent_modify() disregards it.
	 */
	struct wm_claim *claim;
};

#define WM_KEVENT_REQUEST_INIT WM__INIT(wm_kevent_request)

enum wm_kevent_state {
	WM_KEVENT_STATE_PREPARING = 0,
	WM_KEVENT_STATE_ARMED = 1,
	WM_KEVENT_STATE_MODIFYING = 2, /* during wm_kevent_modify(), so in callbacks at most */
	WM_KEVENT_STATE_DISARMED = 3,
};

/* Times are of CLOCK_MONOTONIC; 0: not yet. */
struct wm_kevent_status {
	size_t size; /* set by the caller */
	enum wm_kevent_state state;
	uint32_t generation; /* how often it was modified, modulo 256 */
	uint64_t armed_ns, disarmed_ns;
	/*
	 * hits that found a ring full, as far as the kernel has reported them; exact once disarmed
	 * and drained
	 */
	uint64_t lost;
	uint64_t stray;		  /* that came outside of armed, and were dropped */
	int32_t has_target_ended; /* the process or thread, since the object was armed */
	int32_t reserved;
};

#define WM_KEVENT_STATUS_INIT WM__INIT(wm_kevent_status)

/* What a modify did to those that were hit meanwhile. */
struct wm_kevent_gap {
	size_t size; /* set by the caller */
	/*
	 * CLOCK_MONOTONIC. Between these two some threads had the old sources, some the new ones,
	 * and each had none for a moment: hits may be lost. Where the program stood still
	 * (was_stopped) none was.
	 */
	uint64_t first_ns, last_ns;
	uint8_t was_stopped;
	uint8_t generation; /* from now on; of a modify that failed, the old one */
	uint8_t reserved[6];
};

#define WM_KEVENT_GAP_INIT WM__INIT(wm_kevent_gap)

/* Counts of threads, or of CPUs. */
struct wm_kevent_coverage {
	size_t size;	    /* set by the caller */
	uint32_t wanted;    /* in the scope now; of these are armed: */
	uint32_t opened;    /* opened by Waymark */
	uint32_t inherited; /* by inheritance */
	uint32_t missing;   /* wanted, and not armed */
	uint32_t ended;	    /* were armed, and are over */
	/*
	 * Events that the kernel accepted, but that had no debug register at times while their
	 * threads ran: they may have missed hits. Always 0 on threads with WM_KEVENT_FLAG_RINGS,
	 * where the kernel does not reveal it.
	 */
	uint32_t starved;
	uint8_t was_stopped; /* while it was armed */
	uint8_t sees_kernel; /* WM_KEVENT_FLAG_KERNEL */
	uint8_t reserved[2];
};

#define WM_KEVENT_COVERAGE_INIT WM__INIT(wm_kevent_coverage)

/* A thread or CPU of the scope that has none of the events. */
struct wm_kevent_missing {
	int32_t tid; /* -1: a CPU */
	int32_t cpu; /* -1: a thread */
	/*
	 * Why, for wm_error_text(): -WM_E_EVENT_EXEC, another program has taken the place of the
	 * one; -WM_E_EVENT_CAME_LATER, a CPU that was not online, or with WM_KEVENT_FLAG_RINGS has
	 * no ring; -WM_E_EVENT_CPU_BACK, one that was offline since it was armed; -ENODEV, one that
	 * is; or what the kernel said. wm_kevent_rescan() mends all of a CPU's that can be mended.
	 */
	int32_t error;
	int32_t reserved;
};

/*
 * Between these two a CPU may have run without the events; with WM_KEVENT_FLAG_RINGS, threads on
 * it, unseen: from when it was last known to have them, or not to be online, until it had them, or
 * until all was disarmed. CLOCK_MONOTONIC.
 */
struct wm_kevent_uncovered {
	int32_t cpu;
	int32_t reserved;
	uint64_t first_ns, last_ns;
};

#define WM_KEVENT_HIT_HAS_REGISTERS                                                                \
	1u /* of a hit; unset if the kernel had no registers, as of a thread that is about to end */
#define WM_KEVENT_HIT_BY_KERNEL                                                                    \
	2u /* the kernel's own access: ip and registers are the thread's at its call */

/* A hit out of the rings; `size` is set by us. */
struct wm_kevent_hit {
	size_t size;
	uint64_t time_ns; /* CLOCK_MONOTONIC, when the trap came */
	uint64_t ip; /* the next instruction's; of WM_KEVENT_KIND_EXECUTE the instruction's own */
	uint64_t address; /* that is watched */
	int32_t pid, tid; /* in our PID namespace */
	uint32_t cpu;
	uint32_t source; /* its index */
	uint32_t flags;	 /* WM_KEVENT_HIT_HAS_REGISTERS, WM_KEVENT_HIT_BY_KERNEL */
	uint32_t reserved;
	uint64_t registers[24]; /* in the order of perf_regs.h: PERF_REG_X86_AX... */
};

/*
 * Prepare: the request is checked and copied, nothing is opened. *object is released with
 * wm_kevent_close(); NULL after an error. 0; -EINVAL for a request that contradicts itself
 * or a breakpoint that can't be (length, alignment, address 0 or one of the kernel's), or for a
 * claim of another scope or with too few registers, -E2BIG for
 * one that has fields we don't know, -ENOMEM; wm_kevent_detail(NULL) names the
 * field.
 */
int wm_kevent_open(struct wm_kevent **object, const struct wm_kevent_request *request);

/*
 * Arm all of the scope, or nothing. Some 30 us a thread; blocks for as long. Returns 0; or
 *
 *	-WM_E_BREAKPOINT_DEAD	this machine's debug registers do not fire; detail names the trial
 *	-WM_E_EVENT_TAKEN	too few debug registers are free; detail names their holders
 *	-WM_E_NO_DESCRIPTORS	RLIMIT_NOFILE; detail has the figures
 *	-WM_E_LIMIT		the administrator's limits forbid it; detail has figures and file
 *	-WM_E_PERF_DENIED, -ENOSYS, -WM_E_MEMORY_LIMIT (rings)	perf_event_open(2): see the detail
 *	-EPERM			another user's; detail says more
 *	-WM_E_GONE		there is no such process or thread, or it has ended
 *	-WM_E_STRICT		it keeps starting threads, and can't be stopped; after some 3 s
 *	-EINVAL			not in WM_KEVENT_STATE_PREPARING, or pid is a kernel thread
 *	-ENOMEM, other -errno	detail has which thread or CPU, and which source
 *
 * After an error nothing is open, and you may call it again.
 */
int wm_kevent_arm(struct wm_kevent *object);

/*
 * Change the sources on every thread or CPU, also on those that inherited them, in place: no
 * register is free for somebody else to take meanwhile. `to` is a request like that of
 * wm_kevent_open(). It has as many sources, in the same order; their address, bytes, kind and data
 * may differ. The process is stopped for it where that is possible, so that no hit is lost;
 * WM_KEVENT_FLAG_NO_STOP forbids that. The rest of the request must be as it was.
 *
 * `gap` may be NULL. The call fills it in also after an error. Returns 0; or with the old sources
 * whole everywhere:
 *
 *	-EINVAL			not armed, another count of sources, or another request; else as
 *	-E2BIG			wm_kevent_open()
 *	-errno			the kernel's refusal; detail has which source
 *
 * -WM_E_EVENT_TORN: the old sources could not be restored; the object is disarmed. Nothing known
 * can cause this.
 */
int wm_kevent_modify(struct wm_kevent *object, const struct wm_kevent_request *to,
		     struct wm_kevent_gap *gap);

/*
 * CPUs go and come. The kernel drops the events of WM_KEVENT_SCOPE_CPUS and WM_KEVENT_SCOPE_SYSTEM
 * when a CPU goes offline, also as the machine is suspended, and says nothing; and a CPU that was
 * not in the machine when rings were opened has none. So call this about once a second where either
 * can be: what is online and lacks the events has them from here on. Counts are kept. For a new
 * ring the process is stopped for a moment, as to arm. Without rings a process needs it not, and it
 * does nothing.
 *
 * Returns 0, also where a CPU can't have them now: coverage says why, and the next call tries
 * again. -EINVAL: it is not armed; -ENOMEM, or -errno if the list of online CPUs can't be read.
 * Some 10 us a CPU.
 */
int wm_kevent_rescan(struct wm_kevent *object);

/*
 * The periods during which a CPU had no event, in the order in which they ended. A period that is
 * still open is reported once a rescan or disarm ends it. uncovered[] receives up to `room` of
 * them; it may be NULL if `room` is 0. Returns how many there are in all; -EINVAL.
 */
int wm_kevent_uncovered(struct wm_kevent *object, struct wm_kevent_uncovered *uncovered,
			size_t room);

/*
 * Fill in *status, as much of it as its size says. 0, -EINVAL for an invalid size. Never blocks.
 */
int wm_kevent_status_get(struct wm_kevent *object, struct wm_kevent_status *status);

/*
 * How often a source was hit since it was armed, by the kernel's own count: all threads, also those
 * that ended or inherited, all generations. Some 1 us a thread; running threads continue to count.
 * 0 and *hits, -EINVAL for no such source, -errno of read(2).
 */
int wm_kevent_count(struct wm_kevent *object, unsigned int source, uint64_t *hits);

/*
 * Compare the armed events with the scope as it is now. *coverage is filled in as far as its size
 * says, and missing[] receives up to `room` of those without an event; it may be NULL if `room` is
 * 0. Returns the number of all that are missing; -WM_E_GONE if the process has ended, -EINVAL for
 * an invalid size, -ENOMEM.
 */
int wm_kevent_coverage(struct wm_kevent *object, struct wm_kevent_coverage *coverage,
		       struct wm_kevent_missing *missing, size_t room);

/*
 * A descriptor for an event loop: epoll(7), poll(2), select(2). With WM_KEVENT_FLAG_RINGS it is
 * readable every 10 ms while the object is armed, because a hit causes no wakeup. It stays readable
 * once the process or thread has ended (wm_kevent_status_get(), has_target_ended). When it is
 * readable, call wm_kevent_read(). Only poll the descriptor. The object owns it; wm_kevent_close()
 * closes it. Any state. Returns the descriptor, the same in each call; -ENOMEM, -EMFILE, -ENFILE.
 */
int wm_kevent_fd(struct wm_kevent *object);

/*
 * WM_KEVENT_FLAG_RINGS: give what is in the rings to a callback, in order of time. Call it before a
 * ring can be full, for instance when wm_kevent_fd() is readable. What came in the last 100 ms may
 * be kept for the next call, as its order is not settled; once disarmed, all is given. The callback
 * runs in the caller's thread, *hit is there until it returns, and calls for the same object say
 * -EDEADLK in it; it must not longjmp() or throw out. It ends where the callback returns other than
 * 0, and returns that; the hit was taken. 0: all were given. -EINVAL without rings, or for no
 * callback; -ENOMEM.
 */
int wm_kevent_read(struct wm_kevent *object,
		   int (*hit)(const struct wm_kevent_hit *hit, void *data), void *data);

/*
 * Stop and free the registers; the object can't be armed again. Counts and the rings' contents are
 * kept. Also moves an object that was never armed to disarmed. 0.
 */
int wm_kevent_disarm(struct wm_kevent *object);

/*
 * What the last error was about: a thread, a source, a holder, a limit with its figures; or "". The
 * object's own, until its next call; of NULL: of this thread's last wm_kevent_open(), or "". Also
 * in a forked child. Never NULL.
 */
const char *wm_kevent_detail(const struct wm_kevent *object);

/* Disarm, release everything. NULL is allowed. */
void wm_kevent_close(struct wm_kevent *object);

#ifdef __cplusplus
}
#endif
#endif
