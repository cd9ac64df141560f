/* SPDX-License-Identifier: MIT */
#include "target/code/gather.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_A_BEAT 256

/* Code from one edge to the next. */
struct stretch {
	struct sweep_part *part;
	uint64_t start, end;
};

static void bit_set(uint64_t *bits, uint64_t at)
{
	bits[at / 64] |= 1ull << (at % 64);
}

static void tail_add(struct gather *gather, uint64_t at, uint64_t target)
{
	if (array_grow(&gather->tails, &gather->tail_room, gather->tail_count + 1,
		       sizeof(*gather->tails))) {
		gather->err = -ENOMEM;
		return;
	}
	gather->tails[gather->tail_count++] = (struct gather_lea){ at, target };
}

static void lea_add(struct gather *gather, uint64_t at, uint64_t target)
{
	if (array_grow(&gather->leas, &gather->lea_room, gather->lea_count + 1,
		       sizeof(*gather->leas))) {
		gather->err = -ENOMEM;
		return;
	}
	gather->leas[gather->lea_count++] = (struct gather_lea){ at, target };
}

static void guess_add(struct gather *gather, uint64_t address)
{
	if (sweep_part_at(gather->sweep, address))
		sweep_address_add(gather, &gather->guesses, address);
}

/* In a program that isn't position-independent numbers may be addresses. */
static void fixed_take(struct gather *gather, const ZydisDecodedInstruction *insn, uint64_t at)
{
	for (int i = 0; i < 2; i++) {
		if (insn->raw.imm[i].size >= 32 && !insn->raw.imm[i].is_relative) {
			guess_add(gather, insn->raw.imm[i].value.u);
			lea_add(gather, at, insn->raw.imm[i].value.u);
		}
	}
	if (insn->raw.disp.size == 32 && !(insn->raw.modrm.mod == 0 && insn->raw.modrm.rm == 5)) {
		guess_add(gather, (uint64_t)insn->raw.disp.value);
		lea_add(gather, at, (uint64_t)insn->raw.disp.value);
	}
}

static void insn_take(struct gather *gather, const ZydisDecodedInstruction *insn, uint64_t at)
{
	const ZydisDecodedInstructionRaw *raw = &insn->raw;
	uint64_t next = at + insn->length;

	if (raw->imm[0].is_relative) {
		sweep_gather_target(gather, next + (uint64_t)raw->imm[0].value.s);
		return;
	}
	if (insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) {
		if (raw->modrm.mod == 0 && raw->modrm.rm == 5) {
			uint64_t target = next + (uint64_t)raw->disp.value;

			if (insn->mnemonic == ZYDIS_MNEMONIC_LEA) {
				sweep_gather_target(gather, target);
				lea_add(gather, at, target);
			}
		} else if (insn->mnemonic == ZYDIS_MNEMONIC_JMP && raw->modrm.mod == 3) {
			sweep_address_add(gather, &gather->jumps, at);
		} else if (insn->mnemonic == ZYDIS_MNEMONIC_ENDBR64) {
			sweep_gather_target(gather, at);
		}
	}
	if (gather->sweep->image.is_fixed)
		fixed_take(gather, insn, at);
}

/* Jumps that leave the stretch, and words that are read for another thing than a jump or a call. */
static void tail_take(struct gather *gather, const struct stretch *stretch,
		      const ZydisDecodedInstruction *insn, uint64_t at)
{
	const ZydisDecodedInstructionRaw *raw = &insn->raw;
	uint64_t next = at + insn->length;
	bool is_call = insn->meta.category == ZYDIS_CATEGORY_CALL;
	struct sweep_import *import;

	if (raw->imm[0].is_relative) {
		uint64_t target = next + (uint64_t)raw->imm[0].value.s;

		if (!is_call && (target < stretch->start || target >= stretch->end))
			tail_add(gather, at, target);
		return;
	}
	if (!(insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) || raw->modrm.mod || raw->modrm.rm != 5)
		return;
	if (insn->mnemonic == ZYDIS_MNEMONIC_JMP) {
		tail_add(gather, at, next + (uint64_t)raw->disp.value);
		return;
	}
	import = (struct sweep_import *)sweep_import_at(gather->sweep,
							next + (uint64_t)raw->disp.value);
	if (import && !is_call)
		import->is_pointer = true;
}

/* Take all that could be a branch, at every byte: for a stretch that does not decode. */
static void stretch_suspect(struct gather *gather, const struct stretch *stretch)
{
	const uint8_t *data = stretch->part->data;
	uint64_t base = stretch->part->range.start;
	uint64_t bytes = stretch->part->range.end - base;

	for (uint64_t at = stretch->start - base; at < stretch->end - base; at++) {
		ZydisDecodedInstruction insn;

		if (ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&gather->fast, NULL, data + at,
							       bytes - at, &insn)))
			insn_take(gather, &insn, base + at);
	}
}

static void stretch_take(struct gather *gather, const struct stretch *stretch)
{
	const uint8_t *data = stretch->part->data;
	uint64_t base = stretch->part->range.start;
	uint64_t at = stretch->start - base, end = stretch->end - base;

	while (at < end) {
		ZydisDecodedInstruction insn;

		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&gather->fast, NULL, data + at,
							      end - at, &insn))) {
			stretch_suspect(gather, stretch);
			return;
		}
		bit_set(stretch->part->starts, at);
		insn_take(gather, &insn, base + at);
		if (gather->has_lookers)
			tail_take(gather, stretch, &insn, base + at);
		at += insn.length;
	}
}

void gather_code(struct gather *gather)
{
	const struct address_list *edges = &gather->edges;
	size_t edge = 0;

	for (size_t i = 0; i < gather->sweep->part_count; i++) {
		struct sweep_part *part = &gather->sweep->parts[i];

		/* a part's start is an edge, and each edge is inside a part */
		while (edge < edges->count && edges->all[edge] < part->range.end) {
			struct stretch stretch = { part, edges->all[edge], part->range.end };

			if (edge % EDGES_A_BEAT == 0 && !gather->err)
				gather->err = code_file_beat(gather->file, 0, 0);
			if (gather->err)
				return;
			if (++edge < edges->count && edges->all[edge] < part->range.end)
				stretch.end = edges->all[edge];
			stretch_take(gather, &stretch);
		}
	}
	sweep_address_sort(&gather->jumps);
	/* suspected ones come out of order */
	sorted_make(gather->leas, gather->lea_count, sizeof(*gather->leas));
}

static void relocations_take(struct gather *gather)
{
	const struct image *image = &gather->sweep->image;
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= image->relocation_bytes; at += sizeof(rela)) {
		if (image_read(image, image->relocations + at, &rela, sizeof(rela)))
			return;
		if (image_is_table(image, rela.r_offset))
			continue;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE ||
		    ELF64_R_TYPE(rela.r_info) == R_X86_64_IRELATIVE)
			sweep_gather_target(gather, (uint64_t)rela.r_addend);
	}
}

/*
 * A number that would be an address of code. Nobody has one of an instruction's middle but a direct
 * branch, over a lock prefix perhaps: such a number is something else.
 */
static void guess_take(struct gather *gather, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(gather->sweep, address);
	uint64_t before = sweep_previous(gather->sweep, address);
	ZydisDecodedInstruction insn;

	if (part && before && !sweep_is_start(gather->sweep, address) &&
	    ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&gather->fast, NULL,
						       part->data + (before - part->range.start),
						       part->range.end - before, &insn)) &&
	    before + insn.length > address)
		return;
	sweep_gather_target(gather, address);
}

/* What the words of a range say has been taken otherwise, or means nothing. */
static int is_passed_over(const struct image *image, uint64_t address)
{
	return address - image->relocations < image->relocation_bytes ||
	       image_is_table(image, address);
}

/* RELR keeps addends in the words themselves, as does a program that needs no relocation. */
void gather_words(struct gather *gather)
{
	const struct sweep *sweep = gather->sweep;
	uint64_t low, high;

	relocations_take(gather);
	if (!sweep->part_count)
		return;
	low = sweep->parts[0].range.start;
	high = sweep->parts[sweep->part_count - 1].range.end;
	for (size_t i = 0; i < sweep->image.part_count; i++) {
		const struct image_part *part = &sweep->image.parts[i];

		for (size_t at = (8 - part->address % 8) % 8; at + 8 <= part->bytes; at += 8) {
			uint64_t word;

			memcpy(&word, part->data + at, sizeof(word));
			if (word >= low && word < high &&
			    !is_passed_over(&sweep->image, part->address + at))
				guess_take(gather, word);
		}
	}
	for (size_t i = 0; i < gather->guesses.count; i++)
		guess_take(gather, gather->guesses.all[i]);
}
