/* SPDX-License-Identifier: MIT */
/*
 * For tests: detours placed in our own process, as the agent places them, where no other thread runs.
 */
#ifndef CODE_BED_H
#define CODE_BED_H

#include "code/trampoline.h"

#include <stdint.h>

struct bed {
	uint64_t address; /* of the span, in the process */
	uint64_t relay;	  /* 0: none */
	uint64_t landing; /* of a punned jump; 0: none */
	uint64_t code;
	unsigned int span_bytes;
	uint8_t original[DETOUR_SPAN_MAX];
};

/* What the stubs do with a word is their own affair. */
struct bed_ends {
	void (*enter)(void), (*return_enter)(void);
	const void *word, *return_word;
};

/*
 * Put a trampoline's code within reach of the module that lies at `base`, and the jump over the span.
 * Returns 0; -ENOMEM where no memory is to be had there, -EBADMSG when something else stands there.
 * Pages of code stay writable. The code's memory is never given back.
 */
int bed_place(struct bed *bed, const struct trampoline *trampoline, uint64_t base,
	      const struct bed_ends *ends);

/* Put the original bytes back. */
void bed_remove(struct bed *bed);

#endif
