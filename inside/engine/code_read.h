/* SPDX-License-Identifier: MIT */
/*
 * The program's code as the translator sees it: copies of pages. No memory of the program's is read
 * under the engine's lock: a page may be one that another thread provides (userfaultfd(2), a file
 * of FUSE's), and that thread may need the lock first.
 *
 * A copy is valid for as long as translations of its page are (pages.h).
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_CODE_READ_H
#define INSIDE_ENGINE_CODE_READ_H

#include "arch/insn.h"

#include <stdint.h>

#define CODE_ONCE_MAX 256u /* of code_read_once() */

/* gate_read() or gate_copy(); NULL: the caller can't wait for a page now. */
typedef int code_reader(void *to, const void *from, uint64_t bytes);

/* What one call of translate() reads. */
struct code_read {
	code_reader *reader;
	uint64_t at;	/* what is to be read next */
	uint32_t bytes; /* 0: nothing */
	uint32_t is_once;
	uint64_t ticket;
	uint32_t reads;
	uint32_t copied; /* code_read_once()'s: so many bytes of the code at `copied_at` */
	uint64_t copied_at;
	uint64_t failed; /* the number of the page that could not be read; 0: none */
	uint8_t copy[4096];
};

/* An instruction's bytes: `code` until the copies change or `across` does. */
struct code_bytes {
	const uint8_t *code;
	uint8_t across[2 * INSN_BYTES_MAX]; /* of one on two pages */
};

enum code_use {
	CODE_KNOWN, /* it is not read: begun again, a translation costs more than another exit */
	CODE_AHEAD, /* it is read if that is no wait for a page: the program may never come there */
	CODE_RUNS,  /* the program is there */
};

void code_read_begin(struct code_read *read, code_reader *reader);

/*
 * At most *bytes bytes at `at`, up to the end of the page: *bytes is how many. NULL: they must be
 * read first, see code_read_go(); or can't be.
 */
const uint8_t *code_read_at(struct code_read *read, uint64_t at, uint64_t *bytes,
			    enum code_use use);

/* Copy them, from wherever they are; what is not at hand is left out. */
void code_read_bytes(struct code_read *read, uint8_t *to, uint64_t at, uint64_t bytes);

/*
 * Code that changes at any time, read for this call alone: read->copied bytes in read->copy, at
 * least `least` of the `left` that there are. NULL: as above.
 */
const uint8_t *code_read_once(struct code_read *read, uint64_t at, uint64_t left, uint64_t least);

/*
 * Decode the instruction at `at`, `left` bytes of code from there. 0: *bytes has it; -EILSEQ: no
 * such instruction; -EAGAIN: it must be read first, see code_read_go(); -EFAULT: it can't be read,
 * or not without a wait.
 */
int code_read_insn(struct code_read *read, struct insn *insn, uint64_t at, uint64_t left,
		   enum code_use use, struct code_bytes *bytes);

/*
 * Read what was missing. The lock is given meanwhile: begin again, and keep nothing. 0: nothing was
 * missing, or it can't be read now.
 */
int code_read_go(struct code_read *read);

/* Whether reading that page is sure to be no wait, as far as the kernel knows now. */
int code_read_is_resident(uint64_t page_number);

/* Copies of that page, or of all, are invalid. */
void code_read_drop(uint64_t page_number);
void code_read_drop_all(void);

/* Pages come from the program itself (userfaultfd(2)): none is read ahead. */
void code_read_waits(void);

#endif
