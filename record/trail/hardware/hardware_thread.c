/* SPDX-License-Identifier: MIT */
/* A thread's buffers: opened, drained, woven. */
#include "record/trail/hardware/hardware_own.h"

#include "base/array.h"
#include "record/trail/hardware/bts.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <waymark/error.h>
#include <x86intrin.h>

#define PAGE 4096u
#define RING_BYTES (16u * PAGE) /* of records; branches are in the AUX area */

/* ---- open ---- */

static int ring_map(struct hardware *hardware, struct hardware_thread *thread, uint64_t bytes)
{
	void *memory;
	int err = hardware->perf->map(&memory, PAGE + bytes, 1, thread->fd, 0);

	if (err)
		return err;
	thread->page = memory;
	thread->ring_bytes = bytes;
	return ring_init(&thread->ring, thread->page, (const uint8_t *)memory + PAGE, bytes);
}

static int area_map(struct hardware *hardware, struct hardware_thread *thread, uint64_t bytes)
{
	void *memory;
	int err;

	thread->page->aux_offset = PAGE + thread->ring_bytes;
	thread->page->aux_size = bytes;
	/* what we may not write, the kernel writes over: that is its overwrite mode */
	err = hardware->perf->map(&memory, bytes, !hardware->options.keeps_newest, thread->fd,
				  thread->page->aux_offset);
	thread->area = err ? NULL : memory;
	thread->area_bytes = err ? 0 : bytes;
	return err;
}

static void buffers_unmap(struct hardware *hardware, struct hardware_thread *thread)
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

static int buffers_map(struct hardware *hardware, struct hardware_thread *thread, uint64_t bytes)
{
	int err = ring_map(hardware, thread, bytes < RING_BYTES ? bytes : RING_BYTES);

	if (!err)
		err = area_map(hardware, thread, bytes);
	if (err)
		buffers_unmap(hardware, thread);
	return err;
}

/*
 * Try half as much each time that the kernel refuses a buffer: EPERM, if it is more locked memory
 * than this user may have (perf_mmap() of the kernel); ENOMEM, also if BTS needs contiguous memory,
 * and no piece of that size is free.
 */
static int buffers_map_what_fits(struct hardware *hardware, struct hardware_thread *thread)
{
	uint64_t wanted = hardware->options.buffer_bytes, bytes = wanted;
	int err, first = 0;

	while ((err = buffers_map(hardware, thread, bytes)) != 0) {
		if ((err != -EPERM && err != -ENOMEM) || bytes / 2 < HARDWARE_BUFFER_MIN)
			break;
		first = first ? first : err;
		bytes /= 2;
	}
	if (!err && first)
		hardware_note(
			hardware, NOTE_BUFFER,
			"thread %d has a buffer of %" PRIu64 " KiB instead of %" PRIu64 ": %s",
			(int)thread->tid, bytes >> 10, wanted >> 10,
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

void hardware_holds(const struct hardware *hardware, uint64_t *bytes, uint64_t *descriptors)
{
	*bytes = *descriptors = 0;
	for (const struct hardware_thread *t = hardware->threads; t; t = t->next) {
		*bytes += t->page ? PAGE + t->ring_bytes + t->area_bytes : 0;
		*descriptors += t->fd >= 0;
	}
}

static void buffers_release(struct hardware *hardware, struct hardware_thread *thread)
{
	buffers_unmap(hardware, thread);
	if (thread->fd >= 0)
		hardware->perf->close(thread->fd);
	thread->fd = -1;
}

static int buffers_open(struct hardware *hardware, struct hardware_thread *thread)
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

int hardware_thread_open(struct hardware *hardware, struct hardware_thread *thread)
{
	char comm[16];
	uint64_t now = ticks_monotonic_ns();
	int err;

	target_comm(thread->tid, thread->tid, comm);
	hardware_failed(hardware, hardware->sink->calls->thread_begin(
					  hardware->sink, &thread->trail, thread->tid, comm,
					  origin_kind(hardware->origin), now));
	if (!thread->trail)
		return hardware->error;
	err = weave_init(&thread->weave, hardware->sink, thread->trail, &hardware->codes.codes);
	hardware_failed(hardware, err);
	thread->weave.ticks = thread->area_ticks = now;
	err = err ? err : buffers_open(hardware, thread);
	if (!err || !thread->weave.seen)
		return err;
	hardware->result.unrecorded++;
	hardware_note(hardware, NOTE_THREAD, "thread %d is not recorded: %s", (int)thread->tid,
		      wm_error_text(err));
	hardware_failed(hardware,
			weave_event(&thread->weave, TRAIL_GAP, 0, TRAIL_GAP_SUSPENDED, 0));
	return err;
}

void hardware_thread_stands(struct hardware *hardware, struct hardware_thread *thread, uint64_t at)
{
	/* where the kernel is recorded, that is where it is */
	if (hardware->kernel)
		return;
	if (hardware->origin == ORIGIN_BTS)
		weave_stand(&thread->weave, at);
}

void hardware_thread_take_over(struct hardware *hardware, struct hardware_thread *thread,
			       struct hardware_thread *from)
{
	buffers_release(hardware, thread);
	thread->fd = from->fd;
	thread->page = from->page;
	thread->area = from->area;
	thread->ring = from->ring;
	thread->ring_bytes = from->ring_bytes;
	thread->area_bytes = from->area_bytes;
	thread->clock = from->clock;
	from->fd = -1;
	from->page = NULL;
	from->area = NULL;
	from->ring = (struct ring){ 0 };
}

/* ---- Intel PT's packets ---- */

static void pt_settle(struct hardware *hardware, struct hardware_thread *thread)
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

	hardware_failed(hardware, pt_decode(&thread->weave, &stream, &outcome));
	if (outcome.errors)
		hardware_note(hardware, NOTE_ERROR, "%s", outcome.first);
	hardware->result.errors += outcome.errors;
	thread->count = thread->switch_count = 0;
}

/* Room for more packets: where too many are held, what there is is decoded first. */
static uint8_t *pt_room(struct hardware *hardware, struct hardware_thread *thread, uint64_t count)
{
	if (thread->count && thread->count + count > hardware->options.held_bytes)
		pt_settle(hardware, thread);
	if (array_grow(&thread->held, &thread->room, thread->count + count, 1)) {
		hardware_failed(hardware, -ENOMEM);
		return NULL;
	}
	return thread->held + thread->count;
}

/* ---- records ---- */

/* The following code ran between these times. Without times: now. */
static void code_time(struct hardware *hardware, uint64_t from, uint64_t to)
{
	hardware->codes.codes.time(&hardware->codes.codes, from, to);
}

static void lost(struct hardware *hardware, struct hardware_thread *thread)
{
	if (hardware->origin == ORIGIN_PT)
		pt_settle(hardware, thread);
	hardware_failed(hardware, weave_lost(&thread->weave));
}

static void take_area(struct hardware *hardware, struct hardware_thread *thread, uint64_t offset,
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
		hardware_failed(hardware, bts_take(&thread->weave, to, count));
}

/* Space of the area, and the flags of include/uapi/linux/perf_event.h, PERF_AUX_FLAG_*. */
static void on_area(struct hardware *hardware, struct hardware_thread *thread,
		    const struct perf_record *record)
{
	/* in overwrite mode it is taken at the end, with all that is in it */
	if (!thread->area || hardware->options.keeps_newest)
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
	hardware_failed(hardware, hardware->perf->control(thread->fd, PERF_EVENT_IOC_ENABLE));
}

/*
 * Branches from before a switch out come behind the record of that switch, and before the record of
 * the switch in: __perf_event_task_sched_out() of the kernel.
 */
static void on_switch(struct hardware *hardware, struct hardware_thread *thread,
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
			hardware_failed(hardware, -ENOMEM);
		else
			thread->switches[thread->switch_count++] = (struct pt_switch){
				thread->count, thread->depart_ticks, now
			};
	} else {
		if (weave->ticks < thread->depart_ticks)
			weave->ticks = thread->depart_ticks;
		hardware_failed(hardware, weave_event(weave, TRAIL_DEPART, at, 0, 0));
		if (weave->ticks < now)
			weave->ticks = now;
		hardware_failed(hardware, weave_event(weave, TRAIL_ARRIVE, at, 0, 0));
	}
	thread->depart_ticks = 0;
}

/* New code is mapped there. It may be replaced before we have read the process's map. */
static void on_mapping(struct hardware *hardware, const struct perf_record *record)
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
	hardware_failed(hardware,
			codes_of_process_mapped(&hardware->codes, &piece,
						is_file ? record->text : NULL, record->time));
}

static void on_record(struct hardware *hardware, struct hardware_thread *thread,
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

void hardware_thread_drain(struct hardware *hardware, struct hardware_thread *thread)
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

/* Its end was written to: no record of BTS is of zeros, and of packets no more than a few are. */
static int has_gone_round(const uint8_t *area, uint64_t bytes)
{
	for (uint64_t i = bytes - BTS_RECORD_BYTES; i < bytes; i++)
		if (area[i])
			return 1;
	return 0;
}

/*
 * In overwrite mode: all of the area, from the oldest on. Unwritten parts are zeros, which are
 * padding.
 */
static void take_newest(struct hardware *hardware, struct hardware_thread *thread)
{
	uint64_t bytes = thread->area_bytes, used = bytes, head;

	head = __atomic_load_n(&thread->page->aux_head, __ATOMIC_ACQUIRE) % bytes;
	/* bts_buffer_setup_aux(): whole records alone, from the beginning of the area */
	if (hardware->origin == ORIGIN_BTS)
		used = bytes - bytes % BTS_RECORD_BYTES;
	if (head > used)
		head = used;
	if (has_gone_round(thread->area, used))
		lost(hardware, thread);
	take_area(hardware, thread, head, used - head);
	take_area(hardware, thread, 0, head);
}

void hardware_thread_settle(struct hardware *hardware, struct hardware_thread *thread)
{
	uint64_t now;

	if (thread->fd < 0)
		return;
	/* what the others have mapped it may have run */
	for (struct hardware_thread *any = hardware->threads; any; any = any->next)
		hardware_thread_drain(hardware, any);
	hardware_thread_drain(hardware, thread);
	if (hardware->options.keeps_newest && thread->area) {
		hardware->perf->control(thread->fd, PERF_EVENT_IOC_DISABLE);
		take_newest(hardware, thread);
	}
	if (hardware->origin == ORIGIN_PT)
		pt_settle(hardware, thread);
	code_time(hardware, 0, 0);
	now = ticks_monotonic_ns();
	if (thread->weave.ticks < now)
		thread->weave.ticks = now;
	hardware_failed(hardware, weave_flush(&thread->weave));
}

void hardware_thread_event(struct hardware *hardware, struct hardware_thread *thread,
			   enum trail_event kind, uint64_t at, uint64_t first, uint64_t second)
{
	uint64_t now = ticks_monotonic_ns();

	if (!thread->trail)
		return;
	if (thread->weave.ticks < now)
		thread->weave.ticks = now;
	hardware_failed(hardware, weave_event(&thread->weave, kind, at, first, second));
	if (kind == TRAIL_END)
		buffers_release(hardware, thread); /* nothing comes behind it */
}

void hardware_thread_close(struct hardware *hardware, struct hardware_thread *thread)
{
	buffers_release(hardware, thread);
	if (thread->trail) {
		hardware->result.blocks += thread->weave.blocks;
		hardware->result.losses += thread->weave.losses;
		hardware_failed(hardware,
				hardware->sink->calls->thread_end(hardware->sink, thread->trail,
								  ticks_monotonic_ns()));
	}
	weave_release(&thread->weave);
	free(thread->held);
	free(thread->switches);
}

void hardware_renew(struct hardware *hardware)
{
	hardware->maps_changed = 0;
	if (hardware->is_executing)
		return;
	codes_of_process_renew(
		&hardware->codes,
		ticks_monotonic_ns()); /* a process that ends has none, and keeps what was known */
	hardware_failed(hardware, modules_note(&hardware->modules, hardware->pid));
}
