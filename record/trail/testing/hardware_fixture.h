/* SPDX-License-Identifier: MIT */
/*
 * For tests of recordings by simulated hardware: real programs run, and the test's own
 * perf_event_open() fills its buffers with what a processor would have stored, from a trail that
 * `step` made before.
 */
#ifndef RECORD_TRAIL_TESTING_HARDWARE_FIXTURE_H
#define RECORD_TRAIL_TESTING_HARDWARE_FIXTURE_H

#include "record/trail/testing/perf.h"
#include "record/trail/testing/pt_encode.h"
#include "record/trail/testing/sink.h"
#include "record/trail/tracing.h"

#include <criterion/criterion.h>

#define PAGE 4096u
#define KERNEL UINT64_C(0xffffffff81000000)
#define BUFFER SAMPLE_AREA_BYTES
#define BUFFER_MIN 16384u /* of hardware.c */
#define perf sample_perf
#define put(path, text) sample_machine_put(root, path, text)
#define record sample_perf_record
#define area_record sample_perf_area
#define switch_record sample_perf_switch

extern char root[64];
extern struct sample_sink sink;
extern struct tracing_how how;
extern struct tracing_result result;
extern char detail[TRACING_DETAIL_BYTES];

/* The trail that step made. */
extern struct pt_item *items;
extern size_t count;
extern int may_begin_late; /* what was before the oldest is lost, and said to be */

/* Of each test: .init and .fini. */
void fixture_begin(void);
void fixture_end(void);

/* Start a program that is recorded into `to`, stopped before its first instruction. */
int launch_into(struct tracing **hardware, struct trail_sink *to, enum origin origin,
		char *const argv[]);

/* Record a program to its end. What take() says. `detail` is its result's. */
int launch(enum origin origin, char *const argv[]);

/* Whether behind item i, a block, comes another place than straight on, and which. */
int branch_behind(size_t i, uint64_t *from, uint64_t *to, int *is_kernel);

/* All branches, as BTS stores them: those into the kernel and out of it too, or neither. */
void store_branches(void (*put_branch)(uint64_t from, uint64_t to), int has_kernel);
void put_bts(uint64_t from, uint64_t to);

/* As Intel PT. */
void pt_store(int compresses);

/* The same blocks, and the end. `gaps`: what came of ways through the kernel. */
void is_the_same(int gaps);
void is_over(enum trail_ending reason, uint64_t number);

#endif
