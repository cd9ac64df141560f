/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/watch/unwind.h"

#include "agent/detour/moved.h"
#include "agent/detour/return.h"
#include "agent/marker/careful.h"
#include "agent/watch/boundary.h"
#include "base/cfi.h"

#define FRAMES_DEEP_MAX 4096u
#define SAVED_WORDS 8u /* below the CFA, that are read at once */
#define RESTORER_BYTES 9u
#define GREGS_AT 40u /* in the kernel's struct ucontext */

/* As DWARF numbers them, by where a context has them. */
static const uint8_t places[CFI_REGISTERS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

struct registers {
	uint64_t values[CFI_REGISTERS];
	uint32_t known; /* a bit each */
	int is_exact;	/* the instruction at the program counter is still to come */
};

static int read_memory(void *data, uint64_t address, void *to, size_t bytes)
{
	(void)data;
	return careful_read(to, address, bytes);
}

static const struct cfi_reader reader = { .read = read_memory };

static void load(struct registers *registers, const greg_t *gregs)
{
	for (unsigned int i = 0; i < CFI_REGISTERS; i++)
		registers->values[i] = (uint64_t)gregs[places[i]];
	registers->known = (1u << CFI_REGISTERS) - 1;
	registers->is_exact = 1;
}

/* What stands in a trampoline is what it was moved from. */
static void move_back(struct registers *registers)
{
	uint64_t *pc = &registers->values[CFI_RETURN];
	uintptr_t copy, original;

	if (return_original(*pc))
		*pc = return_original(*pc);
	if (!moved_from(*pc, &copy, &original))
		*pc = original + (*pc - copy);
}

/* A handler has returned to what restores the interrupted registers: they lie on the stack. */
static int restore(struct registers *registers)
{
	static const uint8_t restorer[RESTORER_BYTES] = { 0x48, 0xc7, 0xc0, 0x0f, 0,
							  0,	0,    0x0f, 0x05 };
	uint8_t code[RESTORER_BYTES];
	greg_t gregs[NGREG];

	if (careful_read(code, registers->values[CFI_RETURN], sizeof code))
		return -1;
	for (unsigned int i = 0; i < RESTORER_BYTES; i++) {
		if (code[i] != restorer[i])
			return -1;
	}
	if (careful_read(gregs, registers->values[CFI_RSP] + GREGS_AT, sizeof gregs))
		return -1;
	load(registers, gregs);
	return 0;
}

static int value_of(const struct registers *registers, const struct cfi_rule *rule, uint64_t *value)
{
	if (!(registers->known & 1u << rule->reg))
		return -1;
	*value = registers->values[rule->reg] + (uint64_t)(int64_t)rule->offset;
	return 0;
}

static int cfa_of(const struct registers *registers, const struct cfi_row *row, uint64_t *cfa)
{
	if ((row->cfa.how != CFI_AT && row->cfa.how != CFI_AT_DEREF) ||
	    value_of(registers, &row->cfa, cfa))
		return -1;
	return row->cfa.how == CFI_AT_DEREF ? careful_read(cfa, *cfa, sizeof *cfa) : 0;
}

/* What lies below the CFA, and at it. */
struct saved {
	uint64_t from;
	uint64_t words[SAVED_WORDS];
	int is_read;
};

static int saved_read(struct saved *saved, uint64_t address, uint64_t *value)
{
	uint64_t at = address - saved->from;

	if (!saved->is_read || at % 8 || at / 8 >= SAVED_WORDS)
		return careful_read(value, address, sizeof *value);
	*value = saved->words[at / 8];
	return 0;
}

/* One register in the caller. 0, or -1: it is not known there. */
static int caller_of(const struct registers *registers, const struct cfi_rule *rule,
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
	default:
		return -1;
	}
}

static enum unwind step_out(struct registers *registers, const struct cfi_row *row, uint64_t cfa)
{
	static const uint8_t kept[] = { 3, CFI_RBP, 12, 13, 14, 15, CFI_RETURN };
	struct registers caller = { .known = 1u << CFI_RSP };
	struct saved saved = { .from = cfa - 8 * SAVED_WORDS };

	if (row->registers[CFI_RETURN].how == CFI_UNDEFINED)
		return UNWIND_GONE;
	saved.is_read = !careful_read(saved.words, saved.from, sizeof saved.words);
	caller.values[CFI_RSP] = cfa;
	for (unsigned int i = 0; i < sizeof kept; i++) {
		unsigned int reg = kept[i];

		if (!caller_of(registers, &row->registers[reg], reg, cfa, &saved,
			       &caller.values[reg]))
			caller.known |= 1u << reg;
	}
	if (!(caller.known & 1u << CFI_RETURN))
		return UNWIND_LOST;
	if (!caller.values[CFI_RETURN])
		return UNWIND_GONE;
	*registers = caller;
	return UNWIND_FOUND;
}

enum unwind unwind_to(const ucontext_t *context, uintptr_t cfa, struct unwound *found)
{
	struct registers registers;

	load(&registers, context->uc_mcontext.gregs);
	for (uint32_t depth = 0; depth < FRAMES_DEEP_MAX; depth++) {
		struct cfi_function function;
		struct cfi_row row;
		uint64_t pc, own = 0;
		enum unwind out;

		move_back(&registers);
		pc = registers.values[CFI_RETURN] - !registers.is_exact;
		if (cfi_find(&reader, boundary_table(pc), pc, &function) || function.is_signal) {
			if (restore(&registers))
				return UNWIND_LOST;
			continue;
		}
		if (cfi_row(&reader, &function, pc, &row, NULL) || cfa_of(&registers, &row, &own))
			return UNWIND_LOST;
		if (own == cfa) {
			*found = (struct unwound){ pc, (uint32_t)registers.is_exact, depth };
			return UNWIND_FOUND;
		}
		/* a caller's lies above, or there is no end */
		if (own <= registers.values[CFI_RSP] && depth)
			return UNWIND_LOST;
		out = step_out(&registers, &row, own);
		if (out != UNWIND_FOUND)
			return out;
	}
	return UNWIND_LOST;
}
