/* SPDX-License-Identifier: MIT */
/*
 * A translation as text, so that a test can say what it expects. Addresses are named: `code` is the
 * program's code at the trace's beginning. A line is one of:
 *
 *	0:5 push code+0x5	a piece: in block 0, five bytes of the program's, became this
 *	+ save rcx		a piece that the engine put in beside it
 *	cold0: ...		code beside the trace, in the order in which the trace names it
 *	block code+0x0: 1 in 5 bytes, call code+0x10
 *	exit 0/1: return, drops 8	one that is not direct
 *
 * A piece's letters: s, xmm15 is the program's; k, rcx is kept in memory; r, the id is already put.
 *
 * Each instruction is decoded from the cache. These mean several of them, or an address:
 *
 *	save rcx, load rcx	mov to or from the thread's `scratch`
 *	vload ymm15 vector15	the same of another of its fields; v: by AVX
 *	put 0/1 by rcx		the id of exit 0, whose path has 1 block, through rcx; vput: by AVX
 *	leave 0/1 to code+0x5	the same for a direct exit, by way of r11, which is kept, and its
 *				jump; linked: that leads to a trace
 *	push code+0x5 from cold	a constant, beside the trace
 *	jmp map			through the map of indirect branches, by rcx
 *	jmp gate_syscall	through the pointer in the area's head
 *	over 5			as many bytes on
 *	half code+0x5		the low half of that address
 */
#ifndef INSIDE_ENGINE_TESTING_LISTING_H
#define INSIDE_ENGINE_TESTING_LISTING_H

#include "inside/engine/trace.h"

#include <stddef.h>
#include <stdint.h>

/* Some code, and what is expected of it. */
struct listing_case {
	const char *name;
	const char *bytes;
	size_t count;
	const char *expected;
};

#define BYTES(bytes) bytes, sizeof(bytes) - 1

/* Each of them is put by fixture_put(), translated, and its listing compared. */
void listing_check(uint64_t near, const struct listing_case *cases, size_t count);

#define LISTING_CHECK(near, cases) listing_check(near, cases, sizeof(cases) / sizeof((cases)[0]))

/* Valid until the next call. */
const char *listing(const struct trace *trace);

/* Where the map of indirect branches begins, according to the code that jumps through it. */
uint64_t listing_map(void);

#endif
