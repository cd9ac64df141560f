/* SPDX-License-Identifier: MIT */
#include "target/code/prototype.h"

#include "base/name_match.h"
#include "target/code/dwarf.h"
#include "target/code/prototype_headers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

struct constant {
	const char *name; /* "=SET" begins a set, which has the constants up to the next */
	uint64_t value;	  /* of a set: which bits are flags (struct enumeration) */
};

/*
 * A row of rows[] is "FUNCTION RESULT NAME:TYPE NAME:TYPE...". Types are letters of type_of(), 'v'
 * for no result. Behind a type, "=SET" names the constants. Behind the result's, '-' says that the
 * function returns -1 and sets errno when it fails, '0' NULL likewise.
 */
#include <target/code/prototype.def> /* made by the build */

#define ARRAY_END(array) ((array) + sizeof(array) / sizeof((array)[0]))

static uint8_t type_of(char letter)
{
	static const char letters[] = "bBhHiIlLfdps?c";
	static const uint8_t types[] = { WM_TYPE_I8,   WM_TYPE_U8,  WM_TYPE_I16, WM_TYPE_U16,
					 WM_TYPE_I32,  WM_TYPE_U32, WM_TYPE_I64, WM_TYPE_U64,
					 WM_TYPE_F32,  WM_TYPE_F64, WM_TYPE_PTR, WM_TYPE_STR,
					 WM_TYPE_BOOL, WM_TYPE_CHAR };

	return types[strchr(letters, letter) - letters];
}

static int row_order(const void *key, const void *entry)
{
	const char *name = key, *row = *(const char *const *)entry;
	size_t bytes = strcspn(row, " ");
	int order = strncmp(name, row, bytes);

	return order ? order : name[bytes] != 0;
}

const char *code_prototype_row(const char *name)
{
	const char *const *row = bsearch(name, rows, sizeof(rows) / sizeof(rows[0]),
					 sizeof(rows[0]), row_order);

	return row ? *row : NULL;
}

/* The names of a set's constants, for a field of that type. NULL: no memory. */
static const struct enumeration *names_make(struct code_file *file, const char *set, size_t bytes,
					    uint8_t type)
{
	const struct enumeration *names;
	struct enumeration_draft draft = { .type = type };
	const struct constant *at = constants;

	while (at < ARRAY_END(constants) && (at->name[0] != '=' || strlen(at->name + 1) != bytes ||
					     memcmp(at->name + 1, set, bytes) != 0))
		at++;
	if (at == ARRAY_END(constants) || !file->dwarf)
		return NULL;
	draft.flags = at->value;
	while (++at < ARRAY_END(constants) && at->name[0] != '=')
		/* a flag may be the sign's bit */
		enumeration_draft_add(
			&draft, type == WM_TYPE_I32 ? (uint64_t)(int32_t)at->value : at->value,
			at->name);
	names = enumeration_pool_make(&file->dwarf->enumerations.pool, &draft);
	enumeration_draft_release(&draft);
	return names;
}

/* A field by the text behind its name: "TYPE=SET". */
static void field_fill(struct code_field *field, struct code_file *file, const char *text,
		       const uint8_t *integers[], uint8_t *vectors)
{
	size_t bytes = strcspn(text, " ");
	uint8_t type = type_of(*text);
	int is_float = type == WM_TYPE_F32 || type == WM_TYPE_F64;

	field->from = (struct code_operand){ .kind = is_float ? OPERAND_VECTOR : OPERAND_REGISTER,
					     .bytes = 8,
					     .reg = is_float ? (*vectors)++ : *(*integers)++,
					     .index = OPERAND_NONE };
	(void)code_field_retype(field, type);
	if (text[1] == '=')
		field->names = names_make(file, text + 2, bytes - 2, type);
}

/* The result, and errno where that says why the function failed. */
static void returns_fill(struct code_parameters *parameters, struct code_file *file,
			 const char *text)
{
	static const uint8_t results[] = { 0 };
	const uint8_t *integers = results;
	struct code_field *field = parameters->returns;
	uint8_t vectors = 0;

	if (*text == 'v')
		return;
	strcpy(field->name, "ret");
	field_fill(field, file, text, &integers, &vectors);
	parameters->return_count = 1;
	if (text[1] != '-' && text[1] != '0')
		return;
	parameters->return_count = 2;
	field[1] = (struct code_field){
		.name = "errno",
		.type = WM_TYPE_I32,
		.from = { .kind = OPERAND_ERRNO,
			  .bytes = 4,
			  .reg = text[1] == '0'		  ? ERRNO_OF_NULL
				 : field->from.bytes == 4 ? ERRNO_OF_INT
							  : ERRNO_OF_LONG,
			  .index = OPERAND_NONE },
		.names = names_make(file, "errno", 5, WM_TYPE_I32),
	};
}

static int is_library(const struct code_file *file)
{
	const char *name = name_last_part(file->path);

	return !strncmp(name, "libc.so.6", 9) || !strncmp(name, "libm.so.6", 9);
}

int code_prototype_read(struct code_parameters *parameters, struct code_file *file,
			const char *name)
{
	static const uint8_t arguments[] = { 5, 4, 1, 2, 8, 9 };
	const uint8_t *integers = arguments;
	struct code_values *values = &parameters->values;
	const char *at = is_library(file) ? code_prototype_row(name) : NULL;
	uint8_t vectors = 0;

	if (!at)
		return 0;
	(void)code_dwarf_of(file); /* has the names of constants, also without DWARF */
	*parameters = (struct code_parameters){ .source = "" };
	values->with_registers = 1;
	values->lost_err = -WM_E_NO_PARAMETER;
	at = strchr(at, ' ') + 1;
	returns_fill(parameters, file, at);
	while ((at = strchr(at, ' '))) {
		struct code_field *field = &values->all[values->count++];
		size_t bytes = strcspn(++at, ":");

		snprintf(field->name, sizeof(field->name), "%.*s", (int)bytes, at);
		at += bytes + 1;
		field_fill(field, file, at, &integers, &vectors);
	}
	return 1;
}
