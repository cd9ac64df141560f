/* SPDX-License-Identifier: MIT */
/*
 * Punned jumps (abi/detour.h): where the bytes that follow a short span let one lead.
 */
#ifndef CODE_PUN_H
#define CODE_PUN_H

#include <stdbool.h>
#include <stdint.h>

/* From the best on. Where memory is free is known in a process only. */
enum pun_rank {
	PUN_GOOD,  /* where programs map nothing, as a rule */
	PUN_FAIR,  /* beyond what the heap grows into, mostly */
	PUN_POOR,  /* where something may well be */
	PUN_NEVER, /* outside of all memory */
};

/*
 * The best of what a punned jump at `address` over `bytes` bytes, followed by `kept` bytes that stay at
 * `following`, may lead to. is_fixed: the code lies where it is linked, so memory ends not far below.
 */
enum pun_rank pun_rank(uint64_t address, unsigned int bytes, const uint8_t *following,
		       unsigned int kept, bool is_fixed);

#endif
