/* SPDX-License-Identifier: MIT */
/*
 * perf's ring of records, and the AUX area beside it, read. The rules are in the kernel's
 * include/uapi/linux/perf_event.h, struct perf_event_mmap_page. The kernel writes; one thread of
 * ours reads. The content is not trusted: sizes are checked, and nothing outside of the area is
 * read.
 */
#ifndef RECORD_PERF_RING_H
#define RECORD_PERF_RING_H

#include <linux/perf_event.h>
#include <stdint.h>

#define RING_RECORD_MAX 65536u

struct ring {
	struct perf_event_mmap_page *page; /* the caller's */
	const uint8_t *data;
	uint64_t bytes; /* a power of two */
	uint64_t tail;
	uint8_t *record; /* RING_RECORD_MAX */
};

/*
 * `data` has `bytes` of records, a power of two. 0, -EINVAL or -ENOMEM. Release also after an
 * error.
 */
int ring_init(struct ring *ring, struct perf_event_mmap_page *page, const uint8_t *data,
	      uint64_t bytes);
void ring_release(struct ring *ring);

/*
 * The next record, whole, with its header: 1 and *record, valid until the next call, which gives it
 * back to the kernel; 0: no record yet; -EBADMSG: no valid record, and all that is there is
 * dropped.
 */
int ring_next(struct ring *ring, const struct perf_event_header **record);

/*
 * Copy `count` bytes of an AUX area of `bytes`, from the position `offset` on, which goes round. 0,
 * or -EINVAL: more than the area holds.
 */
int ring_aux_copy(uint8_t *to, const uint8_t *area, uint64_t bytes, uint64_t offset,
		  uint64_t count);

/* All up to this position was read: the kernel may write there. */
void ring_aux_consume(struct perf_event_mmap_page *page, uint64_t position);

#endif
