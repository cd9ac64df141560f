/* SPDX-License-Identifier: MIT */
#include "inside/watch/unwind.h"

#include "base/cfi_step.h"
#include "inside/detour/memory.h"
#include "inside/detour/moved.h"
#include "inside/detour/return.h"
#include "inside/marker/careful.h"
#include "inside/watch/boundary.h"
#include "inside/watch/unwind_row.h"

#define FRAMES_DEEP_MAX 4096u
#define STACK_FAR_BYTES (1u << 20) /* from one frame to the next, by frame pointers */
/* As DWARF numbers them, by where a context has them. */
static const uint8_t places[CFI_REGISTERS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

static int read_memory(void *data, uint64_t address, void *to, size_t bytes)
{
	(void)data;
	return careful_read(to, address, bytes);
}

static const struct cfi_reader reader = { .read = read_memory };

static void load(struct cfi_registers *registers, const greg_t *gregs)
{
	for (unsigned int i = 0; i < CFI_REGISTERS; i++)
		registers->values[i] = (uint64_t)gregs[places[i]];
	registers->known = (1u << CFI_REGISTERS) - 1;
	registers->is_exact = 1;
}

/*
 * Code in a trampoline gets the address that it was moved from. -1: code that the agent added
 * there.
 */
static int move_back(struct cfi_registers *registers)
{
	uint64_t *pc = &registers->values[CFI_RETURN];
	uintptr_t copy, original;

	if (return_original(*pc))
		*pc = return_original(*pc);
	if (!moved_from(*pc, &copy, &original))
		*pc = original + (*pc - copy);
	else if (memory_holds(*pc - 1))
		return -1;
	return 0;
}

/* A caller's frame is above, so that a walk ends. What a marker enters has no room of its own. */
static int is_above(const struct cfi_row *row, uint64_t cfa, const struct cfi_registers *registers)
{
	uint64_t callee = registers->values[CFI_RSP];

	return cfa > callee || (cfa == callee && row->registers[CFI_RETURN].how == CFI_JUMPED);
}

enum unwind unwind_to(const ucontext_t *context, uintptr_t cfa, struct unwound *found)
{
	struct cfi_registers registers;

	load(&registers, context->uc_mcontext.gregs);
	for (uint32_t depth = 0; depth < FRAMES_DEEP_MAX; depth++) {
		struct cfi_row row;
		uint64_t pc, own = 0;
		enum unwind_row how;
		enum cfi_out out;

		if (move_back(&registers))
			return UNWIND_OURS;
		pc = registers.values[CFI_RETURN] - !registers.is_exact;
		how = unwind_row(&reader, pc, &row);
		if (how == UNWIND_ROW_NONE || how == UNWIND_ROW_SIGNAL) {
			if (cfi_interrupted(&reader, &registers))
				return UNWIND_LOST;
			continue;
		}
		if (how == UNWIND_ROW_BAD || cfi_cfa(&reader, &row, &registers, &own))
			return UNWIND_LOST;
		if (own == cfa) {
			*found = (struct unwound){ pc, (uint32_t)registers.is_exact, depth };
			return UNWIND_FOUND;
		}
		if (depth && !is_above(&row, own, &registers))
			return UNWIND_LOST;
		out = cfi_step(&reader, &row, own, &registers);
		if (out != CFI_OUT)
			return out == CFI_END ? UNWIND_GONE : UNWIND_LOST;
	}
	return UNWIND_LOST;
}

/* ---- all callers ---- */

/*
 * Step by the frame pointer, for code without a table alone. It skips a function that has none, or
 * has not set it yet. It leads only to a module's code.
 */
static int step_by_pointer(struct cfi_registers *registers)
{
	uint64_t at = registers->values[CFI_RBP], sp = registers->values[CFI_RSP], frame[2];

	if (!(registers->known & 1u << CFI_RBP) || !(registers->known & 1u << CFI_RSP) || at % 8 ||
	    at - sp > STACK_FAR_BYTES || careful_read(frame, at, sizeof(frame)))
		return -1;
	*registers = (struct cfi_registers){ .known = 1u << CFI_RBP | 1u << CFI_RSP |
						      1u << CFI_RETURN };
	registers->values[CFI_RBP] = frame[0];
	registers->values[CFI_RSP] = at + sizeof(frame);
	registers->values[CFI_RETURN] = frame[1];
	return move_back(registers) || !boundary_is_code(registers->values[CFI_RETURN]) ? -1 : 0;
}

/*
 * Step from a frame to its caller's. That must be above it, so that the walk ends. 0; -1: not
 * found.
 */
static int step_out(struct cfi_registers *registers, int is_first)
{
	uint64_t pc = registers->values[CFI_RETURN] - !registers->is_exact, cfa = 0;
	struct cfi_row row;

	switch (unwind_row(&reader, pc, &row)) {
	case UNWIND_ROW_FOUND:
		if (cfi_cfa(&reader, &row, registers, &cfa) ||
		    (!is_first && !is_above(&row, cfa, registers)) ||
		    cfi_step(&reader, &row, cfa, registers) != CFI_OUT)
			return -1;
		return move_back(registers);
	case UNWIND_ROW_SIGNAL:
		return cfi_interrupted(&reader, registers) || move_back(registers) ? -1 : 0;
	case UNWIND_ROW_NONE:
		if (!cfi_interrupted(&reader, registers))
			return move_back(registers);
		return step_by_pointer(registers);
	default:
		return -1;
	}
}

void unwind_callers(const ucontext_t *context, uint64_t *callers, unsigned int wanted)
{
	struct cfi_registers registers;
	unsigned int known = 0;

	load(&registers, context->uc_mcontext.gregs);
	if (!move_back(&registers)) {
		/* code outside all modules has no table, and its frame pointer is any number */
		while (known < wanted && (!known || boundary_is_code(callers[known - 1])) &&
		       !step_out(&registers, !known))
			callers[known++] = registers.values[CFI_RETURN];
	}
	while (known < wanted)
		callers[known++] = 0;
}
