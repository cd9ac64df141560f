/* SPDX-License-Identifier: MIT */
/*
 * Claims: reserve a scarce unit before it is used, and see who holds what. Link with -lwaymark.
 *
 *	struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;
 *	struct wm_claim *claim;
 *
 *	request.unit = WM_CLAIM_UNIT_DEBUG_REGISTER;
 *	request.scope = WM_CLAIM_SCOPE_PROCESS;
 *	request.pid = pid;
 *	request.count = 2;
 *	int err = wm_claim_reserve(&claim, &request);
 *	...				later: use them, or hand the claim to an event object
 *	wm_claim_release(claim);
 *
 * All claims are in the ledger, which waymark claims(1) prints. How binding a claim is depends on
 * the unit:
 *
 *	debug registers	The kernel holds them: a disabled breakpoint is on each thread or CPU
 *			of the scope, also on threads that start later. No tool can have them.
 *	branch unit	The kernel holds it against other kinds of branch recorders; the
 *			ledger against the same kind.
 *	counters	The ledger alone: the kernel refuses no counter, it lets them take turns.
 *	locked bytes	The ledger alone: the kernel counts what is locked, not what is planned.
 *
 * The ledger binds all tools that use it. A claim ends with its owner, however that ends, once no
 * forked child has the owner's descriptors any more: the kernel closes and unlocks them.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 */
#ifndef WAYMARK_CLAIM_H
#define WAYMARK_CLAIM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <waymark/options.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_claim;

enum wm_claim_unit {
	WM_CLAIM_UNIT_OTHER = 0,	  /* listed alone: see WM_CLAIM_ROW_PERF */
	WM_CLAIM_UNIT_DEBUG_REGISTER = 1, /* an x86-64 thread has four, and so has a CPU */
	WM_CLAIM_UNIT_BRANCH = 2,	  /* Intel PT or BTS: one recorder of a machine */
	WM_CLAIM_UNIT_LOCKED_BYTES = 3,	  /* memory that is locked, of the caller's user */
	WM_CLAIM_UNIT_DESCRIPTORS = 4,	  /* listed alone */
	WM_CLAIM_UNIT_SIGTRAP = 5,	  /* listed alone: who handles a process's SIGTRAP */
	WM_CLAIM_UNIT_COUNTER = 6,	  /* of the processor, or one of the kernel's own */
};

enum wm_claim_scope {
	WM_CLAIM_SCOPE_THREAD = 1,
	WM_CLAIM_SCOPE_PROCESS = 2, /* each of its threads, now and later */
	WM_CLAIM_SCOPE_CPUS = 3,    /* these CPUs */
	WM_CLAIM_SCOPE_USER = 4,    /* for WM_CLAIM_UNIT_LOCKED_BYTES alone, and it has no other */
	WM_CLAIM_SCOPE_SYSTEM = 5,  /* all CPUs that are online now */
};

/* Set unused members to 0. wm_claim_reserve() copies all of it. */
struct wm_claim_request {
	size_t size;
	enum wm_claim_unit unit;
	enum wm_claim_scope scope;
	pid_t pid; /* of the process; for WM_CLAIM_SCOPE_THREAD the thread's own number */
	uint32_t reserved;
	const unsigned int *cpus; /* WM_CLAIM_SCOPE_CPUS: their numbers */
	size_t cpu_count;
	/*
	 * Debug registers of each thread or CPU, 1 to 4; bytes; else 1. 0: 1, but not for bytes.
	 */
	uint64_t count;
	/* WM_CLAIM_UNIT_COUNTER: the event, as waymark list --events has it: "cycles", "page-faults" */
	const char *event;
	/* its purpose, for the ledger and in errors; up to 127 bytes. NULL: "reserved" */
	const char *what;
};

#define WM_CLAIM_REQUEST_INIT WM__INIT(wm_claim_request)

/*
 * Reserve all that is asked for, or nothing. To reserve registers of a process, it is stopped for
 * some 30 us a thread, where nothing forbids that. *claim is for wm_claim_release(); NULL after an
 * error. Returns 0; or with words in wm_claim_detail():
 *
 *	-EINVAL			a request that contradicts itself; detail has the member
 *	-E2BIG			it has members that this release does not know
 *	-WM_E_EVENT_TAKEN	too few debug registers are free; detail names their holders
 *	-WM_E_PERF_TAKEN	the branch unit or all counters are taken; detail names holders
 *	-WM_E_MEMORY_LIMIT	the kernel lets the user lock less; detail has figures and holders
 *	-WM_E_LIMIT		the administrator's limits; detail has the figures, file and line
 *	-WM_E_COUNT_EVENT	there is no such event
 *	-WM_E_COUNT_UNIT, -WM_E_TRAIL_NO_UNIT	the machine has no such unit
 *	-WM_E_BREAKPOINT_DEAD	this machine's debug registers do not fire
 *	-WM_E_PERF_DENIED, -ENOSYS, -EPERM, -WM_E_NO_DESCRIPTORS, -WM_E_GONE	as wm_kevent_arm()
 *	-ENOMEM, other -errno
 */
int wm_claim_reserve(struct wm_claim **claim, const struct wm_claim_request *request);

/*
 * Give back what it reserved, and free it. NULL is allowed. Not for a claim that wm_kevent_open()
 * took over.
 */
void wm_claim_release(struct wm_claim *claim);

#define WM_CLAIM_ROW_HELD 1u		/* else it is about to be taken, or was just given back */
#define WM_CLAIM_ROW_ENDED 2u		/* its holder has ended; a child has its descriptors */
#define WM_CLAIM_ROW_OTHER_NAMESPACE 4u /* its numbers are of another PID namespace */
/*
 * Not in the ledger: the process has `count` descriptors of perf events. The kernel does not reveal
 * what they are.
 */
#define WM_CLAIM_ROW_PERF 8u

/* A claim; `size` is set by the library. Valid, with its texts, during the callback only. */
struct wm_claim_row {
	size_t size;
	enum wm_claim_unit unit;
	enum wm_claim_scope scope; /* 0 with WM_CLAIM_ROW_PERF */
	int32_t target;		   /* thread, process, CPU or user; of the system 0 */
	uint32_t flags;		   /* WM_CLAIM_ROW_HELD and so on */
	uint64_t count;
	pid_t pid; /* the holder */
	uid_t uid; /* whom it runs as; -1: unknown */
	const char *name, *what;
	uint64_t since_ns; /* CLOCK_REALTIME; 0: unknown */
};

/*
 * Hand all claims that the caller may see to a callback: those of its user, for root of all users;
 * then the processes with perf events, as far as the kernel shows them. Names may hold any
 * character but NUL; escape them before you print them on a terminal. `row` runs in the caller's
 * thread. A non-zero return ends the list with that value. 0; -EINVAL, -ENOMEM, or why a ledger
 * could not be read, after all others were listed.
 */
int wm_claim_list(int (*row)(const struct wm_claim_row *row, void *data), void *data);

/*
 * Why this thread's last wm_claim_reserve() failed, or "". Valid until the next. Also in a
 * forked child. Never NULL.
 */
const char *wm_claim_detail(void);

#ifdef __cplusplus
}
#endif
#endif
