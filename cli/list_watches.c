/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "base/text_buffer.h"
#include "cli/cli.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "target/expression/find.h"
#include "target/expression/variable.h"
#include "target/process/loaded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

struct listing {
	struct rows *rows;
	pid_t pid; /* 0: a file */
	struct code_module *const *modules;
	size_t module_count;
	struct code_memory process;
	const struct code_memory *memory; /* the process's; NULL of a file */
	struct code_module *only;	  /* a file's, which modules points to */
	const struct spec_list *specs;
};

/* What one expression came to. */
struct found {
	const struct watch_expr *expr;
	const struct watch_place *place;
	uint64_t address; /* in the process, or as linked */
	int is_known;	  /* the address is: no pointer has to be followed, or it could be */
	size_t registers;
	struct watch_piece pieces[WATCH_REGISTERS];
	char where[256];	    /* the pointers on the way, in words */
	char value[WATCH_TEXT_MAX]; /* "" where it can't be read */
};

/*
 * "[[0x4040]+8]+16": brackets read their content as a pointer. "0x4040+[vtable-24]": a virtual base
 * class, whose offset is so far below the virtual table.
 */
static void way_write(struct found *found, uint64_t base)
{
	const struct watch_place *place = found->place;
	size_t used = 0, room = sizeof(found->where);

	for (unsigned int i = 0; i < place->follow_count && used < room / 4; i++)
		if (!place->follows[i].below)
			found->where[used++] = '[';
	used += (size_t)snprintf(found->where + used, room - used, "0x%" PRIx64,
				 place->start + base);
	if (place->base == WATCH_IN_THREAD || place->base == WATCH_IN_BLOCK)
		used += (size_t)snprintf(found->where, room, "%s%+" PRId64,
					 place->base == WATCH_IN_THREAD ? "thread" : "block",
					 (int64_t)place->start);
	if (place->base == WATCH_IN_FRAME)
		used = (size_t)snprintf(found->where, room, "frame%+" PRId64,
					(int64_t)place->start);
	for (unsigned int i = 0; i < place->follow_count && used < room; i++) {
		int64_t offset = place->follows[i].offset;
		uint64_t below = place->follows[i].below;

		used += below ? (size_t)snprintf(found->where + used, room - used,
						 "+[vtable-%" PRIu64 "]", below)
			      : (size_t)snprintf(found->where + used, room - used, "]");
		if (offset && used < room)
			used += (size_t)snprintf(found->where + used, room - used, "%+" PRId64,
						 offset);
	}
}

/* What a pointer points to, where that is code. */
static int name_address(void *data, uint64_t address, char *text, size_t bytes)
{
	const struct listing *listing = data;

	for (size_t i = 0; i < listing->module_count; i++) {
		struct code_module *module = listing->modules[i];
		uint64_t linked = address - module->base;
		const struct code_symbols *symbols;
		const struct code_function *function;
		char name[128];

		if (!code_file_is_text(module->file, linked, 1))
			continue;
		symbols = code_module_symbols(module);
		function = symbols ? code_function_at(symbols, linked) : NULL;
		if (!function)
			return 0;
		code_symbol_text(&symbols->all[function->first], 0, name, sizeof(name));
		if (linked == function->address)
			snprintf(text, bytes, "%s", name);
		else
			snprintf(text, bytes, "%s+%" PRIu64, name, linked - function->address);
		return 1;
	}
	return 0;
}

static void value_read(const struct listing *listing, struct found *found)
{
	const struct watch_style style = { .name = name_address, .data = (void *)listing };
	uint8_t value[8 * WATCH_REGISTERS];

	if (!listing->memory || found->place->kind == WATCH_EXECUTE ||
	    found->registers > WATCH_REGISTERS || found->place->bytes > sizeof(value) ||
	    listing->memory->read(listing->memory->data, found->address, value,
				  found->place->bytes))
		return;
	expression_type_text(&found->place->type, value, &style, found->value,
			     sizeof(found->value));
}

static const char *kind_word(enum watch_kind kind)
{
	return kind == WATCH_WRITE ? "w" : kind == WATCH_READ_WRITE ? "rw" : "x";
}

static const struct row_column columns[] = {
	{ "expression", ROW_TEXT, ROW_PLAIN, 0, "as given" },
	{ "type", ROW_TEXT, ROW_PLAIN, 0, "of its value" },
	{ "where", ROW_TEXT, ROW_PLAIN, 0, "its address, with the pointers on the way" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "w, rw or x" },
	{ "bytes", ROW_U64, ROW_PLAIN, 0, "that it has" },
	{ "bit", ROW_U64, ROW_PLAIN, 0, "of a bit field, the first" },
	{ "bits", ROW_U64, ROW_PLAIN, 0, "how many" },
	{ "registers", ROW_U64, ROW_COUNT, 0, "debug registers that it takes, of four" },
	{ "value", ROW_TEXT, ROW_PLAIN, 0, "in the process, now" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "that declares it" },
	{ "line", ROW_U64, ROW_PLAIN, ROW_QUIET, "there" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "null: a pointer has to be followed" },
	{ "pieces", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "address and bytes of each register's part" },
	{ "variable", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its full name" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
};
static ROW_TABLE(watchable_table, "watchable", "Where a watched expression is, and what it takes.",
		 columns);

static void found_put(struct listing *listing, const struct found *found)
{
	const struct watch_place *place = found->place;
	int has_bits = place->type.node_count && place->type.nodes[0].bits;
	struct text pieces = { 0 };

	for (size_t i = 0; i < found->registers && i < WATCH_REGISTERS && found->is_known; i++)
		text_format(&pieces, "%s0x%" PRIx64 " %" PRIu64, i ? ", " : "",
			    found->pieces[i].address, (uint64_t)found->pieces[i].bytes);
	ROWS_PUT(listing->rows, columns, row_text(found->expr->words),
		 row_text(expression_type_name(&place->type)), row_text(found->where),
		 row_text(kind_word(place->kind)), row_u64(place->bytes),
		 has_bits ? row_u64(place->type.nodes[0].bit) : row_null(),
		 has_bits ? row_u64(place->type.nodes[0].bits) : row_null(),
		 row_u64(found->registers), row_words(found->value), row_words(place->source),
		 row_u64(place->line), found->is_known ? row_address(found->address) : row_null(),
		 row_words(pieces.at), row_text(place->variable), row_known((uint64_t)listing->pid),
		 row_text(place->module ? place->module->file->path : NULL));
	text_release(&pieces);
}

static int name_keep(const char *name, void *data)
{
	return name_list_add(data, name);
}

static int complain_why(const struct listing *listing, const struct watch_expr *expr, int err,
			const struct watch_trouble *trouble)
{
	struct name_list names = { 0 };
	int status;

	if (err != -WM_E_WATCH_VARIABLE)
		return complain(err, "%s", trouble->error == err ? trouble->detail : expr->words);
	for (size_t i = 0; i < listing->module_count; i++)
		if (expression_takes(expr, listing->modules[i]->file->path,
				     &listing->modules[i]->file->aliases))
			expression_names(listing->modules[i], name_keep, &names);
	status = complain_near(err, trouble->detail, (const char *const *)names.all, names.count);
	name_list_release(&names);
	return status;
}

static int list_one(struct listing *listing, const struct watch_expr *expr)
{
	struct watch_trouble trouble = { 0 };
	struct watch_place place;
	struct found found = { .expr = expr, .place = &place };
	uint64_t base = 0;
	int err = expression_place_find(&place, expr, listing->modules, listing->module_count,
					&trouble),
	    status = CLI_FINE, has_none;

	if (err == -WM_E_WATCH_LARGE)
		status = complain(err, "%s: %s", expr->words, trouble.detail);
	else if (err)
		status = complain_why(listing, expr, err, &trouble);
	if (err && err != -WM_E_WATCH_LARGE) {
		watch_place_release(&place);
		return status;
	}
	if (place.base == WATCH_IN_MODULE)
		base = place.module->base;
	way_write(&found, base);
	found.address = place.start + base;
	has_none = place.base == WATCH_IN_THREAD || place.base == WATCH_IN_BLOCK ||
		   place.base == WATCH_IN_FRAME;
	found.is_known = !place.follow_count && !has_none;
	if (listing->memory && !has_none) {
		err = watch_place_address(&place, listing->memory, 0, &found.address, &trouble);
		found.is_known = !err;
		if (err)
			status = complain(err, "%s",
					  trouble.error == err ? trouble.detail : expr->words);
	}
	found.registers = expression_pieces(
		found.is_known || place.base == WATCH_IN_FRAME ? found.address : 0, place.bytes,
		found.pieces);
	if (found.is_known)
		value_read(listing, &found);
	found_put(listing, &found);
	watch_place_release(&place);
	return status;
}

static int list_each(struct listing *listing)
{
	int status = CLI_FINE;

	for (size_t i = 0; i < listing->specs->count; i++) {
		int one = list_one(listing, listing->specs->all[i].watch);

		status = one ? one : status;
	}
	return status;
}

static int list_file(struct listing *listing, const char *path)
{
	struct code_file *file;
	int err = code_file_open(&file, path), status;

	listing->only = err ? NULL : calloc(1, sizeof(*listing->only));
	if (!err && !listing->only) {
		code_file_close(file);
		err = -ENOMEM;
	}
	if (err)
		return complain(err, "%s", path);
	code_module_init(listing->only, file, 0);
	listing->pid = 0;
	listing->memory = NULL;
	listing->modules = &listing->only;
	listing->module_count = 1;
	status = list_each(listing);
	code_module_release(listing->only);
	free(listing->only);
	return status;
}

static int list_process(struct listing *listing, pid_t pid)
{
	struct loaded_list list;
	struct code_process process;
	char words[32];
	int err = loaded_read(&list, pid), status = CLI_FINE;

	snprintf(words, sizeof(words), "process %d", (int)pid);
	if (!err)
		err = loaded_open(&list);
	process = loaded_process(&list);
	listing->pid = pid;
	listing->process = process.memory;
	listing->memory = &listing->process;
	listing->modules = process.modules;
	listing->module_count = process.module_count;
	if (!err)
		status = list_each(listing);
	loaded_release(&list);
	return err ? complain(err, "%s", words) : status;
}

int list_watches(struct rows *rows, const struct spec_list *specs, const struct list_scope *scope)
{
	struct listing listing = { .rows = rows, .specs = specs };
	int one, status = CLI_FINE;

	rows_open(rows, &watchable_table, NULL);
	for (size_t i = 0; i < scope->pids.count; i++) {
		one = list_process(&listing, scope->pids.all[i]);
		status = one ? one : status;
	}
	for (size_t i = 0; i < scope->files.count; i++) {
		one = list_file(&listing, scope->files.all[i]);
		status = one ? one : status;
	}
	rows_close(rows);
	return status;
}
