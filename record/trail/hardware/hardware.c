/* SPDX-License-Identifier: MIT */
/*
 * The origins that hardware gives: pt and bts (origin.h). The kernel stores for each thread of a
 * process which way it went; what was stored is drained and woven (pt.h, weave.h) into the sink.
 *
 * The process runs at its own speed, none of our code in it. ptrace(2) holds its threads where one
 * begins, executes another program or ends, so that none is missed.
 *
 * The mapped files show which code ran; where there is no file, memory does. Code that is changed
 * while it is recorded can't be distinguished from the earlier code: contradictions are TRAIL_LOST.
 *
 * The kernel's code is read from /proc/kcore (kernel_codes.h). Where that can't be done the kernel
 * is not recorded, its part is a TRAIL_GAP, and the result's detail says why.
 */
#include "base/array.h"
#include "record/perf/perf_record.h"
#include "record/perf/ring.h"
#include "record/trail/hardware/kernel_codes.h"
#include "record/trail/hardware/pt.h"
#include "record/trail/hardware/weave.h"
#include "record/trail/launch_gate.h"
#include "record/trail/modules.h"
#include "record/trail/tracing.h"
#include "target/claim/holder.h"
#include "target/claim/ledger.h"
#include "target/claim/limits.h"
#include "target/process/reach.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>
#include <x86intrin.h>

#define OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)
#define CLOSE_NS UINT64_C(2000000000)
#define GONE_NS UINT64_C(1000000000)
#define STOP_POLL_NS 100000
#define RUN_POLL_NS 1000000 /* buffers take much longer to fill */
#define ATTACH_ROUNDS 20
#define PAGE 4096u
/* A thread's buffer; where the kernel has not so much for us, half of it, down to the least. */
#define BUFFER_BYTES (UINT64_C(4) << 20)
#define BUFFER_MIN (UINT64_C(16) << 10)
#define RING_BYTES (16u * PAGE) /* of records; branches are in the AUX area */
#define HELD_BYTES                                                                                 \
	(UINT64_C(256) << 20) /* of a thread's packets of Intel PT, before they are decoded */
#define SYSCALL_BYTES 2
#define HOLDER_BYTES 256

struct hardware_thread {
	struct hardware_thread *next;
	pid_t tid;
	uint64_t gone_ns; /* since then wait(2) knows none of that id; 0: it does */
	int is_begun;	  /* it stopped for us once */
	int is_stopped;	  /* and has not been let go */
	struct sink_thread *trail;
	struct weave weave;

	/* the buffers; fd < 0: none, the thread is not recorded */
	int fd;
	struct perf_event_mmap_page *page;
	uint8_t *area; /* AUX */
	struct ring ring;
	uint64_t ring_bytes, area_bytes;
	uint64_t area_ticks;   /* of the last record of the area */
	uint64_t depart_ticks; /* it lost the processor then; 0: it has it */

	/* of Intel PT: packets that are not decoded yet */
	uint8_t *held;
	size_t count, room;
	struct pt_switch *switches;
	size_t switch_count, switch_room;
	struct pt_place place;
	struct pt_clock clock;
};

/* The claims: of the unit, and of its buffers' memory and files. */
enum { HAS_UNIT, HAS_MEMORY, HAS_FILES, CLAIMS };

struct tracing {
	pid_t pid;
	int is_single; /* one thread alone, and none that it starts */
	enum origin origin;
	struct trail_sink *sink;
	struct origin_machine machine;
	const struct perf_calls *perf;
	struct perf_event_attr attr;
	struct modules modules;
	struct process_codes codes;
	struct kernel_codes *kernel; /* NULL: user code alone is recorded */
	struct hardware_thread *threads;
	uint16_t family; /* of the processor */
	uint8_t model, stepping;
	int is_waiting; /* launched, and nothing of it has run */
	/* another program's code is mapped: what was stored before is not of it */
	int is_executing;
	int maps_changed; /* code was mapped since codes were renewed */
	struct tracing_result result;
	/*
	 * the first error of decoding, why a thread was not recorded, what else is not as was asked
	 * for; "": nothing
	 */
	char detail[TRACING_DETAIL_BYTES];
	unsigned int noted; /* NOTE_* */
	int error;
	struct ledger *ledger; /* NULL: nothing is claimed */
	uint64_t claims[CLAIMS];
	struct claim claimed[CLAIMS];
};

/* Notes for the result's detail: each once. */
enum hardware_note {
	NOTE_ERROR = 1,	 /* of decoding */
	NOTE_THREAD = 2, /* one that is not recorded */
	NOTE_BUFFER = 4, /* a smaller one than was asked for */
	NOTE_KERNEL = 8, /* it is asked for, and can't be had */
};

/* ---- notes ---- */

/* Keep the first error. */
static void failed(struct tracing *hardware, int err)
{
	if (err < 0 && !hardware->error)
		hardware->error = err;
}

static void note(struct tracing *hardware, enum hardware_note what, const char *form, ...)
{
	char *detail = hardware->detail;
	size_t room = sizeof(hardware->detail), used = strlen(detail);
	va_list arguments;

	if (hardware->noted & what)
		return;
	hardware->noted |= what;
	if (used)
		used += (size_t)snprintf(detail + used, room - used, "; ");
	if (used >= room)
		return;
	va_start(arguments, form);
	vsnprintf(detail + used, room - used, form, arguments);
	va_end(arguments);
}

static const char *root_of(const struct tracing *hardware)
{
	return hardware->machine.root ? hardware->machine.root : "";
}

/* Code may lie elsewhere now. */
static void renew(struct tracing *hardware)
{
	hardware->maps_changed = 0;
	if (hardware->is_executing)
		return;
	codes_of_process_renew(
		&hardware->codes,
		ticks_monotonic_ns()); /* a process that ends has none, and keeps what was known */
	failed(hardware, modules_note(&hardware->modules, hardware->pid));
}

/* ---- a thread's buffers, opened ---- */

static void buffers_unmap(struct tracing *hardware, struct hardware_thread *thread)
{
	if (thread->area)
		hardware->perf->unmap(thread->area, thread->area_bytes);
	if (thread->page)
		hardware->perf->unmap(thread->page, PAGE + thread->ring_bytes);
	ring_release(&thread->ring);
	thread->area = NULL;
	thread->page = NULL;
	thread->ring_bytes = thread->area_bytes = 0;
}

static int buffers_map(struct tracing *hardware, struct hardware_thread *thread, uint64_t bytes)
{
	uint64_t ring_bytes = bytes < RING_BYTES ? bytes : RING_BYTES;
	void *memory;
	int err = hardware->perf->map(&memory, PAGE + ring_bytes, thread->fd, 0);

	if (err)
		return err;
	thread->page = memory;
	thread->ring_bytes = ring_bytes;
	err = ring_init(&thread->ring, thread->page, (const uint8_t *)memory + PAGE, ring_bytes);
	if (!err) {
		thread->page->aux_offset = PAGE + ring_bytes;
		thread->page->aux_size = bytes;
		err = hardware->perf->map(&memory, bytes, thread->fd, thread->page->aux_offset);
	}
	if (err) {
		buffers_unmap(hardware, thread);
		return err;
	}
	thread->area = memory;
	thread->area_bytes = bytes;
	return 0;
}

/*
 * Try half as much each time that the kernel refuses a buffer: EPERM, if it is more locked memory
 * than this user may have (perf_mmap() of the kernel); ENOMEM, also if BTS needs contiguous memory,
 * and no piece of that size is free.
 */
static int buffers_map_what_fits(struct tracing *hardware, struct hardware_thread *thread)
{
	uint64_t bytes = BUFFER_BYTES;
	int err, first = 0;

	while ((err = buffers_map(hardware, thread, bytes)) != 0) {
		if ((err != -EPERM && err != -ENOMEM) || bytes / 2 < BUFFER_MIN)
			break;
		first = first ? first : err;
		bytes /= 2;
	}
	if (!err && first)
		note(hardware, NOTE_BUFFER,
		     "thread %d has a buffer of %" PRIu64 " KiB instead of %" PRIu64 ": %s",
		     (int)thread->tid, bytes >> 10, BUFFER_BYTES >> 10,
		     first == -EPERM ? "raise kernel.perf_event_mlock_kb or ulimit -l, or give "
				       "waymark CAP_IPC_LOCK, for all of it"
				     : "the kernel has no more memory in one piece");
	return err == -EPERM ? -WM_E_MEMORY_LIMIT : err;
}

/*
 * time_zero is of perf's own clock, which is not ours, and is not there with use_clockid: so the
 * two are read together here. Rates are given as for time_zero: arch_perf_update_userpage() of the
 * kernel.
 */
static void clock_read(struct hardware_thread *thread)
{
	const struct perf_event_mmap_page *page = thread->page;
	/*
	 * first: where we are kept from reading the other, all times are later, and so still true
	 */
	uint64_t tsc = __rdtsc();

	if (!page->cap_user_time || page->time_shift > 63)
		return;
	thread->clock = (struct pt_clock){ .ticks = ticks_monotonic_ns(),
					   .tsc = tsc,
					   .mult = page->time_mult,
					   .shift = page->time_shift };
}

static void buffers_release(struct tracing *hardware, struct hardware_thread *thread)
{
	buffers_unmap(hardware, thread);
	if (thread->fd >= 0)
		hardware->perf->close(thread->fd);
	thread->fd = -1;
}

static int buffers_open(struct tracing *hardware, struct hardware_thread *thread)
{
	struct perf_event_attr attr = hardware->attr;
	int err;

	thread->fd = hardware->perf->open(&attr, thread->tid);
	if (thread->fd < 0)
		return thread->fd == -EBUSY ? -WM_E_PERF_TAKEN : thread->fd;
	err = buffers_map_what_fits(hardware, thread);
	if (!err)
		clock_read(thread);
	if (!err)
		err = hardware->perf->control(thread->fd, PERF_EVENT_IOC_ENABLE);
	if (err)
		buffers_release(hardware, thread);
	return err;
}

/* Have it recorded from now on. 0; or why there is no buffer: then its trail says so. */
static int record(struct tracing *hardware, struct hardware_thread *thread)
{
	int err = buffers_open(hardware, thread);

	if (!err)
		return 0;
	note(hardware, NOTE_THREAD, "thread %d is not recorded: %s", (int)thread->tid,
	     wm_error_text(err));
	failed(hardware, weave_event(&thread->weave, TRAIL_GAP, 0, TRAIL_GAP_SUSPENDED, 0));
	return err;
}

/* Begin its trail, and have it recorded. 0 or an error, as above. */
static int thread_open(struct tracing *hardware, struct hardware_thread *thread)
{
	char comm[16];
	uint64_t now = ticks_monotonic_ns();
	int err;

	target_comm(thread->tid, thread->tid, comm);
	failed(hardware,
	       hardware->sink->calls->thread_begin(hardware->sink, &thread->trail, thread->tid,
						   comm, origin_kind(hardware->origin), now));
	if (!thread->trail)
		return hardware->error;
	err = weave_init(&thread->weave, hardware->sink, thread->trail, &hardware->codes.codes);
	failed(hardware, err);
	thread->weave.ticks = thread->area_ticks = now;
	return err ? err : record(hardware, thread);
}

/* BTS records branches and nothing else, so it helps to know where the thread begins. */
static void thread_stands(struct tracing *hardware, struct hardware_thread *thread, uint64_t at)
{
	/* where the kernel is recorded, that is where it is */
	if (hardware->origin == ORIGIN_BTS && !hardware->kernel)
		weave_stand(&thread->weave, at);
}

/* ---- Intel PT's packets ---- */

static void pt_settle(struct tracing *hardware, struct hardware_thread *thread)
{
	struct pt_outcome outcome = { 0 };
	struct pt_stream stream = {
		.bytes = thread->held,
		.count = thread->count,
		.family = hardware->family,
		.model = hardware->model,
		.stepping = hardware->stepping,
		.clock = thread->clock,
		.end_ticks = ticks_monotonic_ns(),
		.switches = thread->switches,
		.switch_count = thread->switch_count,
		.place = &thread->place,
	};

	failed(hardware, pt_decode(&thread->weave, &stream, &outcome));
	if (outcome.errors)
		note(hardware, NOTE_ERROR, "%s", outcome.first);
	thread->count = thread->switch_count = 0;
}

/* Room for more packets: where too many are held, what there is is decoded first. */
static uint8_t *pt_room(struct tracing *hardware, struct hardware_thread *thread, uint64_t count)
{
	uint64_t held_bytes = hardware->machine.held_bytes ? hardware->machine.held_bytes
							   : HELD_BYTES;

	if (thread->count && thread->count + count > held_bytes)
		pt_settle(hardware, thread);
	if (array_grow(&thread->held, &thread->room, thread->count + count, 1)) {
		failed(hardware, -ENOMEM);
		return NULL;
	}
	return thread->held + thread->count;
}

/* ---- records ---- */

/* The following code ran between these times. Without times: now. */
static void code_time(struct tracing *hardware, uint64_t from, uint64_t to)
{
	hardware->codes.codes.time(&hardware->codes.codes, from, to);
}

static void lost(struct tracing *hardware, struct hardware_thread *thread)
{
	if (hardware->origin == ORIGIN_PT)
		pt_settle(hardware, thread);
	failed(hardware, weave_lost(&thread->weave));
}

static void take_area(struct tracing *hardware, struct hardware_thread *thread, uint64_t offset,
		      uint64_t count)
{
	uint64_t bytes = thread->area_bytes;
	uint8_t *to;

	if (count > bytes) { /* no kernel says so */
		lost(hardware, thread);
		return;
	}
	to = pt_room(hardware, thread, count);
	if (!to)
		return;
	ring_aux_copy(to, thread->area, bytes, offset, count);
	if (hardware->origin == ORIGIN_PT)
		thread->count += count;
	else
		failed(hardware, weave_bts(&thread->weave, to, count));
}

/* Space of the area, and the flags of include/uapi/linux/perf_event.h, PERF_AUX_FLAG_*. */
static void on_area(struct tracing *hardware, struct hardware_thread *thread,
		    const struct perf_record *record)
{
	if (!thread->area)
		return;
	if (record->aux_flags & (PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION))
		lost(hardware, thread);
	if (hardware->origin == ORIGIN_BTS)
		code_time(hardware, thread->area_ticks, record->time);
	thread->area_ticks = record->time;
	take_area(hardware, thread, record->aux_offset, record->aux_bytes);
	ring_aux_consume(thread->page, record->aux_offset + record->aux_bytes);
	if (record->aux_flags & PERF_AUX_FLAG_TRUNCATED) {
		lost(hardware, thread);
		/*
		 * perf_aux_output_end() has disabled it, or will: only the reader that made room
		 * can enable it again
		 */
		hardware->perf->control(thread->fd, PERF_EVENT_IOC_DISABLE);
	}
	/*
	 * so it does where it found no room at all, and says nothing of it: perf_aux_output_begin()
	 */
	failed(hardware, hardware->perf->control(thread->fd, PERF_EVENT_IOC_ENABLE));
}

/*
 * Branches from before a switch out come behind the record of that switch, and before the record of
 * the switch in: __perf_event_task_sched_out() of the kernel.
 */
static void on_switch(struct tracing *hardware, struct hardware_thread *thread,
		      const struct perf_record *record)
{
	struct weave *weave = &thread->weave;
	uint64_t at = weave->is_at && !weave->is_away ? weave->at : 0, now = record->time;

	if (record->misc & PERF_RECORD_MISC_SWITCH_OUT) {
		thread->depart_ticks = record->time;
		return;
	}
	if (!thread->depart_ticks)
		return;
	if (hardware->origin == ORIGIN_PT) {
		if (array_grow(&thread->switches, &thread->switch_room, thread->switch_count + 1,
			       sizeof(*thread->switches)))
			failed(hardware, -ENOMEM);
		else
			thread->switches[thread->switch_count++] = (struct pt_switch){
				thread->count, thread->depart_ticks, now
			};
	} else {
		if (weave->ticks < thread->depart_ticks)
			weave->ticks = thread->depart_ticks;
		failed(hardware, weave_event(weave, TRAIL_DEPART, at, 0, 0));
		if (weave->ticks < now)
			weave->ticks = now;
		failed(hardware, weave_event(weave, TRAIL_ARRIVE, at, 0, 0));
	}
	thread->depart_ticks = 0;
}

/* New code is mapped there. It may be replaced before we have read the process's map. */
static void on_mapping(struct tracing *hardware, const struct perf_record *record)
{
	const struct codes_piece piece = { .start = record->start,
					   .end = record->start + record->bytes,
					   .offset = record->offset,
					   .inode = record->inode,
					   .device = record->device };
	int is_file = record->text && record->text[0] == '/' && !(record->prot & PROT_WRITE);

	if (hardware->is_executing)
		return;
	hardware->maps_changed = 1;
	if (record->type != PERF_RECORD_MMAP2 || !(record->prot & PROT_EXEC) ||
	    piece.end <= piece.start || piece.start >= TRAIL_KERNEL)
		return;
	failed(hardware, codes_of_process_mapped(&hardware->codes, &piece,
						 is_file ? record->text : NULL, record->time));
}

static void on_record(struct tracing *hardware, struct hardware_thread *thread,
		      const struct perf_record *record)
{
	switch (record->type) {
	case PERF_RECORD_AUX:
		on_area(hardware, thread, record);
		break;
	case PERF_RECORD_SWITCH:
		on_switch(hardware, thread, record);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE:
		lost(hardware, thread);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		on_mapping(hardware, record);
		break;
	case PERF_RECORD_COMM: /* begin_new_exec() of the kernel: before it maps anything */
		hardware->is_executing |= !!(record->misc & PERF_RECORD_MISC_COMM_EXEC);
		break;
	default: /* ITRACE_START, FORK, EXIT: ptrace(2) has reported these */
		break;
	}
}

/* Take what has been stored. */
static void thread_drain(struct tracing *hardware, struct hardware_thread *thread)
{
	const struct perf_event_header *header;
	struct perf_record record;
	int got;

	if (thread->fd < 0)
		return;
	while ((got = ring_next(&thread->ring, &header)) && !hardware->error) {
		if (got < 0 || perf_record_read(&record, header, hardware->attr.sample_type))
			lost(hardware, thread);
		else
			on_record(hardware, thread, &record);
	}
}

/* The same with all that is still to be decoded: the thread is stopped. */
static void thread_settle(struct tracing *hardware, struct hardware_thread *thread)
{
	uint64_t now;

	if (thread->fd < 0)
		return;
	/* what the others have mapped it may have run */
	for (struct hardware_thread *any = hardware->threads; any; any = any->next)
		thread_drain(hardware, any);
	thread_drain(hardware, thread);
	if (hardware->origin == ORIGIN_PT)
		pt_settle(hardware, thread);
	code_time(hardware, 0, 0);
	now = ticks_monotonic_ns();
	if (thread->weave.ticks < now)
		thread->weave.ticks = now;
	failed(hardware, weave_flush(&thread->weave));
}

/* Something comes between; what was stored before is settled. */
static void thread_event(struct tracing *hardware, struct hardware_thread *thread,
			 enum trail_event kind, uint64_t at, uint64_t first, uint64_t second)
{
	uint64_t now = ticks_monotonic_ns();

	if (!thread->trail)
		return;
	if (thread->weave.ticks < now)
		thread->weave.ticks = now;
	failed(hardware, weave_event(&thread->weave, kind, at, first, second));
	if (kind == TRAIL_END)
		buffers_release(hardware, thread); /* nothing comes behind it */
}

/* End its trail, release its buffers. */
static void thread_close(struct tracing *hardware, struct hardware_thread *thread)
{
	buffers_release(hardware, thread);
	if (thread->trail)
		failed(hardware, hardware->sink->calls->thread_end(hardware->sink, thread->trail,
								   ticks_monotonic_ns()));
	weave_release(&thread->weave);
	free(thread->held);
	free(thread->switches);
}

/* ---- threads ---- */

static struct hardware_thread *thread_add(struct tracing *hardware, pid_t tid)
{
	struct hardware_thread *thread;

	for (thread = hardware->threads; thread; thread = thread->next)
		if (thread->tid == tid)
			return thread;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		failed(hardware, -ENOMEM);
		return NULL;
	}
	thread->tid = tid;
	thread->fd = -1;
	thread->next = hardware->threads;
	hardware->threads = thread;
	return thread;
}

static void thread_remove(struct tracing *hardware, struct hardware_thread *thread)
{
	struct hardware_thread **at = &hardware->threads;

	while (*at != thread)
		at = &(*at)->next;
	*at = thread->next;
	thread_settle(hardware, thread);
	thread_close(hardware, thread);
	free(thread);
}

/* ---- begin ---- */

/* For libipt's errata: Intel SDM, CPUID leaf 1, EAX. */
static void processor_read(struct tracing *hardware)
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

/*
 * Include the kernel's branches, if requested and if its code can be read: without the code we
 * could not follow them.
 */
static int kernel_open(struct tracing *hardware)
{
	int err;

	err = kernel_codes_open(&hardware->kernel, root_of(hardware));
	if (err == -ENOMEM)
		return err;
	if (err) {
		note(hardware, NOTE_KERNEL, "what ran in the kernel is a gap: /proc/kcore: %s; %s",
		     strerror(-err),
		     err == -ENOENT ? "this kernel, or container, has none"
				    : "root, or CAP_SYS_RAWIO, can read it, unless the kernel is "
				      "locked down");
		return 0;
	}
	hardware->attr.exclude_kernel = 0;
	return 0;
}

/* Whether the machine gives the origin; what to ask the kernel for. */
static int origin_ready(struct tracing *hardware, const struct tracing_how *how, char *detail)
{
	struct origin_state states[ORIGINS];
	const struct origin_state *state = &states[how->origin];
	int err;

	origins_look(states, &how->machine);
	if (how->has_kernel)
		origins_need_kernel(states, &how->machine);
	if (state->error) {
		snprintf(detail, TRACING_DETAIL_BYTES, "%s", state->detail);
		return state->error;
	}
	err = origin_attr(&hardware->attr, how->origin, &how->machine, detail,
			  TRACING_DETAIL_BYTES);
	if (!err && how->has_kernel)
		err = kernel_open(hardware);
	hardware->attr.mmap = hardware->attr.mmap2 = 1;
	hardware->attr.comm = hardware->attr.comm_exec = 1;
	return err;
}

static int trail_begin(struct tracing *hardware)
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
static int take_first(struct tracing *hardware)
{
	struct hardware_thread *thread = thread_add(hardware, hardware->pid);
	struct user_regs_struct regs;
	int err;

	if (!thread)
		return -ENOMEM;
	thread->is_begun = thread->is_stopped = 1;
	err = thread_open(hardware, thread);
	if (!err && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		err = -errno;
	if (err)
		return err;
	thread_stands(hardware, thread, regs.rip);
	hardware->is_waiting = 1;
	return hardware->error;
}

static void end_child(struct tracing *hardware)
{
	int status, got;

	kill(hardware->pid, SIGKILL);
	do { /* one that is ending stops for us, and can't be killed there */
		ptrace(PTRACE_CONT, hardware->pid, 0, 0);
		got = waitpid(hardware->pid, &status, __WALL);
	} while (got > 0 && WIFSTOPPED(status));
	while (hardware->threads)
		thread_remove(hardware, hardware->threads);
}

static int launched_take(struct tracing *hardware, int gate)
{
	int err = gate_await(gate, hardware->pid, OPTIONS);

	if (!err)
		err = trail_begin(hardware);
	if (!err)
		err = take_first(hardware);
	if (err)
		end_child(hardware);
	return err;
}

/* ---- attach ---- */

/*
 * Seize the threads that are there and were not seized yet. Returns whether others may be there, or
 * the error that ended it.
 */
static int seize_all(struct tracing *hardware, pid_t only)
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
		thread_add(hardware, tid);
	}
	if (!err && !only && !target_threads_are(hardware->pid, tids, count))
		has_more = 1;
	free(tids);
	return err ? err : has_more;
}

static int running_take(struct tracing *hardware, pid_t only)
{
	int err = trail_begin(hardware), found = 1;

	hardware->is_single = only != 0;
	for (int i = 0; !err && found > 0 && i < ATTACH_ROUNDS; i++)
		found = seize_all(hardware, only);
	err = err ? err : found < 0 ? found : hardware->error;
	return err ? err : hardware->threads ? 0 : -ESRCH;
}

/* ---- claims ---- */

/*
 * Before the unit is asked for. In the process that will have it, which others could not name
 * otherwise.
 */
static void claim_all(struct tracing *hardware)
{
	struct claim *claims = hardware->claimed;

	claims[HAS_UNIT] = (struct claim){ .resource = CLAIM_BRANCH_UNIT,
					   .scope = CLAIM_OF_PROCESS,
					   .target = hardware->pid,
					   .count = 1 };
	/* the amount is unknown before the threads are found */
	claims[HAS_MEMORY] = (struct claim){ .resource = CLAIM_LOCKED_MEMORY,
					     .scope = CLAIM_OF_USER,
					     .target = (int32_t)geteuid() };
	claims[HAS_FILES] = (struct claim){ .resource = CLAIM_DESCRIPTORS,
					    .scope = CLAIM_OF_PROCESS,
					    .target = getpid() };
	for (size_t i = 0; i < CLAIMS; i++)
		snprintf(claims[i].what, sizeof(claims[i].what), "trail/%s",
			 origin_name(hardware->origin));
	if (!ledger_new(&hardware->ledger))
		ledger_claim(hardware->ledger, claims, CLAIMS, hardware->claims);
}

static void claim_again(struct tracing *hardware, unsigned int which, uint64_t count)
{
	if (hardware->claimed[which].count == count)
		return;
	hardware->claimed[which].count = count;
	ledger_change(hardware->ledger, hardware->claims[which], &hardware->claimed[which]);
}

/* What the threads that there are now take. */
static void claim_buffers(struct tracing *hardware)
{
	uint64_t bytes = 0, descriptors = 0;

	if (!hardware->ledger)
		return;
	for (const struct hardware_thread *t = hardware->threads; t; t = t->next) {
		bytes += t->page ? PAGE + t->ring_bytes + t->area_bytes : 0;
		descriptors += t->fd >= 0;
	}
	claim_again(hardware, HAS_MEMORY, bytes);
	claim_again(hardware, HAS_FILES, descriptors);
}

/* For want of locked memory: who has it. */
static void name_holder(int err, char *detail)
{
	struct claim_wanted wanted = { CLAIM_LOCKED_MEMORY, 0, -1 };
	char holders[HOLDER_BYTES];
	size_t used = strnlen(detail, TRACING_DETAIL_BYTES);

	if (err == -WM_E_MEMORY_LIMIT && !used)
		used = (size_t)snprintf(detail, TRACING_DETAIL_BYTES,
					"the kernel lets this user lock no more");
	if (err != -WM_E_MEMORY_LIMIT || used + 2 >= TRACING_DETAIL_BYTES ||
	    !claim_holder_text(&wanted, holders, sizeof(holders)))
		return;
	snprintf(detail + used, TRACING_DETAIL_BYTES - used, "%s%s", used ? "; " : "", holders);
}

/* ---- stops ---- */

static void let_go(struct hardware_thread *thread, int request, int signal)
{
	thread->is_stopped = ptrace((enum __ptrace_request)request, thread->tid, 0, signal) < 0;
}

/* Seen at its end: after the last branch no record shows what ran. */
static void last_steps(struct tracing *hardware, struct hardware_thread *thread,
		       const struct user_regs_struct *regs)
{
	int number = (int)regs->orig_rax, reached;
	int has_called = number == SYS_exit || number == SYS_exit_group;
	uint64_t at = regs->rip - (has_called ? SYSCALL_BYTES : 0);
	const struct block_insn *insn;

	if (hardware->origin != ORIGIN_BTS)
		return;
	reached = weave_reach(&thread->weave, at);
	failed(hardware, reached);
	insn = weave_look(&thread->weave, at);
	if (reached > 0 && has_called && insn && insn->kind == TRAIL_SYSCALL)
		failed(hardware, weave_insn(&thread->weave, at));
}

static void on_exit_of(struct tracing *hardware, struct hardware_thread *thread,
		       const struct user_regs_struct *regs)
{
	unsigned long status = 0;
	int is_killed;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &status);
	is_killed = WIFSIGNALED((int)status);
	renew(hardware);
	thread_settle(hardware, thread);
	/* by now another mapping may lie over one of the last records' */
	if (hardware->maps_changed)
		renew(hardware);
	if (thread->fd >= 0)
		last_steps(hardware, thread, regs);
	thread_event(hardware, thread, TRAIL_END, 0, is_killed ? TRAIL_KILLED : TRAIL_EXITED,
		     (uint64_t)(is_killed ? WTERMSIG((int)status) : WEXITSTATUS((int)status)));
	let_go(thread, PTRACE_CONT, 0);
}

/* Its first stop: nothing of it has run that is to be recorded. */
static void on_first(struct tracing *hardware, struct hardware_thread *thread,
		     const struct user_regs_struct *regs, int signal)
{
	thread->is_begun = 1;
	if (!thread_open(hardware, thread))
		thread_stands(hardware, thread, regs->rip);
	let_go(thread, PTRACE_CONT, signal);
}

/* All that was stored is of the old program, whose files are still known. */
static void on_exec(struct tracing *hardware, struct hardware_thread *thread,
		    const struct user_regs_struct *regs)
{
	unsigned long former = 0;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &former);
	thread_settle(hardware, thread);
	for (struct hardware_thread *other = hardware->threads, *next; other; other = next) {
		next = other->next;
		if (other != thread)
			thread_remove(hardware, other);
	}
	thread_event(hardware, thread, TRAIL_EXEC, regs->rip, 0, 0);
	/* another thread that now has the number of the first, whose buffers ended with that */
	if (thread->is_begun && !hardware->is_single && (pid_t)former != thread->tid) {
		buffers_release(hardware, thread);
		record(hardware, thread);
	}
	codes_of_process_release(&hardware->codes);
	codes_of_process_init(&hardware->codes, hardware->pid, hardware->kernel);
	hardware->codes.codes.generation = thread->weave.generation + 1;
	hardware->is_executing = 0;
	renew(hardware);
	if (!thread->is_begun) { /* another thread was quicker than its first stop */
		on_first(hardware, thread, regs, 0);
		return;
	}
	thread_stands(hardware, thread, regs->rip);
	let_go(thread, PTRACE_CONT, 0);
}

/* The thread made another: the place in its trail is unknown, so the trail does not say it. */
static void on_clone(struct tracing *hardware, struct hardware_thread *thread)
{
	unsigned long tid = 0;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &tid);
	thread_add(hardware, (pid_t)tid);
	let_go(thread, PTRACE_CONT, 0);
}

static void on_stop(struct tracing *hardware, struct hardware_thread *thread, int status)
{
	struct user_regs_struct regs;
	int signal = WSTOPSIG(status), kind = status >> 16;

	thread->is_stopped = 1;
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs) < 0)
		return; /* killed; its end is yet to come */
	if (kind == PTRACE_EVENT_EXIT)
		on_exit_of(hardware, thread, &regs);
	else if (kind == PTRACE_EVENT_EXEC)
		on_exec(hardware, thread, &regs);
	else if (kind == PTRACE_EVENT_CLONE)
		on_clone(hardware, thread);
	else if (kind == PTRACE_EVENT_STOP && signal != SIGTRAP)
		let_go(thread, PTRACE_LISTEN, 0);
	else if (!thread->is_begun)
		on_first(hardware, thread, &regs, kind ? 0 : signal);
	else
		let_go(thread, PTRACE_CONT, kind ? 0 : signal);
}

/* ---- run ---- */

/*
 * As waitpid(2) for it. One thread alone that executes a program is found under its process's id a
 * little later: as step.c.
 */
static pid_t wait_for(struct tracing *hardware, struct hardware_thread *thread, int *status)
{
	pid_t got = waitpid(thread->tid, status, __WALL | WNOHANG);
	uint64_t now_ns;

	if (got >= 0 || !hardware->is_single || thread->tid == hardware->pid)
		return got;
	got = waitpid(hardware->pid, status, __WALL | WNOHANG);
	if (got > 0)
		thread->tid = hardware->pid;
	if (got >= 0)
		return got;
	now_ns = ticks_monotonic_ns();
	thread->gone_ns = thread->gone_ns ? thread->gone_ns : now_ns;
	return now_ns - thread->gone_ns > GONE_NS ? -1 : 0;
}

/* Look once at all threads. Returns how many had stopped or ended. */
static int look(struct tracing *hardware)
{
	int found = 0;

	for (struct hardware_thread *thread = hardware->threads, *next; thread; thread = next) {
		int status;
		pid_t got = wait_for(hardware, thread, &status);

		next = thread->next;
		if (!got)
			continue;
		found++;
		if (got > 0 && WIFSTOPPED(status)) {
			on_stop(hardware, thread, status);
			if (status >> 16 == PTRACE_EVENT_EXEC)
				break; /* the others are gone */
			continue;
		}
		if (got > 0 && thread->tid == hardware->pid)
			hardware->result.status = status;
		thread_remove(hardware, thread);
	}
	return found;
}

static void drain_all(struct tracing *hardware)
{
	for (struct hardware_thread *thread = hardware->threads; thread; thread = thread->next)
		thread_drain(hardware, thread);
	if (hardware->maps_changed)
		renew(hardware);
}

static int run(struct tracing *hardware, unsigned int for_ms)
{
	uint64_t end_ns = ticks_monotonic_ns() + for_ms * UINT64_C(1000000);

	if (hardware->is_waiting)
		let_go(hardware->threads, PTRACE_CONT, 0);
	hardware->is_waiting = 0;
	while (hardware->threads && !hardware->error) {
		if (!look(hardware)) {
			drain_all(hardware);
			nanosleep(&(struct timespec){ .tv_nsec = RUN_POLL_NS }, NULL);
		}
		if (ticks_monotonic_ns() >= end_ns)
			break;
	}
	hardware->result.is_over = !hardware->threads;
	claim_buffers(hardware);
	return hardware->error ? hardware->error : !!hardware->threads;
}

static void result(struct tracing *hardware, struct tracing_result *result, char *detail)
{
	*result = hardware->result;
	if (result->is_over)
		tracing_ended(result, hardware->pid, result->status);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", hardware->detail);
}

/* ---- close ---- */

/* Stop a thread, unless it ends. 1: it is stopped; *signal is what it is about to get. */
static int stop(struct tracing *hardware, struct hardware_thread *thread, uint64_t end_ns,
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
			thread_add(hardware, (pid_t)tid); /* to be let go too */
		if (got > 0 && !(status >> 16))
			*signal = WSTOPSIG(status);
		if (got > 0)
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = STOP_POLL_NS }, NULL);
	}
	return 0;
}

/* An error is of the writing, which the other end of the sink knows of. */
static int let_all_go(struct tracing *hardware)
{
	uint64_t end_ns = ticks_monotonic_ns() + CLOSE_NS;
	int signal;

	if (hardware->threads)
		renew(hardware);
	while (hardware->threads) {
		struct hardware_thread *thread = hardware->threads;
		int is_stopped = stop(hardware, thread, end_ns, &signal);

		thread_settle(hardware, thread);
		if (is_stopped)
			thread_event(hardware, thread, TRAIL_END, 0, TRAIL_DETACHED, 0);
		ptrace(PTRACE_DETACH, thread->tid, 0, signal);
		thread_remove(hardware, thread);
	}
	return hardware->error;
}

static int end(struct tracing *hardware, unsigned int for_ms)
{
	(void)for_ms;
	let_all_go(hardware);
	ledger_free(hardware->ledger);
	hardware->ledger = NULL;
	return 0;
}

int hardware_close(struct tracing *hardware)
{
	int err;

	if (!hardware)
		return 0;
	err = let_all_go(hardware);
	modules_release(&hardware->modules);
	codes_of_process_release(&hardware->codes);
	kernel_codes_close(hardware->kernel);
	ledger_free(hardware->ledger);
	free(hardware);
	return err;
}

/* gate -1: attach. */
static int begin(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		 pid_t pid, int gate, pid_t only, char *detail)
{
	struct tracing *hardware = calloc(1, sizeof(*hardware));
	int err;

	*out = NULL;
	detail[0] = '\0';
	if (!hardware)
		return -ENOMEM;
	hardware->pid = pid;
	hardware->origin = how->origin;
	hardware->sink = sink;
	hardware->machine = how->machine;
	hardware->perf = how->machine.perf ? how->machine.perf : &perf_kernel;
	processor_read(hardware);
	claim_all(hardware);
	err = origin_ready(hardware, how, detail);
	if (!err)
		err = gate < 0 ? running_take(hardware, only) : launched_take(hardware, gate);
	if (err) {
		hardware_close(hardware);
		name_holder(err, detail);
		return err;
	}
	if (hardware->ledger)
		ledger_confirm(hardware->ledger, hardware->claims, CLAIMS);
	claim_buffers(hardware);
	err = limits_check(CLAIM_LOCKED_MEMORY, (struct detail){ detail, TRACING_DETAIL_BYTES });
	if (err) {
		hardware_close(hardware);
		return err;
	}
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", hardware->detail);
	*out = hardware;
	return 0;
}

static int take_launched(struct tracing **out, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	return begin(out, sink, how, pid, gate, 0, detail);
}

static int attach_running(struct tracing **out, struct trail_sink *sink,
			  const struct tracing_how *how, pid_t pid, pid_t only, char *detail)
{
	return begin(out, sink, how, pid, -1, only, detail);
}

const struct tracing_calls tracing_hardware = {
	.take = take_launched,
	.attach = attach_running,
	.run = run,
	.let_go = end,
	.result = result,
};
