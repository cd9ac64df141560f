/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "cli/cli.h"
#include "record/marker/catalog.h"
#include "record/marker/hits.h"
#include "record/spec/spec.h"
#include "target/expression/expr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

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
	const char *name; /* an argument that is no file's */
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
	options->name = text;
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
	int status = command_line_read(&line, argc, argv, options), has_specs;

	if (status >= 0)
		return status;
	has_specs = options->probes.count || options->watches.count;
	if (options->events) {
		if (has_specs || options->of.pids.count || optind + 1 < argc)
			return complain_usage("list", "--events takes one GLOB, and nothing else");
		return -1;
	}
	for (; optind < argc; optind++) {
		status = argument_add(options, argv[optind]);
		if (status)
			return status;
	}
	if (has_specs && options->name)
		return complain_usage(
			"list",
			"%s is no file; name the probes by an option: --usdt='%s', --func=NAME@FILE",
			options->name, options->name);
	if (options->watches.count && options->probes.count)
		return complain_usage("list", "--watch is asked for by itself");
	if (!options->of.pids.count && !options->of.files.count)
		return complain_usage("list", "name a file, or a process with -p");
	return -1;
}

static int fill(struct catalog *catalog, const struct options *options)
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
		else
			hits_ask(catalog, options->of.pids.all[i]); /* or they stay unknown */
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
	int status = fill(&catalog, options), chosen;
	char *take = malloc(catalog.count + 1);

	chosen = take ? choose(&catalog, options, take) : complain(-ENOMEM, NULL);
	if (take)
		list_markers(rows, &catalog, take, options->sites);
	free(take);
	catalog_release(&catalog);
	return status ? status : chosen;
}

static int list_all(struct options *options, const char *glob)
{
	static struct out out;
	struct rows rows;
	int status, err;

	out_init(&out, STDOUT_FILENO);
	rows_begin(&rows, &out, options->json ? ROWS_JSON : ROWS_TEXT);
	if (options->events)
		status = list_events(&rows, glob);
	else if (options->watches.count)
		status = list_watches(&rows, &options->watches, &options->of);
	else if (options->probes.count)
		status = list_probes(&rows, &options->probes, &options->of);
	else
		status = list_catalog(&rows, options);
	err = rows_end(&rows);
	return err && err != -EPIPE ? complain(err, "writing the list") : status;
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
