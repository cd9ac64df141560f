/* SPDX-License-Identifier: MIT */
/*
 * For tests: detours placed in our own process, as the agent places them, where no other thread
 * runs.
 */
#ifndef TARGET_CODE_TESTING_FIXTURE_H
#define TARGET_CODE_TESTING_FIXTURE_H

#include "base/pun.h"
#include "target/code/trampoline.h"

#include <stdint.h>

struct placed {
	uint64_t instruction; /* in the process */
	uint64_t landing;     /* 0: the jump leads to the code itself */
	uint64_t code;
	unsigned int insn_bytes;
	uint8_t original[DETOUR_INSN_MAX];
};

/* What the stubs do with a word is their own affair. */
struct fixture_ends {
	void (*enter)(void), (*return_enter)(void);
	const void *word, *return_word;
};

/*
 * Put a trampoline's code within reach of the module whose base is `base`, and store the jump in a
 * form. Returns 0; -ENOENT: the instruction has no such form; -ENOMEM: no memory is free where it
 * leads; -EBADMSG: other bytes are there. Pages of code stay writable. The code's memory is never
 * freed.
 */
int fixture_place(struct placed *placed, const struct trampoline *trampoline, enum detour_form form,
		  uint64_t base, const struct fixture_ends *ends);

/* Put the original bytes back. */
void fixture_remove(struct placed *placed);

#endif
