/* SPDX-License-Identifier: MIT */
#include "target/code/frames.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/pointer.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#define RSP 7
#define RIP 16
#define CIE_MAX_BYTES 1024 /* what all its functions share is little */

/* A table's description that its functions share. */
struct cie {
	uint64_t address;   /* of its length; 0: none was read */
	struct bytes rules; /* in force at every function's entry */
	int64_t data_align;
	uint8_t fde_encoding, lsda_encoding;
	bool has_sizes, is_signal, is_good;
};

/* The state after the rules. */
struct entry_state {
	bool cfa_is_plain, ra_is_plain;
};

static struct bytes bytes_at(const struct image *image, uint64_t address)
{
	size_t left;
	const uint8_t *at = image_at(image, address, &left);

	return (struct bytes){
		.at = at, .end = at ? at + left : at, .address = address, .is_over = !at
	};
}

/* The entry that begins here, without its length. Returns false at the table's end. */
static bool entry_next(struct bytes *table, struct bytes *entry)
{
	uint64_t length = pointer_bytes_fixed(table, 4);

	if (length == 0xffffffff)
		length = pointer_bytes_fixed(table, 8);
	if (!length || table->is_over)
		return false;
	*entry = *table;
	pointer_bytes_skip(table, length);
	entry->end = table->at;
	return !table->is_over;
}

static void augmentation_read(struct cie *cie, struct bytes *from, const char *text)
{
	for (; *text && !from->is_over; text++) {
		uint8_t encoding;

		switch (*text) {
		case 'R':
			cie->fde_encoding = (uint8_t)pointer_bytes_fixed(from, 1);
			break;
		case 'L':
			cie->lsda_encoding = (uint8_t)pointer_bytes_fixed(from, 1);
			break;
		case 'P':
			encoding = (uint8_t)pointer_bytes_fixed(from, 1);
			pointer_bytes_pointer(from, encoding & 0x0f);
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
	struct bytes table = bytes_at(image, address);
	struct bytes from;
	uint8_t version;
	const char *text;

	*cie = (struct cie){ .address = address, .lsda_encoding = POINTER_OMIT };
	/*
	 * before anything of it is read: of two such that take turns, each is read once for every
	 * function
	 */
	if (!entry_next(&table, &from) || from.end - from.at > CIE_MAX_BYTES ||
	    pointer_bytes_fixed(&from, 4) != 0)
		return;
	version = (uint8_t)pointer_bytes_fixed(&from, 1);
	text = (const char *)from.at;
	while (pointer_bytes_fixed(&from, 1) != 0)
		;
	if (from.is_over || (version != 1 && version != 3))
		return;
	pointer_bytes_uleb(&from);
	cie->data_align = pointer_bytes_sleb(&from);
	if ((version == 1 ? pointer_bytes_fixed(&from, 1) : pointer_bytes_uleb(&from)) != RIP)
		return;
	cie->is_good = true;
	if (*text == 'z') {
		uint64_t bytes = pointer_bytes_uleb(&from);

		cie->rules = from;
		pointer_bytes_skip(&cie->rules, bytes);
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
static bool rule_run(struct bytes *from, uint8_t rule, int64_t data_align,
		     struct entry_state *state)
{
	uint64_t reg, offset;

	switch (rule) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_def_cfa:
		reg = pointer_bytes_uleb(from);
		offset = pointer_bytes_uleb(from);
		state->cfa_is_plain = reg == RSP && offset == 8;
		return true;
	case DW_CFA_def_cfa_offset:
		state->cfa_is_plain = pointer_bytes_uleb(from) == 8;
		return true;
	case DW_CFA_offset_extended:
	case DW_CFA_val_offset:
		reg = pointer_bytes_uleb(from);
		offset = pointer_bytes_uleb(from);
		if (reg == RIP)
			state->ra_is_plain = rule == DW_CFA_offset_extended &&
					     (int64_t)offset * data_align == -8;
		return true;
	case DW_CFA_def_cfa_expression:
		state->cfa_is_plain = false;
		pointer_bytes_skip(from, pointer_bytes_uleb(from));
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		if (pointer_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		pointer_bytes_skip(from, pointer_bytes_uleb(from));
		return true;
	case DW_CFA_undefined:
	case DW_CFA_same_value:
		if (pointer_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		return true;
	case DW_CFA_register:
		if (pointer_bytes_uleb(from) == RIP)
			state->ra_is_plain = false;
		pointer_bytes_uleb(from);
		return true;
	case DW_CFA_GNU_args_size:
		pointer_bytes_uleb(from);
		return true;
	case DW_CFA_remember_state:
	case DW_CFA_restore_state:
	case DW_CFA_def_cfa_register:
		/* compilers emit none of these at an entry: do not take the result for plain */
		state->cfa_is_plain = false;
	}
	return false;
}

static void rules_run(struct bytes from, int64_t data_align, struct entry_state *state)
{
	while (from.at < from.end && !from.is_over) {
		uint8_t rule = (uint8_t)pointer_bytes_fixed(&from, 1);
		uint64_t offset;

		switch (rule & 0xc0) {
		case DW_CFA_advance_loc:
			return;
		case DW_CFA_offset:
			offset = pointer_bytes_uleb(&from);
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
		     struct bytes fde)
{
	struct entry_state state = { 0 };
	struct frame frame = { .is_signal = cie->is_signal };
	struct bytes rules;

	frame.start = pointer_bytes_pointer(&fde, cie->fde_encoding);
	frame.end = frame.start + pointer_bytes_pointer(&fde, cie->fde_encoding & 0x0f);
	if (fde.is_over || !frame.start || frame.end <= frame.start ||
	    !image_code_at(image, frame.start))
		return 0;
	if (cie->has_sizes) {
		uint64_t bytes = pointer_bytes_uleb(&fde);

		rules = fde;
		pointer_bytes_skip(&rules, bytes);
		frame.lsda = pointer_bytes_pointer(&fde, cie->lsda_encoding);
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

static int frame_order(const void *a, const void *b)
{
	const struct frame *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

int frames_read(struct frames *frames, const struct image *image)
{
	struct bytes table, entry;
	struct cie cie = { 0 };
	int err = 0;

	*frames = (struct frames){ 0 };
	if (!image->frames)
		return 0;
	table = bytes_at(image, image->frames);
	while (!err && table.address < image->frames_end && entry_next(&table, &entry)) {
		uint64_t self = entry.address;
		uint64_t back = pointer_bytes_fixed(&entry, 4);

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
	if (frames->count)
		qsort(frames->all, frames->count, sizeof(*frames->all), frame_order);
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
	struct bytes from = bytes_at(image, frame->lsda);
	uint64_t base = frame->start;
	uint8_t encoding;
	uint64_t bytes;

	if (!frame->lsda)
		return 0;
	encoding = (uint8_t)pointer_bytes_fixed(&from, 1);
	if (encoding != POINTER_OMIT)
		base = pointer_bytes_pointer(&from, encoding);
	if (pointer_bytes_fixed(&from, 1) != POINTER_OMIT)
		pointer_bytes_uleb(&from);
	encoding = (uint8_t)pointer_bytes_fixed(&from, 1);
	bytes = pointer_bytes_uleb(&from);
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

		pointer_bytes_pointer(&from, encoding & 0x0f);
		pointer_bytes_pointer(&from, encoding & 0x0f);
		landing = pointer_bytes_pointer(&from, encoding & 0x0f);
		pointer_bytes_uleb(&from);
		if (landing && !from.is_over)
			pad(base + landing, data);
	}
	return from.is_over ? -EBADMSG : 0;
}
