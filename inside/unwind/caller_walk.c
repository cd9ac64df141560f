/* SPDX-License-Identifier: MIT */
#include "inside/unwind/caller_walk.h"

#include "abi/detour.h"
#include "abi/page.h"
#include "abi/site.h"
#include "base/cfi.h"
#include "inside/detour/return.h"
#include "inside/marker/careful.h"
#include "inside/marker/hit.h"
#include "inside/unwind/boundary.h"
#include "inside/unwind/unwind.h"

#include <stddef.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/*
 * ---- rules, by address ----
 *
 * One word holds the address and its rule, so any thread may store and load it without a lock:
 *
 *	bit 0       1: the word is in use
 *	bits 1-2    enum base: what the CFA is found by
 *	bits 3-15   the CFA's distance from it in words; of BASE_OTHER, enum other
 *	bits 16-22  where the frame pointer was saved: words below the CFA, or BP_*
 *	bits 23-27  of the epoch (boundary.h) in which it was stored
 *	bits 28-63  of the address: with its set's number, all of it
 */
#define SETS_BITS 11
#define WAYS 8
#define ADDRESS_BITS 47
#define TAG_SHIFT 28
#define EPOCH_SHIFT 23
#define EPOCH_MASK 31u
#define BP_SHIFT 16
#define BP_MASK 127u
#define OFFSET_SHIFT 3
#define OFFSET_MASK 8191u
#define ODD UINT64_C(0x9e3779b97f4a7c15)

#define BP_SAME 0u
#define BP_AT_ITSELF 127u /* saved where the frame pointer points: of a frame that was aligned */
#define BP_LOST 126u
#define BP_WORDS_MAX 125u

enum base {
	BASE_SP,
	BASE_BP,
	BASE_BELOW_BP, /* the CFA is the word that is so many words below the frame pointer */
	BASE_OTHER,
};

enum other {
	OTHER_OUTERMOST, /* there is no caller */
	OTHER_SIGNAL,	 /* a handler returns there, to what the kernel saved */
	OTHER_POINTER,	 /* a module's code without a rule: by the frame pointer */
	OTHER_JUMPED,	 /* what a marker enters: marker.h, WM__ENTER */
	OTHER_WHOLE,	 /* a rule that needs more registers */
};

static uint64_t rules[1u << SETS_BITS][WAYS] __attribute__((aligned(64)));
static uint32_t rules_epoch, rules_hand;

static uint64_t word_make(enum base base, unsigned int offset, unsigned int bp)
{
	return 1 | (uint64_t)base << 1 | (uint64_t)offset << OFFSET_SHIFT |
	       (uint64_t)bp << BP_SHIFT;
}

static int is_other(uint64_t word, enum other other)
{
	return (word & ((UINT64_C(1) << BP_SHIFT) - 1)) == word_make(BASE_OTHER, other, 0);
}

static uint64_t mix(uint64_t address)
{
	return address * ODD & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

/* The rule of an address; 0: none is kept. */
static inline uint64_t rule_find(uint64_t address, uint32_t epoch)
{
	uint64_t mixed = mix(address);
	const uint64_t *set = rules[mixed >> (ADDRESS_BITS - SETS_BITS)];
	uint64_t like = mixed << TAG_SHIFT | (uint64_t)(epoch / 2 & EPOCH_MASK) << EPOCH_SHIFT | 1;

	if (unlikely(address >> ADDRESS_BITS))
		return 0;
	for (unsigned int i = 0; i < WAYS; i++) {
		uint64_t word = __atomic_load_n(&set[i], __ATOMIC_RELAXED);

		/* equal, except for the rule itself */
		if (!((word ^ like) & ~(((UINT64_C(1) << (EPOCH_SHIFT - 1)) - 1) << 1)))
			return word;
	}
	return 0;
}

/* Keep it in a free place of its set, else in any. */
static void rule_keep(uint64_t address, uint32_t epoch, uint64_t word)
{
	uint64_t mixed = mix(address);
	uint64_t *set = rules[mixed >> (ADDRESS_BITS - SETS_BITS)];
	unsigned int way = 0;

	while (way < WAYS && __atomic_load_n(&set[way], __ATOMIC_RELAXED))
		way++;
	if (way == WAYS)
		way = __atomic_fetch_add(&rules_hand, 1, __ATOMIC_RELAXED) % WAYS;
	word |= mixed << TAG_SHIFT | (uint64_t)(epoch / 2 & EPOCH_MASK) << EPOCH_SHIFT;
	__atomic_store_n(&set[way], word, __ATOMIC_RELAXED);
}

/*
 * A module came or went: forget all. The words' own epoch keeps a rule out that another thread read
 * before and stores now.
 */
static void rules_renew(uint32_t epoch)
{
	for (unsigned int i = 0; i < 1u << SETS_BITS; i++) {
		for (unsigned int way = 0; way < WAYS; way++) {
			if (__atomic_load_n(&rules[i][way], __ATOMIC_RELAXED))
				__atomic_store_n(&rules[i][way], 0, __ATOMIC_RELAXED);
		}
	}
	__atomic_store_n(&rules_epoch, epoch, __ATOMIC_RELEASE);
}

static unsigned int bp_of(const struct cfi_rule *rule)
{
	if (rule->how == CFI_SAME)
		return BP_SAME;
	if (rule->how == CFI_AT && rule->reg == CFI_RBP && !rule->offset)
		return BP_AT_ITSELF;
	if (rule->how == CFI_SAVED && rule->offset % 8 == 0 && rule->offset < 0 &&
	    rule->offset >= -8 * (int)BP_WORDS_MAX)
		return (unsigned int)(-rule->offset / 8);
	return BP_LOST;
}

static uint64_t word_of_row(const struct cfi_row *row)
{
	const struct cfi_rule *from = &row->registers[CFI_RETURN], *cfa = &row->cfa;
	unsigned int bp = bp_of(&row->registers[CFI_RBP]);
	int32_t words = cfa->offset / 8;

	if (from->how == CFI_UNDEFINED)
		return word_make(BASE_OTHER, OTHER_OUTERMOST, 0);
	if (from->how == CFI_JUMPED && from->reg == CFI_RETURN && !from->offset)
		return word_make(BASE_OTHER, OTHER_JUMPED, 0);
	if (from->how != CFI_SAVED || from->offset != -8 || cfa->offset % 8)
		return word_make(BASE_OTHER, OTHER_WHOLE, 0);
	if (cfa->how == CFI_AT && cfa->reg == CFI_RSP && words > 0 && words <= (int)OFFSET_MASK)
		return word_make(BASE_SP, (unsigned int)words, bp);
	if (cfa->how == CFI_AT && cfa->reg == CFI_RBP && words > 0 && words <= (int)OFFSET_MASK)
		return word_make(BASE_BP, (unsigned int)words, bp);
	if (cfa->how == CFI_AT_DEREF && cfa->reg == CFI_RBP && words <= 0 &&
	    -words <= (int)OFFSET_MASK)
		return word_make(BASE_BELOW_BP, (unsigned int)-words, bp);
	return word_make(BASE_OTHER, OTHER_WHOLE, 0);
}

/* ---- a walk ---- */

#define WINDOW_BYTES 256u
#define WINDOW_BEFORE 64u
#define PAGE_BYTES 4096u
#define CONTEXT_BP_AT 120u /* in the kernel's struct ucontext: asm/sigcontext.h */
#define CONTEXT_SP_AT 160u
#define CONTEXT_PC_AT 168u
#define POINTER_FAR_BYTES (1u << 20) /* from one frame to the next, by frame pointers */

struct walk {
	uintptr_t pc, sp, bp;
	uint32_t epoch;
	uint8_t is_exact; /* the instruction at `pc` is still to come: it is no return address */
	uint8_t has_bp;
	uint8_t is_whole; /* a frame needs more registers */
	uint8_t state;	  /* enum field_state: why it ended */
	/* words from `low` up to `room` behind it are the thread's stack, and mapped */
	uintptr_t low, room;
	/* what the kernel read last */
	uintptr_t window_at;
	uint32_t window_bytes;
	unsigned char window[WINDOW_BYTES];
};

static __attribute__((noinline)) int word_far(struct walk *walk, uintptr_t address,
					      uintptr_t *value)
{
	uintptr_t page = address & ~(uintptr_t)(PAGE_BYTES - 1), at = address - WINDOW_BEFORE;
	uint32_t bytes = WINDOW_BYTES;

	if (address - walk->window_at + sizeof *value > walk->window_bytes ||
	    address < walk->window_at) {
		at = at < page ? page : at;
		if (at + bytes > page + PAGE_BYTES)
			bytes = (uint32_t)(page + PAGE_BYTES - at);
		if (address + sizeof *value > page + PAGE_BYTES)
			return careful_read(value, address, sizeof *value);
		walk->window_bytes = 0;
		if (careful_read(walk->window, at, bytes))
			return -1;
		walk->window_at = at;
		walk->window_bytes = bytes;
	}
	__builtin_memcpy(value, walk->window + (address - walk->window_at), sizeof *value);
	return 0;
}

static inline int word_at(struct walk *walk, uintptr_t address, uintptr_t *value)
{
	if (unlikely(address - walk->low > walk->room))
		return word_far(walk, address, value);
	*value = *(const volatile uintptr_t *)address;
	return 0;
}

/* Returns -1, with why the walk ends. */
static int ended(struct walk *walk, enum field_state state)
{
	walk->state = (uint8_t)state;
	return -1;
}

/* The rule for the state of the walk, from the module's table. 0; -1: none. */
static __attribute__((noinline)) int rule_read(struct walk *walk, uint64_t address, uint64_t *rule)
{
	struct cfi_row row;

	*rule = 0;
	if (!boundary_is_code(address + 1))
		return ended(walk, FIELD_ASTRAY);
	switch (unwind_row(address, &row)) {
	case UNWIND_ROW_FOUND:
		*rule = word_of_row(&row);
		break;
	case UNWIND_ROW_SIGNAL:
	case UNWIND_ROW_NONE:
		/* a restorer may have no table */
		*rule = word_make(BASE_OTHER,
				  unwind_is_restorer(walk->pc) ? OTHER_SIGNAL : OTHER_POINTER, 0);
		break;
	case UNWIND_ROW_BAD:
		return ended(walk, FIELD_NO_RULE);
	}
	/* without leave to read there may be a table all the same */
	if (!careful_is_allowed())
		return ended(walk, FIELD_NO_RULE);
	rule_keep(address, walk->epoch, *rule);
	return 0;
}

/* What the kernel saved of the interrupted code. */
static int step_signal(struct walk *walk)
{
	uintptr_t context = walk->sp, pc, sp, bp;

	if (word_at(walk, context + CONTEXT_PC_AT, &pc) ||
	    word_at(walk, context + CONTEXT_SP_AT, &sp) ||
	    word_at(walk, context + CONTEXT_BP_AT, &bp))
		return ended(walk, FIELD_UNREADABLE);
	walk->pc = pc;
	walk->sp = sp;
	walk->bp = bp;
	walk->has_bp = 1;
	walk->is_exact = 1;
	return unwind_translate(&walk->pc) ? ended(walk, FIELD_NO_RULE) : 0;
}

/* It skips a function that has no frame pointer, or has not set it yet. */
static int step_pointer(struct walk *walk)
{
	uintptr_t at = walk->bp, bp, pc;

	if (!walk->has_bp || at % sizeof at || at - walk->sp > POINTER_FAR_BYTES)
		return ended(walk, FIELD_NO_RULE);
	if (word_at(walk, at, &bp) || word_at(walk, at + sizeof at, &pc))
		return ended(walk, FIELD_UNREADABLE);
	walk->bp = bp;
	walk->sp = at + 2 * sizeof at;
	walk->pc = pc;
	walk->is_exact = 0;
	return unwind_translate(&walk->pc) || !boundary_is_code(walk->pc)
		       ? ended(walk, FIELD_NO_RULE)
		       : 0;
}

static __attribute__((noinline)) int step_other(struct walk *walk, uint64_t rule)
{
	switch ((enum other)(rule >> OFFSET_SHIFT & OFFSET_MASK)) {
	case OTHER_OUTERMOST:
		return ended(walk, FIELD_WHOLE);
	case OTHER_SIGNAL:
		return step_signal(walk);
	case OTHER_POINTER:
		return step_pointer(walk);
	default:
		walk->is_whole = 1;
		return ended(walk, FIELD_NO_RULE);
	}
}

/* From a frame to its caller's, which must be above it. 0; -1: the walk ends. */
static inline __attribute__((always_inline)) int step(struct walk *walk)
{
	uint64_t address = walk->pc - !walk->is_exact, rule = rule_find(address, walk->epoch);
	unsigned int bp_words, words;
	uintptr_t cfa, pc, bp;

	if (unlikely(!rule) && rule_read(walk, address, &rule))
		return -1;
	words = rule >> OFFSET_SHIFT & OFFSET_MASK;
	switch ((enum base)(rule >> 1 & 3)) {
	case BASE_SP:
		cfa = walk->sp + 8 * words;
		break;
	case BASE_BP:
		cfa = walk->bp + 8 * words;
		if (!walk->has_bp)
			return ended(walk, FIELD_NO_RULE);
		break;
	case BASE_BELOW_BP:
		if (!walk->has_bp)
			return ended(walk, FIELD_NO_RULE);
		if (word_at(walk, walk->bp - 8 * words, &cfa))
			return ended(walk, FIELD_UNREADABLE);
		break;
	default:
		return step_other(walk, rule);
	}
	if (unlikely(cfa <= walk->sp))
		return ended(walk, FIELD_ASTRAY);
	bp_words = rule >> BP_SHIFT & BP_MASK;
	bp = walk->bp;
	if (word_at(walk, cfa - 8, &pc))
		return ended(walk, FIELD_UNREADABLE);
	if (bp_words && word_at(walk, bp_words == BP_AT_ITSELF ? bp : cfa - 8 * bp_words, &bp))
		return ended(walk, FIELD_UNREADABLE);
	if (bp_words)
		walk->has_bp = bp_words != BP_LOST;
	if (unlikely(!pc))
		return ended(walk, FIELD_WHOLE);
	walk->bp = bp;
	walk->sp = cfa;
	walk->is_exact = 0;
	walk->pc = unlikely(return_is_stub(pc)) ? return_original(pc) : pc;
	return 0;
}

/* ---- where a walk begins ---- */

#define ENTERED_BYTES 152u  /* arch/enter.S: from the stub's return address to the site's stack */
#define RETURN_AT_BYTES 40u /* arch/return.S: from what return_hit() was given to that address */

/*
 * The block that a marker enters by leads back to the site by a jump (abi/site.h). Sites of earlier
 * headers have no such block. Returns an address in the site's code.
 */
static uintptr_t marker_begin(struct walk *walk, const struct hit_at *at)
{
	uintptr_t entered = *(const uintptr_t *)at->sp;
	uintptr_t end = (entered & -(uintptr_t)SITE_ENTRY_BYTES) + SITE_ENTRY_JUMP + SITE_BYTES;
	uint64_t rule = rule_find(entered - 1, walk->epoch);
	int32_t distance;

	if (!rule && rule_read(walk, entered - 1, &rule))
		rule = 0;
	walk->pc = entered;
	walk->sp = at->sp + ENTERED_BYTES;
	walk->is_exact = 0;
	if (is_other(rule, OTHER_JUMPED)) {
		__builtin_memcpy(&distance, (const char *)end - sizeof distance, sizeof distance);
		walk->pc = end + (uintptr_t)(intptr_t)distance;
	}
	return walk->pc - 1;
}

/* The instruction that the jump replaced is still to come. */
static uintptr_t point_begin(struct walk *walk, const struct hit_at *at)
{
	walk->pc = at->record->address;
	walk->sp = (uintptr_t)at->payload + 8u * at->record->up_words;
	walk->is_exact = 1;
	return at->record->point;
}

/* The caller's frame, as behind its call. */
static uintptr_t return_begin(struct walk *walk, const struct hit_at *at)
{
	uintptr_t slot = at->sp + RETURN_AT_BYTES;

	walk->pc = *(const uintptr_t *)slot;
	walk->sp = slot + sizeof slot;
	walk->is_exact = 0;
	return at->record->point;
}

/* Let the walk begin in the program's frame, with the registers that it has. The hit's place. */
static uintptr_t program_begin(struct walk *walk, const struct hit_at *at)
{
	if (!at->record)
		return marker_begin(walk, at);
	return at->is_return ? return_begin(walk, at) : point_begin(walk, at);
}

/* Whether a frame is still the agent's. A marker's stub pushed the flags. */
static int is_agents(uintptr_t sp, const struct hit_at *at)
{
	return sp + sizeof sp < at->sp;
}

/* ---- all ---- */

/* Whether the last caller has none itself. */
static int is_outermost(struct walk *walk)
{
	uint64_t address = walk->pc - !walk->is_exact, rule = rule_find(address, walk->epoch);

	return (rule || !rule_read(walk, address, &rule)) && is_other(rule, OTHER_OUTERMOST);
}

static void begin(struct walk *walk, const struct hit_registers *here, const struct hit_at *at)
{
	uintptr_t end = at->stack.low + at->stack.bytes;

	walk->pc = here->pc;
	walk->sp = here->sp;
	walk->bp = here->bp;
	walk->has_bp = walk->is_exact = 1;
	walk->is_whole = 0;
	walk->state = FIELD_WHOLE;
	walk->window_at = walk->window_bytes = 0;
	walk->low = UINTPTR_MAX; /* nothing is read directly */
	walk->room = 0;
	if (here->sp - at->stack.low < at->stack.bytes - sizeof end &&
	    at->stack.bytes > sizeof end) {
		walk->low = here->sp;
		walk->room = end - here->sp - sizeof end;
	}
	walk->epoch = boundary_epoch();
	if (unlikely(walk->epoch != __atomic_load_n(&rules_epoch, __ATOMIC_ACQUIRE)))
		rules_renew(walk->epoch);
}

/* The same with all registers, by whole rows. */
static __attribute__((noinline)) void find_whole(struct walk *walk,
						 const struct hit_registers *here,
						 const struct hit_at *at,
						 struct hit_callers *callers)
{
	struct cfi_registers registers = {
		.values = { [3] = here->bx,
			    [CFI_RBP] = here->bp,
			    [CFI_RSP] = here->sp,
			    [12] = here->r12,
			    [13] = here->r13,
			    [14] = here->r14,
			    [15] = here->r15,
			    [CFI_RETURN] = here->pc },
		.known = 1u << 3 | 1u << CFI_RBP | 1u << CFI_RSP | 15u << 12 | 1u << CFI_RETURN,
		.is_exact = 1,
	};
	enum cfi_out out = CFI_OUT;
	int is_first = 1;

	while (out == CFI_OUT && is_agents(registers.values[CFI_RSP], at))
		out = unwind_out(&registers, 0);
	callers->all[0] = program_begin(walk, at);
	callers->count = 1;
	registers.values[CFI_RSP] = walk->sp;
	registers.values[CFI_RETURN] = walk->pc;
	registers.is_exact = walk->is_exact;
	if (at->is_return)
		callers->all[callers->count++] = walk->pc;
	while (out == CFI_OUT && callers->count <= callers->wanted) {
		out = unwind_out(&registers, is_first);
		is_first = 0;
		if (out == CFI_OUT)
			callers->all[callers->count++] = registers.values[CFI_RETURN];
	}
	callers->state = out == CFI_OUT ? FIELD_CUT : out == CFI_END ? FIELD_WHOLE : FIELD_NO_RULE;
}

void caller_walk(const struct hit_registers *here, const struct hit_at *at,
		 struct hit_callers *callers)
{
	unsigned int wanted = callers->wanted, count = 0;
	struct walk walk;
	int end = 0;

	begin(&walk, here, at);
	while (!end && is_agents(walk.sp, at))
		end = step(&walk);
	callers->all[0] = program_begin(&walk, at);
	if (!end && at->is_return)
		callers->all[++count] = walk.pc;
	while (!end && count < wanted) {
		end = step(&walk);
		if (!end)
			callers->all[++count] = walk.pc;
	}
	callers->count = 1 + count;
	callers->state = end ? walk.state : is_outermost(&walk) ? FIELD_WHOLE : FIELD_CUT;
	if (unlikely(walk.is_whole))
		find_whole(&walk, here, at, callers);
}
