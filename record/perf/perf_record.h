/* SPDX-License-Identifier: MIT */
/*
 * A record of perf's ring, taken apart. The layouts are those of include/uapi/linux/perf_event.h,
 * enum perf_event_type, for events that have sample_id_all.
 */
#ifndef RECORD_PERF_PERF_RECORD_H
#define RECORD_PERF_PERF_RECORD_H

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_BUILD_ID_BYTES 20

struct perf_record {
	uint32_t type; /* PERF_RECORD_* */
	uint16_t misc;
	uint32_t pid, tid; /* whose it is; of FORK: the new one's */
	uint64_t time;
	uint64_t id; /* of the event, where the sample has it; of THROTTLE and UNTHROTTLE */
	uint32_t cpu;
	uint64_t aux_offset, aux_bytes; /* of AUX */
	uint64_t aux_flags;
	uint64_t lost;		       /* of LOST and LOST_SAMPLES */
	uint64_t start, bytes, offset; /* of MMAP and MMAP2 */
	uint64_t device, inode;	       /* of MMAP2: the file, as stat(2) has it; or */
	const uint8_t *build_id;       /* of what was mapped, PERF_BUILD_ID_BYTES of room; NULL */
	uint8_t build_id_bytes;	       /* how many count */
	uint32_t prot;		       /* PROT_* */
	uint32_t ppid, ptid;	       /* of FORK and EXIT */
	const char *text;	       /* of COMM and MMAP2: name or path; NULL: none */
};

/*
 * Take apart. `sample` is the event's sample_type; of it only PERF_SAMPLE_TID, _TIME, _CPU and
 * _IDENTIFIER may be among what records other than samples have.
 * Fields that a type does not have are 0. Of unknown types this fills in only `type`, `misc`, and
 * the sample's id. 0, or -EBADMSG: too short for its type.
 */
int perf_record_read(struct perf_record *record, const struct perf_event_header *header,
		     uint64_t sample);

#endif
