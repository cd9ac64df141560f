/* SPDX-License-Identifier: MIT */
#include "target/code/resolve.h"

#include "abi/site.h"
#include "base/array.h"
#include "base/name_match.h"
#include "target/code/dwarf.h"
#include "target/code/line.h"
#include "target/code/parameter.h"
#include "target/code/probe_fields.h"
#include "target/code/prototype.h"
#include "target/code/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

/* Places at functions' entries: a part of code_resolve(). */

#define MATCHES_A_BEAT 64

/*
 * Functions whose code is chosen when the program starts (IFUNC): which one it became in a process.
 */

#define CODE_CHOSEN_MAX 8

struct search {
	const struct code_process *process;
	const struct code_module *module; /* that defines the function */
	const struct code_symbols *symbols;
	const struct code_function *function;
	uint64_t *addresses;
	int count, is_kernels;
};

static int has_name(const struct code_symbols *symbols, const struct code_function *function,
		    const char *name)
{
	for (size_t i = 0; i < function->count; i++)
		if (!strcmp(symbols->all[function->first + i].name, name))
			return 1;
	return 0;
}

/* An older version of the function, under the same name, that no resolver chose. */
static int is_other_version(const struct search *search, uint64_t address)
{
	const struct code_function *function = code_function_at(search->symbols, address);

	if (!function || function->address != address)
		return 0;
	for (size_t i = 0; i < search->function->count; i++)
		if (has_name(search->symbols, function,
			     search->symbols->all[search->function->first + i].name))
			return 1;
	return 0;
}

/* A word that is not bound yet points to the holder's own procedure table. */
static int is_procedure_table(const struct code_file *file, uint64_t address)
{
	const struct code_section *section = code_file_section_at(file, address);

	return !section || !strncmp(section->name, ".plt", 4);
}

/* time() and its like may have been given the kernel's own code. */
static int is_kernels(const struct code_process *process, uint64_t value)
{
	for (size_t i = 0; i < process->module_count; i++) {
		const struct code_module *module = process->modules[i];

		if (module->file->is_vdso && code_file_segment(module->file, value - module->base))
			return 1;
	}
	return 0;
}

/*
 * A word that a relocation should have filled counts if it points to code of the defining module.
 */
static void word_take(struct search *search, const struct code_module *holder, uint64_t offset)
{
	const struct code_memory *memory = &search->process->memory;
	const struct code_module *module = search->module;
	uint64_t value, address;

	if (memory->read(memory->data, holder->base + offset, &value, sizeof(value)))
		return;
	search->is_kernels |= is_kernels(search->process, value);
	address = value - module->base;
	if (address == search->function->address || !code_file_is_text(module->file, address, 1) ||
	    is_procedure_table(module->file, address) || is_other_version(search, address))
		return;
	for (int i = 0; i < search->count; i++)
		if (search->addresses[i] == address)
			return;
	if (search->count < CODE_CHOSEN_MAX)
		search->addresses[search->count++] = address;
}

/* Whether entry `index` of a dynamic symbol table is the function's, undefined or defined. */
static int is_name(const struct search *search, struct code_file *file,
		   const struct code_section *table, uint32_t index)
{
	const void *symbols, *strings;
	size_t symbols_bytes, strings_bytes;
	Elf64_Sym symbol;

	if (table->link >= file->section_count ||
	    code_file_content(file, table, &symbols, &symbols_bytes) ||
	    code_file_content(file, &file->sections[table->link], &strings, &strings_bytes) ||
	    index >= symbols_bytes / sizeof(symbol))
		return 0;
	memcpy(&symbol, (const char *)symbols + index * sizeof(symbol), sizeof(symbol));
	return symbol.st_name < strings_bytes &&
	       has_name(search->symbols, search->function, (const char *)strings + symbol.st_name);
}

static void relocation_take(struct search *search, struct code_module *holder,
			    const struct code_section *section, const Elf64_Rela *relocation)
{
	uint32_t type = ELF64_R_TYPE(relocation->r_info), index = ELF64_R_SYM(relocation->r_info);
	struct code_file *file = holder->file;

	if (type == R_X86_64_IRELATIVE) {
		if (holder == search->module &&
		    (uint64_t)relocation->r_addend == search->function->address)
			word_take(search, holder, relocation->r_offset);
	} else if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
		   (type == R_X86_64_64 && !relocation->r_addend)) {
		if (index && section->link < file->section_count &&
		    is_name(search, file, &file->sections[section->link], index))
			word_take(search, holder, relocation->r_offset);
	}
}

static void holder_search(struct search *search, struct code_module *holder)
{
	struct code_file *file = holder->file;

	for (size_t i = 0; i < file->section_count; i++) {
		const struct code_section *section = &file->sections[i];
		const void *content;
		size_t bytes;

		if (section->type != SHT_RELA || !(section->flags & SHF_ALLOC) ||
		    code_file_content(file, section, &content, &bytes))
			continue;
		for (size_t k = 0; k < bytes / sizeof(Elf64_Rela); k++) {
			Elf64_Rela relocation;

			memcpy(&relocation, (const char *)content + k * sizeof(relocation),
			       sizeof(relocation));
			relocation_take(search, holder, section, &relocation);
		}
	}
}

/*
 * Find which code an IFUNC function of a module became: from the relocated words of the module and
 * of other modules that call it. Puts addresses as linked, each once, in
 * addresses[CODE_CHOSEN_MAX]; several where a process has several answers. Returns how many; 0 when
 * no word shows it, as when nothing calls the function; -WM_E_KERNEL_CODE; -ENOMEM.
 */
static int code_chosen_find(const struct code_process *process, struct code_module *module,
			    const struct code_function *function, uint64_t *addresses)
{
	struct search search = { .process = process,
				 .module = module,
				 .symbols = code_module_symbols(module),
				 .function = function,
				 .addresses = addresses };

	if (!search.symbols)
		return -ENOMEM;
	for (size_t i = 0; i < process->module_count; i++)
		holder_search(&search, process->modules[i]);
	return search.count || !search.is_kernels ? search.count : -WM_E_KERNEL_CODE;
}

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

/* Whether a result of this type is where the function's callers look for theirs, and all of it. */
static int is_replaceable(uint8_t type, const struct code_parameters *known)
{
	const struct code_operand *from = &known->returns[0].from;
	int is_float = type == WM_TYPE_F32 || type == WM_TYPE_F64;

	if (!known->return_count)
		return !known->has_result;
	return is_float == (from->kind == OPERAND_VECTOR) &&
	       from->bytes == (type == WM_TYPE_STR ? 8 : site_type_bytes(type));
}

/*
 * A function that returns nothing keeps its span, without a value. A handler (abi/handler.h) gets
 * what is in the register, since it has an argument for it.
 */
static int retype_return(const struct code_request *request, struct code_parameters *known)
{
	if (request->is_once && request->return_type && !known->return_count)
		return_guess(request, known);
	if (!request->return_type || !known->return_count)
		return 0;
	if (strcmp(known->returns[0].name, "ret") != 0) /* a structure's members */
		return -WM_E_FIELD_TYPE;
	return code_field_retype(&known->returns[0], request->return_type);
}

/*
 * Give the result, or its members, the name that the request has for it. Only a type that is known
 * can be an old marker's. `words` about an error has CODE_DETAIL_BYTES.
 */
static int rename_return(const struct code_request *request, struct code_parameters *known,
			 char *words)
{
	for (unsigned int i = 0; *request->return_name && i < known->return_count; i++) {
		char *name = known->returns[i].name, whole[2 * CODE_NAME_BYTES];

		if (!strcmp(name, "rax")) {
			snprintf(words, CODE_DETAIL_BYTES,
				 "the type of its result is unknown; name it: %s=ret:i32",
				 request->return_name);
			return -WM_E_FIELD_TYPE;
		}
		if (strncmp(name, "ret", 3) != 0 || (name[3] && name[3] != '.'))
			continue; /* errno */
		snprintf(whole, sizeof(whole), "%s%s", request->return_name, name + 3);
		whole[CODE_NAME_BYTES - 1] = '\0';
		memcpy(name, whole, CODE_NAME_BYTES);
	}
	return 0;
}

/* Debug information that is in files of its own may not be there: then name one. */
static int report_unknown(struct query *query, struct code_place *place, const char *name)
{
	char missing[PATH_MAX] = "", words[PATH_MAX + CODE_DETAIL_BYTES];

	(void)code_dwarf_missing(query->module->file, missing, sizeof(missing));
	snprintf(words, sizeof(words), "%s%s", name, missing);
	return report(query, place, -WM_E_NO_PARAMETER, words);
}

/* What the headers say comes first: it has the names of constants. */
static int values_choose(const struct code_request *request, struct code_parameters *known,
			 struct code_parameters *declared, struct code_place *place, char *name)
{
	struct code_parameters *from = declared ? declared : known;
	int err;

	from->values.is_told = known->values.is_told;
	err = code_fields_choose(request, &from->values, place, name);
	if (!err)
		err = code_predicates_choose(request, &from->values, known->returns,
					     known->return_count, place, name);
	return declared && err == -WM_E_NO_PARAMETER
		       ? values_choose(request, known, NULL, place, name)
		       : err;
}

static int function_place(struct query *query, const struct code_symbol *symbol,
			  struct code_place *place)
{
	const struct code_request *request = query->request;
	struct code_parameters known, declared;
	char name[CODE_DETAIL_BYTES] = "ret";
	int reported = code_parameters_read(&known, query->module->file, place->address,
					    symbol->name, symbol->bind == BIND_LOCAL);
	int is_declared = code_prototype_read(&declared, query->module->file, symbol->name);
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
	if (is_declared) {
		known.return_count = declared.return_count;
		memcpy(known.returns, declared.returns, sizeof(known.returns));
	}
	place->is_void = request->replaces && !known.return_count;
	if (request->replaces &&
	    (reported > 0 || is_declared ? !is_replaceable(request->return_type, &known)
					 : known.is_changed_copy))
		err = -WM_E_FIELD_TYPE;
	else
		err = retype_return(request, &known);
	if (!err)
		err = rename_return(request, &known, name);
	if (!err)
		err = values_choose(request, &known, is_declared ? &declared : NULL, place, name);
	if ((request->wants_return || place->is_once) && known.never_returns)
		return report(query, place, -WM_E_NO_RETURN, "");
	if (err == -WM_E_NO_PARAMETER && reported < 0)
		err = reported;
	if (err == -WM_E_NO_PARAMETER && !reported)
		return report_unknown(query, place, name);
	/* with sums an entry's event alone, or the one at the return */
	place->wants_return = (request->wants_return && !place->sums) || place->is_once;
	if (!err && place->wants_return) {
		place->return_count = known.return_count;
		memcpy(place->fields + place->field_count, known.returns,
		       known.return_count * sizeof(known.returns[0]));
	}
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

/* As code_resolve(), for REQUEST_FUNCTION. */
static int code_resolve_function(const struct code_request *request, struct code_module *module,
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

void code_module_init(struct code_module *module, struct code_file *file, uint64_t base)
{
	*module = (struct code_module){ .file = file, .base = base };
}

void code_module_release(struct code_module *module)
{
	code_symbols_release(&module->symbols);
	code_usdt_release(&module->usdt);
	if (module->outline)
		sweep_release(module->outline);
	free(module->outline);
	code_file_close(module->file);
	*module = (struct code_module){ 0 };
}

const struct code_symbols *code_module_symbols(struct code_module *module)
{
	if (!module->has_symbols && code_symbols_read(&module->symbols, module->file)) {
		code_symbols_release(&module->symbols);
		return NULL;
	}
	module->has_symbols = 1;
	return &module->symbols;
}

const struct code_usdt_list *code_module_usdt(struct code_module *module)
{
	if (!module->has_usdt) {
		module->usdt_err = code_usdt_read(&module->usdt, module->file);
		if (module->usdt_err == -ENOMEM) {
			code_usdt_release(&module->usdt);
			return NULL;
		}
	}
	module->has_usdt = 1;
	return &module->usdt;
}

/* The function around a point, if a symbol shows it. */
static void set_function(struct code_place *place, struct code_module *module)
{
	const struct code_symbols *symbols = code_module_symbols(module);
	const struct code_function *function = symbols ? code_function_at(symbols, place->address)
						       : NULL;

	if (function) {
		place->function = function->address;
		place->function_bytes = function->bytes;
	}
}

static int semaphore_is_good(const struct code_file *file, uint64_t semaphore)
{
	const struct code_segment *segment = code_file_segment(file, semaphore);

	return !semaphore || (segment && segment->flags & PF_W && !(semaphore & 1) &&
			      segment->bytes - (semaphore - segment->address) >= 2);
}

static int usdt_place(const struct code_request *request, struct code_module *module,
		      const struct code_usdt *usdt, code_found *found, void *data)
{
	struct code_values values = { .is_told = 1, .lost_err = -WM_E_OPERAND };
	struct code_place place = { .kind = PLACE_USDT,
				    .subsystem = usdt->provider,
				    .event = usdt->name,
				    .source = "",
				    .address = usdt->address,
				    .semaphore = usdt->semaphore };
	char detail[CODE_DETAIL_BYTES + 256] = "", argument[160], name[CODE_DETAIL_BYTES];
	int err, count;

	if (!code_file_is_text(module->file, usdt->address, 1))
		return found(&place, -WM_E_NOT_CODE, detail, data);
	if (!semaphore_is_good(module->file, usdt->semaphore))
		return found(&place, -WM_E_MODULE_DAMAGED, "its semaphore is outside of its data",
			     data);
	count = code_usdt_fields(usdt, module->file, values.all, CODE_VALUES_MAX);
	values.count = count < CODE_VALUES_MAX ? (unsigned int)count : CODE_VALUES_MAX;
	err = code_fields_choose(request, &values, &place, name);
	if (!err)
		err = code_predicates_choose(request, &values, NULL, 0, &place, name);
	if (err == -WM_E_OPERAND) {
		code_usdt_argument(usdt, atoi(name + 3), argument, sizeof(argument));
		snprintf(detail, sizeof(detail), "%s is %s", name, argument);
	} else if (err) {
		snprintf(detail, sizeof(detail), "%s", name);
	} else {
		set_function(&place, module);
	}
	return found(&place, err, detail, data);
}

static int resolve_usdt(const struct code_request *request, struct code_module *module,
			code_found *found, void *data)
{
	const struct code_usdt_list *list = code_module_usdt(module);
	int count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		const struct code_usdt *usdt = &list->all[i];
		char name[1024];
		int ret;

		if (snprintf(name, sizeof(name), "%s:%s", usdt->provider, usdt->name) >=
			    (int)sizeof(name) ||
		    !name_match(request->name, name))
			continue;
		ret = usdt_place(request, module, usdt, found, data);
		if (ret)
			return ret;
		count++;
	}
	if (count)
		return count;
	return module->usdt_err ? module->usdt_err : -WM_E_NO_USDT;
}

/* A point at an address: only the user knows which register holds what. */
static int address_place(const struct code_request *request, struct code_module *module,
			 struct code_place *place, code_found *found, void *data)
{
	struct code_values values = { .with_registers = 1 };
	char name[CODE_DETAIL_BYTES];
	int err;

	if (!code_file_is_text(module->file, place->address, 1))
		return found(place, -WM_E_NOT_CODE, "", data);
	code_values_registers(&values);
	err = code_fields_choose(request, &values, place, name);
	if (!err)
		err = code_predicates_choose(request, &values, NULL, 0, place, name);
	if (!err)
		set_function(place, module);
	return found(place, err, name, data);
}

static int resolve_offset(const struct code_request *request, struct code_module *module,
			  code_found *found, void *data)
{
	char event[32];
	struct code_place place = { .kind = PLACE_ADDRESS,
				    .subsystem = module->file->name,
				    .event = event,
				    .source = "",
				    .address = request->offset };
	int ret;

	snprintf(event, sizeof(event), "+0x%" PRIx64, request->offset);
	ret = address_place(request, module, &place, found, data);
	return ret ? ret : 1;
}

static int resolve_line(const struct code_request *request, struct code_module *module,
			code_found *found, void *data)
{
	const char *slash = strrchr(request->name, '/');
	char event[256], detail[64] = "";
	struct code_place place = { .kind = PLACE_ADDRESS,
				    .subsystem = module->file->name,
				    .event = event,
				    .source = request->name,
				    .line = request->line };
	struct code_lines lines;
	int ret = code_lines_find(&lines, module->file, request->name, request->line), count = 0;

	snprintf(event, sizeof(event), "%.200s:%u", slash ? slash + 1 : request->name,
		 request->line);
	for (size_t i = 0; !ret && i < lines.count; i++) {
		place.address = lines.all[i].address;
		place.source = lines.all[i].source;
		ret = address_place(request, module, &place, found, data);
		count++;
	}
	if (!ret && !lines.has_source) {
		ret = -WM_E_NO_DEBUG;
	} else if (!ret && !count) {
		if (lines.after)
			snprintf(detail, sizeof(detail), "the next that has code is %u",
				 lines.after);
		ret = found(&place, -WM_E_NO_LINE, detail, data);
		count = 1;
	}
	code_lines_release(&lines);
	return ret ? ret : count;
}

int code_resolve(const struct code_request *request, struct code_module *module,
		 const struct code_process *process, code_found *found, void *data)
{
	if (module->file->is_vdso)
		return -WM_E_KERNEL_CODE;
	switch (request->kind) {
	case REQUEST_USDT:
		return resolve_usdt(request, module, found, data);
	case REQUEST_FUNCTION:
		return code_resolve_function(request, module, process, found, data);
	case REQUEST_OFFSET:
		return resolve_offset(request, module, found, data);
	default:
		return resolve_line(request, module, found, data);
	}
}
