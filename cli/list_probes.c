/* SPDX-License-Identifier: MIT */
#include "cli/list_probes.h"

#include "base/out.h"
#include "cli/cli.h"
#include "cli/list.h"
#include "cli/findings.h"
#include "record/probe/listing.h"
#include "target/code/probe_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAME_COLUMNS 36

struct printed {
	struct out *out;
	struct json lines; /* to the same */
	int json;
	int has_head;	/* the module's line is written */
	int has_module; /* some module's was */
	uint64_t count, refused, unsafe;
	int status;
};

static const char *kind_word(enum code_place_kind kind)
{
	return kind == PLACE_USDT ? "usdt" : kind == PLACE_FUNCTION ? "function" : "address";
}

static const char *safety_word(enum detour_form form)
{
	return !form ? "-" : form == FORM_FIRST ? "unsafe" : "safe";
}

/* ---- text ---- */

static void text_head(struct printed *printed, const struct listing_place *listed)
{
	if (printed->has_head)
		return;
	if (printed->has_module)
		out_char(printed->out, '\n');
	printed->has_head = printed->has_module = 1;
	list_put_module(printed->out, listed->pid, listed->module);
}

static void text_fields(struct out *out, const struct code_place *place)
{
	const struct code_field *returns = code_place_returns(place);

	if (!place->field_count && !place->wants_return)
		return;
	out_literal(out, "    ");
	for (unsigned int i = 0; i < place->field_count; i++) {
		if (i)
			out_literal(out, ", ");
		list_put_field(out, place->fields[i].name, place->fields[i].type);
	}
	if (place->wants_return && place->field_count)
		out_literal(out, "; ");
	if (place->wants_return && !place->return_count)
		out_literal(out, "ret");
	for (unsigned int i = 0; i < place->return_count; i++) {
		if (i)
			out_literal(out, ", ");
		list_put_field(out, returns[i].name, returns[i].type);
	}
	out_char(out, '\n');
}

static void text_place(struct printed *printed, const struct listing_place *listed)
{
	const struct code_place *place = listed->place;
	struct out *out = printed->out;
	char name[512], address[32];

	text_head(printed, listed);
	snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)listed->address);
	list_put_padded(out, name, NAME_COLUMNS);
	out_literal(out, "  ");
	list_put_padded(out, kind_word(place->kind), 8);
	out_literal(out, "  ");
	list_put_padded(out, address, 14);
	out_literal(out, "  ");
	list_put_padded(out, listed->best ? forms_word(listed->best) : "refused", 7);
	out_literal(out, "  ");
	list_put_padded(out, safety_word(listed->best), 6);
	if (listed->error) {
		out_literal(out, "  ");
		list_put(out, wm_error_text(listed->error));
		if (listed->detail[0]) {
			out_literal(out, ": ");
			list_put(out, listed->detail);
		}
	} else if (place->source && place->source[0]) {
		out_literal(out, "  ");
		list_put(out, place->source);
		out_char(out, ':');
		out_u64(out, place->line);
	}
	out_char(out, '\n');
	if (!listed->error)
		text_fields(out, place);
}

/* ---- JSON ---- */

/* "ret" is null where no field or more than one holds the result; "returns" lists all. */
static void json_returns(struct json *json, const struct code_field *fields, unsigned int count)
{
	if (count == 1)
		list_json_field(json, "ret", fields->name, fields->type);
	else
		json_null(json, "ret");
	json_open(json, "returns", '[');
	for (unsigned int i = 0; i < count; i++)
		list_json_field(json, NULL, fields[i].name, fields[i].type);
	json_close(json, ']');
}

static void json_place(struct printed *printed, const struct listing_place *listed)
{
	const struct control_detour *choices = listed->choices;
	const struct code_place *place = listed->place;
	struct json *json = &printed->lines;
	char name[512];

	json_line(json);
	json_open(json, NULL, '{');
	snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	json_string(json, "name", name);
	json_string(json, "kind", kind_word(place->kind));
	if (listed->pid)
		json_number(json, "pid", (uint64_t)listed->pid);
	json_string(json, "module", listed->module);
	json_number(json, "address", listed->address);
	json_string(json, "form", listed->best ? forms_word(listed->best) : "refused");
	json_string(json, "beside_uprobes", safety_word(listed->best));
	json_open(json, "choices", '[');
	for (unsigned int i = 0; i < listed->choice_count;
	     i++, choices = listing_choice_next(choices)) {
		json_open(json, NULL, '{');
		json_number(json, "address", choices->address + listed->base);
		json_open(json, "forms", '[');
		for (int form = FORM_BYTE; form <= FORM_FIRST; form++)
			if (listed->forms[i] >> form & 1)
				json_string(json, NULL, forms_word((enum detour_form)form));
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
	if (listed->error) {
		json_string(json, "reason", wm_error_text(listed->error));
		json_string(json, "detail", listed->detail);
	}
	json_string(json, "file", place->source);
	json_number(json, "line", place->line);
	json_open(json, "fields", '[');
	for (unsigned int i = 0; !listed->error && i < place->field_count; i++)
		list_json_field(json, NULL, place->fields[i].name, place->fields[i].type);
	json_close(json, ']');
	if (!listed->error && place->wants_return)
		json_returns(json, code_place_returns(place), place->return_count);
	json_close(json, '}');
}

/* ---- what there is ---- */

static void take_place(const struct listing_place *listed, void *data)
{
	struct printed *printed = data;

	printed->count++;
	printed->refused += listed->error != 0;
	printed->unsafe += listed->best == FORM_FIRST;
	if (printed->json)
		json_place(printed, listed);
	else
		text_place(printed, listed);
}

static void take_module(const char *module, void *data)
{
	struct printed *printed = data;

	(void)module;
	printed->has_head = 0;
}

static void take_fault(const char *module, int error, void *data)
{
	struct printed *printed = data;

	printed->status = complain(error, "%s", module);
}

static void list_all(struct listing *listing, struct printed *printed, const char *const *files,
		     size_t file_count, const pid_t *pids, size_t pid_count)
{
	if (printed->json)
		json_open(&printed->lines, NULL, '[');
	for (size_t i = 0; i < pid_count; i++) {
		int err = listing_process(listing, pids[i]);

		if (err)
			printed->status = complain(err, "process %d", (int)pids[i]);
	}
	for (size_t i = 0; i < file_count; i++) {
		int err = listing_file(listing, files[i]);

		if (err)
			printed->status = complain(err, "%s", files[i]);
	}
	if (printed->json)
		out_literal(printed->out, "\n]\n");
}

static void put_counts(struct printed *printed)
{
	struct out *out = printed->out;

	out_char(out, '\n');
	out_u64(out, printed->count - printed->refused);
	out_literal(out, " of ");
	out_u64(out, printed->count);
	out_literal(out, " places can be probed, ");
	out_u64(out, printed->count - printed->refused - printed->unsafe);
	out_literal(out, " of them safely beside uprobes of other tools\n");
}

int list_probes(struct spec_list *specs, const char *const *files, size_t file_count,
		const pid_t *pids, size_t pid_count, int json)
{
	struct printed printed = { .out = malloc(sizeof(*printed.out)), .json = json };
	struct listing listing = {
		.specs = specs,
		.place = take_place,
		.module = take_module,
		.fault = take_fault,
		.data = &printed,
	};
	int err;

	if (!printed.out)
		return complain(-ENOMEM, NULL);
	out_init(printed.out, STDOUT_FILENO);
	printed.lines.out = printed.out;
	list_all(&listing, &printed, files, file_count, pids, pid_count);
	if (!json && printed.count)
		put_counts(&printed);
	err = out_flush(printed.out);
	free(printed.out);
	if (err && err != -EPIPE)
		printed.status = complain(err, "writing the list");
	if (!printed.status && findings_unmatched(specs, &listing.names, 0))
		printed.status = CLI_FAILED;
	name_list_release(&listing.names);
	return printed.status;
}
