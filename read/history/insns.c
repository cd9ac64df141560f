/* SPDX-License-Identifier: MIT */
#include "read/history/insns.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/block.h"

#include <errno.h>
#include <stdlib.h>

#define UNSETTLED_MAX 65536u /* beside as many as are in order */

void insns_settle(struct insns *insns)
{
	struct insn *all = insns->all;
	size_t kept = 0;

	if (insns->settled == insns->count)
		return;
	sorted_make(all, insns->count, sizeof(*all));
	for (size_t i = 0; i < insns->count; i++) {
		if (kept && all[kept - 1].address == all[i].address) {
			all[kept - 1].ran += all[i].ran;
			all[kept - 1].taken += all[i].taken;
			all[kept - 1].fell += all[i].fell;
		} else {
			all[kept++] = all[i];
		}
	}
	insns->count = insns->settled = kept;
}

/* Blocks overlap: what is added is put together before it takes more room than what is there. */
static struct insn *insn_new(struct insns *insns)
{
	if (insns->count - insns->settled > insns->settled + UNSETTLED_MAX)
		insns_settle(insns);
	if (array_grow(&insns->all, &insns->room, insns->count + 1, sizeof(*insns->all)))
		return NULL;
	return &insns->all[insns->count++];
}

/*
 * How often each of a block's instructions did not run though the block did: cut[] by their place
 * in it.
 */
static void cuts_sum(uint64_t *cut, uint32_t instructions, const struct ran_cut *cuts, size_t count)
{
	for (uint32_t i = 0; i < instructions; i++)
		cut[i] = 0;
	for (size_t i = 0; i < count; i++)
		if (cuts[i].left && cuts[i].left <= instructions)
			cut[instructions - cuts[i].left]++;
	for (uint32_t i = 1; i < instructions; i++)
		cut[i] += cut[i - 1];
}

int insns_add(struct insns *insns, const struct trail_block *block, const uint8_t *code,
	      uint64_t base, const struct ran_count *count, const struct ran_cut *cuts,
	      size_t cut_count)
{
	uint64_t cut[TRAIL_BLOCK_INSTRUCTIONS_MAX];
	uint32_t offset = 0;

	cuts_sum(cut, block->instructions, cuts, cut_count);
	for (uint32_t i = 0; i < block->instructions; i++) {
		uint64_t address = block->start + offset, ran = count->ran - cut[i];
		struct block_insn decoded;
		struct insn *insn;

		if (block_insn(&decoded, address, code + offset, block->bytes - offset))
			return -EILSEQ;
		offset += decoded.bytes;
		if (!ran)
			break;
		insn = insn_new(insns);
		if (!insn)
			return -ENOMEM;
		*insn = (struct insn){ .address = address - base,
				       .target = decoded.target ? decoded.target - base : 0,
				       .ran = ran,
				       .bytes = decoded.bytes,
				       .kind = decoded.kind };
		if (decoded.kind == TRAIL_BRANCH && i + 1 == block->instructions) {
			insn->taken = count->taken;
			insn->fell = ran - count->taken - count->unknown;
		}
	}
	return 0;
}

void insns_release(struct insns *insns)
{
	free(insns->all);
	*insns = (struct insns){ 0 };
}

size_t insns_below(const struct insns *insns, uint64_t address)
{
	return sorted_below(insns->all, insns->count, sizeof(*insns->all),
			    offsetof(struct insn, address), address);
}
