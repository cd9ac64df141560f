/* SPDX-License-Identifier: MIT */
/*
 * Kernel events recorded over a scope: samples, switches, tracepoints, kernel breakpoints. All
 * events are opened disabled on all of the scope before any is enabled; if the kernel refuses one,
 * all are closed, and none has left a record. There is one ring for each CPU, which all events of
 * that CPU share.
 *
 * The descriptors hold the events, so the end of this process ends them. One thread at a time uses
 * an object. Not for signal handlers.
 */
#ifndef RECORD_PERF_SAMPLER_H
#define RECORD_PERF_SAMPLER_H

#include "record/perf/count_event.h"
#include "record/perf/extent.h"
#include "record/perf/rings.h"
#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum sampler_scope {
	SAMPLER_PROCESSES = 1, /* all threads of these processes, and what they start */
	SAMPLER_CPUS,	       /* whatever runs on CPUs, also on those that come later */
};

/* What the records of an event have beside time, CPU, thread and ip. */
enum sampler_want {
	SAMPLER_ADDRESS = 1,
	SAMPLER_CALLERS = 2,   /* the chain of frame pointers, of the kernel and of the program */
	SAMPLER_USER_IP = 4,   /* where the thread is in user space: user_ip */
	SAMPLER_RAW = 8,       /* a tracepoint's own data */
	SAMPLER_REGS = 16,     /* registers at the event: regs[] */
	SAMPLER_STACK = 32,    /* user_regs[], and stack_bytes of the user stack from rsp on */
	SAMPLER_BRANCHES = 64, /* the processor's last branches */
};

#define SAMPLER_REGS_MAX 24

struct sampler_event {
	struct count_event what; /* type, config, config1, config2, what is excluded */
	uint64_t bp_address; /* of type PERF_TYPE_BREAKPOINT: address, HW_BREAKPOINT_*, length */
	uint32_t bp_type, bp_bytes;
	uint64_t period;      /* a record each so many; 0: by frequency */
	uint64_t freq_hz;     /* records a second of each CPU, by the kernel's estimate */
	unsigned int wants;   /* of enum sampler_want */
	uint8_t precise;      /* precise_ip */
	uint32_t stack_bytes; /* a multiple of 8, below 64 KiB */
	const char *filter;   /* of a tracepoint or kprobe: which to record; NULL: all */
};

struct sampler_request {
	enum sampler_scope scope;
	const struct sampler_event *events;
	size_t event_count;
	int switches;	   /* also a record at each switch, SAMPLER_ARRIVE and _DEPART */
	int tasks;	   /* also SAMPLER_MMAP, _COMM, _FORK, _EXIT */
	const pid_t *pids; /* SAMPLER_PROCESSES */
	size_t pid_count;
	const unsigned int *cpus; /* SAMPLER_CPUS: these; NULL: all that are online */
	size_t cpu_count;
	int cgroup_fd;	     /* SAMPLER_CPUS: what this cgroup runs there; -1: everything */
	uint64_t ring_bytes; /* of each ring; 0: as much as the user may lock, 4 MiB at most */
};

enum sampler_kind {
	SAMPLER_SAMPLE = 1, /* of events[event] */
	SAMPLER_ARRIVE,
	SAMPLER_DEPART, /* is_preempted says whether it would have run on */
	SAMPLER_LOST,	/* count: records for which the ring had no room; exact time unknown */
	/* the kernel stopped events[event], which came too often; and resumed it: */
	SAMPLER_THROTTLED,
	SAMPLER_UNTHROTTLED,
	SAMPLER_MMAP, /* a mapping of a file with code: start, bytes, offset, text */
	SAMPLER_COMM, /* text; is_exec: by execve(2) */
	SAMPLER_FORK, /* pid, tid: the new one; ppid, ptid: who started it */
	SAMPLER_EXIT,
};

/* Pointers are valid until the callback returns. Of kinds that lack a field it is 0. */
struct sampler_record {
	enum sampler_kind kind;
	unsigned int event;
	unsigned int cpu;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	/*
	 * In our pid namespace; of samples the thread that runs there. tid 0: the CPU's idle
	 * thread, or one outside of our namespace; -1: one that has just ended.
	 */
	pid_t pid, tid;
	pid_t ppid, ptid;
	int is_preempted, is_exec;
	int is_kernel;	      /* ip is the kernel's */
	uint64_t ip, user_ip; /* user_ip 0: unknown */
	uint64_t address, period, count;
	uint64_t start, bytes, offset;
	const uint8_t *build_id; /* of what was mapped; NULL: unknown */
	uint8_t build_id_bytes;	 /* 20 at most */
	const char *text;
	const uint64_t *callers; /* ip first; PERF_CONTEXT_* divide kernel and user */
	size_t caller_count;
	const void *raw; /* not aligned */
	size_t raw_bytes;
	/* PERF_SAMPLE_REGS_ABI_*, 0: none; registers as perf_regs.h numbers them */
	uint64_t regs_abi, user_regs_abi;
	uint64_t regs[SAMPLER_REGS_MAX], user_regs[SAMPLER_REGS_MAX];
	const void *stack;
	size_t stack_bytes;
	const void *branches; /* struct perf_branch_entry[] */
	size_t branch_count;
};

struct sampler_coverage {
	unsigned int threads, cpus; /* on which the events are open */
	unsigned int cpus_back;	    /* how often a CPU came, or came back */
	uint64_t lost, throttled;   /* records; how often an event was stopped */
	uint64_t ring_bytes;	    /* of one ring */
	uint64_t locked_bytes;	    /* of all rings, with their heads */
	int excludes_kernel;	    /* perf_event_paranoid forbids to look into the kernel */
	/*
	 * Threads may be missing, as a process that had to be stopped could not be; or CPUs that
	 * were brought into the machine after SAMPLER_PROCESSES was opened.
	 */
	int is_doubtful;
};

struct sampler;

/*
 * Open, disabled. The request's arrays must live as long as the object. Threads that start during
 * the call are covered, each once, as of counts_open(). *sampler is NULL after an error:
 *
 *	-WM_E_COUNT_UNIT	the machine has no unit for an event
 *	-WM_E_EVENT_TAKEN	no debug register is free for a breakpoint
 *	-WM_E_GONE		no such process
 *	-WM_E_PERF_DENIED	the words name the privilege that is missing
 *	-WM_E_NO_DESCRIPTORS	the scope takes more than RLIMIT_NOFILE allows; none was opened
 *	-WM_E_MEMORY_LIMIT	the rings are more than the user may lock
 *	-ENOSYS, -EPERM, -EINVAL, -ENOMEM, or the kernel's -errno, with words
 */
int sampler_open(struct sampler **sampler, const struct sampler_request *request,
		 struct detail detail);

/* Begin to record. Threads that sampler_open() had stopped run on. */
void sampler_enable(struct sampler *sampler);

/*
 * One more process, disabled until sampler_enable(), or refused as of sampler_open(). The object
 * keeps `pid`. sampler_part() takes it back. Of SAMPLER_PROCESSES.
 */
int sampler_join(struct sampler *sampler, const pid_t *pid, struct detail detail);
void sampler_part(struct sampler *sampler);

/* Record no more; what is in the rings stays to be read. Can't be enabled again. */
void sampler_disable(struct sampler *sampler);

/*
 * CPUs come and go: open and enable the events on those that came, read out those that went. It
 * interrupts each CPU, so some times a second are enough. 0, or -errno.
 */
int sampler_follow(struct sampler *sampler);

/*
 * Hand over what has come, sorted by time over all CPUs as far as no earlier record can follow: a
 * record waits for 100 ms, in which a CPU that was put off may still write an earlier one. Of
 * records that came still later, those of one CPU may be out of order. `is_last`: all of it, after
 * sampler_disable(). A callback that returns non-zero ends the read with that value; the record
 * counts as handed over. Returns 0, -ENOMEM.
 */
int sampler_read(struct sampler *sampler, int is_last,
		 int (*take)(const struct sampler_record *record, void *data), void *data);

void sampler_covered(const struct sampler *sampler, struct sampler_coverage *coverage);

/* NULL is allowed. */
void sampler_close(struct sampler *sampler);

/* Its attributes, whatever the kernel allows. */
struct sampler_form sampler_form_of(const struct sampler_event *event);

/* ---- what it is made of: for sampler.c and its tests ---- */

/* The layout of an event's samples. */
struct sampler_form {
	uint64_t sample_type;
	uint64_t user_regs, event_regs; /* as sample_regs_user and _intr */
	uint8_t excludes_kernel;	/* the kernel would not let us see it */
};

/*
 * Take a sample apart that has what the form says, and what all have (RINGS_COMMON). 1, -EBADMSG:
 * it is too short.
 */
int sampler_sample_read(const struct perf_event_header *header, const struct sampler_form *form,
			struct sampler_record *record);

struct sampler {
	const struct sampler_request *request;
	struct extent extent;
	struct rings rings;
	struct sampler_form *forms;
	uint64_t lost, throttled;
	int counts_lost; /* PERF_FORMAT_LOST: Linux 6.0 */
	int is_last_counted;
};

#endif
