/* SPDX-License-Identifier: MIT */
#include "cli/list_watches.h"

#include "cli/cli.h"
#include "cli/list.h"
#include "target/expression/find.h"
#include "target/expression/variable.h"
#include "target/process/loaded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAME_COLUMNS 24
#define TYPE_COLUMNS 20

struct listing {
	struct out *out;
	struct json lines; /* to the same */
	int json;
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

static void text_put(struct listing *listing, const struct found *found)
{
	const struct watch_place *place = found->place;
	struct out *out = listing->out;

	list_put_padded(out, found->expr->words, NAME_COLUMNS);
	out_literal(out, "  ");
	list_put_padded(out, expression_type_name(&place->type), TYPE_COLUMNS);
	out_literal(out, "  ");
	list_put_padded(out, found->where, 14);
	out_literal(out, "  ");
	if (place->kind == WATCH_EXECUTE) {
		out_literal(out, "code");
	} else {
		out_u64(out, place->bytes);
		list_put(out, place->bytes == 1 ? " byte" : " bytes");
	}
	out_literal(out, ", ");
	out_u64(out, found->registers);
	list_put(out, found->registers == 1 ? " register" : " registers");
	if (found->registers > WATCH_REGISTERS) {
		out_literal(out, " of ");
		out_u64(out, WATCH_REGISTERS);
	}
	if (*found->value) {
		out_literal(out, "  = ");
		list_put(out, found->value);
	}
	if (*place->source) {
		out_literal(out, "  ");
		list_put(out, place->source);
		out_char(out, ':');
		out_u64(out, place->line);
	}
	out_char(out, '\n');
}

static void json_put(struct listing *listing, const struct found *found)
{
	const struct watch_place *place = found->place;
	struct json *json = &listing->lines;

	json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "expression", found->expr->words);
	json_string(json, "kind", kind_word(place->kind));
	if (listing->pid)
		json_number(json, "pid", (uint64_t)listing->pid);
	json_words(json, "module", place->module ? place->module->file->path : NULL);
	json_string(json, "variable", place->variable);
	json_string(json, "type", expression_type_name(&place->type));
	json_string(json, "where", found->where);
	if (found->is_known)
		json_number(json, "address", found->address);
	else
		json_null(json, "address");
	json_number(json, "bytes", place->bytes);
	if (place->type.node_count && place->type.nodes[0].bits) {
		json_number(json, "bit", place->type.nodes[0].bit);
		json_number(json, "bits", place->type.nodes[0].bits);
	}
	json_number(json, "registers", found->registers);
	json_open(json, "pieces", '[');
	for (size_t i = 0; i < found->registers && i < WATCH_REGISTERS && found->is_known; i++) {
		json_open(json, NULL, '{');
		json_number(json, "address", found->pieces[i].address);
		json_number(json, "bytes", found->pieces[i].bytes);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_words(json, "value", *found->value ? found->value : NULL);
	json_string(json, "file", place->source);
	json_number(json, "line", place->line);
	json_close(json, '}');
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
	if (listing->json)
		json_put(listing, &found);
	else
		text_put(listing, &found);
	watch_place_release(&place);
	return status;
}

/* All expressions, below a line that says of what. */
static int list_each(struct listing *listing, const char *of)
{
	int status = CLI_FINE;

	if (!listing->json)
		list_put_module(listing->out, 0, of);
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
	status = list_each(listing, path);
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
		status = list_each(listing, words);
	loaded_release(&list);
	return err ? complain(err, "%s", words) : status;
}

int list_watches(const struct spec_list *specs, const char *const *files, size_t file_count,
		 const pid_t *pids, size_t pid_count, int json)
{
	struct listing listing = { .out = malloc(sizeof(*listing.out)),
				   .json = json,
				   .specs = specs };
	int status = CLI_FINE, one, err;

	if (!listing.out)
		return complain(-ENOMEM, NULL);
	out_init(listing.out, STDOUT_FILENO);
	listing.lines.out = listing.out;
	if (json)
		json_open(&listing.lines, NULL, '[');
	for (size_t i = 0; i < pid_count; i++) {
		one = list_process(&listing, pids[i]);
		status = one ? one : status;
	}
	for (size_t i = 0; i < file_count; i++) {
		one = list_file(&listing, files[i]);
		status = one ? one : status;
	}
	if (json)
		out_literal(listing.out, "\n]\n");
	err = out_flush(listing.out);
	free(listing.out);
	return err && err != -EPIPE ? complain(err, "writing the list") : status;
}
