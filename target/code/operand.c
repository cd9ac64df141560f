/* SPDX-License-Identifier: MIT */
#include "target/code/operand.h"

#include "base/integer_type.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define SYMBOL_MAX 512

/* Names of the first eight by width, in DWARF's order. */
static const char *const quads[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp" };
static const char *const lows[] = { "al", "dl", "cl", "bl", "sil", "dil", "bpl", "spl" };
static const char *const highs[] = { "ah", "dh", "ch", "bh" };

static void set_register(struct code_operand *operand, unsigned int kind, size_t reg,
			 unsigned int bytes)
{
	*operand = (struct code_operand){ .kind = (uint8_t)kind,
					  .bytes = (uint8_t)bytes,
					  .reg = (uint8_t)reg,
					  .index = OPERAND_NONE };
}

/* A decimal below `limit`, without leading zeros, and where it ends; or -1. */
static int small_number(const char *text, int limit, const char **end)
{
	int value = 0, digits = 0;

	for (; digits < 3 && isdigit((unsigned char)text[digits]); digits++)
		value = value * 10 + text[digits] - '0';
	*end = text + digits;
	return !digits || value >= limit || (digits > 1 && *text == '0') ? -1 : value;
}

/* r8 to r15, with d, w or b (l, to some) for narrower ones. */
static int numbered_register(const char *name, struct code_operand *operand)
{
	const char *end;
	int reg = name[0] == 'r' ? small_number(name + 1, 16, &end) : -1;
	unsigned int bytes;

	if (reg < 8)
		return -WM_E_OPERAND;
	if (!*end)
		bytes = 8;
	else if (end[1])
		return -WM_E_OPERAND;
	else if (*end == 'd')
		bytes = 4;
	else if (*end == 'w')
		bytes = 2;
	else if (*end == 'b' || *end == 'l')
		bytes = 1;
	else
		return -WM_E_OPERAND;
	set_register(operand, OPERAND_REGISTER, (size_t)reg, bytes);
	return 0;
}

int operand_register(const char *name, struct code_operand *operand)
{
	const char *end;
	int vector;

	for (size_t i = 0; i < 8; i++) {
		if (!strcmp(name, quads[i]))
			set_register(operand, OPERAND_REGISTER, i, 8);
		else if (name[0] == 'e' && !strcmp(name + 1, quads[i] + 1))
			set_register(operand, OPERAND_REGISTER, i, 4);
		else if (!strcmp(name, quads[i] + 1))
			set_register(operand, OPERAND_REGISTER, i, 2);
		else if (!strcmp(name, lows[i]))
			set_register(operand, OPERAND_REGISTER, i, 1);
		else if (i < 4 && !strcmp(name, highs[i]))
			set_register(operand, OPERAND_HIGH, i, 1);
		else
			continue;
		return 0;
	}
	if (!strncmp(name, "xmm", 3)) {
		vector = small_number(name + 3, 16, &end);
		if (vector < 0 || *end)
			return -WM_E_OPERAND;
		set_register(operand, OPERAND_VECTOR, (size_t)vector, 8);
		return 0;
	}
	return numbered_register(name, operand);
}

struct size {
	unsigned int bytes; /* 0: not said */
	int is_signed, is_float;
};

/* "N@", "-N@", "Nf@". Any other text has no size: foo@GOTPCREL(%rip) is an operand. */
static int read_size(const char **text, struct size *size)
{
	const char *at = *text;

	*size = (struct size){ 0 };
	if (*at == '-') {
		size->is_signed = 1;
		at++;
	}
	if (!isdigit((unsigned char)at[0]) || (at[1] != '@' && (at[1] != 'f' || at[2] != '@'))) {
		size->is_signed = 0;
		return 0;
	}
	size->bytes = (unsigned int)(*at++ - '0');
	if (*at == 'f') {
		size->is_float = 1;
		at++;
	}
	*text = at + 1;
	if (size->is_float)
		return size->bytes == 4 || size->bytes == 8 ? 0 : -WM_E_OPERAND;
	return size->bytes == 1 || size->bytes == 2 || size->bytes == 4 || size->bytes == 8
		       ? 0
		       : -WM_E_OPERAND;
}

static int is_symbol_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

/* A sum of numbers and one symbol at most: "8", "-4", "foo+8", "16+foo", "-20+8", "0x10". */
struct sum {
	int64_t number;
	char symbol[SYMBOL_MAX];
	int terms;
};

static int sum_symbol(const char **text, struct sum *sum)
{
	size_t bytes = 0;

	if (*sum->symbol)
		return -WM_E_OPERAND;
	while (is_symbol_character((*text)[bytes]))
		bytes++;
	/* An @ behind it, as in foo@tpoff, is a relocation: not a plain address. */
	if (!bytes || bytes >= sizeof(sum->symbol) || (*text)[bytes] == '@')
		return -WM_E_OPERAND;
	memcpy(sum->symbol, *text, bytes);
	sum->symbol[bytes] = 0;
	*text += bytes;
	return 0;
}

static int sum_number(const char **text, int minus, struct sum *sum)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(*text, &end, 0);
	if (errno || is_symbol_character(*end))
		return -WM_E_OPERAND;
	*text = end;
	sum->number = (int64_t)((uint64_t)sum->number + (minus ? -value : value));
	return 0;
}

static int read_sum(const char **text, struct sum *sum)
{
	int err = 0;

	*sum = (struct sum){ 0 };
	while (!err && **text && **text != '(') {
		int minus = **text == '-';

		if (minus || **text == '+')
			++*text;
		else if (sum->terms)
			return -WM_E_OPERAND;
		if (isdigit((unsigned char)**text))
			err = sum_number(text, minus, sum);
		else
			err = minus ? -WM_E_OPERAND : sum_symbol(text, sum);
		sum->terms++;
	}
	return err;
}

/* A symbol turned into its address, the sum's number added. */
static int address_of(const struct sum *sum, const struct operand_symbols *symbols,
		      int64_t *address)
{
	uint64_t value = 0;

	if (*sum->symbol &&
	    (!symbols || !symbols->find || symbols->find(symbols->data, sum->symbol, &value)))
		return -WM_E_OPERAND;
	*address = (int64_t)(value + (uint64_t)sum->number);
	return 0;
}

/* Copy a register's name from behind its %, and go past it. */
static int read_register(const char **text, char name[8])
{
	size_t bytes = 0;

	if (**text != '%')
		return -WM_E_OPERAND;
	++*text;
	while (isalnum((unsigned char)(*text)[bytes]) && bytes < 7) {
		name[bytes] = (*text)[bytes];
		bytes++;
	}
	name[bytes] = 0;
	*text += bytes;
	return bytes ? 0 : -WM_E_OPERAND;
}

static int read_address_register(const char **text, uint8_t *reg)
{
	struct code_operand operand = { 0 };
	char name[8];
	int err = read_register(text, name);

	if (!err && !strcmp(name, "riz")) { /* the assembler's name for no index */
		*reg = OPERAND_NONE;
		return 0;
	}
	if (!err)
		err = operand_register(name, &operand);
	if (err || operand.kind != OPERAND_REGISTER || operand.bytes != 8)
		return -WM_E_OPERAND;
	*reg = operand.reg;
	return 0;
}

static void skip_spaces(const char **text)
{
	while (**text == ' ')
		++*text;
}

/* "(base)", "(base,index)", "(base,index,scale)", "(,index,scale)" */
static int read_bases(const char **text, struct code_operand *operand)
{
	int err = 0;

	++*text;
	skip_spaces(text);
	if (**text == '%')
		err = read_address_register(text, &operand->reg);
	skip_spaces(text);
	if (!err && **text == ',') {
		++*text;
		skip_spaces(text);
		err = read_address_register(text, &operand->index);
		skip_spaces(text);
		if (!err && **text == ',') {
			++*text;
			skip_spaces(text);
			operand->scale = (uint8_t)(**text - '0');
			if (!**text || !strchr("1248", **text))
				return -WM_E_OPERAND;
			++*text;
			skip_spaces(text);
		}
	}
	/* %rsp can't be an index in any instruction. */
	if (err || **text != ')' || operand->index == 7)
		return -WM_E_OPERAND;
	++*text;
	return operand->reg == OPERAND_NONE && operand->index == OPERAND_NONE ? -WM_E_OPERAND : 0;
}

static int read_memory(const char *text, const struct operand_symbols *symbols,
		       struct code_operand *operand)
{
	int is_fixed = symbols && symbols->is_fixed;
	struct sum sum;
	int err = read_sum(&text, &sum);

	*operand = (struct code_operand){
		.kind = OPERAND_MEMORY, .reg = OPERAND_NONE, .index = OPERAND_NONE, .scale = 1
	};
	if (!err)
		err = address_of(&sum, symbols, &operand->displacement);
	if (err)
		return err;
	if (!strcmp(text, "(%rip)")) {
		/* A number alone counts from an instruction whose length we don't know. */
		operand->kind = OPERAND_ADDRESS;
		return *sum.symbol ? 0 : -WM_E_OPERAND;
	}
	if (!*text) { /* a bare address */
		operand->kind = OPERAND_ADDRESS;
		return sum.terms && (*sum.symbol || is_fixed) ? 0 : -WM_E_OPERAND;
	}
	/* table(,%rax,8): the table's address must be a number that holds in the process. */
	if ((*sum.symbol && !is_fixed) || operand->displacement != (int32_t)operand->displacement)
		return -WM_E_OPERAND;
	err = read_bases(&text, operand);
	return err || *text ? -WM_E_OPERAND : 0;
}

static int read_constant(const char *text, const struct operand_symbols *symbols,
			 struct code_operand *operand)
{
	struct sum sum;
	int err = read_sum(&text, &sum);

	*operand = (struct code_operand){ .kind = OPERAND_CONSTANT,
					  .reg = OPERAND_NONE,
					  .index = OPERAND_NONE };
	if (err || *text || !sum.terms || (*sum.symbol && !(symbols && symbols->is_fixed)))
		return -WM_E_OPERAND;
	return address_of(&sum, symbols, &operand->displacement);
}

static int set_type(const struct size *size, struct code_operand *operand, uint8_t *type)
{
	unsigned int own = operand->bytes ? operand->bytes : 8;
	unsigned int bytes = size->bytes ? size->bytes : own;

	if (operand->kind == OPERAND_VECTOR && !size->bytes) {
		*type = WM_TYPE_F64;
		return 0;
	}
	if (size->is_float) {
		/* Floats come in vector registers or memory; bits in a general one are as good. */
		if (operand->kind == OPERAND_CONSTANT || bytes > own)
			return -WM_E_OPERAND;
		*type = bytes == 4 ? WM_TYPE_F32 : WM_TYPE_F64;
	} else {
		if (bytes > own)
			bytes = own;
		*type = integer_type(bytes, size->is_signed);
	}
	operand->bytes = (uint8_t)bytes;
	if (operand->kind == OPERAND_VECTOR && bytes < 4)
		return -WM_E_OPERAND;
	return 0;
}

int operand_parse(const char *text, const struct operand_symbols *symbols,
		  struct code_operand *operand, uint8_t *type)
{
	struct size size;
	char name[8];
	int err = read_size(&text, &size);

	if (err)
		return err;
	if (*text == '%') {
		err = read_register(&text, name);
		if (!err)
			err = *text ? -WM_E_OPERAND : operand_register(name, operand);
	} else if (*text == '$') {
		err = read_constant(text + 1, symbols, operand);
	} else {
		err = read_memory(text, symbols, operand);
	}
	return err ? err : set_type(&size, operand, type);
}

int operand_next(const char **text, char *argument, size_t bytes)
{
	size_t used = 0;
	int depth = 0, is_long = 0;

	skip_spaces(text);
	for (; **text && (**text != ' ' || depth > 0); ++*text) {
		depth += (**text == '(') - (**text == ')');
		is_long |= used + 1 >= bytes;
		if (!is_long)
			argument[used++] = **text;
	}
	argument[used] = 0;
	return is_long ? -WM_E_OPERAND : used > 0;
}
