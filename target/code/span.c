/* SPDX-License-Identifier: MIT */
/*
 * The jump replaces the instruction at the point, or one behind instructions that change nothing
 * which the event reads: endbr64, whose address other code jumps to; no-operations; at a function's
 * entry also what struct prologue says. Nothing may jump to what is behind them: the event
 * would be recorded for code that did not pass the point.
 */
#include "target/code/span.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define SKIPS_MAX 16
#define REGISTERS 16
#define RBP 6
#define RSP 7

/* By DWARF's numbers. */
static const ZydisRegister registers[REGISTERS] = {
	ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RBX,
	ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_RSP,
	ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9,	ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11,
	ZYDIS_REGISTER_R12, ZYDIS_REGISTER_R13, ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15,
};

/* Returns REGISTERS for any other. */
static unsigned int number_of(ZydisRegister found)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, found);
	unsigned int number = 0;

	while (number < REGISTERS && registers[number] != whole)
		number++;
	return number;
}

static bool is_flags(ZydisRegister found)
{
	return ZydisRegisterGetClass(found) == ZYDIS_REGCLASS_FLAGS;
}

/* Whether its operands and flags are all that it changes. */
static bool is_known(const struct move_insn *insn)
{
	switch (insn->decoded.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_DEC:
	case ZYDIS_MNEMONIC_INC:
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVAPD:
	case ZYDIS_MNEMONIC_MOVAPS:
	case ZYDIS_MNEMONIC_MOVD:
	case ZYDIS_MNEMONIC_MOVQ:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_MOVUPD:
	case ZYDIS_MNEMONIC_MOVUPS:
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_NEG:
	case ZYDIS_MNEMONIC_NOT:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_SAR:
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_XOR:
		return !(insn->decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK);
	default:
		return false;
	}
}

static bool writes(const ZydisDecodedOperand *operand)
{
	return operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

/*
 * Of the stack, below where the stack pointer was at the entry; of what is always there, if it is
 * but read.
 */
static bool memory_is_own(const struct prologue *prologue, const ZydisDecodedOperand *operand)
{
	int64_t from_entry = operand->mem.disp.value;

	if (operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (operand->mem.index != ZYDIS_REGISTER_NONE)
		return false;
	if (operand->mem.segment == ZYDIS_REGISTER_FS)
		return operand->mem.base == ZYDIS_REGISTER_NONE && !writes(operand);
	if (operand->mem.base == ZYDIS_REGISTER_RIP)
		return !writes(operand);
	if (operand->mem.base == ZYDIS_REGISTER_RSP)
		from_entry -= prologue->stack_bytes;
	else if (operand->mem.base == ZYDIS_REGISTER_RBP && prologue->has_frame)
		from_entry -= prologue->frame_bytes;
	else
		return false;
	/* below the stack pointer the event's own code runs */
	return !writes(operand) || (from_entry >= -(int64_t)prologue->stack_bytes &&
				    from_entry + operand->size / 8 <= 0);
}

static bool operand_passes(const struct prologue *prologue, const ZydisDecodedOperand *operand)
{
	unsigned int number;

	switch (operand->type) {
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return true;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return memory_is_own(prologue, operand);
	case ZYDIS_OPERAND_TYPE_REGISTER:
		if (!writes(operand) || is_flags(operand->reg.value))
			return true;
		number = number_of(operand->reg.value);
		return number < REGISTERS && number != RSP && !(prologue->kept >> number & 1);
	default:
		return false;
	}
}

static bool is_register(const ZydisDecodedOperand *operand, unsigned int number)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operand->reg.value == registers[number];
}

/* Bytes by which it makes room on the stack: a push of a register, or a sub. 0: neither. */
static unsigned int room_of(const struct move_insn *insn)
{
	const ZydisDecodedOperand *operands = insn->operands;
	bool is_whole = insn->decoded.operand_width == 64;

	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_PUSH && is_whole &&
	    operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    number_of(operands[0].reg.value) < REGISTERS && !is_register(&operands[0], RSP))
		return 8;
	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_SUB && is_register(&operands[0], RSP) &&
	    operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[1].imm.value.s > 0 &&
	    operands[1].imm.value.s <= PROLOGUE_STACK_MAX)
		return (unsigned int)operands[1].imm.value.s;
	return 0;
}

static void note_frame(struct prologue *prologue, const struct move_insn *insn)
{
	for (unsigned int i = 0; i < insn->decoded.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && writes(operand) &&
		    number_of(operand->reg.value) == RBP)
			prologue->has_frame = false;
	}
	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_MOV && is_register(&insn->operands[0], RBP) &&
	    is_register(&insn->operands[1], RSP)) {
		prologue->has_frame = true;
		prologue->frame_bytes = prologue->stack_bytes;
	}
}

/* Whether it may come before the event; then all that it does is in *prologue. */
static bool prologue_pass(struct prologue *prologue, const struct move_insn *insn)
{
	unsigned int room = room_of(insn);

	if (move_judge(insn) != MOVE_CAN)
		return false;
	if (room) {
		if (prologue->stack_bytes + room > prologue->room_max)
			return false;
	} else {
		if (!is_known(insn))
			return false;
		for (unsigned int i = 0; i < insn->decoded.operand_count; i++) {
			if (!operand_passes(prologue, &insn->operands[i]))
				return false;
		}
	}
	prologue->stack_bytes += room;
	note_frame(prologue, insn);
	return true;
}

__attribute__((format(printf, 3, 4))) static int refuse(struct span *span, int err,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(span->detail, sizeof(span->detail), format, args);
	va_end(args);
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

/* Refusals that no choice can help. */
static int point_check(const struct sweep *sweep, struct span *span)
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
		return refuse(span, -WM_E_RESTARTABLE, "%s", "");
	return 0;
}

/* ---- one instruction ---- */

/* Linux 6.18 and later replace these whole for a uprobe. */
static bool is_wide_nop(const struct move_insn *insn)
{
	return move_is_filler(insn) && (insn->decoded.length == DETOUR_JUMP_BYTES ||
					insn->decoded.length == 2 * DETOUR_JUMP_BYTES);
}

static bool is_endbr(const struct move_insn *insn)
{
	return insn->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
}

static bool is_padding(const struct move_insn *insn)
{
	return move_is_filler(insn) || insn->decoded.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Nothing runs filler behind an instruction that never falls through, unless a jump leads there. */
static unsigned int bytes_with_filler(const struct sweep *sweep, const struct move_insn *insn)
{
	uint64_t at = insn->address + insn->decoded.length, end;
	struct move_insn next;

	if (move_judge(insn) != MOVE_LAST || insn->decoded.meta.category == ZYDIS_CATEGORY_CALL ||
	    sweep_is_doubtful(sweep, insn->address))
		return insn->decoded.length;
	for (; at - insn->address < DETOUR_JUMP_BYTES; at = end) {
		if (!insn_at(sweep, at, &next) || !is_padding(&next))
			break;
		end = at + next.decoded.length;
		if (end - insn->address > DETOUR_INSN_MAX ||
		    sweep_next_target(sweep, at, end) < end || sweep_unpatchable(sweep, at, end))
			break;
	}
	return (unsigned int)(at - insn->address);
}

/*
 * The bytes behind the instruction that stay as the file has them, and the instructions that begin
 * there. Returns 0, or why there are too few for a jump to end in.
 */
static int kept_find(const struct sweep *sweep, const struct move_insn *insn, struct span *span)
{
	uint64_t end = insn->address + bytes_with_filler(sweep, insn), next = end;
	size_t left; /* of the segment: bytes between its sections stay, too */
	int err = 0;

	image_at(&sweep->image, end, &left);
	span->bytes = (unsigned int)(end - insn->address);
	span->starts = 0;
	for (span->kept = 0; span->kept < DETOUR_KEPT_MAX; span->kept++) {
		uint64_t at = end + span->kept;
		struct move_insn found;
		bool is_known = at == next && insn_at(sweep, at, &found);

		err = span->kept == left		? -WM_E_SPAN_END
		      : is_known && is_wide_nop(&found) ? -WM_E_SPAN_NOP
							: sweep_unpatchable(sweep, at, at + 1);
		if (err)
			break;
		if (at != next)
			continue;
		span->starts |= (uint8_t)(1u << span->kept);
		next += is_known ? found.decoded.length : 1;
	}
	if (span->bytes + span->kept >= DETOUR_JUMP_BYTES)
		return 0;
	return refuse(span, err, "at %+ld", offset_of(span, end + span->kept));
}

/* Whether a jump may replace this one. Returns 0 or the refusal. */
static int insn_check(const struct sweep *sweep, const struct move_insn *insn, struct span *span)
{
	uint64_t end = insn->address + insn->decoded.length, target;
	int err;

	if (is_wide_nop(insn))
		return refuse(span, -WM_E_SPAN_NOP, "%u bytes at %+ld", insn->decoded.length,
			      offset_of(span, insn->address));
	if (move_judge(insn) == MOVE_CANT)
		return refuse(span, -WM_E_SPAN_INSTRUCTION, "%s at %+ld",
			      ZydisMnemonicGetString(insn->decoded.mnemonic),
			      offset_of(span, insn->address));
	/* past a prefix */
	target = sweep_next_target(sweep, insn->address + 1, end);
	if (target < end)
		return refuse(span, -WM_E_SPAN_TARGET, "at %+ld", offset_of(span, target));
	err = sweep_unpatchable(sweep, insn->address, end);
	return err ? refuse(span, err, "%s", "") : 0;
}

/* ---- the choices ---- */

/* Whether the jump may also replace an instruction behind this one. */
static bool skip(const struct sweep *sweep, bool is_entry, const struct move_insn *insn,
		 struct prologue *prologue, const struct span *span)
{
	uint64_t next = insn->address + insn->decoded.length;
	bool is_nothing = is_endbr(insn) || move_is_filler(insn);

	/* past a prefix, or behind it */
	if (sweep_next_target(sweep, insn->address + 1, next + 1) <= next ||
	    !sweep_is_start(sweep, next))
		return false;
	/* a compiler's own jump leads behind no entry's endbr64, wherever that may be */
	if (!(is_entry && is_nothing) && sweep_is_doubtful(sweep, span->point))
		return false;
	if (is_nothing)
		return true;
	return is_entry && !sweep_unpatchable(sweep, insn->address, next) &&
	       prologue_pass(prologue, insn);
}

/* Refuse a place that has no choice: why its own instruction can't be replaced. */
static int none(struct span *span, int refusal, const char *detail)
{
	if (!refusal)
		return refuse(span, -WM_E_SPAN_TARGET, "%s", "behind endbr64");
	snprintf(span->detail, sizeof(span->detail), "%s", detail);
	span->refusal = refusal;
	return refusal;
}

int span_find(const struct sweep *sweep, uint64_t point, const struct prologue *entry,
	      unsigned int number, struct span *span)
{
	struct prologue prologue = entry ? *entry : (struct prologue){ 0 };
	bool is_entry = entry;
	char detail[SPAN_DETAIL_BYTES] = "";
	unsigned int found = 0;
	uint64_t at = point;
	struct move_insn insn;
	int err, refusal = 0;

	*span = (struct span){ .point = point };
	if (number >= DETOUR_CHOICES_MAX)
		return -ENOENT;
	err = point_check(sweep, span);
	if (err)
		return err;
	for (unsigned int i = 0; i < SKIPS_MAX && insn_at(sweep, at, &insn); i++) {
		/* an endbr64 stays for those who jump to it */
		err = is_endbr(&insn) ? -ENOENT : insn_check(sweep, &insn, span);
		if (!err)
			err = kept_find(sweep, &insn, span);
		if (!err && found++ == number) {
			span->address = at;
			span->insn = insn;
			span->stack_bytes = prologue.stack_bytes;
			return 0;
		}
		if (err && err != -ENOENT && !refusal) {
			refusal = err;
			memcpy(detail, span->detail, sizeof(detail));
		}
		span->refusal = 0;
		span->detail[0] = '\0';
		if (!skip(sweep, is_entry, &insn, &prologue, span))
			break;
		at += insn.decoded.length;
	}
	return found ? -ENOENT : none(span, refusal, detail);
}
