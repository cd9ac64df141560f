/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "cli/cli.h"
#include "cli/findings.h"
#include "record/probe/listing.h"
#include "target/code/probe_place.h"

#include <stdio.h>
#include <waymark/error.h>

struct printed {
	struct rows *rows;
	uint64_t count, refused, unsafe;
	int status;
};

static const struct row_column columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "function, usdt or address" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "in the process, or as linked" },
	{ "form", ROW_TEXT, ROW_PLAIN, 0, "how it can be recorded, or refused" },
	{ "beside_uprobes", ROW_TEXT, ROW_PLAIN, 0, "safe or unsafe" },
	{ "choices", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "each address, and the forms there" },
	{ "reason", ROW_TEXT, ROW_PLAIN, 0, "why it is refused" },
	{ "detail", ROW_TEXT, ROW_PLAIN, 0, "about the reason" },
	{ "fields", ROW_TEXT, ROW_PLAIN, 0, "name and type of each" },
	{ "returns", ROW_TEXT, ROW_PLAIN, 0, "name and type of each field of its result" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "of the source" },
	{ "line", ROW_U64, ROW_PLAIN, ROW_QUIET, "there" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
};
static ROW_TABLE(place_table, "probe", "A place in code that can be probed, or why not.", columns);

static const char *kind_word(enum code_place_kind kind)
{
	return kind == PLACE_USDT ? "usdt" : kind == PLACE_FUNCTION ? "function" : "address";
}

static const char *safety_word(enum detour_form form)
{
	return !form ? "-" : form == FORM_FIRST ? "unsafe" : "safe";
}

/* "0x401000 byte trap, 0x401001": with no form an address can't be had. */
static void choices_add(struct text *text, const struct listing_place *listed)
{
	const struct control_detour *choices = listed->choices;

	for (unsigned int i = 0; i < listed->choice_count;
	     i++, choices = listing_choice_next(choices)) {
		text_format(text, "%s0x%llx", i ? ", " : "",
			    (unsigned long long)(choices->address + listed->base));
		for (int form = FORM_BYTE; form <= FORM_FIRST; form++)
			if (listed->forms[i] >> form & 1)
				text_format(text, " %s", forms_word((enum detour_form)form));
	}
}

static void fields_add(struct text *text, const struct code_field *fields, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		list_field(text, fields[i].name, fields[i].type);
}

static void take_place(const struct listing_place *listed, void *data)
{
	struct printed *printed = data;
	const struct code_place *place = listed->place;
	struct text choices = { 0 }, fields = { 0 }, returns = { 0 };
	char name[512];

	printed->count++;
	printed->refused += listed->error != 0;
	printed->unsafe += listed->best == FORM_FIRST;
	snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	choices_add(&choices, listed);
	if (!listed->error)
		fields_add(&fields, place->fields, place->field_count);
	if (!listed->error && place->wants_return)
		fields_add(&returns, code_place_returns(place), place->return_count);
	if (!listed->error && place->wants_return && !place->return_count)
		text_add(&returns, "ret", 3);
	ROWS_PUT(printed->rows, columns, row_text(name), row_text(kind_word(place->kind)),
		 listed->address ? row_address(listed->address) : row_null(),
		 row_text(listed->best ? forms_word(listed->best) : "refused"),
		 row_text(safety_word(listed->best)), row_words(list_text(&choices)),
		 row_text(listed->error ? wm_error_text(listed->error) : NULL),
		 row_words(listed->error ? listed->detail : NULL), row_words(list_text(&fields)),
		 row_words(list_text(&returns)), row_words(place->source), row_u64(place->line),
		 row_known((uint64_t)listed->pid), row_text(listed->module));
	text_release(&choices);
	text_release(&fields);
	text_release(&returns);
}

static void take_fault(const char *module, int error, void *data)
{
	struct printed *printed = data;

	printed->status = complain(error, "%s", module);
}

int list_probes(struct rows *rows, struct spec_list *specs, const struct list_scope *scope)
{
	struct printed printed = { .rows = rows };
	struct listing listing = {
		.specs = specs,
		.place = take_place,
		.fault = take_fault,
		.data = &printed,
	};

	rows_open(rows, &place_table, NULL);
	for (size_t i = 0; i < scope->pids.count; i++) {
		int err = listing_process(&listing, scope->pids.all[i]);

		if (err)
			printed.status = complain(err, "process %d", (int)scope->pids.all[i]);
	}
	for (size_t i = 0; i < scope->files.count; i++) {
		int err = listing_file(&listing, scope->files.all[i]);

		if (err)
			printed.status = complain(err, "%s", scope->files.all[i]);
	}
	rows_close(rows);
	if (printed.count)
		rows_note(
			rows,
			"%llu of %llu places can be probed, %llu of them safely beside uprobes of other tools",
			(unsigned long long)(printed.count - printed.refused),
			(unsigned long long)printed.count,
			(unsigned long long)(printed.count - printed.refused - printed.unsafe));
	if (!printed.status && findings_unmatched(specs, &listing.names, 0))
		printed.status = CLI_FAILED;
	name_list_release(&listing.names);
	return printed.status;
}
