/* SPDX-License-Identifier: MIT */
/*
 * Which instruction met a watched word, and what it made of it: asked of each hit (abi/watch.h), by
 * the thread that made it, in its signal's handler, and by the tool that reads of it later. What
 * the two can read differs, and is theirs to say; what follows from it does not.
 *
 * Calls nothing but what it is given, keeps nothing. Hit path.
 */
#ifndef ARCH_ACCESS_DECODE_H
#define ARCH_ACCESS_DECODE_H

#include "abi/watch.h"
#include "arch/written.h"

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

/* How the program is read. */
struct access_decode_reads {
	/*
	 * So many bytes of code: where they can be had, in room[] (INSN_BYTES_MAX) if they had to
	 * be copied; NULL: nowhere. `has_run`: the page that they begin on has just run in this
	 * thread, and they do not lead beyond.
	 */
	const uint8_t *(*code)(void *data, uint64_t address, size_t bytes, int has_run,
			       uint8_t *room);
	/*
	 * Bytes of the instruction that ends at `end`; 0: not known. *is_start: a function begins
	 * there.
	 */
	unsigned int (*before)(void *data, uint64_t end, int *is_start);
	/* Memory as the thread has it now. 0, -1. NULL: its contents are unknown. */
	int (*memory)(void *data, void *to, uint64_t from, size_t bytes);
	/*
	 * Where an instruction that ends at `end` was copied from, as an instruction that a jump
	 * took the place of: *begin is the copy. 0; -1: it is no copy. NULL: none is.
	 */
	int (*moved)(uintptr_t end, uintptr_t *begin, uintptr_t *original);
	/* NULL: where fs leads is not known. */
	written_thread *thread;
	void *data;
};

struct access_decode {
	struct written written;
	int is_told; /* `written` is */
	uint64_t ip;
	uint16_t how; /* WATCH_IP_*, added */
};

/*
 * Find the instruction: `context` is the thread's at the signal, its program counter behind the
 * instruction. Fills in everything and adds to `how`. It changes registers of `context` meanwhile,
 * and restores them.
 */
void access_decode_find(struct access_decode *decode, const struct control_watch *about,
			ucontext_t *context, const struct access_decode_reads *reads);

/* Whether a known instruction accessed those bytes, too. */
int access_decode_covers(const struct access_decode *decode, const struct control_watch *about);

/* Whether it may have: the instruction is decoded, but not how far it wrote (xsave, scatters). */
int access_decode_may_cover(const struct access_decode *decode, const struct control_watch *about);

/* Whether the instruction is known and its mask excluded all of those bytes: it wrote none. */
int access_decode_is_masked(const struct access_decode *decode, const struct control_watch *about);

/* Whether the instruction wrote all watched bytes, with known values: no memory need be read. */
int access_decode_is_whole(const struct access_decode *decode, const struct control_watch *about);

/*
 * The length of the instruction that ends at `end`, read from `at` on, where one begins: a
 * function's start. 0: none ends there, or read() of the code failed.
 */
unsigned int access_decode_sweep(uint64_t at, uint64_t end,
				 int (*read)(void *data, void *to, uint64_t from, size_t bytes),
				 void *data);

/*
 * A string instruction copied from its source: read that with `read`. If the watched word is the
 * same, the instruction wrote it: memory and source agree.
 */
void access_decode_copied(struct access_decode *decode,
			  int (*read)(void *data, void *to, uint64_t from, size_t bytes));

/* Whether the instruction added *added to the watched word, atomically. */
int access_decode_adds(const struct access_decode *decode, const struct control_watch *about,
		       uint64_t *added);

/* The watched word, all `bytes` of it, in the low ones. */
struct access_decode_known {
	uint64_t memory; /* as it is now, if it could be read */
	uint64_t before; /* as the hit before said, if anybody knows */
	int has_memory, has_before;
	int is_before_uncertain; /* that hit's new value was not exact */
};

struct access_decode_values {
	uint64_t old, now;
	uint64_t link; /* what the next hit's `before` is: see access_decode_judge() */
	uint16_t how;  /* WATCH_NEW_*, WATCH_OLD_*, WATCH_READ are set */
};

/*
 * What the word was and what it became. A new value that is neither exact nor unknown is what
 * memory had; where that is not known, what the instruction makes of the value before.
 *
 * `link` is `now`, except for a locked xadd, which knows the value before: threads may come here in
 * another order than they added. So its `now` may not be the newest value, and `link` is the
 * chain's.
 */
void access_decode_judge(const struct access_decode *decode, const struct control_watch *about,
			 const struct access_decode_known *known,
			 struct access_decode_values *values);

#endif
