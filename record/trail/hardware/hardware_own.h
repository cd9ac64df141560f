/* SPDX-License-Identifier: MIT */
/* The hardware's own: its threads and their buffers. For hardware*.c alone. */
#ifndef RECORD_TRAIL_HARDWARE_HARDWARE_OWN_H
#define RECORD_TRAIL_HARDWARE_HARDWARE_OWN_H

#include "record/perf/perf_record.h"
#include "record/perf/ring.h"
#include "record/trail/hardware/hardware.h"
#include "record/trail/hardware/kernel_codes.h"
#include "record/trail/hardware/pt.h"
#include "record/trail/hardware/weave.h"
#include "record/trail/modules.h"

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

struct hardware {
	pid_t pid;
	int is_single; /* one thread alone, and none that it starts */
	enum origin origin;
	struct trail_sink *sink;
	struct hardware_options options;
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
	struct hardware_result result;
	unsigned int noted; /* NOTE_* */
	int error;
};

/* Keep the first error. */
void hardware_failed(struct hardware *hardware, int err);

/* Notes for the result's detail: each once. */
enum hardware_note {
	NOTE_ERROR = 1,	 /* of decoding */
	NOTE_THREAD = 2, /* one that is not recorded */
	NOTE_BUFFER = 4, /* a smaller one than was asked for */
	NOTE_KERNEL = 8, /* it is asked for, and can't be had */
};

void hardware_note(struct hardware *hardware, enum hardware_note note, const char *form, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- hardware_thread.c ---- */

/*
 * Have it recorded from now on, its trail begun. 0; or why there is no buffer: then its trail says
 * that it runs unrecorded.
 */
int hardware_thread_open(struct hardware *hardware, struct hardware_thread *thread);

/* BTS records branches and nothing else, so it helps to know where the thread begins. */
void hardware_thread_stands(struct hardware *hardware, struct hardware_thread *thread, uint64_t at);

/* Take what has been stored. */
void hardware_thread_drain(struct hardware *hardware, struct hardware_thread *thread);

/* The same with all that is still to be decoded: the thread is stopped. */
void hardware_thread_settle(struct hardware *hardware, struct hardware_thread *thread);

/* Something comes between; what was stored before is settled. */
void hardware_thread_event(struct hardware *hardware, struct hardware_thread *thread,
			   enum trail_event kind, uint64_t at, uint64_t first, uint64_t second);

/* Both are settled. Continue the kernel's recording of one thread as the other's. */
void hardware_thread_take_over(struct hardware *hardware, struct hardware_thread *thread,
			       struct hardware_thread *from);

/* End its trail, release its buffers. */
void hardware_thread_close(struct hardware *hardware, struct hardware_thread *thread);

/* Code may lie elsewhere now. */
void hardware_renew(struct hardware *hardware);

/* ---- hardware_hold.c ---- */

struct hardware_thread *hardware_thread_add(struct hardware *hardware, pid_t tid);
void hardware_thread_remove(struct hardware *hardware, struct hardware_thread *thread);

#endif
