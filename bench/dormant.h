/* SPDX-License-Identifier: MIT */
/*
 * The bodies that the dormant bench times: dormant_body.c is compiled once for each way of marking,
 * and makes each body in eight layouts, whose entries lie 0, 8 .. 56 bytes past a cache line's
 * start.
 */
#ifndef BENCH_DORMANT_H
#define BENCH_DORMANT_H

#include <stdint.h>

#define LAYOUTS 8

typedef uint64_t body_fn(uint64_t count, uint64_t seed);

struct bodies {
	const char *name;
	body_fn *chain[LAYOUTS]; /* one multiplication waits for the last: bound by latency */
	body_fn *block[LAYOUTS]; /* sixteen mixed instructions: bound by issue */
	uint64_t (*leaf[LAYOUTS])(uint64_t a, uint64_t b); /* called in a loop */
};

extern const struct bodies bodies_none, bodies_waymark, bodies_lttng, bodies_sdt, bodies_flag,
	bodies_nop5;

#endif
