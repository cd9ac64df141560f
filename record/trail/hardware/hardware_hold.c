/* SPDX-License-Identifier: MIT */
/* How a process is taken that hardware records, and let go. */
#include "record/trail/hardware/hardware_own.h"
#include "record/trail/launch_gate.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "target/process/reach.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)
#define CLOSE_NS UINT64_C(2000000000)
#define POLL_NS 100000
#define ATTACH_ROUNDS 20
#define PAGE 4096u

/* ---- threads ---- */

struct hardware_thread *hardware_thread_add(struct hardware *hardware, pid_t tid)
{
	struct hardware_thread *thread;

	for (thread = hardware->threads; thread; thread = thread->next)
		if (thread->tid == tid)
			return thread;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		hardware_failed(hardware, -ENOMEM);
		return NULL;
	}
	thread->tid = tid;
	thread->fd = -1;
	thread->next = hardware->threads;
	hardware->threads = thread;
	return thread;
}

void hardware_thread_remove(struct hardware *hardware, struct hardware_thread *thread)
{
	struct hardware_thread **at = &hardware->threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	hardware_thread_settle(hardware, thread);
	hardware_thread_close(hardware, thread);
	free(thread);
}

/* ---- begin ---- */

/* For libipt's errata: Intel SDM, CPUID leaf 1, EAX. */
static void processor_read(struct hardware *hardware)
{
	uint32_t eax = 1, ebx, ecx = 0, edx, family, model;

	__asm__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
	family = eax >> 8 & 0xf;
	model = eax >> 4 & 0xf;
	if (family == 6 || family == 15)
		model |= (eax >> 16 & 0xf) << 4;
	if (family == 15)
		family += eax >> 20 & 0xff;
	hardware->family = (uint16_t)family;
	hardware->model = (uint8_t)model;
	hardware->stepping = eax & 0xf;
}

static int is_size(uint64_t bytes)
{
	return bytes >= PAGE && !(bytes & (bytes - 1));
}

static const char *root_of(const struct hardware *hardware)
{
	return hardware->options.machine.root ? hardware->options.machine.root : "";
}

/*
 * Include the kernel's branches, if requested and if its code can be read: without the code we
 * could not follow them.
 */
static int kernel_open(struct hardware *hardware)
{
	int err;

	if (!hardware->options.has_kernel)
		return 0;
	err = kernel_codes_open(&hardware->kernel, root_of(hardware));
	if (err == -ENOMEM)
		return err;
	if (err) {
		hardware_note(hardware, NOTE_KERNEL,
			      "what ran in the kernel is a gap: /proc/kcore: %s; %s",
			      strerror(-err),
			      err == -ENOENT
				      ? "this kernel, or container, has none"
				      : "root, or CAP_SYS_RAWIO, can read it, unless the kernel is "
					"locked down");
		return 0;
	}
	hardware->attr.exclude_kernel = 0;
	return 0;
}

static int hardware_new(struct hardware **out, struct trail_sink *sink, enum origin origin,
			const struct hardware_options *options, char *detail, size_t bytes)
{
	struct origin_state states[ORIGINS];
	struct hardware *hardware;
	int err;

	*out = NULL;
	if (bytes)
		detail[0] = '\0';
	hardware = calloc(1, sizeof(*hardware));
	if (!hardware)
		return -ENOMEM;
	if (options)
		hardware->options = *options;
	if (!hardware->options.buffer_bytes)
		hardware->options.buffer_bytes = HARDWARE_BUFFER_DEFAULT;
	if (!hardware->options.held_bytes)
		hardware->options.held_bytes = HARDWARE_HELD_DEFAULT;
	hardware->origin = origin;
	hardware->sink = sink;
	hardware->perf = hardware->options.machine.perf ? hardware->options.machine.perf
							: &perf_kernel;
	origins_look(states, &hardware->options.machine);
	if (hardware->options.has_kernel)
		origins_need_kernel(states, &hardware->options.machine);
	err = states[origin].error;
	if (err && bytes)
		snprintf(detail, bytes, "%s", states[origin].detail);
	if (!err)
		err = origin_attr(&hardware->attr, origin, &hardware->options.machine, detail,
				  bytes);
	if (!err && !is_size(hardware->options.buffer_bytes))
		err = -EINVAL;
	if (!err)
		err = kernel_open(hardware);
	if (err) {
		free(hardware);
		return err;
	}
	hardware->attr.mmap = hardware->attr.mmap2 = 1;
	hardware->attr.comm = hardware->attr.comm_exec = 1;
	processor_read(hardware);
	*out = hardware;
	return 0;
}

static int trail_begin(struct hardware *hardware)
{
	int err = hardware->sink->calls->begin(hardware->sink, hardware->pid);

	hardware->modules.sink = hardware->sink;
	codes_of_process_init(&hardware->codes, hardware->pid, hardware->kernel);
	if (!err)
		err = codes_of_process_renew(&hardware->codes, 0);
	if (!err && hardware->kernel)
		err = kernel_modules_note(hardware->kernel, hardware->sink, root_of(hardware));
	return err ? err : modules_note(&hardware->modules, hardware->pid);
}

/* ---- launch ---- */

/* The process is stopped before its first instruction. */
static int take_first(struct hardware *hardware)
{
	struct hardware_thread *thread = hardware_thread_add(hardware, hardware->pid);
	struct user_regs_struct regs;
	int err;

	if (!thread)
		return -ENOMEM;
	thread->is_begun = thread->is_stopped = 1;
	err = hardware_thread_open(hardware, thread);
	if (!err && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		err = -errno;
	if (err)
		return err;
	hardware_thread_stands(hardware, thread, regs.rip);
	hardware->is_waiting = 1;
	return hardware->error;
}

static void end_child(struct hardware *hardware)
{
	int status, got;

	kill(hardware->pid, SIGKILL);
	do { /* one that is ending stops for us, and can't be killed there */
		ptrace(PTRACE_CONT, hardware->pid, 0, 0);
		got = waitpid(hardware->pid, &status, __WALL);
	} while (got > 0 && WIFSTOPPED(status));
	while (hardware->threads)
		hardware_thread_remove(hardware, hardware->threads);
}

int hardware_take(struct hardware **out, struct trail_sink *sink, enum origin origin,
		  const struct hardware_options *options, pid_t pid, int gate, char *detail,
		  size_t bytes)
{
	int err = hardware_new(out, sink, origin, options, detail, bytes);
	struct hardware *hardware = *out;

	if (err)
		return err;
	hardware->pid = pid;
	err = gate_await(gate, pid, OPTIONS);
	if (!err)
		err = trail_begin(hardware);
	if (!err)
		err = take_first(hardware);
	if (!err)
		return 0;
	end_child(hardware);
	hardware_close(hardware);
	*out = NULL;
	return err;
}

/* ---- attach ---- */

/*
 * Seize the threads that are there and were not seized yet. Returns whether others may be there, or
 * the error that ended it.
 */
static int seize_all(struct hardware *hardware, pid_t only)
{
	int options = only ? OPTIONS & ~PTRACE_O_TRACECLONE : OPTIONS;
	pid_t *tids;
	int count = target_threads(hardware->pid, &tids), has_more = 0, err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++) {
		pid_t tid = tids[i];

		if ((only && tid != only) || reach_is_agents(hardware->pid, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, options) < 0) {
			/* EPERM: of one that is ours already too */
			err = errno == ESRCH || (errno == EPERM && hardware->threads) ? 0 : -errno;
			continue;
		}
		has_more = 1;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		hardware_thread_add(hardware, tid);
	}
	if (!err && !only && !target_threads_are(hardware->pid, tids, count))
		has_more = 1;
	free(tids);
	return err ? err : has_more;
}

int hardware_attach(struct hardware **out, struct trail_sink *sink, enum origin origin,
		    const struct hardware_options *options, pid_t pid, pid_t only, char *detail,
		    size_t bytes)
{
	int err = hardware_new(out, sink, origin, options, detail, bytes), found = 1;
	struct hardware *hardware = *out;

	if (err)
		return err;
	hardware->pid = pid;
	hardware->is_single = only != 0;
	err = trail_begin(hardware);
	for (int i = 0; !err && found > 0 && i < ATTACH_ROUNDS; i++)
		found = seize_all(hardware, only);
	err = err ? err : found < 0 ? found : hardware->error;
	if (!err && hardware->threads)
		return 0;
	hardware_close(hardware);
	*out = NULL;
	return err ? err : -ESRCH;
}

/* ---- close ---- */

/* Stop a thread, unless it ends. 1: it is stopped; *signal is what it is about to get. */
static int stop(struct hardware *hardware, struct hardware_thread *thread, uint64_t end_ns,
		int *signal)
{
	unsigned long tid = 0;
	int status;

	*signal = 0;
	if (thread->is_stopped)
		return 1;
	ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
	while (ticks_monotonic_ns() < end_ns) {
		pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);

		if (got < 0 || (got > 0 && !WIFSTOPPED(status)))
			return 0;
		if (got > 0 && status >> 16 == PTRACE_EVENT_CLONE &&
		    !ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &tid))
			hardware_thread_add(hardware, (pid_t)tid); /* to be let go too */
		if (got > 0 && !(status >> 16))
			*signal = WSTOPSIG(status);
		if (got > 0)
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return 0;
}

int hardware_let_go(struct hardware *hardware)
{
	uint64_t end_ns = ticks_monotonic_ns() + CLOSE_NS;
	int signal;

	if (hardware->threads)
		hardware_renew(hardware);
	while (hardware->threads) {
		struct hardware_thread *thread = hardware->threads;
		int is_stopped = stop(hardware, thread, end_ns, &signal);

		hardware_thread_settle(hardware, thread);
		if (is_stopped)
			hardware_thread_event(hardware, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
		ptrace(PTRACE_DETACH, thread->tid, 0, signal);
		hardware_thread_remove(hardware, thread);
	}
	return hardware->error;
}

int hardware_close(struct hardware *hardware)
{
	int err;

	if (!hardware)
		return 0;
	err = hardware_let_go(hardware);
	modules_release(&hardware->modules);
	codes_of_process_release(&hardware->codes);
	kernel_codes_close(hardware->kernel);
	free(hardware);
	return err;
}
