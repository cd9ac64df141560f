/* SPDX-License-Identifier: MIT */
/*
 * Write the tables of insn_tables.h, to standard output: by asking libzydis about every opcode in
 * every context.
 *
 * Each is composed here field by field. Changing one field shows what it does: is the result still
 * an instruction, as long, and the same in all that counts?
 */
#include "arch/x86_64/insn_tables.h"
#include "arch/x86_64/insn_tables_form.h"
#include "arch/x86_64/insn_tables_leaf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (INSN_INDEX + 1)
#define LEAVES_MAX 4096
#define VALID_MAX 256
#define POINTS 72 /* the cases that INSN_BY_REG_RM distinguishes */

static uint16_t roots[INSN_SPACES][256];
static uint16_t nodes[NODES_MAX];
static size_t node_count = 1;
static struct insn_leaf leaves[LEAVES_MAX];
static size_t leaf_count = 1;
static uint32_t valid[VALID_MAX];
static size_t valid_count = 1;

static _Noreturn void fail(const char *what, const struct form *form)
{
	fprintf(stderr, "insn_tables_make: %s: space %d opcode %02x\n", what, form->space,
		form->opcode);
	exit(1);
}

/* Is it none with each bit of a mask in one field set, whatever else? */
static int forbids(const struct form *form, size_t field, uint8_t bit)
{
	struct form other = *form;

	((uint8_t *)&other)[field] ^= bit;
	if (form_is_asked(&other))
		return 0;
	other.x ^= 1; /* else two registers may have become one */
	return form->space < INSN_EVEX || form->mod != 3 || field == offsetof(struct form, x) ||
	       !form_is_asked(&other);
}
#define FORBIDS(form, field, bit) forbids(form, offsetof(struct form, field), bit)

static uint32_t twin_rules(const struct form *form)
{
	struct form other = *form;
	uint32_t rules = 0;

	if (form->space < INSN_VEX)
		return 0;
	other.x = 0;
	if (form->mod == 3 && form->space >= INSN_EVEX) {
		other.rm = form->reg;
		if (form_is_asked(&other) != form_is_asked(form))
			rules |= INSN_RULE_REG_NOT_RM;
		other.rm = form->rm;
	}
	if (form->v) {
		other.x = form->x;
		other.v = form->reg;
		if (!form_is_asked(&other))
			rules |= INSN_RULE_REG_NOT_V;
		other.x = 0;
		other.v = form->rm;
		if (form->mod == 3 && form->rm != form->reg && !form_is_asked(&other))
			rules |= INSN_RULE_RM_NOT_V;
		other.v = form->index;
		if (form->mod != 3 && !form_is_asked(&other))
			rules |= INSN_RULE_INDEX_NOT_V;
		other.v = form->v;
	}
	other.index = form->reg;
	if (form->mod != 3 && !form_is_asked(&other))
		rules |= INSN_RULE_REG_NOT_INDEX;
	return rules;
}

static uint32_t register_rules(const struct form *form)
{
	uint32_t rules = 0;

	if (FORBIDS(form, r, 1))
		rules |= INSN_RULE_NO_R;
	if (form->mod == 3 && FORBIDS(form, b3, 1))
		rules |= INSN_RULE_NO_B;
	if (form->space < INSN_VEX)
		return rules;
	if (form->mod == 3 && !form->x && FORBIDS(form, x, 1))
		rules |= INSN_RULE_NO_X;
	if (!form->v)
		rules |= INSN_RULE_NO_V;
	else if (FORBIDS(form, v, 8))
		rules |= INSN_RULE_NO_V3;
	if (form->space < INSN_EVEX)
		return rules;
	if (FORBIDS(form, r2, 1))
		rules |= INSN_RULE_NO_R2;
	if (FORBIDS(form, v2, 1))
		rules |= INSN_RULE_NO_V2;
	return rules;
}

static uint32_t memory_rules(const struct form *form)
{
	struct form other = *form;

	if (form->mod == 3)
		return 0;
	other.rm = 0;
	if (!form_is_asked(&other))
		return INSN_RULE_SIB;
	other.rm = 5;
	other.mod = 0;
	return form_is_asked(&other) ? 0 : INSN_RULE_NO_RIP;
}

/* Prefixes are contexts of their own only where they change more than an address. */
static uint32_t prefix_rules(const struct form *form, const struct insn_leaf *leaf)
{
	struct form other = *form;
	struct answer answer;
	uint32_t rules = 0;

	other.lock = 1;
	if (!form_is_asked(&other))
		rules |= INSN_RULE_NO_LOCK;
	other.lock = 0;
	other.p67 = 1;
	if (form_ask(&answer, &other))
		return rules | INSN_RULE_NO_67;
	if (answer.insn.address_width == 64)
		rules |= INSN_RULE_WIDE_ADDRESS;
	if (answer.insn.length - answer.head != leaf->immediate) {
		if (leaf->immediate != 8 || answer.insn.length - answer.head != 4)
			fail("a 67 prefix changes its length", form);
		rules |= INSN_RULE_MOFFS;
	}
	return rules;
}

/* Moves of control and debug registers know no memory: the same whatever mod says. */
static int is_register_only(const struct form *form)
{
	return form->space == INSN_0F && form->opcode >= 0x20 && form->opcode <= 0x23;
}

static uint8_t valid_index(uint32_t mask)
{
	for (size_t i = 0; i < valid_count; i++)
		if (valid[i] == mask)
			return (uint8_t)i;
	if (valid_count == VALID_MAX)
		exit(1);
	valid[valid_count] = mask;
	return (uint8_t)valid_count++;
}

/* EVEX's ways in which the same instruction is valid. */
static uint8_t evex_ways(const struct form *form, const struct insn_leaf *leaf)
{
	struct form other = *form;
	struct answer answer;
	uint32_t mask = 0;

	for (unsigned int way = 0; way < 32; way++) {
		struct insn_leaf same;

		other.aaa = way & 1;
		other.z = way >> 1 & 1;
		other.b = way >> 2 & 1;
		other.l = way >> 3 & 3;
		if (form_ask(&answer, &other))
			continue;
		mask |= 1u << way;
		same = leaf_describe(&other, &answer);
		if (memcmp(&same, leaf, sizeof(same)))
			fail("EVEX's ways differ", form);
	}
	return valid_index(mask);
}

static int find_registers(struct form *form, struct answer *answer)
{
	int is_evex_register = form->space >= INSN_EVEX && form->mod == 3;

	for (int x = is_evex_register; x >= 0; x--) {
		uint8_t free = 1;

		form->x = (uint8_t)x;
		while (free == form->reg || free == form->rm || free == form->index)
			free++;
		form->v = form->space >= INSN_VEX ? free : 0;
		if (!form_ask(answer, form))
			return 0;
		form->v = 0;
		if (form->space >= INSN_VEX && !form_ask(answer, form))
			return 0;
	}
	return form->space >= INSN_VEX ? -1 : form_ask(answer, form);
}

/* The rest of EVEX's bits, too, for a form that is an instruction at all. 0: found. */
static int find(struct form *form, struct answer *answer)
{
	if (form->space < INSN_EVEX)
		return find_registers(form, answer);
	for (unsigned int way = 0; way < 32; way++) {
		form->aaa = way & 1;
		form->z = way >> 1 & 1;
		form->b = way >> 2 & 1;
		form->l = way >> 3 & 3;
		if (!find_registers(form, answer))
			return 0;
	}
	return -1;
}

static uint16_t leaf_index(const struct insn_leaf *leaf, const struct form *form)
{
	static size_t last;

	if (!memcmp(&leaves[last], leaf, sizeof(*leaf)))
		return (uint16_t)last;
	for (last = 0; last < leaf_count; last++)
		if (!memcmp(&leaves[last], leaf, sizeof(*leaf)))
			return (uint16_t)last;
	if (leaf_count == LEAVES_MAX)
		fail("too many leaves", form);
	last = leaf_count;
	leaves[leaf_count++] = *leaf;
	return (uint16_t)last;
}

static uint16_t leaf_of(const struct form *asked)
{
	struct form form = *asked;
	struct answer answer;
	struct insn_leaf leaf;

	if (find(&form, &answer))
		return 0;
	leaf = leaf_describe(&form, &answer);
	if (is_register_only(&form))
		leaf.rules |= INSN_RULE_REGISTER;
	if (form.space >= INSN_EVEX)
		leaf.valid = evex_ways(&form, &leaf);
	leaf.rules |= register_rules(&form) | twin_rules(&form);
	if (form.has_modrm)
		leaf.rules |= memory_rules(&form);
	leaf.rules |= prefix_rules(&form, &leaf);
	return leaf_index(&leaf, &form);
}

/* Where nodes[] has these words, or has them from now on. */
static uint16_t place(const uint16_t *words, size_t count, const struct form *form)
{
	size_t at;

	for (at = 1; at + count <= node_count; at++)
		if (!memcmp(&nodes[at], words, count * sizeof(*words)))
			return (uint16_t)at;
	if (node_count + count > NODES_MAX)
		fail("too many nodes", form);
	at = node_count;
	memcpy(&nodes[at], words, count * sizeof(*words));
	node_count += count;
	return (uint16_t)at;
}

static int all_same(const uint16_t *words, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (words[i] != words[0])
			return 0;
	return 1;
}

/* The smallest choice that distinguishes these. */
static uint16_t choice_of(const uint16_t points[POINTS], const struct form *form)
{
	uint16_t words[16];
	int is_by_rm = 0;

	for (int reg = 0; reg < 8; reg++) {
		words[reg] = points[reg];
		words[8 + reg] = points[8 + 8 * reg];
		is_by_rm |= !all_same(&points[8 + 8 * reg], 8);
	}
	if (is_by_rm)
		return (uint16_t)(INSN_BY_REG_RM << INSN_CHOICE_SHIFT |
				  place(points, POINTS, form));
	if (!all_same(words, 8) || !all_same(words + 8, 8))
		return (uint16_t)(INSN_BY_REG << INSN_CHOICE_SHIFT | place(words, 16, form));
	if (words[0] == words[8])
		return words[0];
	words[1] = words[8];
	return (uint16_t)(INSN_BY_FORM << INSN_CHOICE_SHIFT | place(words, 2, form));
}

/*
 * Does an opcode have a ModRM byte, in this context? In any: whether it has does not depend on what
 * it says.
 */
static int has_modrm(const struct form *form)
{
	struct form other = *form;
	struct answer answer;

	if (form->space >= INSN_VEX)
		return form->opcode != 0x77 || form->space != INSN_VEX; /* vzeroupper, vzeroall */
	if (form->space != INSN_PLAIN && form->space != INSN_0F)
		return 1;
	other.has_modrm = 1;
	for (unsigned int modrm = 0; modrm < 256; modrm++) {
		other.mod = (uint8_t)(modrm >> 6);
		other.reg = modrm >> 3 & 7;
		other.rm = modrm & 7;
		if (!form_ask(&answer, &other))
			return !!(answer.insn.attributes & ZYDIS_ATTRIB_HAS_MODRM);
	}
	return 1;
}

static uint16_t word_of(struct form *form)
{
	uint16_t points[POINTS];

	form->has_modrm = (uint8_t)has_modrm(form);
	form->index = 1;
	if (!form->has_modrm)
		return leaf_of(form);
	for (unsigned int i = 0; i < POINTS; i++) {
		int is_memory = i < 8;

		form->mod = is_memory && !is_register_only(form) ? 1 : 3;
		form->reg = (uint8_t)(is_memory ? i : (i - 8) >> 3);
		form->rm = is_memory ? 4 : i & 7;
		form->index = form->reg == 1 ? 2 : 1;
		points[i] = leaf_of(form);
	}
	return choice_of(points, form);
}

static size_t contexts_of(int space)
{
	return space >= INSN_EVEX  ? INSN_CONTEXTS_EVEX
	       : space >= INSN_VEX ? INSN_CONTEXTS_VEX
				   : INSN_CONTEXTS_LEGACY;
}

/* Bytes that are no opcodes in 64-bit mode, but lead on to them. */
static int is_prefix(int space, int opcode)
{
	static const uint8_t plain[] = { 0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65,
					 0x66, 0x67, 0xc4, 0xc5, 0xf0, 0xf2, 0xf3 };

	if (space == INSN_PLAIN)
		return memchr(plain, opcode, sizeof(plain)) || (opcode & 0xf0) == 0x40;
	return space == INSN_0F && (opcode == 0x0f || opcode == 0x38 || opcode == 0x3a);
}

static uint16_t root_of(int space, int opcode)
{
	uint16_t words[INSN_CONTEXTS_VEX] = { 0 };
	size_t count = contexts_of(space);
	struct form form = { 0 };

	for (size_t context = 0; context < count; context++) {
		form = (struct form){
			.space = (uint8_t)space,
			.opcode = (uint8_t)opcode,
			.w = context & 1,
		};
		if (space >= INSN_VEX) {
			form.pp = context >> 1 & 3;
			form.l = context >> 3 & 1;
		} else {
			form.p66 = context >> 1 & 1;
			form.repeat = (uint8_t)(context >> 2);
		}
		words[context] = is_prefix(space, opcode) ? 0 : word_of(&form);
	}
	return !words[0] && all_same(words, count) ? 0 : place(words, count, &form);
}

static void print_words(const uint16_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s0x%x,", i % 16 ? " " : "\n\t", words[i]);
}

static void print_leaves(void)
{
	printf("\n};\n\nconst struct insn_leaf insn_leaves[] = {");
	for (size_t i = 0; i < leaf_count; i++)
		printf("\n\t{ 0x%x, 0x%x, 0x%x, 0x%x, 0x%x, %u, %u, 0x%x, 0x%x, 0x%x, %u },",
		       leaves[i].rules, leaves[i].traits, leaves[i].needs, leaves[i].kills,
		       leaves[i].memory, leaves[i].kind, leaves[i].immediate, leaves[i].roles,
		       leaves[i].narrow, leaves[i].vectors, leaves[i].valid);
}

int main(void)
{
	if (form_prepare())
		return 1;
	for (int space = 0; space < INSN_SPACES; space++)
		for (int opcode = 0; opcode < 256; opcode++)
			roots[space][opcode] = root_of(space, opcode);
	printf("/* Written by insn_tables_make. */\n#include \"arch/x86_64/insn_tables.h\"\n\n"
	       "const uint16_t insn_roots[INSN_SPACES][256] = {");
	for (int space = 0; space < INSN_SPACES; space++) {
		printf("\n\t{");
		print_words(roots[space], 256);
		printf("\n\t},");
	}
	printf("\n};\n\nconst uint16_t insn_nodes[] = {");
	print_words(nodes, node_count);
	print_leaves();
	printf("\n};\n\nconst uint32_t insn_valid[] = {");
	for (size_t i = 0; i < valid_count; i++)
		printf("\n\t0x%x,", valid[i]);
	printf("\n};\n");
	fprintf(stderr, "insn_tables_make: %zu nodes, %zu leaves, %zu masks\n", node_count,
		leaf_count, valid_count);
	return fflush(stdout) || ferror(stdout);
}
