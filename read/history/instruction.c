/* SPDX-License-Identifier: MIT */
#include "read/history/instruction.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct instruction_format {
	ZydisDecoder decoder;
	ZydisFormatter formatter;
	enum instruction_syntax syntax;
};

/* Numbers as binutils and gdb write them. */
static int properties_set(ZydisFormatter *formatter)
{
	static const struct {
		ZydisFormatterProperty property;
		ZyanUPointer value;
	} all[] = {
		{ ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE },
		{ ZYDIS_FORMATTER_PROP_FORCE_RELATIVE_RIPREL, ZYAN_TRUE },
		{ ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED },
		{ ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE, ZYDIS_PADDING_DISABLED },
		{ ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED },
		{ ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (ZYAN_FAILED(
			    ZydisFormatterSetProperty(formatter, all[i].property, all[i].value)))
			return -EINVAL;
	return 0;
}

int instruction_format_open(struct instruction_format **out, enum instruction_syntax syntax)
{
	struct instruction_format *format = *out = malloc(sizeof(*format));

	if (!format)
		return -ENOMEM;
	format->syntax = syntax;
	if (ZYAN_FAILED(ZydisDecoderInit(&format->decoder, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisFormatterInit(
		    &format->formatter, syntax == INSTRUCTION_INTEL ? ZYDIS_FORMATTER_STYLE_INTEL
								    : ZYDIS_FORMATTER_STYLE_ATT)) ||
	    properties_set(&format->formatter)) {
		free(format);
		*out = NULL;
		return -EINVAL;
	}
	return 0;
}

void instruction_format_close(struct instruction_format *format)
{
	free(format);
}

void instruction_place(struct image *image, uint64_t address, char *text, size_t bytes)
{
	const struct image_place *place = image ? image_place(image, address) : NULL;
	const char *name = NULL;
	uint64_t from = 0;

	if (place && place->function) {
		name = place->function;
		from = place->start;
	} else if (place && place->module) {
		name = place->module->name;
		from = place->module->base;
	}
	if (!name)
		snprintf(text, bytes, "0x%" PRIx64, address);
	else if (address == from)
		snprintf(text, bytes, "%s", name);
	else
		snprintf(text, bytes, "%s+0x%" PRIx64, name, address - from);
}

/* Put a text in place of the `cut` bytes at `at`, as long as there is room. */
static void splice(char text[INSTRUCTION_TEXT_BYTES], char *at, size_t cut, const char *with)
{
	size_t rest = strlen(at + cut) + 1, more = strlen(with);

	if ((size_t)(at - text) + more + rest > INSTRUCTION_TEXT_BYTES)
		return;
	memmove(at + more, at + cut, rest);
	memcpy(at, with, more);
}

/* Conditions are called as binutils call them: jne, where Zydis has jnz. */
static void condition_rename(char text[INSTRUCTION_TEXT_BYTES], ZydisInstructionCategory category)
{
	static const char *const names[][2] = {
		{ "nbe", "a" }, { "nle", "g" }, { "nz", "ne" },
		{ "nb", "ae" }, { "nl", "ge" }, { "z", "e" },
	};
	static const char *const stems[] = { "cmov", "set", "j" };
	size_t stem = 0;

	if (category != ZYDIS_CATEGORY_COND_BR && category != ZYDIS_CATEGORY_CMOV &&
	    category != ZYDIS_CATEGORY_SETCC)
		return;
	for (size_t i = 0; !stem && i < sizeof(stems) / sizeof(stems[0]); i++)
		if (!strncmp(text, stems[i], strlen(stems[i])))
			stem = strlen(stems[i]);
	for (size_t i = 0; stem && i < sizeof(names) / sizeof(names[0]); i++) {
		size_t bytes = strlen(names[i][0]);

		if (!strncmp(text + stem, names[i][0], bytes) && text[stem + bytes] == ' ') {
			splice(text, text + stem, bytes, names[i][1]);
			return;
		}
	}
}

static char size_suffix(uint16_t bits)
{
	return bits == 8 ? 'b' : bits == 16 ? 'w' : bits == 32 ? 'l' : 'q';
}

/* An instruction on vector registers has its width in its name, and no suffix behind it. */
static void suffix_drop(char text[INSTRUCTION_TEXT_BYTES], const ZydisDecodedInstruction *insn,
			const ZydisDecodedOperand *operands)
{
	const char *name = ZydisMnemonicGetString(insn->mnemonic);
	size_t bytes = name ? strlen(name) : 0;

	if (!bytes || strncmp(text, name, bytes) != 0 || strcspn(text, " ") != bytes + 1)
		return;
	for (uint8_t i = 0; i < insn->operand_count_visible; i++) {
		ZydisRegisterClass class = operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER
						   ? ZydisRegisterGetClass(operands[i].reg.value)
						   : ZYDIS_REGCLASS_INVALID;

		if (class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM ||
		    class == ZYDIS_REGCLASS_ZMM || class == ZYDIS_REGCLASS_MMX) {
			splice(text, text + bytes, 1, "");
			return;
		}
	}
}

/* Some have names of their own in AT&T's syntax, with both sizes in the mnemonic. */
static void att_rename(char text[INSTRUCTION_TEXT_BYTES], const ZydisDecodedInstruction *insn,
		       const ZydisDecodedOperand *operands)
{
	char name[8] = "movz.."; /* of from and to */
	size_t bytes = strcspn(text, " ");

	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
		name[3] = 's';
		/* fall through */
	case ZYDIS_MNEMONIC_MOVZX:
		name[4] = size_suffix(operands[1].size);
		name[5] = size_suffix(operands[0].size);
		break;
	case ZYDIS_MNEMONIC_CDQE:
		strcpy(name, "cltq");
		break;
	case ZYDIS_MNEMONIC_CQO:
		strcpy(name, "cqto");
		break;
	case ZYDIS_MNEMONIC_CDQ:
		strcpy(name, "cltd");
		break;
	case ZYDIS_MNEMONIC_CWDE:
		strcpy(name, "cwtl");
		break;
	default:
		return;
	}
	splice(text, text, bytes, name);
}

/* AT&T marks an operand that holds the target's address: call *%rax. */
static void star_add(char text[INSTRUCTION_TEXT_BYTES], const ZydisDecodedInstruction *insn,
		     const ZydisDecodedOperand *operands)
{
	char *space = strrchr(text, ' ');

	if ((insn->meta.category == ZYDIS_CATEGORY_CALL ||
	     insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR) &&
	    insn->operand_count_visible == 1 && space &&
	    operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		splice(text, space + 1, 0, "*");
}

/* Append the name of the instruction's target or data. */
static void place_add(struct image *image, uint64_t address, int is_data, char *text)
{
	size_t used = strlen(text), left = INSTRUCTION_TEXT_BYTES - used;
	char place[INSTRUCTION_TEXT_BYTES];

	if (is_data) {
		used += (size_t)snprintf(text + used, left, "  # 0x%" PRIx64, address);
		left = used < INSTRUCTION_TEXT_BYTES ? INSTRUCTION_TEXT_BYTES - used : 0;
	}
	instruction_place(image, address, place, sizeof(place));
	if (left && strncmp(place, "0x", 2))
		snprintf(text + used, left, " <%s>", place);
}

int instruction_text(struct instruction_format *format, struct image *image, uint64_t address,
		     const uint8_t *code, size_t left, char text[INSTRUCTION_TEXT_BYTES])
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;

	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&format->decoder, code, left, &insn, operands)) ||
	    ZYAN_FAILED(ZydisFormatterFormatInstruction(
		    &format->formatter, &insn, operands, insn.operand_count_visible, text,
		    INSTRUCTION_TEXT_BYTES / 2, address, NULL))) {
		snprintf(text, INSTRUCTION_TEXT_BYTES, "(bad)");
		return -EILSEQ;
	}
	condition_rename(text, insn.meta.category);
	if (format->syntax == INSTRUCTION_ATT) {
		att_rename(text, &insn, operands);
		suffix_drop(text, &insn, operands);
		star_add(text, &insn, operands);
	}
	for (uint8_t i = 0; i < insn.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &operands[i];
		int is_data = operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			      operand->mem.base == ZYDIS_REGISTER_RIP;
		ZyanU64 to;

		if ((is_data ||
		     (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand->imm.is_relative)) &&
		    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&insn, operand, address, &to)))
			place_add(image, to, is_data, text);
	}
	return insn.length;
}

char *instruction_mnemonic(char text[INSTRUCTION_TEXT_BYTES])
{
	static const char *const prefixes[] = { "bnd ",	 "notrack ", "rep ",  "repne ", "repe ",
						"repz ", "repnz ",   "lock ", "data16 " };
	char *word = text, *end;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(word, prefixes[i], strlen(prefixes[i]))) {
			word += strlen(prefixes[i]);
			i = (size_t)-1;
		}
	end = strchr(word, ' ');
	if (end)
		*end = '\0';
	return text;
}
