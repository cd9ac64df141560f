/* SPDX-License-Identifier: MIT */
#include "inside/unwind/unwind.h"

#include "base/cfi.h"
#include "inside/detour/memory.h"
#include "inside/detour/moved.h"
#include "inside/detour/return.h"
#include "inside/marker/careful.h"
#include "inside/unwind/boundary.h"

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

int unwind_translate(uint64_t *pc)
{
	uintptr_t copy, original;

	if (return_original(*pc))
		*pc = return_original(*pc);
	if (!moved_from(*pc, &copy, &original))
		*pc = original + (*pc - copy);
	else if (memory_holds(*pc - 1))
		return -1;
	return 0;
}

static int move_back(struct cfi_registers *registers)
{
	return unwind_translate(&registers->values[CFI_RETURN]);
}

int unwind_is_restorer(uint64_t pc)
{
	return cfi_is_restorer(&reader, pc);
}

/*
 * ---- rows of call frame information, by address ----
 *
 * They have a cache: to find and read one takes many system calls (careful.h).
 */

#define SLOTS 512u
#define ROW_WORDS (sizeof(struct cfi_row) / sizeof(uint64_t))

_Static_assert(sizeof(struct cfi_row) % sizeof(uint64_t) == 0, "copied word by word");

/*
 * Any thread fills a slot, and any other may read it meanwhile. `version` is odd while a thread
 * fills the slot: even -> odd -> even. A thread that finds it odd, or changed, does not use the
 * slot. After a fork while the parent fills it, it stays odd in the child: that slot is lost.
 */
static struct slot {
	uint32_t version;
	uint32_t epoch; /* of boundary.h, when the row was read */
	uint64_t pc;	/* 0: empty */
	uint64_t words[ROW_WORDS];
} slots[SLOTS];

static struct slot *slot_of(uint64_t pc)
{
	return &slots[(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS];
}

static int recall(uint64_t pc, uint32_t epoch, struct cfi_row *row)
{
	struct slot *slot = slot_of(pc);
	uint32_t version = __atomic_load_n(&slot->version, __ATOMIC_ACQUIRE);
	uint64_t words[ROW_WORDS];

	if (version & 1 || __atomic_load_n(&slot->pc, __ATOMIC_RELAXED) != pc ||
	    __atomic_load_n(&slot->epoch, __ATOMIC_RELAXED) != epoch)
		return -1;
	for (unsigned int i = 0; i < ROW_WORDS; i++)
		words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with remember()'s release fence */
	if (__atomic_load_n(&slot->version, __ATOMIC_RELAXED) != version)
		return -1;
	__builtin_memcpy(row, words, sizeof(*row));
	return 0;
}

static void remember(uint64_t pc, uint32_t epoch, const struct cfi_row *row)
{
	struct slot *slot = slot_of(pc);
	uint32_t version = __atomic_load_n(&slot->version, __ATOMIC_RELAXED);
	uint64_t words[ROW_WORDS];

	if (version & 1 || !__atomic_compare_exchange_n(&slot->version, &version, version + 1, 0,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with recall()'s acquire fence */
	__builtin_memcpy(words, row, sizeof(*row));
	__atomic_store_n(&slot->pc, pc, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->epoch, epoch, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < ROW_WORDS; i++)
		__atomic_store_n(&slot->words[i], words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->version, version + 2, __ATOMIC_RELEASE);
}

enum unwind_row unwind_row(uint64_t pc, struct cfi_row *row)
{
	uint32_t epoch = boundary_epoch();
	struct cfi_function function;

	if (!recall(pc, epoch, row))
		return UNWIND_ROW_FOUND;
	if (cfi_find(&reader, boundary_table(pc), pc, &function))
		return UNWIND_ROW_NONE;
	if (function.is_signal)
		return UNWIND_ROW_SIGNAL;
	if (cfi_row(&reader, &function, pc, row, NULL))
		return UNWIND_ROW_BAD;
	remember(pc, epoch, row);
	return UNWIND_ROW_FOUND;
}

/* ---- to one frame ---- */

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
		how = unwind_row(pc, &row);
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

enum cfi_out unwind_out(struct cfi_registers *registers, int is_first)
{
	uint64_t pc = registers->values[CFI_RETURN] - !registers->is_exact, cfa = 0;
	enum cfi_out out = CFI_LOST;
	struct cfi_row row;

	switch (unwind_row(pc, &row)) {
	case UNWIND_ROW_FOUND:
		if (!cfi_cfa(&reader, &row, registers, &cfa) &&
		    (is_first || is_above(&row, cfa, registers)))
			out = cfi_step(&reader, &row, cfa, registers);
		break;
	case UNWIND_ROW_SIGNAL:
		out = cfi_interrupted(&reader, registers) ? CFI_LOST : CFI_OUT;
		break;
	case UNWIND_ROW_NONE:
		if (cfi_interrupted(&reader, registers))
			return step_by_pointer(registers) ? CFI_LOST : CFI_OUT;
		out = CFI_OUT;
		break;
	case UNWIND_ROW_BAD:
		break;
	}
	return out == CFI_OUT && move_back(registers) ? CFI_LOST : out;
}

void unwind_callers(const ucontext_t *context, uint64_t *callers, unsigned int wanted)
{
	struct cfi_registers registers;
	unsigned int known = 0;

	load(&registers, context->uc_mcontext.gregs);
	if (!move_back(&registers)) {
		/* code outside all modules has no table, and its frame pointer is any number */
		while (known < wanted && (!known || boundary_is_code(callers[known - 1])) &&
		       unwind_out(&registers, !known) == CFI_OUT)
			callers[known++] = registers.values[CFI_RETURN];
	}
	while (known < wanted)
		callers[known++] = 0;
}
