/* SPDX-License-Identifier: MIT */
#include "code/span.h"

#include "code/pun.h"
#include "code/relay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <waymark/error.h>

#define BACK_INSNS 12
#define FLAGS_LOOK 12 /* instructions */

__attribute__((format(printf, 3, 4))) static int refuse(struct span *span, int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(span->detail, sizeof(span->detail), format, args);
	va_end(args);
	span->tier = TIER_REFUSED;
	span->refusal = err;
	return err;
}

static bool insn_at(const struct sweep *sweep, uint64_t address, struct move_insn *insn)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && move_decode(insn, address, part->data + (address - part->range.start),
				   part->range.end - address);
}

/* How far the point is from what the refusal is about, as people write it. */
static long offset_of(const struct span *span, uint64_t address)
{
	return (long)(address - span->point);
}

/*
 * A function that ends before there is room: what fills the gap up to the next is never run, and nothing
 * comes there.
 */
static bool padding_take(const struct sweep *sweep, struct span *span, uint64_t at)
{
	struct move_insn insn;

	while (at < span->address + SPAN_JUMP_BYTES) {
		if (sweep_is_target(sweep, at) || !insn_at(sweep, at, &insn) ||
		    (!move_is_filler(&insn) && insn.decoded.mnemonic != ZYDIS_MNEMONIC_INT3))
			return false;
		at += insn.decoded.length;
	}
	span->bytes = SPAN_JUMP_BYTES;
	return true;
}

/* Take instructions from span->address on until there is room for `least` and the point is passed or reached. */
static int insns_take(const struct sweep *sweep, unsigned int least, struct span *span)
{
	uint64_t at = span->address;

	span->insn_count = 0;
	while (at < span->address + least || at < span->point) {
		struct move_insn *insn = &span->insns[span->insn_count];
		enum move_verdict verdict;

		if (span->insn_count == SPAN_INSNS_MAX || !insn_at(sweep, at, insn) ||
		    !sweep_is_start(sweep, at))
			return refuse(span, -WM_E_CODE_UNREADABLE, "at %+ld", offset_of(span, at));
		verdict = move_judge(insn);
		if (verdict == MOVE_CANT || (verdict == MOVE_LAST && at < span->point))
			return refuse(span, -WM_E_SPAN_INSTRUCTION, "%s at %+ld",
				      ZydisMnemonicGetString(insn->decoded.mnemonic),
				      offset_of(span, at));
		span->insn_count++;
		at += insn->decoded.length;
		span->bytes = (unsigned int)(at - span->address);
		if (verdict != MOVE_LAST || span->bytes >= least)
			continue;
		/* what follows a call is run when it returns */
		if (insn->decoded.meta.category == ZYDIS_CATEGORY_CALL ||
		    !padding_take(sweep, span, at))
			return refuse(span, -WM_E_SPAN_SHORT, "%u bytes", span->bytes);
		return 0;
	}
	return 0;
}

/* Nothing may enter behind the first byte: neither what is replaced nor, past the moved part, the point. */
static int middle_check(const struct sweep *sweep, struct span *span)
{
	uint64_t end = span->address + span->bytes;
	uint64_t target;
	int err;

	if (span->address < span->point && end <= span->point)
		end = span->point + 1;
	target = sweep_next_target(sweep, span->address + 1, end);
	if (target < end)
		return refuse(span, -WM_E_SPAN_TARGET, "at %+ld", offset_of(span, target));
	if (span->insn_count > 1 && sweep_is_doubtful(sweep, span->address))
		return refuse(span, -WM_E_SPAN_TABLE, "%s", "");
	err = sweep_taboo(sweep, span->address, span->address + span->bytes);
	return err ? refuse(span, err, "%s", "") : 0;
}

static enum detour_tier tier_of(const struct span *span)
{
	unsigned int fillers = 0;

	for (unsigned int i = 0; i < span->insn_count; i++)
		fillers += move_is_filler(&span->insns[i]);
	if (fillers == span->insn_count)
		return TIER_FILLER;
	return span->insn_count == 1 ? TIER_ONE : TIER_SEVERAL;
}

static int span_try(const struct sweep *sweep, uint64_t address, unsigned int least,
		    struct span *span)
{
	int err;

	span->address = address;
	span->bytes = 0;
	err = insns_take(sweep, least, span);
	if (!err)
		err = middle_check(sweep, span);
	if (err)
		return err;
	span->tier = tier_of(span);
	span->refusal = 0;
	span->detail[0] = '\0';
	return 0;
}

/* Spans that begin before the point, nearest first: all who come to the point must come through there. */
static int span_try_before(const struct sweep *sweep, struct span *span)
{
	uint64_t at = span->point;
	struct move_insn insn;

	if (sweep_is_target(sweep, span->point))
		return -WM_E_SPAN_TARGET;
	for (int i = 0; i < BACK_INSNS; i++) {
		at = sweep_previous(sweep, at);
		if (!at || !insn_at(sweep, at, &insn) || move_judge(&insn) != MOVE_CAN)
			break;
		if (!span_try(sweep, at, SPAN_JUMP_BYTES, span))
			return 0;
		/* who comes to this one comes past all that lie before */
		if (sweep_is_target(sweep, at))
			break;
	}
	return -WM_E_SPAN_TARGET;
}

/* A short jump at the point, to filler that has room for the long one. */
static int span_try_relay(const struct sweep *sweep, struct span *span)
{
	int err = span_try(sweep, span->point, SPAN_SHORT_JUMP_BYTES, span);

	if (err || span->bytes >= SPAN_JUMP_BYTES)
		return -WM_E_SPAN_TARGET;
	span->relay = relay_find(sweep, span->address);
	return span->relay ? 0 : -WM_E_SPAN_TARGET;
}

/* What follows a short span, if a jump may end in it. */
static enum pun_rank pun_try(const struct sweep *sweep, uint64_t address, unsigned int least,
			     struct span *span)
{
	uint8_t following[DETOUR_PUN_MAX];
	const struct sweep_part *part;
	uint64_t end, left;

	if (span_try(sweep, address, least, span) || span->bytes >= SPAN_JUMP_BYTES)
		return PUN_NEVER;
	end = address + span->bytes;
	part = sweep_part_at(sweep, address);
	left = part->range.end - end;
	span->kept = left < DETOUR_PUN_MAX ? (unsigned int)left : DETOUR_PUN_MAX;
	span->tier = TIER_PUNNED;
	/* a marker's bytes change when it is armed */
	if (sweep_taboo(sweep, end, end + span->kept) ||
	    image_read(&sweep->image, end, following, span->kept))
		return PUN_NEVER;
	return pun_rank(address, span->bytes, following, span->kept, sweep->image.is_fixed);
}

/*
 * A jump that ends in the bytes that follow: over one instruction at the point or some, or over some that
 * begin before it; of these the one that leads to where room is likeliest.
 */
static int span_try_punned(const struct sweep *sweep, struct span *span)
{
	enum pun_rank best = PUN_NEVER;
	uint64_t at = span->point;

	while (at && at + SPAN_JUMP_BYTES > span->point) {
		for (unsigned int least = SPAN_JUMP_BYTES - 1; least > 0; least--) {
			struct span other = { .point = span->point,
					      .keeps_flags = span->keeps_flags };
			enum pun_rank rank = pun_try(sweep, at, least, &other);

			if (rank >= best)
				continue;
			best = rank;
			*span = other;
		}
		/* as in span_try_before() */
		if (sweep_is_target(sweep, at))
			break;
		at = sweep_previous(sweep, at);
	}
	return best == PUN_NEVER ? -WM_E_SPAN_TARGET : 0;
}

/* Instructions that write all of the flags that code may test, whatever their operands hold. */
static bool sets_all_flags(const struct move_insn *insn)
{
	switch (insn->decoded.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_NEG:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_XOR:
		return true;
	default:
		return false;
	}
}

/* Whether what the flags hold here may be looked at. No call and no return passes flags on (psABI 3.2.3). */
static bool flags_are_wanted(const struct sweep *sweep, uint64_t at)
{
	for (int i = 0; i < FLAGS_LOOK; i++) {
		struct move_insn insn;
		const ZydisAccessedFlags *flags;

		if (!insn_at(sweep, at, &insn))
			return true;
		flags = insn.decoded.cpu_flags;
		if (sets_all_flags(&insn) || insn.decoded.meta.category == ZYDIS_CATEGORY_RET ||
		    insn.decoded.meta.category == ZYDIS_CATEGORY_CALL)
			return false;
		if ((flags && flags->tested) || move_judge(&insn) != MOVE_CAN)
			return true;
		at += insn.decoded.length;
	}
	return true;
}

/* Refusals that no choice of a span can help. */
static int point_check(const struct sweep *sweep, bool is_entry, struct span *span)
{
	const struct frame *frame = frames_at(&sweep->frames, span->point);
	struct move_insn insn;
	uint64_t before;

	if (!sweep_part_at(sweep, span->point))
		return refuse(span, -WM_E_NOT_CODE, "%s", "");
	if (!sweep_is_start(sweep, span->point)) {
		before = sweep_previous(sweep, span->point);
		if (before && insn_at(sweep, before, &insn) &&
		    before + insn.decoded.length > span->point)
			return refuse(span, -WM_E_MID_INSTRUCTION, "%s begins at %+ld",
				      ZydisMnemonicGetString(insn.decoded.mnemonic),
				      offset_of(span, before));
		return refuse(span, -WM_E_CODE_UNREADABLE, "%s", "");
	}
	if (frame && frame->is_signal)
		return refuse(span, -WM_E_SIGNAL_FRAME, "%s", "");
	if (frame && !is_entry && sweep_runs_backward(sweep, frame->start, frame->end))
		return refuse(span, -WM_E_STRINGS_BACKWARD, "%s", "");
	return 0;
}

/* What holds for all spans. */
static int point_settle(const struct sweep *sweep, uint64_t point, bool is_entry, struct span *span)
{
	struct move_insn insn;
	int err;

	*span = (struct span){ .point = point, .tier = TIER_REFUSED };
	err = point_check(sweep, is_entry, span);
	if (err)
		return err;
	/* who may be jumped to stays; nothing else may come in behind it, or the event would lie */
	if (insn_at(sweep, point, &insn) && insn.decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64) {
		span->point += insn.decoded.length;
		if (sweep_is_target(sweep, span->point))
			return refuse(span, -WM_E_SPAN_TARGET, "at %+ld", 0l);
	}
	span->keeps_flags = !is_entry && flags_are_wanted(sweep, span->point);
	return 0;
}

int span_find_common(const struct sweep *sweep, uint64_t point, bool is_entry, uint64_t start,
		     const uint64_t *points, unsigned int count, struct span *span)
{
	int err = point_settle(sweep, point, is_entry, span);

	if (err)
		return err;
	point = span->point;
	/* all instructions up to the last point */
	span->point = points[count - 1];
	err = span_try(sweep, start, SPAN_JUMP_BYTES, span);
	span->point = point;
	if (err)
		return err;
	if (span->bytes > DETOUR_SPAN_MAX)
		return refuse(span, -WM_E_DETOUR_TAKEN, "%s", "");
	span->points = points;
	span->point_count = count;
	return 0;
}

static int whole_try(const struct sweep *sweep, bool is_entry, struct span *span)
{
	int err = span_try(sweep, span->point, SPAN_JUMP_BYTES, span);
	struct span other;

	if (!err)
		return 0;
	other = *span;
	if ((is_entry || span_try_before(sweep, &other)) && span_try_relay(sweep, &other))
		return err;
	*span = other;
	return 0;
}

int span_find_whole(const struct sweep *sweep, uint64_t point, bool is_entry, struct span *span)
{
	int err = point_settle(sweep, point, is_entry, span);

	return err ? err : whole_try(sweep, is_entry, span);
}

int span_find(const struct sweep *sweep, uint64_t point, bool is_entry, struct span *span)
{
	int err = point_settle(sweep, point, is_entry, span);
	struct span punned = { .point = span->point, .keeps_flags = span->keeps_flags };

	if (err)
		return err;
	err = whole_try(sweep, is_entry, span);
	if (!err || span_try_punned(sweep, &punned))
		return err;
	*span = punned;
	return 0;
}
