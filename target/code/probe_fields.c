/* SPDX-License-Identifier: MIT */
#include "target/code/probe_fields.h"

#include "abi/detour.h"
#include "abi/page.h"
#include "base/integer_type.h"
#include "base/predicate.h"
#include "base/quantity.h"
#include "base/similar_names.h"
#include "target/code/operand.h"

#include <errno.h>
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

/* Take what a wish wants; called as it was asked for: arg1 stays arg1 where its name is known. */
static int field_take(const struct code_values *values, const struct code_wish *wish,
		      struct code_place *place)
{
	unsigned int before = place->field_count;
	struct code_field *field = &place->fields[before];
	int at = find(values, wish->value), err = 0;

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
		err = take_register(values, wish->value, field);
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
	if (request->wants_all || (values->is_told && !request->wish_count &&
				   !request->sums.is_wanted && !request->is_exact))
		err = take_all(values, place, name);
	for (unsigned int i = 0; !err && i < request->wish_count; i++) {
		memcpy(name, request->wishes[i].value, sizeof(request->wishes[i].value));
		err = field_take(values, &request->wishes[i], place);
	}
	return err;
}

/* ---- predicates ---- */

#define DURATION "duration"
#define CONTEXT UINT8_MAX /* in place of a field's number: the agent knows it by its name */

/* "rowz; did you mean rows?" */
static int field_unknown(const char *name, const struct code_values *values,
			 const struct code_field *returns, unsigned int return_count, char *detail)
{
	const char *names[CODE_VALUES_MAX + CODE_RETURNS_MAX + 1];
	unsigned int count = 0;
	const char *lack = predicate_lack(name);
	char meant[160];

	for (unsigned int i = 0; i < values->count; i++)
		names[count++] = values->all[i].name;
	for (unsigned int i = 0; i < return_count; i++)
		names[count++] = returns[i].name;
	if (returns)
		names[count++] = DURATION;
	snprintf(detail, CODE_DETAIL_BYTES, "%s%s", name,
		 *lack ? lack : similar_words(name, names, count, meant, sizeof(meant)));
	return -WM_E_NO_PARAMETER;
}

static int field_named(const struct code_field *fields, unsigned int count, const char *name)
{
	for (unsigned int i = 0; i < count; i++)
		if (!strcmp(fields[i].name, name))
			return (int)i;
	return -1;
}

/* The number of the place's field that an argument is, added if need be; or an error. */
static int argument_take(const struct code_values *values, const char *name,
			 struct code_place *place)
{
	int at = field_named(place->fields, place->field_count, name), value, err;
	unsigned int before = place->field_count;
	struct code_wish wish = { .type = 0 };

	if (at >= 0)
		return at;
	value = find(values, name);
	if (value >= 0)
		at = field_named(place->fields, place->field_count, values->all[value].name);
	if (at >= 0)
		return at;
	snprintf(wish.name, sizeof(wish.name), "%s", name);
	memcpy(wish.value, wish.name, sizeof(wish.value));
	err = field_take(values, &wish, place);
	if (!err && place->field_count != before + 1)
		err = -WM_E_FIELD_TYPE;
	return err ? err : (int)before;
}

/* The value of an enumerator. 1; 0: the field's type has none of that name. */
static int enumerator_find(const struct code_field *field, const char *name, uint64_t *value)
{
	const struct enumeration *names = field->names;

	for (uint32_t i = 0; names && i < names->count; i++)
		if (!strcmp(enumeration_name_at(names, i), name)) {
			*value = names->all[i].value;
			return 1;
		}
	return 0;
}

static int enumerator_unknown(const struct code_field *field, const char *name, char *detail)
{
	const char *names[ENUMERATION_COUNT_MAX];
	uint32_t count = field->names ? field->names->count : 0;
	char meant[160];

	for (uint32_t i = 0; i < count; i++)
		names[i] = enumeration_name_at(field->names, i);
	snprintf(detail, CODE_DETAIL_BYTES, "%s: %s is no enumerator of its type%s", field->name,
		 name, similar_words(name, names, count, meant, sizeof(meant)));
	return -WM_E_FIELD_TYPE;
}

/* A predicate whose enumerator, if it has one, is a number. 0; 1: there is no such enumerator. */
static int predicate_make(const struct predicate *from, const struct code_field *field,
			  struct predicate *made)
{
	uint64_t value;

	*made = *from;
	if (!(from->forms & PREDICATE_WORD))
		return 0;
	if (!enumerator_find(field, from->text, &value))
		return 1;
	made->number = value;
	made->forms = PREDICATE_INTEGER;
	if ((int64_t)value < 0)
		made->forms |= PREDICATE_NEGATIVE;
	memset(made->text, 0, sizeof(made->text));
	return 0;
}

static int predicate_check(const struct predicate *predicate, struct code_field *field,
			   char *detail)
{
	struct watch_condition condition;
	struct predicate made;
	int err;

	/* what is compared with text is text: arguments of USDT probes have no types */
	if (predicate->forms & PREDICATE_TEXT && field->type != WM_TYPE_STR &&
	    (field->from.bytes != 8 || code_field_retype(field, WM_TYPE_STR))) {
		snprintf(detail, CODE_DETAIL_BYTES, "%s is no text", field->name);
		return -WM_E_FIELD_TYPE;
	}
	if (predicate->forms & PREDICATE_WORD && field->type == WM_TYPE_STR) {
		snprintf(detail, CODE_DETAIL_BYTES, "%s is text: write \"%s\" in quotes",
			 field->name, predicate->text);
		return -WM_E_FIELD_TYPE;
	}
	if (predicate_make(predicate, field, &made))
		return enumerator_unknown(field, predicate->text, detail);
	err = predicate_bind(&made, field->type, &condition);
	if (err)
		snprintf(detail, CODE_DETAIL_BYTES,
			 err == -ERANGE ? "%s can't have this value" : "%s can't be compared so",
			 field->name);
	return err ? -WM_E_FIELD_TYPE : 0;
}

static const struct code_field duration_field = { .name = DURATION,
						  .type = WM_TYPE_U64,
						  .from = { .bytes = 8 } };

/*
 * Which of a call's results a name means: the number of one of the returns, or of the duration
 * behind them; or an error.
 */
static int result_find(const char *name, const struct code_values *values,
		       const struct code_field *returns, unsigned int return_count, char *detail)
{
	int at = field_named(returns, return_count, name);

	if (returns && at < 0 && !strcmp(name, DURATION))
		at = (int)return_count;
	if (at >= 0)
		return at;
	if (!returns || strcmp(name, "ret") != 0)
		return field_unknown(name, values, returns, return_count, detail);
	snprintf(detail, CODE_DETAIL_BYTES, "the type of its result is unknown; name it: ret:i32");
	return -WM_E_FIELD_TYPE;
}

/* Whether the one event of a call can have all that the entry and the return have. */
static int once_check(const struct code_place *place, unsigned int return_count, char *detail)
{
	unsigned int texts = 0;

	for (unsigned int i = 0; i < place->field_count; i++)
		texts += place->fields[i].type == WM_TYPE_STR;
	if (place->field_count + return_count + 1 > CODE_FIELDS_MAX)
		snprintf(detail, CODE_DETAIL_BYTES,
			 "its fields, its result and the duration are more than %d",
			 CODE_FIELDS_MAX);
	else if (texts > DETOUR_KEPT_TEXTS)
		snprintf(detail, CODE_DETAIL_BYTES, "more than %d of its arguments are text",
			 DETOUR_KEPT_TEXTS);
	else
		return 0;
	return -WM_E_EVENT_ROOM;
}

#define RESULTS 64 /* beyond all fields of an entry: the number of a result, for the moment */

/* Find the fields of sums, as those of predicates. */
static int sums_choose(const struct code_sums *sums, const struct code_values *values,
		       const struct code_field *returns, unsigned int return_count,
		       struct code_place *place, char *detail)
{
	place->sums = sums;
	for (unsigned int i = 0; i < sums->count; i++) {
		const char *name = sums->fields[i].name;
		uint8_t type = WM_TYPE_U64;
		int at = argument_take(values, name, place);

		if (at == -WM_E_NO_PARAMETER &&
		    (!strcmp(name, SUM_CALLER) || !strcmp(name, FIELD_CALLCHAIN) ||
		     predicate_context(name, &type))) {
			at = CONTEXT;
		} else if (at == -WM_E_NO_PARAMETER) {
			at = result_find(name, values, returns, return_count, detail);
			if (at < 0)
				return at;
			place->is_once = 1;
			if (at < (int)return_count)
				type = returns[at].type;
			at += RESULTS;
		} else if (at < 0) {
			snprintf(detail, CODE_DETAIL_BYTES, "%s", name);
			return at;
		} else {
			type = place->fields[at].type;
		}
		if (sums->fields[i].as != SUM_BY &&
		    (type == WM_TYPE_STR || type == WM_TYPE_F32 || type == WM_TYPE_F64)) {
			snprintf(detail, CODE_DETAIL_BYTES, "%s can't be added up", name);
			return -WM_E_FIELD_TYPE;
		}
		place->sum_fields[i] = (uint8_t)at;
	}
	return 0;
}

int code_predicates_choose(const struct code_request *request, const struct code_values *values,
			   struct code_field *returns, unsigned int return_count,
			   struct code_place *place, char *detail)
{
	int results[PREDICATES_MAX] = { 0 };

	place->predicates = request->predicates;
	place->predicate_count = request->predicate_count;
	place->is_once = request->is_once;
	place->replaces = request->replaces;
	for (unsigned int i = 0; i < request->predicate_count; i++) {
		const struct predicate *predicate = &request->predicates[i];
		struct code_field duration = duration_field, context = { .from = { .bytes = 8 } };
		struct code_field *field;
		int at = argument_take(values, predicate->name, place), err;

		results[i] = -1;
		enum predicate_of of = predicate_context(predicate->name, &context.type);

		if (at == -WM_E_NO_PARAMETER && of &&
		    (of != PREDICATE_OF_caller || place->is_entry)) {
			place->predicate_fields[i] = CONTEXT;
			snprintf(context.name, sizeof(context.name), "%s", predicate->name);
			field = &context;
		} else if (at == -WM_E_NO_PARAMETER) {
			at = results[i] = result_find(predicate->name, values, returns,
						      return_count, detail);
			if (at < 0)
				return at;
			place->is_once = 1;
			field = at < (int)return_count ? &returns[at] : &duration;
		} else if (at < 0) {
			snprintf(detail, CODE_DETAIL_BYTES, "%s", predicate->name);
			return at;
		} else {
			place->predicate_fields[i] = (uint8_t)at;
			field = &place->fields[at];
		}
		err = predicate_check(predicate, field, detail);
		if (err)
			return err;
	}
	if (request->sums.is_wanted) {
		int err = sums_choose(&request->sums, values, returns, return_count, place, detail);

		if (err)
			return err;
	}
	/* only now is it known how many fields the entry has */
	for (unsigned int i = 0; i < request->predicate_count; i++)
		if (results[i] >= 0)
			place->predicate_fields[i] = (uint8_t)(place->field_count +
							       (unsigned int)results[i]);
	for (unsigned int i = 0; place->sums && i < place->sums->count; i++)
		if (place->sum_fields[i] >= RESULTS && place->sum_fields[i] != CONTEXT)
			place->sum_fields[i] = (uint8_t)(place->sum_fields[i] - RESULTS +
							 place->field_count);
	return place->is_once ? once_check(place, return_count, detail) : 0;
}

void code_predicates_write(const struct code_place *place, struct predicate *to)
{
	unsigned int duration = place->field_count + place->return_count;

	for (unsigned int i = 0; i < place->predicate_count; i++) {
		unsigned int at = place->predicate_fields[i];

		if (at == CONTEXT) {
			to[i] = place->predicates[i];
			continue;
		}
		predicate_make(&place->predicates[i],
			       at == duration ? &duration_field : &place->fields[at], &to[i]);
		to[i].field = (uint8_t)(at + 1);
	}
}

void code_sums_write(const struct code_place *place, struct sum_field *to)
{
	for (unsigned int i = 0; i < place->sums->count; i++) {
		to[i] = place->sums->fields[i];
		to[i].field = place->sum_fields[i] == CONTEXT ? 0
							      : (uint8_t)(place->sum_fields[i] + 1);
	}
}
