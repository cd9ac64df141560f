/* SPDX-License-Identifier: MIT */
#include "target/code/probe_fields.h"

#include "base/integer_type.h"
#include "base/quantity.h"
#include "target/code/operand.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

void code_values_registers(struct code_values *values)
{
	static const uint8_t registers[] = { 5, 4, 1, 2, 8, 9 };

	for (unsigned int i = 0; i < sizeof(registers); i++) {
		struct code_field *field = &values->all[i];

		*field = (struct code_field){
			.type = WM_TYPE_U64,
			.from = { .kind = OPERAND_REGISTER,
				  .bytes = 8,
				  .reg = registers[i],
				  .index = OPERAND_NONE },
		};
		snprintf(field->name, sizeof(field->name), "arg%u", i + 1);
	}
	values->count = sizeof(registers);
}

/* How many bytes a value of a type needs; of a string, its pointer. */
static unsigned int type_bytes(uint8_t type)
{
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_U8:
	case WM_TYPE_BOOL:
	case WM_TYPE_CHAR:
		return 1;
	case WM_TYPE_I16:
	case WM_TYPE_U16:
		return 2;
	case WM_TYPE_I32:
	case WM_TYPE_U32:
	case WM_TYPE_F32:
		return 4;
	default:
		return 8;
	}
}

int code_field_retype(struct code_field *field, uint8_t type)
{
	struct code_operand *from = &field->from;
	unsigned int bytes = type_bytes(type);
	int is_float = type == WM_TYPE_F32 || type == WM_TYPE_F64;

	if (from->kind == OPERAND_VECTOR && !is_float && bytes < 4)
		return -WM_E_FIELD_TYPE;
	/* A float argument is in a vector register: a general one holds something else. */
	if (is_float && (from->kind == OPERAND_REGISTER || from->kind == OPERAND_HIGH ||
			 from->kind == OPERAND_CONSTANT))
		return -WM_E_FIELD_TYPE;
	if (bytes > from->bytes) {
		/* "x" of what is narrower than an address: the number. */
		if (type != WM_TYPE_PTR)
			return -WM_E_FIELD_TYPE;
		type = integer_type(from->bytes, 0);
		bytes = from->bytes;
	}
	from->bytes = (uint8_t)bytes;
	field->type = type;
	field->names = NULL; /* the user asks for this type: a number */
	return 0;
}

/* "arg7" is 7; 0: no such name. */
static unsigned int position_of(const char *name)
{
	uint64_t position;

	if (strncmp(name, "arg", 3) || name[3] == '0' ||
	    quantity_number(name + 3, 1, CODE_VALUES_MAX, &position))
		return 0;
	return (unsigned int)position;
}

static unsigned int position_at(const struct code_values *values, unsigned int i)
{
	return values->positions[i] ? values->positions[i] : i + 1;
}

/* All members of the structure that is at `at`, "p.x" as "NAME.x". */
static int take_members(const struct code_values *values, unsigned int at, const char *name,
			struct code_place *place)
{
	size_t bytes = strlen(values->all[at].name);

	for (unsigned int i = at + 1;
	     i < values->count && position_at(values, i) == position_at(values, at); i++) {
		struct code_field *field = &place->fields[place->field_count];

		if (place->field_count == CODE_FIELDS_MAX)
			return -WM_E_NO_PARAMETER;
		*field = values->all[i];
		snprintf(field->name, sizeof(field->name), "%s%s", name,
			 values->all[i].name + bytes);
		place->field_count++;
	}
	return 0;
}

/* The index of the value of that name or position; -1: not found. */
static int find(const struct code_values *values, const char *name)
{
	unsigned int position = position_of(name);

	for (unsigned int i = 0; i < values->count; i++)
		if (!strcmp(values->all[i].name, name) || position_at(values, i) == position)
			return (int)i;
	return -1;
}

static int take_register(const struct code_values *values, const char *name,
			 struct code_field *field)
{
	*field = (struct code_field){ 0 };
	if (!values->with_registers || operand_register(name, &field->from))
		return -WM_E_NO_PARAMETER;
	field->type = field->from.kind == OPERAND_VECTOR ? WM_TYPE_F64
							 : integer_type(field->from.bytes, 0);
	return 0;
}

/* Take what a wish names; called as it was asked for: arg1 stays arg1 where its name is known. */
static int field_take(const struct code_values *values, const struct code_wish *wish,
		      struct code_place *place)
{
	unsigned int before = place->field_count;
	struct code_field *field = &place->fields[before];
	int at = find(values, wish->name), err = 0;

	if (before == CODE_FIELDS_MAX)
		return -WM_E_NO_PARAMETER;
	if (at >= 0 && !values->all[at].type) {
		err = take_members(values, (unsigned int)at, wish->name, place);
		if (!err && place->field_count == before)
			err = values->lost_errs[at] ? values->lost_errs[at] : values->lost_err;
		return !err && wish->type ? -WM_E_FIELD_TYPE : err;
	}
	if (at >= 0)
		*field = values->all[at];
	else
		err = take_register(values, wish->name, field);
	if (!err && wish->type)
		err = code_field_retype(field, wish->type);
	memcpy(field->name, wish->name, sizeof(field->name));
	place->field_count += !err;
	return err;
}

static int take_all(const struct code_values *values, struct code_place *place, char *name)
{
	for (unsigned int i = 0; i < values->count && place->field_count < CODE_FIELDS_MAX; i++) {
		const struct code_field *value = &values->all[i];

		if (value->type) {
			place->fields[place->field_count++] = *value;
		} else if (values->lost_err == -WM_E_OPERAND) {
			snprintf(name, sizeof(value->name), "%s", value->name);
			return -WM_E_OPERAND;
		}
	}
	return 0;
}

int code_fields_choose(const struct code_request *request, const struct code_values *values,
		       struct code_place *place, char *name)
{
	int err = 0;

	place->field_count = 0;
	*name = 0;
	if (request->wants_all || (values->is_told && !request->wish_count))
		err = take_all(values, place, name);
	for (unsigned int i = 0; !err && i < request->wish_count; i++) {
		memcpy(name, request->wishes[i].name, sizeof(request->wishes[i].name));
		err = field_take(values, &request->wishes[i], place);
	}
	return err;
}
