/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "base/fieldname.h"
#include "base/text_buffer.h"
#include "cli/cli.h"
#include "cli/findings.h"
#include "cli/output.h"
#include "record/marker/catalog.h"
#include "record/marker/hits.h"
#include "record/perf/count_event.h"
#include "record/probe/listing.h"
#include "record/spec/spec.h"
#include "target/code/probe_place.h"
#include "target/expression/expr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define FIELDS_MAX 16

static const char usage[] =
	"Usage: waymark list [OPTION]... FILE... [SUBSYSTEM:EVENT]...\n"
	"       waymark list [OPTION]... -p PID [SUBSYSTEM:EVENT]...\n"
	"       waymark list {--func GLOB | --usdt[=GLOB] | --watch EXPR | --event SPEC}...\n"
	"                    {FILE... | -p PID}\n"
	"       waymark list --events [GLOB]\n\n"
	"Show the markers in programs and libraries, or in running processes, which are not\n"
	"touched: their names, fields, sites, whether they are armed, where they are in the\n"
	"source; how often they were hit, if an agent is in the process. Names may be globs.\n\n"
	"With --func, --usdt or --event: what could be probed, and how, or why not. With\n"
	"--watch: where a variable is, and how many debug registers it takes. With --events:\n"
	"what the kernel can count here (waymark stat), or why not.\n\n"
	"  -p, --pid=PID  the markers of all modules of a process; may be given again\n"
	"  -s, --sites    each site by itself: its address, its state, its place\n"
	"  -f, --func=GLOB    functions of that name\n"
	"  -u, --usdt[=GLOB]  USDT probes; of that PROVIDER:NAME\n"
	"  -w, --watch=EXPR   what a watch of it takes: counter, list->head->count, 'table[3].name'\n"
	"  -e, --event=SPEC   what this spec would record, as func:malloc/ret,arg1/\n"
	"      --events       events to count; those whose names the GLOB matches\n"
	"  -j, --json     as one JSON object\n"
	"  -h, --help     this help\n";

struct options {
	struct list_scope of;
	struct spec_list globs;	  /* of markers */
	struct spec_list probes;  /* --func, --usdt, --event */
	struct spec_list watches; /* --watch, and --event of that kind */
	int json, sites, events;
};

/* SUBSYSTEM:EVENT, unless a file has that very name. */
static int is_glob(const struct options *options, const char *text)
{
	if (strchr(text, '/') ||
	    (!strchr(text, ':') && !strpbrk(text, "*?[") && !options->of.pids.count))
		return 0;
	return options->of.pids.count || access(text, F_OK);
}

/* CLI_FINE, also for a spec that is there already. */
static int complain_spec(int err, const char *spec, const char *words)
{
	if (!err || err == -WM_E_SPEC_TWICE)
		return CLI_FINE;
	return complain(err, "%s%s%s", spec, *words ? ": " : "", words);
}

static int argument_add(struct options *options, const char *text)
{
	char whole[1100];
	int err;

	if (!is_glob(options, text))
		return command_line_text(text, &options->of.files);
	if (options->probes.count || options->watches.count)
		return complain_usage(
			"list",
			"%s is no file; name the probes by an option: --usdt='%s', --func=NAME@FILE",
			text, text);
	if (!strchr(text, ':')) {
		snprintf(whole, sizeof(whole), "%s:*", text);
		text = whole;
	}
	err = spec_add(&options->globs, text);
	return complain_spec(err, text, options->globs.words);
}

/* A spec of the kind that the option is called, or with --event of any. */
static int probe_take(void *data, const struct command_option *option, const char *text,
		      const char *name)
{
	struct options *options = data;
	int is_event = !strcmp(option->name, "event"), is_watch, is_whole, err;
	struct spec_list *list;
	char whole[1100];

	(void)name;
	text = text ? text : "*:*";
	is_whole = is_event || (!strcmp(option->name, "watch") && !strncmp(text, "watch:", 6));
	is_watch = is_event ? !strncmp(text, "watch:", 6) : !strcmp(option->name, "watch");
	list = is_watch ? &options->watches : &options->probes;
	snprintf(whole, sizeof(whole), "%s%s%s", is_whole ? "" : option->name, is_whole ? "" : ":",
		 text);
	err = spec_add(list, whole);
	if (!err && !list->all[list->count - 1].request && !list->all[list->count - 1].watch)
		return complain(-WM_E_SPEC, "%s: this is no place in code", whole);
	return complain_spec(err, whole, list->words);
}

static const struct command_option table[] = {
	{ "pid", 'p', COMMAND_IDS, COMMAND_TO(options, of.pids) },
	{ "sites", 's', COMMAND_FLAG, COMMAND_TO(options, sites), .min = 1 },
	{ "func", 'f', COMMAND_CALL, .take = probe_take },
	{ "usdt", 'u', COMMAND_CALL, .take = probe_take, .may_lack_value = 1 },
	{ "watch", 'w', COMMAND_CALL, .take = probe_take },
	{ "event", 'e', COMMAND_CALL, .take = probe_take },
	{ "events", 0, COMMAND_FLAG, COMMAND_TO(options, events), .min = 1 },
	{ "json", 'j', COMMAND_FLAG, COMMAND_TO(options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "list", usage, table, 0 };

/* -1 to continue, or the exit status. */
static int options_read(struct options *options, int argc, char **argv)
{
	int status = command_line_read(&line, argc, argv, options);

	if (status >= 0)
		return status;
	if (options->events) {
		if (options->probes.count || options->watches.count || options->of.pids.count ||
		    optind + 1 < argc)
			return complain_usage("list", "--events takes one GLOB, and nothing else");
		return -1;
	}
	for (; optind < argc; optind++) {
		status = argument_add(options, argv[optind]);
		if (status)
			return status;
	}
	if (options->watches.count && options->probes.count)
		return complain_usage("list", "--watch is asked for by itself");
	if (!options->of.pids.count && !options->of.files.count)
		return complain_usage("list", "name a file, or a process with -p");
	return -1;
}

/* ---- markers ---- */

static const char *const state_words[] = {
	[SITE_IS_DORMANT] = "dormant",
	[SITE_IS_ARMED] = "armed",
	[SITE_IS_CHANGED] = "changed",
	[SITE_IS_SILENT] = "none",
};

static const struct row_column marker_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "event, inline, begin or end" },
	{ "way", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "how a site asks: flag or jump" },
	{ "sites", ROW_U64, ROW_COUNT, 0, "how many there are" },
	{ "armed", ROW_U64, ROW_COUNT, ROW_QUIET, "sites that record" },
	{ "changed", ROW_U64, ROW_COUNT, ROW_QUIET, "sites whose code the program changed" },
	{ "hits", ROW_U64, ROW_COUNT, 0, "in all modules of the process; null: not counted" },
	{ "fields", ROW_TEXT, ROW_PLAIN, 0, "name and type of each" },
	{ "types_differ", ROW_BOOL, ROW_PLAIN, ROW_QUIET, "sites do not agree: it can't be armed" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "of the first site's source" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "there" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
	{ "refused", ROW_TEXT, ROW_PLAIN, 0, "why no agent can enter the process" },
};
static ROW_TABLE(marker_table, "marker", "A marker of a file or process.", marker_columns);

static const struct row_column site_columns[] = {
	{ "marker", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "in the process, or as linked" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, "dormant, armed, changed, or none" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "of the source" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "there" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
};
static ROW_TABLE(site_table, "site", "A site of a marker.", site_columns);

/* Add "name type"; an unknown WM_TYPE_* is "?". */
static void field_add(struct text *fields, const char *name, uint8_t type)
{
	const char *word = catalog_type(type & WM_TYPE_MASK);

	text_format(fields, "%s%s %s%s", fields->bytes ? ", " : "", name, word ? word : "?",
		    type & WM_TYPE_ARRAY ? "[]" : "");
}

static void put_marker(struct rows *rows, const struct catalog_marker *marker)
{
	char names[FIELDS_MAX][FIELDNAME_BYTES];
	struct text fields = { 0 };
	int count = 0;

	while (count < FIELDS_MAX && marker->types[count])
		count++;
	fieldname_list(marker->fields, count, names);
	for (int i = 0; i < count; i++)
		field_add(&fields, names[i], marker->types[i]);
	ROWS_PUT(rows, marker_columns, row_text(marker->name), row_text(catalog_kind(marker->kind)),
		 row_text(marker->way == 'p' ? "flag" : "jump"), row_u64(marker->site_count),
		 row_u64(marker->counts[SITE_IS_ARMED]), row_u64(marker->counts[SITE_IS_CHANGED]),
		 marker->pid && marker->hits != CATALOG_HITS_UNKNOWN ? row_u64(marker->hits)
								     : row_null(),
		 row_words(fields.at), row_bool(marker->types_differ),
		 row_words(marker->sites[0].file), row_u64(marker->sites[0].line),
		 row_known((uint64_t)marker->pid), row_text(marker->module),
		 row_text(marker->refusal));
	text_release(&fields);
}

static void put_sites(struct rows *rows, const struct catalog_marker *marker)
{
	for (size_t i = 0; i < marker->site_count; i++) {
		const struct catalog_site *site = &marker->sites[i];

		ROWS_PUT(rows, site_columns, row_text(marker->name),
			 site->address ? row_address(site->address) : row_null(),
			 row_text(state_words[site->state]), row_words(site->file),
			 row_u64(site->line), row_known((uint64_t)marker->pid),
			 row_text(marker->module));
	}
}

/* The markers whose take[i] is not 0, and with `sites` each of their sites. */
static void list_markers(struct rows *rows, const struct catalog *catalog, const char *take,
			 int sites)
{
	rows_open(rows, &marker_table, NULL);
	for (size_t i = 0; i < catalog->count; i++)
		if (take[i])
			put_marker(rows, &catalog->markers[i]);
	rows_close(rows);
	if (!sites)
		return;
	rows_open(rows, &site_table, NULL);
	for (size_t i = 0; i < catalog->count; i++)
		if (take[i])
			put_sites(rows, &catalog->markers[i]);
	rows_close(rows);
}

static int catalog_fill(struct catalog *catalog, const struct options *options)
{
	int status = CLI_FINE;

	for (size_t i = 0; i < options->of.pids.count; i++) {
		char words[512] = "";
		size_t before = catalog->count, faults = catalog->fault_count;
		int err = catalog_add_process(catalog, options->of.pids.all[i],
					      (struct detail){ words, sizeof(words) });

		for (size_t j = faults; j < catalog->fault_count; j++)
			status = complain(catalog->faults[j].error, "%s of process %d",
					  catalog->faults[j].module, options->of.pids.all[i]);
		if (!err && catalog->count == before && catalog->fault_count == faults) {
			snprintf(words, sizeof(words), "process %d has none",
				 options->of.pids.all[i]);
			err = -WM_E_NO_MARKER;
		}
		if (err && !*words)
			snprintf(words, sizeof(words), "process %d", options->of.pids.all[i]);
		if (err)
			status = complain(err, "%s", words);
	}
	for (size_t i = 0; i < options->of.files.count; i++) {
		size_t before = catalog->count;
		int err = catalog_add_file(catalog, options->of.files.all[i]);

		if (!err && catalog->count == before)
			status = complain(-WM_E_NO_MARKER, "%s has none", options->of.files.all[i]);
		else if (err)
			status = complain(err, "%s", options->of.files.all[i]);
	}
	catalog_sort(catalog);
	for (size_t i = 0; i < options->of.pids.count; i++)
		hits_ask(catalog, options->of.pids.all[i]); /* or they stay unknown */
	return status;
}

/* Mark what the globs take; complain about each glob that takes nothing. */
static int choose(const struct catalog *catalog, const struct options *options, char *take)
{
	const char **names = calloc(catalog->count + 1, sizeof(*names));
	int status = CLI_FINE;

	for (size_t i = 0; i < catalog->count; i++) {
		take[i] = !options->globs.count;
		if (names)
			names[i] = catalog->markers[i].name;
	}
	for (size_t g = 0; g < options->globs.count; g++) {
		const struct spec *glob = &options->globs.all[g];
		int found = 0;

		for (size_t i = 0; i < catalog->count; i++)
			if (spec_matches(glob, catalog->markers[i].name))
				take[i] = (char)(found = 1);
		if (!found && catalog->count)
			status = complain_near(-WM_E_NO_MARKER, glob->glob, names,
					       names ? catalog->count : 0);
	}
	free(names);
	return status;
}

/* The markers. */
static int list_catalog(struct rows *rows, const struct options *options)
{
	struct catalog catalog = { 0 };
	int status = catalog_fill(&catalog, options), chosen;
	char *take = malloc(catalog.count + 1);

	chosen = take ? choose(&catalog, options, take) : complain(-ENOMEM, NULL);
	if (take)
		list_markers(rows, &catalog, take, options->sites);
	free(take);
	catalog_release(&catalog);
	return status ? status : chosen;
}

/* ---- places in code ---- */

struct printed {
	struct rows *rows;
	uint64_t count, refused, unsafe;
	int status;
};

static const struct row_column place_columns[] = {
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
static ROW_TABLE(place_table, "probe", "A place in code that can be probed, or why not.",
		 place_columns);

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
		field_add(text, fields[i].name, fields[i].type);
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
	ROWS_PUT(printed->rows, place_columns, row_text(name), row_text(kind_word(place->kind)),
		 listed->address ? row_address(listed->address) : row_null(),
		 row_text(listed->best ? forms_word(listed->best) : "refused"),
		 row_text(safety_word(listed->best)), row_words(choices.at),
		 row_text(listed->error ? wm_error_text(listed->error) : NULL),
		 row_words(listed->error ? listed->detail : NULL), row_words(fields.at),
		 row_words(returns.at), row_words(place->source), row_u64(place->line),
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

static int list_probes(struct rows *rows, struct spec_list *specs, const struct list_scope *scope)
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

/* ---- what the kernel counts ---- */

struct event_listing {
	struct rows *rows;
	size_t count, left_out;
	int has_glob;
};

static const struct row_column event_columns[] = {
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "group", ROW_TEXT, ROW_PLAIN, 0, "what counts it" },
	{ "available", ROW_BOOL, ROW_PLAIN, 0, "here" },
	{ "description", ROW_TEXT, ROW_PLAIN, 0, "what it is" },
	{ "why", ROW_TEXT, ROW_PLAIN, 0, "it is not available" },
};
static ROW_TABLE(countable_table, "countable", "What the kernel can count.", event_columns);

/* Why this machine does not count it, or NULL. */
static const char *lack_of(const char *name)
{
	char words[256];
	struct detail detail = { words, sizeof(words) };
	struct count_event event;
	int err = count_event_read(&event, name, detail);

	if (!err)
		err = count_event_probe(&event, detail);
	return err ? wm_error_text(err) : NULL;
}

static int event_take(void *data, const struct count_listed *listed)
{
	struct event_listing *listing = data;
	/* to open each of some 2,000 tracepoints takes long, and registers it in the kernel */
	const char *lack = strcmp(listed->group, "tracepoint") ? lack_of(listed->name) : NULL;

	listing->count++;
	if (lack && !listing->has_glob && listing->rows->format == ROWS_TEXT) {
		listing->left_out++;
		return 0;
	}
	ROWS_PUT(listing->rows, event_columns, row_text(listed->name), row_text(listed->group),
		 row_bool(!lack), row_words(listed->description), row_text(lack));
	return listing->rows->out->error;
}

static int list_events(struct rows *rows, const char *glob)
{
	struct event_listing listing = { .rows = rows, .has_glob = glob != NULL };
	int err;

	rows_open(rows, &countable_table, NULL);
	err = count_events_list(glob, glob != NULL, event_take, &listing);
	rows_close(rows);
	if (listing.left_out)
		rows_note(rows, "not here: %zu events; a GLOB of their names shows why",
			  listing.left_out);
	if (err) /* of the output: output_rows_end() judges it */
		return CLI_FINE;
	return listing.count ? CLI_FINE : complain(-WM_E_COUNT_EVENT, "%s", glob);
}

/* ---- the command ---- */

static int list_all(struct options *options, const char *glob)
{
	struct rows *rows = output_rows(options->json ? ROWS_JSON : ROWS_TEXT);
	int status;

	if (options->events)
		status = list_events(rows, glob);
	else if (options->watches.count)
		status = list_watches(rows, &options->watches, &options->of);
	else if (options->probes.count)
		status = list_probes(rows, &options->probes, &options->of);
	else
		status = list_catalog(rows, options);
	return output_rows_end(status);
}

int cmd_list(int argc, char **argv)
{
	struct options options = { 0 };
	int status = options_read(&options, argc, argv);

	if (status < 0)
		status = list_all(&options, argv[optind]);
	spec_list_release(&options.globs);
	spec_list_release(&options.probes);
	spec_list_release(&options.watches);
	free(options.of.pids.all);
	free(options.of.files.all);
	return status;
}
