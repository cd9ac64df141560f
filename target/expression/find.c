/* SPDX-License-Identifier: MIT */
#include "target/expression/find.h"

#include "base/name_match.h"
#include "target/expression/steps.h"
#include "target/expression/variable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define LINKAGE_MAX 1024

/* The search's state, over all modules. */
struct finding {
	struct watch_place *place;
	const struct watch_expr *expr;
	struct code_module *const *modules; /* the program's first */
	size_t count;
	struct watch_trouble *trouble;
	struct code_module *program;   /* the program itself; NULL: it is not among them */
	struct variable variable;      /* that the base is; not of a symbol alone */
	struct code_module *described; /* whose debug information describes it; NULL: no module's */
	struct watch_trouble why;      /* why it was not found, if a module said */
	int err;
};

static int set(char **to, const char *text)
{
	*to = strdup(text);
	return *to ? 0 : -ENOMEM;
}

static void place_at(struct finding *finding, struct code_module *module, uint64_t address)
{
	finding->place->base = WATCH_IN_MODULE;
	finding->place->module = module;
	finding->place->start = address;
}

static int refuse_base(struct finding *finding, int error, const char *before, const char *after)
{
	return expression_trouble_set(finding->trouble, error, finding->expr->at,
				      finding->expr->bytes, "%s%s", before, after);
}

/* "in liba.so, libb.so" */
static int several_modules(struct finding *finding, struct code_module *const *all, size_t count)
{
	char list[WATCH_DETAIL_MAX] = "";
	size_t used = (size_t)snprintf(list, sizeof(list), "%.*s, in ", (int)finding->expr->bytes,
				       finding->expr->text + finding->expr->at);

	for (size_t i = 0; i < count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 all[i]->file->path);
	return refuse_base(finding, -WM_E_WATCH_SEVERAL, list, "");
}

/* ---- variables ---- */

/*
 * A declaration's symbol: the program's copy of a library's variable, an alias, or one that
 * assembler defines.
 */
static int is_defined(struct code_module *module, const struct variable *variable, uint64_t *start)
{
	uint64_t address;

	if (!variable->linkage || !variable->is_external ||
	    code_symbol_value(module->file, variable->linkage, &address) ||
	    !code_file_segment(module->file, address))
		return 0;
	*start = address;
	return 1;
}

/* One module's answer. 1: this is it; 0: look on. */
static int module_ask(struct finding *finding, struct code_module *module, int *is_found)
{
	struct watch_trouble trouble = { 0 };
	struct variable *variable = malloc(sizeof(*variable));
	int err = variable ? variable_find(variable, module->file, finding->expr, &trouble)
			   : -ENOMEM;

	*is_found = 0;
	if ((err == -WM_E_WATCH_EXTERN || err == -WM_E_WATCH_OPTIMISED) &&
	    is_defined(module, variable, &variable->start)) {
		variable->base = WATCH_IN_MODULE;
		err = 0;
	}
	if (!err) {
		*is_found = 1;
		if (!finding->described) {
			finding->variable = *variable;
			finding->described = module;
		}
	} else if (err != -ENOENT && err != -WM_E_NO_DEBUG &&
		   (!finding->err || finding->err == -WM_E_WATCH_EXTERN)) {
		finding->err = err;
		finding->why = trouble;
	}
	free(variable);
	return err == -ENOMEM ? -ENOMEM
			      : module == finding->program && err != -WM_E_WATCH_EXTERN &&
					(!err || finding->err);
}

/*
 * A library's variable that the program has a copy of is in use there alone. But one that it
 * defines itself is another, and was passed over for the library's.
 */
static int is_copied(const struct finding *finding, uint64_t *start)
{
	struct variable *own;
	int err;

	if (!finding->program || finding->described == finding->program ||
	    finding->variable.base != WATCH_IN_MODULE ||
	    !is_defined(finding->program, &finding->variable, start))
		return 0;
	own = malloc(sizeof(*own));
	err = own ? variable_find(own, finding->program->file, finding->expr, NULL) : -ENOMEM;
	free(own);
	if (err)
		return 1;
	*start = finding->variable.start;
	return 0;
}

/* 0; 1: none has it. */
static int variable_seek(struct finding *finding)
{
	struct code_module **found = calloc(finding->count, sizeof(struct code_module *));
	struct code_module *holder;
	size_t count = 0;
	uint64_t start;
	int ret = found ? 0 : -ENOMEM, is_found;

	for (size_t i = 0; !ret && i < finding->count; i++) {
		ret = module_ask(finding, finding->modules[i], &is_found);
		if (is_found)
			found[count++] = finding->modules[i];
	}
	if (ret >= 0 && count > 1)
		ret = several_modules(finding, found, count);
	free(found);
	if (ret < 0)
		return ret;
	if (!count && finding->err && finding->err != -WM_E_WATCH_EXTERN) {
		if (finding->trouble)
			*finding->trouble = finding->why;
		return finding->err;
	}
	if (!count)
		return 1;
	holder = finding->described;
	start = finding->variable.start;
	if (is_copied(finding, &start))
		holder = finding->program;
	place_at(finding, holder, start);
	finding->place->base = finding->variable.base;
	finding->place->line = finding->variable.line;
	if (finding->place->base == WATCH_IN_FRAME) {
		finding->place->frame = malloc(sizeof(finding->variable.frame));
		if (!finding->place->frame)
			return -ENOMEM;
		*finding->place->frame = finding->variable.frame;
	}
	if ((finding->place->base == WATCH_IN_THREAD || finding->place->base == WATCH_IN_BLOCK) &&
	    !finding->expr->options.thread)
		return refuse_base(finding, -WM_E_WATCH_THREAD, finding->variable.path, "");
	return set(&finding->place->variable, finding->variable.path) ||
			       set(&finding->place->source, finding->variable.source)
		       ? -ENOMEM
		       : 0;
}

/* ---- symbols ---- */

/* As a C++ compiler calls a variable in a namespace; `local` is "L" for one that its file keeps. */
static int mangle(const char *name, const char *local, char *linkage)
{
	size_t used = (size_t)snprintf(linkage, LINKAGE_MAX, "_ZN");

	for (const char *part = name; *part && used < LINKAGE_MAX;) {
		const char *end = strstr(part, "::");
		size_t bytes = end ? (size_t)(end - part) : strlen(part);

		used += (size_t)snprintf(linkage + used, LINKAGE_MAX - used, "%s%zu%.*s",
					 end ? "" : local, bytes, (int)bytes, part);
		part += bytes + (end ? 2 : 0);
	}
	if (used + 2 > LINKAGE_MAX)
		return 0;
	memcpy(linkage + used, "E", 2);
	return 1;
}

static int symbol_find(struct code_module *module, const char *name,
		       struct code_symbol_found *found)
{
	char linkage[LINKAGE_MAX];
	int err = code_symbol_find(module->file, name, 0, found);

	if (err == -ENOENT && strstr(name, "::") && mangle(name, "", linkage))
		err = code_symbol_find(module->file, linkage, 0, found);
	if (err == -ENOENT && strstr(name, "::") && mangle(name, "L", linkage))
		err = code_symbol_find(module->file, linkage, 0, found);
	return err;
}

/* Why its type is unknown, where that is in a file apart: "; /src/a.dwo ..."; or "". */
static const char *missing_words(const struct code_module *module, char *words, size_t room)
{
	*words = 0;
	(void)code_dwarf_missing(module->file, words, room);
	return words;
}

/* What the linker knows. 0: with LEN that will do; 1: no module has it. */
static int symbol_seek(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	struct code_module *holder = NULL;
	struct code_symbol_found found, first = { 0 };
	char length[448], missing[384];

	for (size_t i = 0; i < finding->count && holder != finding->program; i++) {
		struct code_module *module = finding->modules[i];
		int err = symbol_find(module, expr->name, &found);

		if (err == -ENOTUNIQ)
			return refuse_base(finding, -WM_E_WATCH_SEVERAL, expr->name,
					   ", as the linker knows it");
		if (err && err != -ENOENT)
			return err;
		if (err || !code_file_segment(module->file, found.address))
			continue;
		if (holder)
			return several_modules(finding,
					       (struct code_module *const[]){ holder, module }, 2);
		holder = module;
		first = found;
	}
	if (!holder)
		return 1;
	place_at(finding, holder, first.address);
	if (set(&finding->place->variable, expr->name) || set(&finding->place->source, ""))
		return -ENOMEM;
	if (expr->length)
		return 0;
	if (first.is_function)
		return refuse_base(finding, -WM_E_WATCH_TYPE, expr->name, MISFIT_FUNCTION);
	missing_words(holder, missing, sizeof(missing));
	snprintf(length, sizeof(length), "; its symbol has %" PRIu64 " bytes%s", first.bytes,
		 missing);
	return refuse_base(finding, -WM_E_NO_DEBUG, expr->name, first.bytes ? length : missing);
}

/* Likewise of what each thread has one of. */
static int thread_symbol_seek(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	struct code_symbol_found found;
	char length[64];

	for (size_t i = 0; i < finding->count; i++) {
		struct code_module *module = finding->modules[i];
		int err = code_symbol_find(module->file, expr->name, 1, &found);

		if (err == -ENOTUNIQ)
			return refuse_base(finding, -WM_E_WATCH_SEVERAL, expr->name,
					   ", as the linker knows it");
		if (err == -ENOENT)
			continue;
		if (!err && location_find_thread(module->file, found.address, &finding->place->base,
						 &finding->place->start))
			err = -WM_E_WATCH_THREAD;
		if (err || !expr->options.thread)
			return err && err != -WM_E_WATCH_THREAD
				       ? err
				       : refuse_base(finding, -WM_E_WATCH_THREAD, expr->name, "");
		finding->place->module = module;
		snprintf(length, sizeof(length), "; its symbol has %" PRIu64 " bytes", found.bytes);
		if (!expr->length)
			return refuse_base(finding, -WM_E_NO_DEBUG, expr->name,
					   found.bytes ? length : "");
		return set(&finding->place->variable, expr->name) ||
				       set(&finding->place->source, "")
			       ? -ENOMEM
			       : 0;
	}
	return 1;
}

/* ---- functions ---- */

struct function_list {
	const struct watch_expr *expr;
	struct code_module *module, *modules[2];
	uint64_t address;
	size_t count;
	int is_ifunc;
};

static int function_take(const struct code_function *function, const struct code_symbol *symbol,
			 void *data)
{
	struct function_list *list = data;

	/* symbols of global functions have no source file */
	if (list->expr->source && *symbol->unit &&
	    strcmp(symbol->unit, name_last_part(list->expr->source)))
		return 0;
	if (list->count < 2)
		list->modules[list->count] = list->module;
	if (!list->count++) {
		list->address = function->address;
		list->is_ifunc = function->is_ifunc;
	}
	return 0;
}

static int functions_seek(const struct finding *finding, struct function_list *list)
{
	*list = (struct function_list){ .expr = finding->expr };
	for (size_t i = 0; i < finding->count; i++) {
		const struct code_symbols *symbols = code_module_symbols(finding->modules[i]);
		int ret;

		if (!symbols)
			return -ENOMEM;
		list->module = finding->modules[i];
		ret = code_symbols_match(symbols, finding->expr->name, function_take, list);
		if (ret < 0)
			return ret;
		if (list->count && list->module == finding->program)
			break;
	}
	return 0;
}

static int function_seek(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	struct function_list list;
	int err = functions_seek(finding, &list);

	if (err)
		return err;
	if (!list.count)
		return 1;
	if (list.count > 1 && list.modules[0] != list.modules[1])
		return several_modules(finding, list.modules, 2);
	if (list.count > 1)
		return refuse_base(finding, -WM_E_WATCH_SEVERAL, expr->name,
				   ": functions that differ only in their addresses");
	if (list.is_ifunc)
		return refuse_base(finding, -WM_E_CHOSEN_AT_START, expr->name,
				   ": nothing in the process shows it");
	place_at(finding, list.modules[0], list.address);
	return set(&finding->place->variable, expr->name) || set(&finding->place->source, "")
		       ? -ENOMEM
		       : 0;
}

/* ---- all of it ---- */

/* Nothing is called so: say what else might be the matter. */
static int refuse_name(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	struct function_list list;
	char missing[384];
	int err = functions_seek(finding, &list);

	if (err)
		return err;
	if (list.count && expr->kind != WATCH_EXECUTE)
		return refuse_base(finding, -WM_E_WATCH_TYPE, expr->name, MISFIT_FUNCTION);
	if (finding->err) {
		if (finding->trouble)
			*finding->trouble = finding->why;
		return finding->err;
	}
	if (expr->kind == WATCH_EXECUTE && !expr->step_count)
		return refuse_base(finding, -WM_E_NO_FUNCTION, expr->name, "");
	if (finding->count == 1 && !code_dwarf_of(finding->modules[0]->file))
		return refuse_base(finding, -WM_E_WATCH_VARIABLE, expr->name,
				   "; the file has no debug information");
	return expression_trouble_set(finding->trouble, -WM_E_WATCH_VARIABLE, expr->at, expr->bytes,
				      "%.*s%s", (int)expr->bytes, expr->text + expr->at,
				      missing_words(finding->modules[0], missing, sizeof(missing)));
}

static int name_seek(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	int ret = 1;

	if (expr->kind == WATCH_EXECUTE && !expr->step_count)
		ret = function_seek(finding);
	if (ret == 1)
		ret = variable_seek(finding);
	if (ret == 1 && !expr->source)
		ret = symbol_seek(finding);
	if (ret == 1 && !expr->source)
		ret = thread_symbol_seek(finding);
	return ret == 1 ? refuse_name(finding) : ret;
}

static int number_seek(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;

	if (set(&finding->place->variable, "") || set(&finding->place->source, ""))
		return -ENOMEM;
	finding->place->base = WATCH_IN_PROCESS;
	finding->place->start = expr->address;
	if (!expr->module)
		return 0;
	if (finding->count > 1)
		return several_modules(finding, finding->modules, finding->count);
	place_at(finding, finding->modules[0], expr->address);
	if (!code_file_segment(finding->modules[0]->file, expr->address))
		return refuse_base(finding, -WM_E_WATCH_UNMAPPED, expr->words, "");
	return 0;
}

/* Those that the spec takes, the program first. Returns NULL without memory. */
static struct code_module **modules_choose(struct finding *finding,
					   struct code_module *const *modules, size_t count)
{
	struct code_module **chosen = calloc(count + 1, sizeof(struct code_module *));
	size_t first = 0;

	for (size_t i = 0; chosen && i < count; i++) {
		if (location_is_program(modules[i]->file) && !finding->program)
			finding->program = modules[i];
		if (modules[i]->file->is_vdso ||
		    !expression_takes(finding->expr, modules[i]->file->path,
				      &modules[i]->file->aliases))
			continue;
		chosen[finding->count] = modules[i];
		if (modules[i] == finding->program)
			first = finding->count;
		finding->count++;
	}
	if (first) {
		struct code_module *program = chosen[first];

		memmove(chosen + 1, chosen, first * sizeof(struct code_module *));
		chosen[0] = program;
	}
	finding->modules = chosen;
	return chosen;
}

/* Check the size: the address is known except for what the loader adds, which is whole pages. */
static int size_check(const struct watch_place *place, struct watch_trouble *trouble)
{
	uint64_t start = place->follow_count ? 0 : place->start;

	if (place->kind == WATCH_EXECUTE)
		return 0;
	return expression_pieces_check(start, place->bytes, trouble);
}

static int steps_take(struct finding *finding)
{
	const struct watch_expr *expr = finding->expr;
	struct watch_place *place = finding->place;
	struct steps steps = { .expr = expr,
			       .place = place,
			       .trouble = finding->trouble,
			       .modules = finding->modules,
			       .module_count = finding->count };
	Dwarf_Die unit;
	int err = 0;

	place->start += (uint64_t)expr->offset;
	if (!expr->name) {
		steps.is_address = 1;
	} else if (finding->described) {
		steps.file = finding->described->file;
		steps.type.language = dwarf_diecu(&finding->variable.die, &unit, NULL, NULL)
					      ? dwarf_srclang(&unit)
					      : 0;
		err = declared_of(&finding->variable.die, &steps.type);
		steps.has_type = !err;
		if (err)
			return refuse_base(finding, err == -ENOENT ? -WM_E_NO_DEBUG : err,
					   finding->variable.path, " has no type");
	}
	err = steps_go(&steps);
	if (!err)
		err = steps_end(&steps);
	if (!err && expr->options.follows)
		err = watch_follow_check(place, finding->trouble);
	if (!err && place->base == WATCH_IN_FRAME && place->follow_count)
		return refuse_base(finding, -WM_E_WATCH_LOCAL, finding->variable.path,
				   ": what it points to is not known when its frame begins; "
				   "watch the pointer itself");
	return err ? err : size_check(place, finding->trouble);
}

static int expr_find(struct watch_place *place, const struct watch_expr *expr,
		     struct code_module *const *modules, size_t module_count,
		     struct watch_trouble *trouble)
{
	struct finding *finding = calloc(1, sizeof(*finding));
	struct code_module **chosen;
	int err = 0;

	*place = (struct watch_place){ .kind = expr->kind, .text = expr->text };
	if (trouble)
		*trouble = (struct watch_trouble){ 0 };
	if (!finding)
		return -ENOMEM;
	finding->place = place;
	finding->expr = expr;
	finding->trouble = trouble;
	chosen = modules_choose(finding, modules, module_count);
	if (!chosen)
		err = -ENOMEM;
	else if (!finding->count && (expr->module || expr->name))
		err = refuse_base(finding, -WM_E_NO_MODULE, expr->module ? expr->module : "", "");
	else
		err = expr->name ? name_seek(finding) : number_seek(finding);
	if (!err)
		err = steps_take(finding);
	free(chosen);
	free(finding);
	return err;
}

int expression_place_find(struct watch_place *place, const struct watch_expr *expr,
			  struct code_module *const *modules, size_t module_count,
			  struct watch_trouble *trouble)
{
	struct watch_trouble why = { 0 };
	int err = expr_find(place, expr, modules, module_count, trouble), other;

	if (err != -WM_E_WATCH_VARIABLE || !expr->instead)
		return err;
	watch_place_release(place);
	other = expr_find(place, expr->instead, modules, module_count, &why);
	/* A misspelt variable of a source file remains one. */
	if (other == -WM_E_WATCH_VARIABLE || other == -WM_E_WATCH_TYPE)
		return err;
	if (trouble)
		*trouble = why;
	return other;
}
