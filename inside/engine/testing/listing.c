/* SPDX-License-Identifier: MIT */
#include "inside/engine/testing/listing.h"
#include "inside/engine/cache.h"
#include "inside/engine/channel.h"
#include "inside/engine/gate.h"
#include "inside/engine/map.h"
#include "inside/engine/testing/fixture_code.h"

#include <Zydis/Zydis.h>
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLD_MAX 32u
#define CODE_REACH INT64_C(0x100000)
#define TEXT_BYTES 65536u

/* An instruction of the cache's. */
struct step {
	uint64_t at, next;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static char text[TEXT_BYTES];
static size_t text_bytes;

static const struct trace *trace;
static const struct cache_head *head;
static uint64_t cold[COLD_MAX];
static unsigned int cold_count;

static void add(const char *form, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *form, ...)
{
	va_list arguments;
	int got;

	va_start(arguments, form);
	got = vsnprintf(text + text_bytes, sizeof(text) - text_bytes, form, arguments);
	va_end(arguments);
	text_bytes += (size_t)got;
	cr_assert_lt(text_bytes, sizeof(text));
}

/* ---- names ---- */

uint64_t listing_map(void)
{
	static uint64_t map;
	uint8_t code[64], *end = map_emit_jump(code);
	uint64_t entry;

	/* map_is_jump() returns the address that the jump reads; a far map is an immediate */
	for (const uint8_t *at = code; at < end && !map; at++)
		if (map_is_jump(at, 0, &entry))
			map = entry;
	if (!map)
		memcpy(&map, code + 11, sizeof(map));
	return map;
}

static const char *cold_name(uint64_t address)
{
	static char name[16];
	unsigned int i = 0;

	while (i < cold_count && cold[i] != address)
		i++;
	cr_assert_lt(i, COLD_MAX);
	cold[i] = address;
	cold_count += i == cold_count;
	snprintf(name, sizeof(name), "cold%u", i);
	return name;
}

/* A number that is an address, or one in a thread: its name; NULL: it is another. */
static const char *name_of(uint64_t value)
{
	static char name[48];
	/* the upper half of an address may be gone */
	int is_half = trace->pc > UINT32_MAX && value <= UINT32_MAX;
	int64_t offset = is_half ? (int32_t)((uint32_t)value - (uint32_t)trace->pc)
				 : (int64_t)(value - trace->pc);

	if (value >= (uint64_t)trace->cold && value < (uint64_t)trace->cold_end)
		return cold_name(value);
	if (value == (uint64_t)head->exit_jump)
		return "exit";
	if (value == listing_map())
		return "map";
	if (offset <= -CODE_REACH || offset >= CODE_REACH)
		return NULL;
	snprintf(name, sizeof(name), "%scode%s0x%" PRIx64, is_half ? "half " : "",
		 offset < 0 ? "-" : "+", (uint64_t)(offset < 0 ? -offset : offset));
	return name;
}

static const char *address_name(uint64_t address)
{
	static char other[32];
	const char *name = name_of(address);

	snprintf(other, sizeof(other), "0x%" PRIx64, address);
	return name ? name : other;
}

static const char *thread_name(int64_t offset)
{
	static char name[32];
	static const struct {
		int64_t offset;
		const char *name;
	} names[] = {
		{ THREAD_SCRATCH, "scratch" },	 { THREAD_TARGET, "target" },
		{ THREAD_SPILL, "spill" },	 { THREAD_POINTER, "pointer" },
		{ THREAD_VECTOR15, "vector15" },
	};

	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].offset == offset)
			return names[i].name;
	if (offset > THREAD_VECTOR15 && offset < THREAD_VECTOR15 + 64)
		snprintf(name, sizeof(name), "vector15+%d", (int)(offset - THREAD_VECTOR15));
	else
		snprintf(name, sizeof(name), "0x%" PRIx64, (uint64_t)offset);
	return name;
}

/* ---- instructions ---- */

static void decode(struct step *step, uint64_t at)
{
	static ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	step->at = at;
	cr_assert(ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, (const void *)at, 15, &step->insn,
						      step->operands)));
	step->next = at + step->insn.length;
}

static uint64_t absolute(const struct step *step, unsigned int operand)
{
	ZyanU64 address = 0;

	ZydisCalcAbsoluteAddress(&step->insn, &step->operands[operand], step->at, &address);
	return address;
}

static int is_register(const struct step *step, unsigned int operand, ZydisRegister reg)
{
	return step->operands[operand].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       step->operands[operand].reg.value == reg;
}

static const char *register_name(const struct step *step, unsigned int operand)
{
	return ZydisRegisterGetString(step->operands[operand].reg.value);
}

static int is_memory(const struct step *step, unsigned int operand, ZydisRegister base)
{
	const ZydisDecodedOperand *memory = &step->operands[operand];

	return memory->type == ZYDIS_OPERAND_TYPE_MEMORY && memory->mem.base == base &&
	       memory->mem.index == ZYDIS_REGISTER_NONE;
}

static int is_gs(const struct step *step, unsigned int operand)
{
	return is_memory(step, operand, ZYDIS_REGISTER_NONE) &&
	       step->operands[operand].mem.segment == ZYDIS_REGISTER_GS;
}

/* A whole register from or to the thread. 0: it is not that; 2: by AVX. */
static int is_move(const struct step *step)
{
	switch (step->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		return step->insn.operand_width == 64;
	case ZYDIS_MNEMONIC_MOVUPS:
	case ZYDIS_MNEMONIC_MOVDQU:
		return 1;
	case ZYDIS_MNEMONIC_VMOVUPS:
	case ZYDIS_MNEMONIC_VMOVDQU:
	case ZYDIS_MNEMONIC_VMOVDQU64:
		return 2;
	default:
		return 0;
	}
}

static int moves(const struct step *step)
{
	int is_load = is_gs(step, 1), form = is_move(step);
	int64_t offset;

	if (!form || is_load == is_gs(step, 0) ||
	    step->operands[!is_load].type != ZYDIS_OPERAND_TYPE_REGISTER)
		return 0;
	offset = step->operands[is_load].mem.disp.value;
	add("%s%s %s", form == 2 ? "v" : "", is_load ? "load" : "save",
	    register_name(step, !is_load));
	if (offset != THREAD_SCRATCH)
		add(" %s", thread_name(offset));
	return 1;
}

/* What paddq adds to xmm15: {4, blocks}. -1: not that. */
static int step_blocks(uint64_t address)
{
	const uint64_t *added = (const uint64_t *)address;

	if (address % 16 || added < head->steps[0] ||
	    added >= head->steps[0] + 2 * (TRACE_BLOCKS_MAX + 1) || added[0] != 4)
		return -1;
	return (int)added[1];
}

/* Three instructions that put an exit's id. Returns where the next one is; 0: it is not that. */
static uint64_t puts_id(const struct step *first, int *which, int *blocks)
{
	int is_avx = first->insn.mnemonic == ZYDIS_MNEMONIC_VMOVQ;
	struct step store, sum;
	uint32_t id;

	if ((!is_avx && first->insn.mnemonic != ZYDIS_MNEMONIC_MOVQ) ||
	    !is_register(first, 1, ZYDIS_REGISTER_XMM15))
		return 0;
	decode(&store, first->next);
	decode(&sum, store.next);
	if (store.insn.mnemonic != ZYDIS_MNEMONIC_MOV || store.insn.operand_width != 32 ||
	    !is_memory(&store, 0, first->operands[0].reg.value) ||
	    store.operands[0].mem.disp.value ||
	    store.operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return 0;
	id = (uint32_t)store.operands[1].imm.value.u;
	if (sum.insn.mnemonic != (is_avx ? ZYDIS_MNEMONIC_VPADDQ : ZYDIS_MNEMONIC_PADDQ) ||
	    !is_register(&sum, 0, ZYDIS_REGISTER_XMM15) ||
	    (is_avx && !is_register(&sum, 1, ZYDIS_REGISTER_XMM15)) ||
	    !is_memory(&sum, is_avx ? 2 : 1, ZYDIS_REGISTER_RIP))
		return 0;
	*which = (int)(id - trace->first_exit);
	*blocks = step_blocks(absolute(&sum, is_avx ? 2 : 1));
	return id >= trace->first_exit && *which < trace->exits &&
			       trace_exit_of(id)->blocks == (uint32_t)*blocks
		       ? sum.next
		       : 0;
}

/* The live trace whose head is there; NULL: none. */
static const struct trace *trace_headed(uint64_t at)
{
	for (uint32_t i = 0; i < channel.head->traces; i++)
		if ((uint64_t)trace_numbered(i)->head == at && !trace_numbered(i)->is_dead)
			return trace_numbered(i);
	return NULL;
}

/* A direct exit's jump: as it was emitted, or linked to where the exit leads. */
static int is_exit_jump(const struct step *step, const struct exit *exit, int *is_linked)
{
	const struct trace *to;

	/* its four bytes are changed at once: within eight */
	if (step->insn.mnemonic != ZYDIS_MNEMONIC_JMP || (uint64_t)exit->jump != step->at + 1 ||
	    (uint64_t)exit->jump % 8 > 4 || exit->kind != EXIT_DIRECT)
		return 0;
	*is_linked = absolute(step, 0) != (uint64_t)head->exit_jump;
	if (!*is_linked)
		return 1;
	to = trace_headed(absolute(step, 0));
	return to && to->pc == exit->target;
}

/*
 * A direct exit, all of it: r11 kept, the id put by it, r11 back, the jump that can be linked.
 * Returns where the next instruction is; 0: it is not that.
 */
static uint64_t leaves(const struct step *save)
{
	int which, blocks, is_avx, is_linked;
	const struct exit *exit;
	struct step step;
	uint64_t at;

	if (save->insn.mnemonic != ZYDIS_MNEMONIC_MOV || !is_gs(save, 0) ||
	    save->operands[0].mem.disp.value != THREAD_SCRATCH ||
	    !is_register(save, 1, ZYDIS_REGISTER_R11))
		return 0;
	decode(&step, save->next);
	at = puts_id(&step, &which, &blocks);
	if (!at || !is_register(&step, 0, ZYDIS_REGISTER_R11))
		return 0;
	is_avx = step.insn.mnemonic == ZYDIS_MNEMONIC_VMOVQ;
	decode(&step, at);
	if (step.insn.mnemonic != ZYDIS_MNEMONIC_MOV || !is_gs(&step, 1) ||
	    step.operands[1].mem.disp.value != THREAD_SCRATCH ||
	    !is_register(&step, 0, ZYDIS_REGISTER_R11))
		return 0;
	do
		decode(&step, step.next);
	while (step.insn.mnemonic == ZYDIS_MNEMONIC_NOP);
	exit = trace_exit_of(trace->first_exit + (uint32_t)which);
	if (!is_exit_jump(&step, exit, &is_linked))
		return 0;
	add("%sleave %d/%d to %s%s", is_avx ? "v" : "", which, blocks, address_name(exit->target),
	    is_linked ? ", linked" : "");
	return step.next;
}

static const char *gate_name(uint64_t at)
{
	static const struct {
		const char *name;
		size_t at;
		void (*gate)(void);
	} gates[] = {
		{ "gate_exit", offsetof(struct cache_head, gate_exit), gate_exit },
		{ "gate_miss", offsetof(struct cache_head, gate_miss), gate_miss },
		{ "gate_syscall", offsetof(struct cache_head, gate_syscall), gate_syscall },
		{ "gate_refused", offsetof(struct cache_head, gate_refused), gate_refused },
		{ "gate_changed", offsetof(struct cache_head, gate_changed), gate_changed },
	};

	for (unsigned int i = 0; i < sizeof(gates) / sizeof(gates[0]); i++)
		if (at == (uint64_t)head + gates[i].at &&
		    *(const uint64_t *)at == (uint64_t)gates[i].gate)
			return gates[i].name;
	return NULL;
}

/* A jump whose target has a name, or is within the code. */
static int jumps(const struct step *step)
{
	const ZydisDecodedOperand *to = &step->operands[0];
	const char *mnemonic = ZydisMnemonicGetString(step->insn.mnemonic);
	uint64_t target = absolute(step, 0);

	if (to->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && to->imm.is_relative) {
		if (target > step->at && target < (uint64_t)trace->end)
			add("%s over %d", mnemonic, (int)(target - step->next));
		else
			add("%s %s", mnemonic, address_name(target));
		return 1;
	}
	if (step->insn.mnemonic == ZYDIS_MNEMONIC_JMP && is_memory(step, 0, ZYDIS_REGISTER_RIP) &&
	    gate_name(target)) {
		add("jmp %s", gate_name(target));
		return 1;
	}
	if (step->insn.mnemonic != ZYDIS_MNEMONIC_JMP || to->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    to->mem.base != ZYDIS_REGISTER_NONE || to->mem.index != ZYDIS_REGISTER_RCX ||
	    to->mem.scale != 8 || (uint64_t)to->mem.disp.value != listing_map())
		return 0;
	add("jmp map");
	return 1;
}

/* A push of a constant: an immediate, or eight bytes beside the trace. */
static int pushes(const struct step *step)
{
	uint64_t value = absolute(step, 0);

	if (step->insn.mnemonic != ZYDIS_MNEMONIC_PUSH)
		return 0;
	if (step->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		add("push %s", address_name((uint64_t)step->operands[0].imm.value.s));
		return 1;
	}
	if (!is_memory(step, 0, ZYDIS_REGISTER_RIP) || value < (uint64_t)trace->cold ||
	    value >= (uint64_t)trace->cold_end || value % 8)
		return 0;
	memcpy(&value, (const void *)value, sizeof(value));
	add("push %s from cold", address_name(value));
	return 1;
}

/* Any other, its numbers that are addresses by their names. */
static void add_any(const struct step *step)
{
	static ZydisFormatter formatter;
	char line[128], *at = line, *number;

	ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_DISP_PADDING,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_IMM_PADDING,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterFormatInstruction(&formatter, &step->insn, step->operands,
					step->insn.operand_count_visible, line, sizeof(line),
					step->at, NULL);
	while ((number = strstr(at, "0x"))) {
		char *end;
		uint64_t value = strtoull(number, &end, 16);
		int is_thread = number - line >= 3 && !memcmp(number - 3, "gs:", 3);

		add("%.*s%s", (int)(number - at), at,
		    is_thread ? thread_name((int64_t)value) : address_name(value));
		at = end;
	}
	add("%s", at);
}

/* One instruction, or several that have a name of their own. Returns where the next one is. */
static uint64_t add_step(uint64_t at)
{
	struct step step;
	int which, blocks;
	uint64_t next;

	decode(&step, at);
	next = leaves(&step);
	if (next)
		return next;
	next = puts_id(&step, &which, &blocks);
	if (next) {
		add("%s %d/%d by %s", step.insn.mnemonic == ZYDIS_MNEMONIC_VMOVQ ? "vput" : "put",
		    which, blocks, register_name(&step, 0));
		return next;
	}
	if (!moves(&step) && !jumps(&step) && !pushes(&step))
		add_any(&step);
	return step.next;
}

/* ---- all of it ---- */

/* A nop of the engine's, before a jump that can be linked. */
static int is_filler(uint64_t at)
{
	return *(const uint8_t *)at == 0x90;
}

static uint64_t add_pieces(void)
{
	uint64_t at = (uint64_t)trace->head;

	for (uint32_t i = 0; i < trace->piece_count; i++) {
		const struct piece *piece = &trace->pieces[i];
		uint64_t end = at + piece->cache_bytes;
		const char *between = " ";

		if (piece->program_bytes)
			add("%u:%u", piece->block, piece->program_bytes);
		else
			add("+");
		for (int bit = 0; bit < 4; bit++) /* PIECE_* */
			add("%.*s", (int)(piece->flags >> bit & 1), &"skrc"[bit]);
		while (at < end) {
			if (!piece->program_bytes && is_filler(at)) {
				at++;
				continue;
			}
			add("%s", between);
			at = add_step(at);
			between = "; ";
		}
		cr_assert_eq(at, end, "a piece ends within an instruction:\n%s", text);
		add("\n");
	}
	return at;
}

/* Up to its jump. Each may name more of it. */
static void add_cold(void)
{
	for (unsigned int i = 0; i < cold_count; i++) {
		uint64_t at = cold[i];
		int is_over = 0;

		add("cold%u:", i);
		while (!is_over) {
			const char *line = text + text_bytes;

			if (is_filler(at)) {
				at++;
				continue;
			}
			add(" ");
			at = add_step(at);
			is_over = strstr(line, "jmp") || strstr(line, "leave");
			add(is_over ? "\n" : ";");
		}
	}
}

static void add_block(const struct trail_entry *block)
{
	static const char *const kinds[] = { "fall",   "jump",		"branch",
					     "call",   "jump indirect", "call indirect",
					     "return", "syscall",	"stop",
					     "far" };

	add("block %s: %u in %u bytes, last at %u, %s", address_name(block->start),
	    block->instructions, block->bytes, block->last, kinds[block->kind]);
	if (block->target)
		add(" %s", address_name(block->target));
	add("\n");
	cr_assert_eq(block->flags, TRAIL_HAS_CODE);
	cr_assert(fixture_has(block->start, block + 1, block->bytes), "the log has other code:\n%s",
		  text);
}

/* The log's newest entry is the trace's. */
static void add_blocks(void)
{
	uint64_t at = 0;
	const struct engine_trace *entry = NULL;
	const uint8_t *of;
	uint16_t paths[TRACE_EXITS_MAX];

	while (at < channel.head->log_put % channel.log_bytes) {
		const struct engine_entry *any = (const void *)(channel.log + at);
		const struct engine_trace *one = (const void *)any;

		if (any->kind == ENGINE_ENTRY_TRACE && one->first_id == trace->first_exit)
			entry = one;
		at += any->bytes;
	}
	cr_assert_not_null(entry, "the log has no such trace:\n%s", text);
	cr_assert_eq(entry->blocks, trace->blocks);
	cr_assert_eq(entry->exits, trace->exits);
	of = (const uint8_t *)(entry + 1);
	for (uint32_t i = 0; i < entry->blocks; i++) {
		const struct trail_entry *block = (const void *)of;

		add_block(block);
		of += sizeof(*block) + ((block->bytes + 7u) & ~7u);
	}
	memcpy(paths, of, entry->exits * sizeof(paths[0]));
	for (uint32_t i = 0; i < entry->exits; i++)
		cr_assert_eq(paths[i], trace_exit_of(trace->first_exit + i)->blocks);
}

static void add_exits(void)
{
	for (uint32_t i = 0; i < trace->exits; i++) {
		const struct exit *exit = trace_exit_of(trace->first_exit + i);

		if (exit->kind == EXIT_DIRECT)
			continue;
		add("exit %u/%u: ", i, exit->blocks);
		if (exit->kind == EXIT_RETURN)
			add("return, drops %u\n", exit->pops);
		else if (exit->kind == EXIT_REGISTER)
			add("to %s\n", ZydisRegisterGetString(
					       (ZydisRegister)(ZYDIS_REGISTER_RAX + exit->reg)));
		else if (exit->kind == EXIT_MEMORY)
			add("to memory\n");
		else
			add("%s %s\n", exit->kind == EXIT_SYSCALL ? "syscall" : "refused",
			    address_name(exit->target));
		cr_assert_null(exit->jump);
	}
}

const char *listing(const struct trace *of)
{
	trace = of;
	head = (const void *)(cache_exit_jump(trace->head) -
			      offsetof(struct cache_head, exit_jump));
	text_bytes = cold_count = 0;
	text[0] = 0;
	/* indirect branches come with rcx in `scratch` */
	if (trace->landing != trace->head) {
		struct step load;

		decode(&load, (uint64_t)trace->landing);
		cr_assert(is_gs(&load, 1) && is_register(&load, 0, ZYDIS_REGISTER_RCX) &&
			  load.operands[1].mem.disp.value == THREAD_SCRATCH);
		cr_assert_eq(load.next, (uint64_t)trace->head);
	} else {
		add("landing with rcx lost\n");
	}
	cr_assert_eq(add_pieces(), (uint64_t)trace->end, "code that no piece has:\n%s", text);
	add_cold();
	add_blocks();
	add_exits();
	return text;
}

void listing_check(uint64_t near, const struct listing_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t pc = fixture_put(near, 0, cases[i].bytes, cases[i].count);
		const char *got = listing(fixture_translate(pc));

		cr_expect_str_eq(got, cases[i].expected, "%s:\n%sand not\n%s", cases[i].name, got,
				 cases[i].expected);
	}
}
