/* SPDX-License-Identifier: MIT */
/*
 * For tests: a perf_event_open(2) that is made up, with buffers that hold what a test has put
 * there; and a machine of files.
 */
#ifndef RECORD_TRAIL_TESTING_PERF_H
#define RECORD_TRAIL_TESTING_PERF_H

#include "record/trail/hardware/perf.h"
#include "record/trail/testing/pt_encode.h"

#define SAMPLE_AREA_BYTES (1024u * 4096u)

/* What it was asked, and what it answers. Only the first thread's buffers have anything in them. */
extern struct sample_perf {
	struct perf_event_attr attr;
	int opened, closed, mapped, unmapped, enabled, disabled;
	size_t most_bytes;	       /* -EPERM for more of them in one; 0: any */
	int refuses_map, refuses_open; /* -errno, of the second thread and on */
	struct perf_event_mmap_page *page;
	uint8_t records[4096 * 32], area[SAMPLE_AREA_BYTES];
	size_t record_bytes, area_bytes;
	uint64_t area_head;
} sample_perf;

extern const struct perf_calls sample_perf_calls;

/* Put a record into the ring: any; PERF_RECORD_AUX; PERF_RECORD_SWITCH. */
void sample_perf_record(uint32_t type, uint16_t misc, const void *body, size_t bytes);
void sample_perf_area(uint64_t offset, uint64_t bytes, uint64_t flags);
void sample_perf_switch(int is_out, uint64_t time);

/* A file of the machine, and the folders that it is in. */
void sample_machine_put(const char *root, const char *path, const char *text);

/* The first thread's trail of a program, by step: malloc'd, *count items. */
struct pt_item *sample_stepped(char *const argv[], size_t *count);

#endif
