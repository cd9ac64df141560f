/* SPDX-License-Identifier: MIT */
/*
 * The program that bench_mechanisms measures in, and what they say to each other over a socket. Its
 * body, body.c, is compiled once for each way of marking: a leaf function, in eight layouts, whose
 * entries lie 0, 8 .. 56 bytes past a cache line's start; all that differs is the mark.
 *
 *	mechanisms_target FD
 *
 * It says target_hello once, then answers each target_request with a target_answer, and ends when
 * the socket is closed.
 */
#ifndef BENCH_MECHANISMS_TARGET_H
#define BENCH_MECHANISMS_TARGET_H

#include <stdint.h>

#define TARGET_LAYOUTS 8

enum target_way {
	TARGET_NONE,   /* the leaf alone: "func:mechanism_none_*" */
	TARGET_MARKER, /* "marker:mechanism:marker" */
	TARGET_FLAG,   /* with WAYMARK_PORTABLE: "marker:mechanism:flag" */
	TARGET_USDT,   /* a nop of one byte: "usdt:mechanism:usdt" */
	TARGET_NOP5,   /* of five: "usdt:mechanism:nop5" */
	TARGET_FILLER, /* -fpatchable-function-entry=5: "func:mechanism_filler_*" */
	TARGET_WAYS
};

/* Of the leaf in layout 0. */
struct target_leaf {
	int64_t hot_bytes;    /* that the mark adds before the leaf's own code; -1: unknown */
	uint64_t file_offset; /* of its entry, where the mark is */
	uint64_t address;
};

struct target_hello {
	struct target_leaf leaves[TARGET_WAYS];
};

struct target_request {
	uint32_t way;
	uint32_t layout;
	uint64_t count;
};

struct target_answer {
	double ns; /* of CPU time for one call of the leaf, the loop included */
};

typedef uint64_t target_leaf_fn(uint64_t a, uint64_t b);

struct target_body {
	target_leaf_fn *leaves[TARGET_LAYOUTS];
};

extern const struct target_body target_none, target_marker, target_flag, target_usdt, target_nop5,
	target_filler;

#endif
