/* SPDX-License-Identifier: MIT */
/*
 * For tests: a function run with every register, flag and vector as given, and what it leaves of
 * them.
 */
#ifndef TARGET_CODE_TESTING_MACHINE_H
#define TARGET_CODE_TESTING_MACHINE_H

#include <stdint.h>

#define MACHINE_VECTOR_BYTES 16384
#define MACHINE_PAYLOAD_BYTES 128
#define MACHINE_HITS_MAX 64

struct machine {
	uint64_t registers
		[16]; /* as the processor numbers them; 4, the stack pointer, is where to begin */
	uint64_t flags;
	uint64_t reserved[7];
	uint8_t vectors[MACHINE_VECTOR_BYTES] __attribute__((aligned(64))); /* XSAVE */
};

/* What the stubs below keep of their calls. */
struct machine_hits {
	uint64_t count;
	uint8_t payloads[MACHINE_HITS_MAX][MACHINE_PAYLOAD_BYTES];
};

/* Call fn with the machine's state, then put its state there. One thread. */
void machine_run(struct machine *machine, const void *fn);

/* Where fn returns to. */
void machine_back(void);

/*
 * In place of the agent's stubs (abi/detour.h): the word is a struct machine_hits. They keep every
 * register, and change the memory below the stack pointer; the first changes all flags, too.
 */
void machine_enter(void);
void machine_enter_return(void);

#endif
