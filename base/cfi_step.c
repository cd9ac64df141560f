/* SPDX-License-Identifier: MIT */
#include "base/cfi_step.h"

#define MARKER_BYTES 32u /* of what an armed marker enters (marker/site.h) */
#define SAVED_WORDS 8u	 /* below the CFA, that are read at once */
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
	uint64_t end = (at & ~(uint64_t)(MARKER_BYTES - 1)) + MARKER_BYTES - 1;
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

int cfi_interrupted(const struct cfi_reader *reader, struct cfi_registers *registers)
{
	static const uint8_t restorer[RESTORER_BYTES] = { 0x48, 0xc7, 0xc0, 0x0f, 0,
							  0,	0,    0x0f, 0x05 };
	uint8_t code[RESTORER_BYTES];
	uint64_t context[CFI_REGISTERS];

	if (!(registers->known & 1u << CFI_RSP) ||
	    reader->read(reader->data, registers->values[CFI_RETURN], code, sizeof(code)))
		return -1;
	for (unsigned int i = 0; i < RESTORER_BYTES; i++) {
		if (code[i] != restorer[i])
			return -1;
	}
	if (reader->read(reader->data, registers->values[CFI_RSP] + CONTEXT_AT, context,
			 sizeof(context)))
		return -1;
	for (unsigned int i = 0; i < CFI_REGISTERS; i++)
		registers->values[i] = context[context_places[i]];
	registers->known = (1u << CFI_REGISTERS) - 1;
	registers->is_exact = 1;
	return 0;
}
