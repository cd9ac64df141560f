/* SPDX-License-Identifier: MIT */
#include "target/code/frames.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/dwarf_bytes.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#define RSP 7
#define RIP 16
#define POINTER_OMIT 0xff
#define CIE_MAX_BYTES 1024 /* what all its functions share is little */

/* A table's description that its functions share. */
struct cie {
	uint64_t address;	  /* of its length; 0: none was read */
	struct dwarf_bytes rules; /* in force at every function's entry */
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding;
	bool has_sizes, is_signal, is_good;
};

/* The state after the rules. */
struct entry_state {
	bool cfa_is_plain, ra_is_plain;
};

static uint64_t pointer_value(struct dwarf_bytes *from, uint8_t format)
{
	switch (format) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return dwarf_bytes_fixed(from, 8);
	case DW_EH_PE_uleb128:
		return dwarf_bytes_uleb(from);
	case DW_EH_PE_sleb128:
		return (uint64_t)dwarf_bytes_sleb(from);
	case DW_EH_PE_udata2:
		return dwarf_bytes_fixed(from, 2);
	case DW_EH_PE_udata4:
		return dwarf_bytes_fixed(from, 4);
	case DW_EH_PE_sdata2:
		return (uint64_t)(int64_t)(int16_t)dwarf_bytes_fixed(from, 2);
	case DW_EH_PE_sdata4:
		return (uint64_t)(int64_t)(int32_t)dwarf_bytes_fixed(from, 4);
	}
	from->is_over = true;
	return 0;
}

/*
 * A pointer in an encoding of DW_EH_PE_* (LSB Core, 10.6), absolute or relative to itself; others,
 * and indirect ones, set is_over. A stored 0 is 0.
 */
static uint64_t pointer_read(struct dwarf_bytes *from, uint8_t encoding)
{
	uint64_t self = from->address;
	uint64_t value;

	if (encoding == POINTER_OMIT)
		return 0;
	value = pointer_value(from, encoding & 0x0f);
	if (!value || from->is_over)
		return 0;
	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return value;
	case DW_EH_PE_pcrel:
		return value + self;
	}
	from->is_over = true;
	return 0;
}

static struct dwarf_bytes bytes_at(const struct image *image, uint64_t address)
{
	size_t left;
	const uint8_t *at = image_at(image, address, &left);

	return (struct dwarf_bytes){
		.at = at, .end = at ? at + left : at, .address = address, .is_over = !at
	};
}

/* The entry that begins here, without its length. Returns false at the table's end. */
static bool entry_next(struct dwarf_bytes *table, struct dwarf_bytes *entry)
{
	uint64_t length = dwarf_bytes_fixed(table, 4);

	if (length == 0xffffffff)
		length = dwarf_bytes_fixed(table, 8);
	if (!length || table->is_over)
		return false;
	*entry = *table;
	dwarf_bytes_skip(table, length);
	entry->end = table->at;
	return !table->is_over;
}

static void augmentation_read(struct cie *cie, struct dwarf_bytes *from, const char *text)
{
	for (; *text && !from->is_over; text++) {
		uint8_t encoding;

		switch (*text) {
		case 'R':
			cie->fde_encoding = (uint8_t)dwarf_bytes_fixed(from, 1);
			break;
		case 'L':
			cie->lsda_encoding = (uint8_t)dwarf_bytes_fixed(from, 1);
			break;
		case 'P':
			encoding = (uint8_t)dwarf_bytes_fixed(from, 1);
			pointer_read(from, encoding & 0x0f);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B':
			break;
		default:
			cie->is_good = false;
			return;
		}
	}
}

static void cie_read(struct cie *cie, const struct image *image, uint64_t address)
{
	struct dwarf_bytes table = bytes_at(image, address);
	struct dwarf_bytes from;
	uint8_t version;
	const char *text;

	*cie = (struct cie){ .address = address, .lsda_encoding = POINTER_OMIT };
	/*
	 * before anything of it is read: of two such that take turns, each is read once for every
	 * function
	 */
	if (!entry_next(&table, &from) || from.end - from.at > CIE_MAX_BYTES ||
	    dwarf_bytes_fixed(&from, 4) != 0)
		return;
	version = (uint8_t)dwarf_bytes_fixed(&from, 1);
	text = (const char *)from.at;
	while (dwarf_bytes_fixed(&from, 1) != 0)
		;
	if (from.is_over || (version != 1 && version != 3))
		return;
	dwarf_bytes_uleb(&from);
	cie->data_align = dwarf_bytes_sleb(&from);
	if ((version == 1 ? dwarf_bytes_fixed(&from, 1) : dwarf_bytes_uleb(&from)) != RIP)
		return;
	cie->is_good = true;
	if (*text == 'z') {
		uint64_t bytes = dwarf_bytes_uleb(&from);

		cie->rules = from;
		dwarf_bytes_skip(&cie->rules, bytes);
		cie->has_sizes = true;
		augmentation_read(cie, &from, text + 1);
	} else {
		cie->is_good = !*text;
		cie->rules = from;
	}
	cie->is_good &= !from.is_over && !cie->rules.is_over;
}

/*
 * One rule with operands of its own; false where the function's first instruction is passed, or
 * unknown.
 */
static bool rule_run(struct dwarf_bytes *from, uint8_t rule, int64_t data_align,
		     struct entry_state *state)
{
	uint64_t reg, offset;

	switch (rule) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_def_cfa:
		reg = dwarf_bytes_uleb(from);
		offset = dwarf_bytes_uleb(from);
		state->cfa_is_plain = reg == RSP && offset == 8;
		return true;
	case DW_CFA_def_cfa_offset:
		state->cfa_is_plain = dwarf_bytes_uleb(from) == 8;
		return true;
	case DW_CFA_offset_extended:
	case DW_CFA_val_offset:
		reg = dwarf_bytes_uleb(from);
		offset = dwarf_bytes_uleb(from);
		if (reg == RIP)
			state->ra_is_plain = rule == DW_CFA_offset_extended &&
					     (int64_t)offset * data_align == -8;
		return true;
	case DW_CFA_def_cfa_expression:
		state->cfa_is_plain = false;
		dwarf_bytes_skip(from, dwarf_bytes_uleb(from));
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		if (dwarf_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		dwarf_bytes_skip(from, dwarf_bytes_uleb(from));
		return true;
	case DW_CFA_undefined:
	case DW_CFA_same_value:
		if (dwarf_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		return true;
	case DW_CFA_register:
		if (dwarf_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		dwarf_bytes_uleb(from);
		return true;
	case DW_CFA_GNU_args_size:
		dwarf_bytes_uleb(from);
		return true;
	case DW_CFA_remember_state:
	case DW_CFA_restore_state:
	case DW_CFA_def_cfa_register:
		/* compilers emit none of these at an entry: do not take the result for plain */
		state->cfa_is_plain = false;
	}
	return false;
}

static void rules_run(struct dwarf_bytes from, int64_t data_align, struct entry_state *state)
{
	while (from.at < from.end && !from.is_over) {
		uint8_t rule = (uint8_t)dwarf_bytes_fixed(&from, 1);
		uint64_t offset;

		switch (rule & 0xc0) {
		case DW_CFA_advance_loc:
			return;
		case DW_CFA_offset:
			offset = dwarf_bytes_uleb(&from);
			if ((rule & 0x3f) == RIP)
				state->ra_is_plain = (int64_t)offset * data_align == -8;
			continue;
		case DW_CFA_restore:
			continue;
		}
		if (!rule_run(&from, rule, data_align, state))
			return;
	}
	if (from.is_over)
		state->cfa_is_plain = false;
}

/* Append what an FDE says; one of a function that the linker dropped says nothing. */
static int frame_add(struct frames *frames, const struct image *image, const struct cie *cie,
		     struct dwarf_bytes fde)
{
	struct entry_state state = { 0 };
	struct frame frame = { .is_signal = cie->is_signal };
	struct dwarf_bytes rules;

	frame.start = pointer_read(&fde, cie->fde_encoding);
	frame.end = frame.start + pointer_read(&fde, cie->fde_encoding & 0x0f);
	if (fde.is_over || !frame.start || frame.end <= frame.start ||
	    !image_code_at(image, frame.start))
		return 0;
	if (cie->has_sizes) {
		uint64_t bytes = dwarf_bytes_uleb(&fde);

		rules = fde;
		dwarf_bytes_skip(&rules, bytes);
		frame.lsda = pointer_read(&fde, cie->lsda_encoding);
	} else {
		rules = fde;
	}
	rules_run(cie->rules, cie->data_align, &state);
	rules_run(rules, cie->data_align, &state);
	frame.is_plain = state.cfa_is_plain && state.ra_is_plain && !fde.is_over && !rules.is_over;
	if (array_grow(&frames->all, &frames->room, frames->count + 1, sizeof(*frames->all)))
		return -ENOMEM;
	frames->all[frames->count++] = frame;
	return 0;
}

int frames_read(struct frames *frames, const struct image *image)
{
	struct dwarf_bytes table, entry;
	struct cie cie = { 0 };
	int err = 0;

	*frames = (struct frames){ 0 };
	if (!image->frames)
		return 0;
	table = bytes_at(image, image->frames);
	while (!err && table.address < image->frames_end && entry_next(&table, &entry)) {
		uint64_t self = entry.address;
		uint64_t back = dwarf_bytes_fixed(&entry, 4);

		if (!back)
			continue;
		if (!cie.address || cie.address != self - back)
			cie_read(&cie, image, self - back);
		if (cie.is_good)
			err = frame_add(frames, image, &cie, entry);
		else
			frames->is_damaged = true;
	}
	frames->is_damaged |= table.is_over;
	sorted_make(frames->all, frames->count, sizeof(*frames->all));
	/* forged ones may lie across each other */
	for (size_t i = 1; i < frames->count; i++)
		if (frames->all[i - 1].end > frames->all[i].start)
			frames->all[i - 1].end = frames->all[i].start;
	return err;
}

void frames_release(struct frames *frames)
{
	free(frames->all);
	*frames = (struct frames){ 0 };
}

const struct frame *frames_at(const struct frames *frames, uint64_t address)
{
	size_t low = sorted_at_most(frames->all, frames->count, sizeof(*frames->all),
				    offsetof(struct frame, start), address);

	if (!low || address >= frames->all[low - 1].end)
		return NULL;
	return &frames->all[low - 1];
}

int frames_landing_pads(const struct image *image, const struct frame *frame,
			void (*pad)(uint64_t address, void *data), void *data)
{
	struct dwarf_bytes from = bytes_at(image, frame->lsda);
	uint64_t base = frame->start;
	uint8_t encoding;
	uint64_t bytes;

	if (!frame->lsda)
		return 0;
	encoding = (uint8_t)dwarf_bytes_fixed(&from, 1);
	if (encoding != POINTER_OMIT)
		base = pointer_read(&from, encoding);
	if (dwarf_bytes_fixed(&from, 1) != POINTER_OMIT)
		dwarf_bytes_uleb(&from);
	encoding = (uint8_t)dwarf_bytes_fixed(&from, 1);
	bytes = dwarf_bytes_uleb(&from);
	/*
	 * a call takes 2 bytes, what is said of it 16 at most: more is forged, and would be read
	 * for long
	 */
	if (from.is_over || bytes > (uint64_t)(from.end - from.at) ||
	    bytes > 8 * (frame->end - frame->start) + 64)
		return -EBADMSG;
	from.end = from.at + bytes;
	while (from.at < from.end && !from.is_over) {
		uint64_t landing;

		pointer_read(&from, encoding & 0x0f);
		pointer_read(&from, encoding & 0x0f);
		landing = pointer_read(&from, encoding & 0x0f);
		dwarf_bytes_uleb(&from);
		if (landing && !from.is_over)
			pad(base + landing, data);
	}
	return from.is_over ? -EBADMSG : 0;
}
