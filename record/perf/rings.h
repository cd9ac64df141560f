/* SPDX-License-Identifier: MIT */
/*
 * Where the kernel writes hits that we are to read: a ring for each CPU, which all events of that
 * CPU share. An event on any CPU can have no ring if threads inherit it; so with rings there is an
 * event for each CPU, on each thread. A ring belongs to an event of our own thread that counts
 * nothing.
 */
#ifndef RECORD_PERF_RINGS_H
#define RECORD_PERF_RINGS_H

#include "record/perf/kernel_event.h"
#include "record/perf/ring.h"

/*
 * The kernel reads the time, then writes the record; a virtual CPU may be put off between, on a
 * busy host for long. Older records than this can be relied on to be there.
 */
#define RINGS_SETTLE_NS 100000000

/*
 * What every record in a ring must have, with sample_id_all, so that each can be put in order
 * before its event is known.
 */
#define RINGS_COMMON                                                                               \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU)

/* Without a size rings have the first, or half of it and so on down to the second. */
#define RINGS_LARGE_BYTES (4u << 20)
#define RINGS_SMALL_BYTES (32u << 10)

struct rings {
	struct cpu_ring {
		unsigned int cpu;
		int fd;
		void *memory;
		uint32_t bytes; /* of records */
		struct ring ring;
		uint64_t last_ns; /* of the last sample that was read */
		uint64_t full_ns; /* when it was last read, if it was full then; else before that */
		int was_full;
		/* between these, samples may have found it full */
		uint64_t gap_from_ns, gap_to_ns;
		int has_gap; /* and none behind it was handed over */
		/* records that were read, by time; those before `first` were handed over */
		struct rings_held {
			uint64_t time_ns;
			size_t at; /* in records[] */
		} * held;
		size_t first, count, held_room;
		uint8_t *records;
		size_t used, records_room;
		uint64_t lost_reported; /* by PERF_RECORD_LOST */
		uint64_t lost_counted;	/* by events that are closed; the user's */
	} * all;
	unsigned int count;
	size_t room;
	uint32_t bytes; /* of records, of those that were opened together */
	/* one more may have as little, where there is no memory for as many; 0: all are alike */
	uint32_t least;
	struct ring_id {
		uint64_t id;
		unsigned int source;
	} * ids; /* sorted, unless there are new ones */
	size_t id_count, id_room;
	int has_new_ids;
	uint64_t clock_offset_ns; /* of our time namespace; records have the first one's time */
	uint64_t handed_ns;	  /* the time of the last that rings_after_loss() was asked of */
	int was_late;
};

/*
 * Of all CPUs that are present: online, or offline and may come. 0, -WM_E_MEMORY_LIMIT, -errno;
 * release also then.
 */
int rings_open(struct rings *rings, uint32_t bytes);
/* Of these CPUs. bytes 0: of one size, as large as can be had, not below `least`. */
int rings_open_on(struct rings *rings, const unsigned int *cpus, size_t count, uint32_t bytes,
		  uint32_t least);
void rings_release(struct rings *rings);

/*
 * What the kernel locks for rings of so many bytes (0: as rings_open() takes it), each with its
 * head; and for these.
 */
uint64_t rings_locked_bytes(size_t count, uint32_t bytes);
uint64_t rings_memory(const struct rings *rings);
/*
 * Open one more ring, unless the CPU has one. Where rings_open() got no size, it may be smaller
 * than the others, which take what they can get. 0; or an error as above, and no ring. Only the
 * last can be closed alone.
 */
int rings_open_cpu(struct rings *rings, unsigned int cpu);
void rings_close_cpu(struct rings *rings, unsigned int cpu);
int rings_has(const struct rings *rings, unsigned int cpu);

/*
 * Between these two a CPU had no ring, or no events for it: hits there were lost. One that has none
 * is passed over.
 */
void rings_missed(struct rings *rings, unsigned int cpu, uint64_t from_ns, uint64_t to_ns);

/* Which source an event is of, before any of its records is read. 0, -ENOMEM, -errno. */
int rings_add(struct rings *rings, int fd, unsigned int source);
/* Whether a record's id is of such an event. */
int rings_source(struct rings *rings, uint64_t id, unsigned int *source);
int rings_sample_source(struct rings *rings, const struct perf_event_header *sample,
			unsigned int *source);

/*
 * What a sample has, by enum event_flag: PERF_SAMPLE_*, and of registers those of struct
 * event_record.
 */
uint64_t rings_sample_type(unsigned int flags);
uint64_t rings_registers(unsigned int flags);

/*
 * Read what there is into the rings' lists, by time: 0, -ENOMEM. rings_pending(): how many records
 * wait there.
 */
int rings_fill(struct rings *rings);
size_t rings_pending(const struct rings *rings);

/* Add a PERF_RECORD_LOST of as many, which are older than now by an unknown time. 0, -ENOMEM. */
int rings_add_lost(struct cpu_ring *ring, uint64_t count);

/*
 * Hand over what rings_fill() read, sorted by time over all rings, as far as no earlier record can
 * follow; is_last: all. What take() returns but 0 ends the call; the record counts as handed over.
 * Records that are damaged come as PERF_RECORD_LOST.
 */
int rings_hand_over(struct rings *rings, int is_last,
		    int (*take)(void *data, const struct perf_event_header *record,
				unsigned int cpu, uint64_t time_ns),
		    void *data);

/*
 * The next one that is handed over, of that time: whether others were lost since the one before, on
 * any CPU.
 */
int rings_after_loss(struct rings *rings, uint64_t time_ns);

#endif
