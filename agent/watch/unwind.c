/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/watch/unwind.h"

#include "agent/detour/memory.h"
#include "agent/detour/moved.h"
#include "agent/detour/return.h"
#include "agent/marker/careful.h"
#include "agent/watch/boundary.h"
#include "base/cfi_step.h"

#define FRAMES_DEEP_MAX 4096u
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

/* What stands in a trampoline is what it was moved from. -1: it is what we put there ourselves. */
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

enum unwind unwind_to(const ucontext_t *context, uintptr_t cfa, struct unwound *found)
{
	struct cfi_registers registers;

	load(&registers, context->uc_mcontext.gregs);
	for (uint32_t depth = 0; depth < FRAMES_DEEP_MAX; depth++) {
		struct cfi_function function;
		struct cfi_row row;
		uint64_t pc, own = 0;
		enum cfi_out out;

		if (move_back(&registers))
			return UNWIND_OURS;
		pc = registers.values[CFI_RETURN] - !registers.is_exact;
		if (cfi_find(&reader, boundary_table(pc), pc, &function) || function.is_signal) {
			if (cfi_interrupted(&reader, &registers))
				return UNWIND_LOST;
			continue;
		}
		if (cfi_row(&reader, &function, pc, &row, NULL) ||
		    cfi_cfa(&reader, &row, &registers, &own))
			return UNWIND_LOST;
		if (own == cfa) {
			*found = (struct unwound){ pc, (uint32_t)registers.is_exact, depth };
			return UNWIND_FOUND;
		}
		/* a caller's lies above, or there is no end */
		if (own <= registers.values[CFI_RSP] && depth)
			return UNWIND_LOST;
		out = cfi_step(&reader, &row, own, &registers);
		if (out != CFI_OUT)
			return out == CFI_END ? UNWIND_GONE : UNWIND_LOST;
	}
	return UNWIND_LOST;
}
