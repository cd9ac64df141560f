/* SPDX-License-Identifier: MIT */
/*
 * The idea is that of instruction punning (Chamith et al., PLDI 2017), with free prefixes before the jump
 * as E9Patch has them (Duck et al., PLDI 2020).
 */
#include "code/pun.h"

#include "abi/detour.h"

#include <string.h>

#define JUMP_BYTES 5
#define LOWEST (INT64_C(1) << 20)
#define BEYOND_HEAP (INT64_C(5) << 28) /* 1.25 GiB */

static enum pun_rank rank_of(uint64_t address, int64_t distance, bool is_fixed)
{
	if (is_fixed && (int64_t)address + distance < LOWEST)
		return PUN_NEVER;
	if (distance < 0)
		return is_fixed ? PUN_POOR : PUN_GOOD;
	return distance >= BEYOND_HEAP ? PUN_FAIR : PUN_POOR;
}

enum pun_rank pun_rank(uint64_t address, unsigned int bytes, const uint8_t *following,
		       unsigned int kept, bool is_fixed)
{
	enum pun_rank best = PUN_NEVER;

	/* each prefix leaves one byte less of the distance free, and one more to what follows */
	for (unsigned int prefixes = 0; prefixes < bytes; prefixes++) {
		unsigned int freely = bytes - 1 - prefixes;
		unsigned int fixed = freely < DETOUR_PUN_MAX ? DETOUR_PUN_MAX - freely : 0;
		uint32_t high = 0;
		enum pun_rank rank;

		if (!fixed || fixed > kept)
			continue;
		memcpy(&high, following, fixed);
		rank = rank_of(address, (int32_t)(high << 8 * freely), is_fixed);
		best = rank < best ? rank : best;
	}
	return best;
}
