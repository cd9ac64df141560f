/* SPDX-License-Identifier: MIT */
#include "target/code/function.h"

#include "base/array.h"
#include "base/name_match.h"
#include "target/code/chosen.h"
#include "target/code/dwarf.h"
#include "target/code/parameter.h"
#include "target/code/probe_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define MATCHES_A_BEAT 64

/* One function that a name or glob took, and what its event will be called. */
struct match {
	const struct code_function *function;
	const struct code_symbol *symbol;
	char *event;
	uint64_t chosen; /* where a choice fell, 0: there was none */
};

/* What code_resolve_function() was given. */
struct query {
	const struct code_request *request;
	struct code_module *module;
	const struct code_process *process;
	code_found *found;
	void *data;
	int calls; /* of found() */
};

static int report(struct query *query, const struct code_place *place, int err, const char *detail)
{
	query->calls++;
	return query->found(place, err, detail, query->data);
}

struct matches {
	struct match *all;
	size_t count, room;
};

static void matches_release(struct matches *matches)
{
	for (size_t i = 0; i < matches->count; i++)
		free(matches->all[i].event);
	free(matches->all);
}

static int match_add(const struct code_function *function, const struct code_symbol *symbol,
		     void *data)
{
	struct matches *matches = data;
	char event[CODE_NAME_MAX + 1];

	if (array_grow(&matches->all, &matches->room, matches->count + 1, sizeof(*matches->all)))
		return -ENOMEM;
	code_symbol_text(symbol, 0, event, sizeof(event));
	matches->all[matches->count] = (struct match){ .function = function,
						       .symbol = symbol,
						       .event = strdup(event) };
	return matches->all[matches->count++].event ? 0 : -ENOMEM;
}

static int by_event(const void *one, const void *other)
{
	const struct match *a = one, *b = other;
	int order = strcmp(a->event, b->event);

	if (!order && a->function->address != b->function->address)
		order = a->function->address < b->function->address ? -1 : 1;
	return order;
}

static int by_address(const void *one, const void *other)
{
	const struct match *a = one, *b = other;

	if (a->function->address == b->function->address)
		return 0;
	return a->function->address < b->function->address ? -1 : 1;
}

/*
 * A longer name, in the ways that there are: with parameters, with the source file, with the
 * address.
 */
static char *longer_name(const struct match *match, int way)
{
	const char *unit = name_last_part(match->symbol->unit);
	char text[CODE_NAME_MAX + 1], *longer;

	code_symbol_text(match->symbol, 1, text, sizeof(text));
	if (way == 0)
		return strdup(text);
	if (way == 1 && *unit ? asprintf(&longer, "%.*s@%s", CODE_NAME_MAX / 2, text, unit) < 0
			      : asprintf(&longer, "%.*s@0x%" PRIx64, CODE_NAME_MAX / 2, text,
					 match->function->address) < 0)
		return NULL;
	return longer;
}

/* A public function in its present version: what the plain name means to everybody. */
static int is_plain(const struct match *match)
{
	return match->symbol->bind != BIND_LOCAL && !match->symbol->is_old;
}

/* Lengthen the names of matches that have the same; where only one is plain, it keeps it. */
static int rename_group(struct match *group, size_t count, int way)
{
	size_t plain = 0;

	for (size_t i = 0; i < count; i++)
		plain += (size_t)is_plain(&group[i]);
	for (size_t i = 0; i < count; i++) {
		char *longer;

		if (plain == 1 && is_plain(&group[i]))
			continue;
		longer = longer_name(&group[i], way);
		if (!longer)
			return -ENOMEM;
		free(group[i].event);
		group[i].event = longer;
	}
	return 0;
}

/* Tell functions of one name apart. */
static int rename_doubles(struct matches *matches)
{
	for (int way = 0; way < 3; way++) {
		qsort(matches->all, matches->count, sizeof(*matches->all), by_event);
		for (size_t i = 0, next; i < matches->count; i = next) {
			const char *event = matches->all[i].event;

			for (next = i + 1; next < matches->count; next++)
				if (strcmp(event, matches->all[next].event))
					break;
			if (next - i > 1 && rename_group(&matches->all[i], next - i, way))
				return -ENOMEM;
		}
	}
	qsort(matches->all, matches->count, sizeof(*matches->all), by_address);
	return 0;
}

/*
 * Without debug information it is unknown which register the result is in, and whether there is
 * one. So the field has the register's name and is hexadecimal, unless the request gives its type.
 */
static void return_guess(const struct code_request *request, struct code_parameters *known)
{
	int is_float = request->return_type == WM_TYPE_F32 || request->return_type == WM_TYPE_F64;

	known->return_count = 1;
	known->returns[0] = (struct code_field){
		.type = is_float	       ? WM_TYPE_F64
			: request->return_type ? WM_TYPE_U64
					       : WM_TYPE_PTR,
		.from = { .kind = is_float ? OPERAND_VECTOR : OPERAND_REGISTER,
			  .bytes = 8,
			  .reg = 0,
			  .index = OPERAND_NONE },
	};
	strcpy(known->returns[0].name, request->return_type ? "ret" : "rax");
}

/* A function that returns nothing keeps its span, without a value. */
static int retype_return(const struct code_request *request, struct code_parameters *known)
{
	if (!request->return_type || !known->return_count)
		return 0;
	if (strcmp(known->returns[0].name, "ret") != 0) /* a structure's members */
		return -WM_E_FIELD_TYPE;
	return code_field_retype(&known->returns[0], request->return_type);
}

/* Debug information that is in files of its own may not be there: then name one. */
static int report_unknown(struct query *query, struct code_place *place, const char *name)
{
	char missing[PATH_MAX] = "", words[PATH_MAX + 128];

	(void)code_dwarf_missing(query->module->file, missing, sizeof(missing));
	snprintf(words, sizeof(words), "%s%s", name, missing);
	return report(query, place, -WM_E_NO_PARAMETER, words);
}

static int function_place(struct query *query, const struct code_symbol *symbol,
			  struct code_place *place)
{
	const struct code_request *request = query->request;
	struct code_parameters known;
	char name[64] = "ret";
	int reported = code_parameters_read(&known, query->module->file, place->address,
					    symbol->name, symbol->bind == BIND_LOCAL);
	int err;

	place->source = known.source;
	place->line = known.line;
	if (reported <= 0) {
		known.values.with_registers = 1;
		known.values.lost_err = -WM_E_NO_PARAMETER;
		if (!reported)
			code_values_registers(&known.values);
		return_guess(request, &known);
	}
	if (request->wants_return && known.never_returns)
		return report(query, place, -WM_E_NO_RETURN, "");
	err = retype_return(request, &known);
	if (!err)
		err = code_fields_choose(request, &known.values, place, name);
	if (err == -WM_E_NO_PARAMETER && reported < 0)
		err = reported;
	if (err == -WM_E_NO_PARAMETER && !reported)
		return report_unknown(query, place, name);
	if (!err && request->wants_return) {
		place->return_count = known.return_count;
		memcpy(place->fields + place->field_count, known.returns,
		       known.return_count * sizeof(known.returns[0]));
	}
	place->wants_return = request->wants_return;
	return report(query, place, err, err ? name : "");
}

/* What else of this request's has its code at an address: that event's name, or NULL. */
static const char *other_name(const struct matches *matches, const struct match *match,
			      uint64_t address)
{
	for (size_t i = 0; i < matches->count; i++) {
		const struct match *other = &matches->all[i];

		if (other->symbol->is_ifunc ? other < match && other->chosen == address
					    : other->function->address == address)
			return other->event;
	}
	return NULL;
}

/*
 * A function that is chosen later: the place is where the choice fell, under the name that was
 * asked.
 */
static int chosen_places(struct query *query, struct matches *matches, struct match *match,
			 struct code_place *place)
{
	uint64_t addresses[CODE_CHOSEN_MAX];
	int ret = 0, count;

	if (!query->process)
		return report(query, place, -WM_E_CHOSEN_AT_START, "");
	count = code_chosen_find(query->process, query->module, match->function, addresses);
	if (count == -ENOMEM)
		return count;
	if (count < 0)
		return report(query, place, count, "");
	if (!count)
		return report(query, place, -WM_E_CHOSEN_AT_START,
			      "nothing in the process shows it");
	for (int i = 0; !ret && i < count; i++) {
		const char *other = other_name(matches, match, addresses[i]);
		const struct code_function *function = code_function_at(
			code_module_symbols(query->module), addresses[i]);

		place->address = place->function = match->chosen = addresses[i];
		place->function_bytes = function && function->address == addresses[i]
						? function->bytes
						: 0;
		/* One place has one event; memcpy and memmove, say, may be one function. */
		ret = other ? report(query, place, -WM_E_SAME_CODE, other)
			    : function_place(query, match->symbol, place);
	}
	return ret;
}

static int match_resolve(struct query *query, struct matches *matches, struct match *match)
{
	struct code_place place = {
		.kind = PLACE_FUNCTION,
		.subsystem = query->module->file->name,
		.event = match->event,
		.source = "",
		.address = match->function->address,
		.function = match->function->address,
		.function_bytes = match->function->bytes,
		.is_entry = 1,
		.wants_entry = 1,
	};

	if (match->symbol->is_ifunc)
		return chosen_places(query, matches, match, &place);
	return function_place(query, match->symbol, &place);
}

int code_resolve_function(const struct code_request *request, struct code_module *module,
			  const struct code_process *process, code_found *found, void *data)
{
	struct query query = { request, module, process, found, data, 0 };
	const struct code_symbols *symbols = code_module_symbols(module);
	struct matches matches = { 0 };
	int ret;

	if (!symbols)
		return -ENOMEM;
	ret = code_symbols_match(symbols, request->name, match_add, &matches);
	if (ret > 0)
		ret = rename_doubles(&matches);
	for (size_t i = 0; !ret && i < matches.count; i++) {
		if (i % MATCHES_A_BEAT == 0)
			ret = code_file_beat(module->file, i, matches.count);
		if (!ret)
			ret = match_resolve(&query, &matches, &matches.all[i]);
	}
	if (!ret)
		ret = matches.count	     ? (int)matches.count
		      : symbols->is_stripped ? -WM_E_NO_SYMBOLS
					     : -WM_E_NO_FUNCTION;
	matches_release(&matches);
	return ret;
}
