/* SPDX-License-Identifier: MIT */
/* What a kernel event watches, over which scope, and what its hits are recorded as. */
#ifndef RECORD_PERF_KERNEL_EVENT_H
#define RECORD_PERF_KERNEL_EVENT_H

#include "abi/watch.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Debug registers that an x86-64 thread has. A request may ask for no more; other processors may
 * have fewer.
 */
#define EVENT_SOURCES_MAX 4

enum event_kind {
	EVENT_WRITE = WATCH_ON_WRITE,	    /* a store to any of the bytes */
	EVENT_READ_WRITE = WATCH_ON_ACCESS, /* a load or a store; x86 knows no loads alone */
	EVENT_EXECUTE = WATCH_ON_EXECUTE,   /* the instruction at the address is about to run */
};

/*
 * One kernel event of the request: a breakpoint. (Counters and samples will be kinds of their own.)
 *
 * bytes: 1, 2, 4 or 8, and the address a multiple of it; for EVENT_EXECUTE 0.
 *
 * sig_data, with EVENT_SIGNAL: what the signal handler finds in si_perf_data. The low 16 bits must
 * be 0; the object puts the generation in bits 8 to 15: from 0, one more at each modify; it wraps.
 */
struct event_source {
	enum event_kind kind;
	uint32_t bytes;
	uint64_t address;
	uint64_t sig_data;
	/* for the ledger and in errors, as "watch:counter"; copied. NULL: the address */
	const char *what;
};

#define EVENT_GENERATION(sig_data) ((uint8_t)((sig_data) >> 8))
#define EVENT_OBJECT_BITS UINT64_C(0xffff) /* of sig_data: the object's own */

enum event_scope {
	EVENT_THREAD = 1, /* one thread; with EVENT_CHILDREN also what it starts */
	EVENT_PROCESS,	  /* its threads, now and later */
	EVENT_CPUS,	  /* whatever runs on these CPUs */
	EVENT_SYSTEM,	  /* whatever runs on CPUs that are online */
};

enum event_flag {
	/*
	 * Each hit is a SIGTRAP in the thread that made it, si_code TRAP_PERF, before its next
	 * instruction. The program must have a handler, or it is killed. Not for CPUs. A signal may
	 * still be on its way when the object is disarmed, and one that was blocked comes when it
	 * is let through: the handler has to outlive the object, and drop what is not armed.
	 */
	EVENT_SIGNAL = 1,
	/*
	 * Each hit is a record in the ring of its CPU, which perf_object_drain() reads. Not
	 * together with EVENT_SIGNAL. It takes a descriptor for each source on each thread on each
	 * CPU that is present, online or not. A CPU that is brought into the machine later has a
	 * ring from the next perf_object_follow() on.
	 */
	EVENT_RINGS = 2,
	/*
	 * Forked children too, until they exec, and their threads. Without it a child has none. A
	 * child that was started with its signal handlers reset (posix_spawn(3)) has none with
	 * EVENT_SIGNAL.
	 */
	EVENT_CHILDREN = 4,
	/*
	 * The kernel's own loads and stores too, such as of read(2) into a buffer. Needs rights:
	 * kernel.perf_event_paranoid at most 1, or CAP_PERFMON. Without it they are not seen, nor
	 * counted.
	 */
	EVENT_KERNEL = 8,
	/* Never stop the process to arm; see above for what that costs. */
	EVENT_NO_STOP = 16,
	/*
	 * With EVENT_RINGS: hits without registers, which are most of what a record costs the
	 * program.
	 */
	EVENT_NO_REGS = 32,
	/* With EVENT_RINGS: who called, by the chain of frame pointers. */
	EVENT_CALLERS = 64,
};

#define EVENT_CALLERS_MAX 10

/* One hit, of EVENT_RINGS. Registers as perf_regs.h numbers them (PERF_REG_X86_AX...). */
struct event_record {
	uint64_t time_ns; /* CLOCK_MONOTONIC, when the trap came */
	uint64_t ip;	  /* the next instruction's; of EVENT_EXECUTE, the instruction's own */
	uint64_t address; /* that was watched: of the breakpoint, not of the store */
	pid_t pid, tid;	  /* in our pid namespace */
	uint32_t cpu;
	unsigned int source;
	/* 0: not asked for, or the kernel had none to give, as of a thread that is about to end */
	uint8_t has_regs;
	/*
	 * others may have been lost, or not been seen, since the one before it, or come later
	 * still, in the order of time
	 */
	uint8_t after_loss;
	/* the kernel's own access; ip and registers are the thread's at its call */
	uint8_t is_kernel;
	uint8_t caller_count;
	uint64_t callers
		[EVENT_CALLERS_MAX]; /* return addresses, as the frames have them: not looked at */
	uint64_t regs[24];	     /* general ones and flags; of the program counter it is ip */
};

#endif
