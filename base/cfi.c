/* SPDX-License-Identifier: MIT */
#include "base/cfi.h"

#define CHUNK_BYTES 64u
#define STATES_MAX 4u
#define STEPS_MAX 4096u
#define LEB_BYTES 10u
#define LENGTH_MAX (1u << 24)
#define PLT_BYTES 9u
#define MARKER_BYTES 13u

/* DWARF's numbers (DWARF 5, 7.24; LSB 5.0, 10.5 and 10.6). */
#define ADVANCE 0x40
#define OFFSET 0x80
#define RESTORE 0xc0
#define OP_BREG0 0x70
#define OP_BREG31 0x8f
#define OP_DEREF 0x06
#define ENCODING_HOW 0x0f
#define ENCODING_FROM 0x70
#define ENCODING_FROM_HERE 0x10
#define HDR_VERSION 1
#define HDR_COUNT_UDATA4 0x03
#define HDR_TABLE_DATAREL_SDATA4 0x3b
#define HDR_FIRST_BYTES 12
#define EXTENDED_LENGTH 0xffffffffu

enum {
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE1 = 0x02,
	CFA_ADVANCE2 = 0x03,
	CFA_ADVANCE4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER = 0x0a,
	CFA_RECALL = 0x0b,
	CFA_DEF = 0x0c,
	CFA_DEF_REGISTER = 0x0d,
	CFA_DEF_OFFSET = 0x0e,
	CFA_DEF_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_SF = 0x12,
	CFA_DEF_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_GNU_ARGS_SIZE = 0x2e,
};

/*
 * Bytes from `at` up to `end`, a chunk at a time. Past the end, and where nothing can be read, it
 * has failed.
 */
struct cursor {
	const struct cfi_reader *reader;
	uint64_t at, end;
	uint64_t have, have_end;
	int has_failed;
	uint8_t chunk[CHUNK_BYTES];
};

static uint8_t byte_of(struct cursor *cursor)
{
	if (cursor->has_failed || cursor->at >= cursor->end) {
		cursor->has_failed = 1;
		return 0;
	}
	if (cursor->at < cursor->have || cursor->at >= cursor->have_end) {
		uint64_t left = cursor->end - cursor->at;
		size_t bytes = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;

		if (cursor->reader->read(cursor->reader->data, cursor->at, cursor->chunk, bytes)) {
			cursor->has_failed = 1;
			return 0;
		}
		cursor->have = cursor->at;
		cursor->have_end = cursor->at + bytes;
	}
	return cursor->chunk[cursor->at++ - cursor->have];
}

static uint64_t fixed_of(struct cursor *cursor, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++)
		value |= (uint64_t)byte_of(cursor) << 8 * i;
	return value;
}

static uint64_t uleb_of(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < LEB_BYTES; i++) {
		uint8_t byte = byte_of(cursor);

		if (7 * i < 64)
			value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (!(byte & 0x80))
			return value;
	}
	cursor->has_failed = 1;
	return 0;
}

static int64_t sleb_of(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < LEB_BYTES; i++) {
		uint8_t byte = byte_of(cursor);

		if (7 * i < 64)
			value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte & 0x80)
			continue;
		if (byte & 0x40 && 7 * (i + 1) < 64)
			value |= ~UINT64_C(0) << 7 * (i + 1);
		return (int64_t)value;
	}
	cursor->has_failed = 1;
	return 0;
}

static uint64_t encoded_of(struct cursor *cursor, uint8_t encoding)
{
	static const uint8_t widths[] = {
		[0x0] = 8, [0x2] = 2, [0x3] = 4, [0x4] = 8, [0xa] = 2, [0xb] = 4, [0xc] = 8
	};
	uint8_t how = encoding & ENCODING_HOW, from = encoding & ENCODING_FROM;
	uint64_t here = cursor->at, value;

	if (how >= sizeof(widths) || !widths[how] || (from && from != ENCODING_FROM_HERE)) {
		cursor->has_failed = 1;
		return 0;
	}
	value = fixed_of(cursor, widths[how]);
	if (how == 0xa)
		value = (uint64_t)(int64_t)(int16_t)value;
	else if (how == 0xb)
		value = (uint64_t)(int64_t)(int32_t)value;
	return from ? here + value : value;
}

/* ---- which function ---- */

/* The table's last entry that begins at `pc` or before: where, and where its record is. 0 or -1. */
static int search(const struct cfi_reader *reader, uint64_t header, uint64_t pc, uint64_t *start,
		  uint64_t *entry)
{
	struct {
		uint8_t version, frame, count, table;
		int32_t frame_at;
		uint32_t entries;
	} head = { 0 };
	uint32_t low = 0, high;

	if (!header || reader->read(reader->data, header, &head, HDR_FIRST_BYTES) ||
	    head.version != HDR_VERSION || head.count != HDR_COUNT_UDATA4 ||
	    head.table != HDR_TABLE_DATAREL_SDATA4)
		return -1;
	*entry = 0;
	for (high = head.entries; low < high;) {
		uint32_t middle = low + (high - low) / 2;
		int32_t pair[2] = { 0 };

		if (reader->read(reader->data, header + HDR_FIRST_BYTES + (uint64_t)middle * 8,
				 pair, sizeof(pair)))
			return -1;
		if (header + (uint64_t)(int64_t)pair[0] <= pc) {
			*start = header + (uint64_t)(int64_t)pair[0];
			*entry = header + (uint64_t)(int64_t)pair[1];
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return *entry ? 0 : -1;
}

int cfi_start(const struct cfi_reader *reader, uint64_t header, uint64_t pc, uint64_t *start)
{
	uint64_t entry;

	return search(reader, header, pc, start, &entry);
}

/* A record's bytes behind its length. */
static int record_of(struct cursor *cursor, uint64_t at)
{
	uint64_t bytes;

	cursor->at = at;
	cursor->end = at + 4;
	bytes = fixed_of(cursor, 4);
	if (cursor->has_failed || !bytes || bytes >= EXTENDED_LENGTH || bytes > LENGTH_MAX)
		return -1;
	cursor->end = cursor->at + bytes;
	/* what was read stays within its bound */
	cursor->have_end = cursor->have;
	return 0;
}

static int common_read(struct cursor *cursor, uint64_t at, struct cfi_function *function)
{
	char augmentation[8] = "";
	uint8_t version, letter;

	if (record_of(cursor, at) || fixed_of(cursor, 4))
		return -1;
	version = byte_of(cursor);
	for (unsigned int i = 0; (letter = byte_of(cursor)); i++) {
		if (i + 1 == sizeof(augmentation))
			return -1;
		augmentation[i] = (char)letter;
	}
	function->code_step = uleb_of(cursor);
	function->data_step = sleb_of(cursor);
	function->return_register = (uint8_t)(version == 1 ? byte_of(cursor) : uleb_of(cursor));
	function->encoding = 0;
	if (augmentation[0] && augmentation[0] != 'z')
		return -1;
	function->has_data = augmentation[0] == 'z';
	if (function->has_data)
		uleb_of(cursor);
	for (const char *a = augmentation; *a; a++) {
		if (*a == 'R')
			function->encoding = byte_of(cursor);
		else if (*a == 'P')
			encoded_of(cursor, byte_of(cursor) & 0x7f);
		else if (*a == 'L')
			byte_of(cursor);
		else if (*a == 'S')
			function->is_signal = 1;
		else if (*a != 'z')
			return -1;
	}
	function->common = cursor->at;
	function->common_end = cursor->end;
	return cursor->has_failed || function->return_register != CFI_RETURN ? -1 : 0;
}

int cfi_find(const struct cfi_reader *reader, uint64_t header, uint64_t pc,
	     struct cfi_function *function)
{
	struct cursor cursor = { .reader = reader }, common = { .reader = reader };
	uint64_t start, entry, back, at;

	*function = (struct cfi_function){ 0 };
	if (search(reader, header, pc, &start, &entry) || record_of(&cursor, entry))
		return -1;
	at = cursor.at;
	back = fixed_of(&cursor, 4);
	if (cursor.has_failed || !back || common_read(&common, at - back, function))
		return -1;
	function->start = encoded_of(&cursor, function->encoding);
	function->end = function->start + encoded_of(&cursor, function->encoding & ENCODING_HOW);
	if (function->has_data) {
		uint64_t bytes = uleb_of(&cursor);

		if (bytes > cursor.end - cursor.at)
			return -1;
		cursor.at += bytes;
	}
	function->own = cursor.at;
	function->own_end = cursor.end;
	return cursor.has_failed || pc < function->start || pc >= function->end ? -1 : 0;
}

/* ---- which row ---- */

struct machine {
	struct cursor cursor;
	const struct cfi_function *function;
	uint64_t location, pc;
	uint64_t until;
	struct cfi_row *row, first, kept[STATES_MAX];
	unsigned int kept_count;
};

static struct cfi_rule rule_of(enum cfi_how how, uint64_t reg, int64_t offset)
{
	if (offset != (int32_t)offset || reg >= CFI_REGISTERS)
		return (struct cfi_rule){ .how = CFI_UNKNOWN };
	return (struct cfi_rule){ .offset = (int32_t)offset,
				  .how = (uint8_t)how,
				  .reg = (uint8_t)reg };
}

/* Rules for other registers are ignored. */
static void rule_set(struct machine *machine, uint64_t reg, struct cfi_rule rule)
{
	if (reg < CFI_REGISTERS)
		machine->row->registers[reg] = rule;
}

static void restore(struct machine *machine, uint64_t reg)
{
	if (reg < CFI_REGISTERS)
		machine->row->registers[reg] = machine->first.registers[reg];
}

/*
 * Behind a register + offset, as linkers write it of a PLT, whose entries push a word on their way:
 * 8 more from a byte of each 16 on. breg16 0; lit15; and; litN; ge; lit3; shl; plus. Returns
 * whether it is that, with what it adds.
 */
static int is_of_plt(struct machine *machine, int64_t *more)
{
	struct cursor *cursor = &machine->cursor;
	uint8_t from;

	if (byte_of(cursor) != 0x80 || byte_of(cursor) != 0x00 || byte_of(cursor) != 0x3f ||
	    byte_of(cursor) != 0x1a)
		return 0;
	from = (uint8_t)(byte_of(cursor) - 0x30);
	*more = (machine->pc & 15) >= from ? 8 : 0;
	return from < 16 && byte_of(cursor) == 0x2a && byte_of(cursor) == 0x33 &&
	       byte_of(cursor) == 0x24 && byte_of(cursor) == 0x22;
}

/*
 * The return address of what an armed marker enters, as marker/site.h writes it: where the jump
 * leads that ends one byte before the aligned 32 bytes around the program counter do.
 */
static int is_of_marker(struct machine *machine)
{
	static const uint8_t rest[MARKER_BYTES] = { 0x09, 0xe0, 0x1a, 0x23, 23,	  0x12, 0x06,
						    0x08, 32,	0x26, 0x22, 0x23, 8 };

	for (unsigned int i = 0; i < MARKER_BYTES; i++) {
		if (byte_of(&machine->cursor) != rest[i])
			return 0;
	}
	return 1;
}

/*
 * DW_OP_breg, and a DW_OP_deref behind it: all that compilers need for a frame that was aligned.
 * Linkers and marker.h write more.
 */
static struct cfi_rule expression_of(struct machine *machine)
{
	struct cursor *cursor = &machine->cursor;
	struct cfi_rule rule = { .how = CFI_UNKNOWN };
	uint64_t bytes = uleb_of(cursor), end;
	uint8_t op;

	if (cursor->has_failed || bytes > cursor->end - cursor->at || bytes < 2) {
		cursor->has_failed = 1;
		return rule;
	}
	end = cursor->at + bytes;
	op = byte_of(cursor);
	if (op >= OP_BREG0 && op <= OP_BREG31) {
		int64_t offset = sleb_of(cursor), more = 0;

		if (cursor->at + PLT_BYTES == end && is_of_plt(machine, &more))
			rule = rule_of(CFI_AT, op - OP_BREG0, offset + more);
		else if (cursor->at + MARKER_BYTES == end && is_of_marker(machine))
			rule = rule_of(CFI_JUMPED, op - OP_BREG0, offset);
		else if (cursor->at == end)
			rule = rule_of(CFI_AT, op - OP_BREG0, offset);
		else if (cursor->at + 1 == end && byte_of(cursor) == OP_DEREF)
			rule = rule_of(CFI_AT_DEREF, op - OP_BREG0, offset);
	}
	cursor->at = end;
	return rule;
}

static int64_t scaled(struct machine *machine, int64_t value)
{
	int64_t product = 0;

	if (__builtin_mul_overflow(value, machine->function->data_step, &product))
		machine->cursor.has_failed = 1;
	return product;
}

/* Returns 1: the row that is wanted ends here. */
static int advance(struct machine *machine, uint64_t steps)
{
	uint64_t to = machine->location + steps * machine->function->code_step;

	if (to > machine->pc) {
		machine->until = to;
		return 1;
	}
	machine->location = to;
	return 0;
}

static void step_cfa(struct machine *machine, uint8_t op)
{
	struct cursor *cursor = &machine->cursor;
	struct cfi_rule *cfa = &machine->row->cfa;
	uint64_t reg;

	switch (op) {
	case CFA_DEF:
		reg = uleb_of(cursor);
		*cfa = rule_of(CFI_AT, reg, (int64_t)uleb_of(cursor));
		break;
	case CFA_DEF_SF:
		reg = uleb_of(cursor);
		*cfa = rule_of(CFI_AT, reg, scaled(machine, sleb_of(cursor)));
		break;
	case CFA_DEF_REGISTER:
		*cfa = rule_of(CFI_AT, uleb_of(cursor), cfa->offset);
		break;
	case CFA_DEF_OFFSET:
		*cfa = rule_of(CFI_AT, cfa->reg, (int64_t)uleb_of(cursor));
		break;
	case CFA_DEF_OFFSET_SF:
		*cfa = rule_of(CFI_AT, cfa->reg, scaled(machine, sleb_of(cursor)));
		break;
	default:
		*cfa = expression_of(machine);
		break;
	}
}

static void step_register(struct machine *machine, uint8_t op)
{
	struct cursor *cursor = &machine->cursor;
	uint64_t reg = uleb_of(cursor);
	struct cfi_rule rule;

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		rule_set(machine, reg,
			 rule_of(CFI_SAVED, 0, scaled(machine, (int64_t)uleb_of(cursor))));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		rule_set(machine, reg, rule_of(CFI_SAVED, 0, scaled(machine, sleb_of(cursor))));
		break;
	case CFA_VAL_OFFSET:
		rule_set(machine, reg,
			 rule_of(CFI_VALUE, 0, scaled(machine, (int64_t)uleb_of(cursor))));
		break;
	case CFA_VAL_OFFSET_SF:
		rule_set(machine, reg, rule_of(CFI_VALUE, 0, scaled(machine, sleb_of(cursor))));
		break;
	case CFA_REGISTER:
		rule_set(machine, reg, rule_of(CFI_COPIED, uleb_of(cursor), 0));
		break;
	case CFA_UNDEFINED:
		rule_set(machine, reg, rule_of(CFI_UNDEFINED, 0, 0));
		break;
	case CFA_SAME:
		rule_set(machine, reg, rule_of(CFI_SAME, 0, 0));
		break;
	case CFA_RESTORE_EXTENDED:
		restore(machine, reg);
		break;
	case CFA_EXPRESSION:
		rule = expression_of(machine);
		if (rule.how == CFI_JUMPED)
			rule.how = CFI_UNKNOWN;
		rule_set(machine, reg, rule);
		break;
	default: /* CFA_VAL_EXPRESSION */
		rule = expression_of(machine);
		if (rule.how != CFI_JUMPED)
			rule.how = CFI_UNKNOWN;
		rule_set(machine, reg, rule);
		break;
	}
}

static int step_other(struct machine *machine, uint8_t op)
{
	struct cursor *cursor = &machine->cursor;

	switch (op) {
	case CFA_NOP:
		return 0;
	case CFA_SET_LOC: {
		uint64_t to = encoded_of(cursor, machine->function->encoding);

		return to < machine->location ? -1 : advance(machine, to - machine->location);
	}
	case CFA_ADVANCE1:
		return advance(machine, fixed_of(cursor, 1));
	case CFA_ADVANCE2:
		return advance(machine, fixed_of(cursor, 2));
	case CFA_ADVANCE4:
		return advance(machine, fixed_of(cursor, 4));
	case CFA_REMEMBER:
		if (machine->kept_count == STATES_MAX)
			return -1;
		machine->kept[machine->kept_count++] = *machine->row;
		return 0;
	case CFA_RECALL:
		if (!machine->kept_count)
			return -1;
		*machine->row = machine->kept[--machine->kept_count];
		return 0;
	case CFA_GNU_ARGS_SIZE:
		uleb_of(cursor);
		return 0;
	default:
		return -1;
	}
}

/* 0; 1: the wanted row ends; -1. */
static int step(struct machine *machine)
{
	uint8_t op = byte_of(&machine->cursor), low = op & 0x3f;

	switch (op & 0xc0) {
	case ADVANCE:
		return advance(machine, low);
	case OFFSET:
		rule_set(machine, low,
			 rule_of(CFI_SAVED, 0,
				 scaled(machine, (int64_t)uleb_of(&machine->cursor))));
		return 0;
	case RESTORE:
		restore(machine, low);
		return 0;
	default:
		break;
	}
	if ((op >= CFA_DEF && op <= CFA_DEF_EXPRESSION) || op == CFA_DEF_SF ||
	    op == CFA_DEF_OFFSET_SF)
		step_cfa(machine, op);
	else if ((op >= CFA_OFFSET_EXTENDED && op <= CFA_REGISTER) || op == CFA_EXPRESSION ||
		 op == CFA_OFFSET_EXTENDED_SF || (op >= CFA_VAL_OFFSET && op <= CFA_VAL_EXPRESSION))
		step_register(machine, op);
	else
		return step_other(machine, op);
	return 0;
}

static int run(struct machine *machine, uint64_t from, uint64_t to)
{
	int ret = 0;

	machine->cursor.at = from;
	machine->cursor.end = to;
	for (unsigned int i = 0; !ret && machine->cursor.at < to; i++) {
		ret = i < STEPS_MAX ? step(machine) : -1;
		if (machine->cursor.has_failed)
			ret = -1;
	}
	return ret;
}

int cfi_row(const struct cfi_reader *reader, const struct cfi_function *function, uint64_t pc,
	    struct cfi_row *row, uint64_t *until)
{
	struct machine machine = { .cursor.reader = reader,
				   .function = function,
				   .location = function->start,
				   .pc = UINT64_MAX,
				   .until = function->end,
				   .row = row };

	*row = (struct cfi_row){ .cfa.how = CFI_UNKNOWN };
	if (pc < function->start || pc >= function->end ||
	    run(&machine, function->common, function->common_end))
		return -1;
	machine.first = *row;
	machine.pc = pc;
	if (run(&machine, function->own, function->own_end) < 0)
		return -1;
	if (until)
		*until = machine.until;
	return 0;
}

/* ---- from one frame to its caller's ---- */

#define MARKER_ENTRY_BYTES 32u /* of what an armed marker enters (marker/site.h) */
#define SAVED_WORDS 8u	       /* below the CFA, that are read at once */
#define RESTORER_BYTES 9u
#define CONTEXT_AT 40u /* the registers, in the kernel's struct ucontext */

/* In a context: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip (asm/sigcontext.h). */
static const uint8_t context_places[CFI_REGISTERS] = { 13, 12, 14, 11, 9, 8, 10, 15, 0,
						       1,  2,  3,  4,  5, 6, 7,	 16 };

static int value_of(const struct cfi_registers *registers, const struct cfi_rule *rule,
		    uint64_t *value)
{
	if (!(registers->known & 1u << rule->reg))
		return -1;
	*value = registers->values[rule->reg] + (uint64_t)(int64_t)rule->offset;
	return 0;
}

int cfi_cfa(const struct cfi_reader *reader, const struct cfi_row *row,
	    const struct cfi_registers *registers, uint64_t *cfa)
{
	uint64_t at;

	if ((row->cfa.how != CFI_AT && row->cfa.how != CFI_AT_DEREF) ||
	    value_of(registers, &row->cfa, &at))
		return -1;
	*cfa = at;
	return row->cfa.how == CFI_AT_DEREF ? reader->read(reader->data, at, cfa, sizeof(*cfa)) : 0;
}

/* The words right below the CFA. */
struct saved {
	const struct cfi_reader *reader;
	uint64_t from;
	uint64_t words[SAVED_WORDS];
	int is_read;
};

static int saved_read(struct saved *saved, uint64_t address, uint64_t *value)
{
	uint64_t at = address - saved->from;

	if (!saved->is_read || at % 8 || at / 8 >= SAVED_WORDS)
		return saved->reader->read(saved->reader->data, address, value, sizeof(*value));
	*value = saved->words[at / 8];
	return 0;
}

/* A jump's last 4 bytes are its displacement, relative to its end. */
static int jumped_to(const struct cfi_reader *reader, uint64_t at, uint64_t *value)
{
	uint64_t end = (at & ~(uint64_t)(MARKER_ENTRY_BYTES - 1)) + MARKER_ENTRY_BYTES - 1;
	int32_t displacement;

	if (reader->read(reader->data, end - sizeof(displacement), &displacement,
			 sizeof(displacement)))
		return -1;
	*value = end + (uint64_t)(int64_t)displacement;
	return 0;
}

/* One register in the caller. 0, or -1: it is not known there. */
static int caller_of(const struct cfi_registers *registers, const struct cfi_rule *rule,
		     unsigned int reg, uint64_t cfa, struct saved *saved, uint64_t *value)
{
	uint64_t at = cfa + (uint64_t)(int64_t)rule->offset;

	switch (rule->how) {
	case CFI_SAME:
		*value = registers->values[reg];
		return registers->known & 1u << reg ? 0 : -1;
	case CFI_SAVED:
		return saved_read(saved, at, value);
	case CFI_VALUE:
		*value = at;
		return 0;
	case CFI_COPIED:
		return value_of(registers, rule, value);
	case CFI_AT:
		return value_of(registers, rule, &at) ? -1 : saved_read(saved, at, value);
	case CFI_JUMPED:
		return value_of(registers, rule, &at) ? -1 : jumped_to(saved->reader, at, value);
	default:
		return -1;
	}
}

enum cfi_out cfi_step(const struct cfi_reader *reader, const struct cfi_row *row, uint64_t cfa,
		      struct cfi_registers *registers)
{
	static const uint8_t kept[] = { 3, CFI_RBP, 12, 13, 14, 15, CFI_RETURN };
	struct cfi_registers caller = { .known = 1u << CFI_RSP };
	struct saved saved = { .reader = reader, .from = cfa - 8 * SAVED_WORDS };

	if (row->registers[CFI_RETURN].how == CFI_UNDEFINED)
		return CFI_END;
	saved.is_read = !reader->read(reader->data, saved.from, saved.words, sizeof(saved.words));
	caller.values[CFI_RSP] = cfa;
	for (unsigned int i = 0; i < sizeof(kept); i++) {
		unsigned int reg = kept[i];

		if (!caller_of(registers, &row->registers[reg], reg, cfa, &saved,
			       &caller.values[reg]))
			caller.known |= 1u << reg;
	}
	if (!(caller.known & 1u << CFI_RETURN))
		return CFI_LOST;
	if (!caller.values[CFI_RETURN])
		return CFI_END;
	*registers = caller;
	return CFI_OUT;
}

int cfi_is_restorer(const struct cfi_reader *reader, uint64_t pc)
{
	static const uint8_t restorer[RESTORER_BYTES] = { 0x48, 0xc7, 0xc0, 0x0f, 0,
							  0,	0,    0x0f, 0x05 };
	uint8_t code[RESTORER_BYTES];

	if (reader->read(reader->data, pc, code, sizeof(code)))
		return 0;
	for (unsigned int i = 0; i < RESTORER_BYTES; i++) {
		if (code[i] != restorer[i])
			return 0;
	}
	return 1;
}

int cfi_interrupted(const struct cfi_reader *reader, struct cfi_registers *registers)
{
	uint64_t context[CFI_REGISTERS];

	if (!(registers->known & 1u << CFI_RSP) ||
	    !cfi_is_restorer(reader, registers->values[CFI_RETURN]))
		return -1;
	if (reader->read(reader->data, registers->values[CFI_RSP] + CONTEXT_AT, context,
			 sizeof(context)))
		return -1;
	for (unsigned int i = 0; i < CFI_REGISTERS; i++)
		registers->values[i] = context[context_places[i]];
	registers->known = (1u << CFI_REGISTERS) - 1;
	registers->is_exact = 1;
	return 0;
}
