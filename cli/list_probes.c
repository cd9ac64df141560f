/* SPDX-License-Identifier: MIT */
#include "cli/list_probes.h"

#include "base/elf.h"
#include "cli/cli.h"
#include "cli/list.h"
#include "cli/outcome.h"
#include "session/forms.h"
#include "session/loaded.h"
#include "session/plan.h"
#include "session/reach.h"
#include "session/target.h"
#include "trace/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAME_COLUMNS 36

struct listing {
	struct out *out;
	struct json lines; /* to the same */
	struct spec_list *specs;
	struct name_list names; /* for "did you mean" */
	int json;
	const char *module;
	pid_t pid;     /* 0: a file */
	uint64_t base; /* of the module */
	int has_head;  /* the module's line is written */
	uint64_t count, refused, unsafe;
	struct forms_room *room; /* of the process; NULL: a file */
	int is_unstoppable;	 /* the process may not stop its own threads */
	char shut[256];		 /* why the agent can't come into it; "": it can */
};

static const char *kind_word(enum code_place_kind kind)
{
	return kind == PLACE_USDT ? "usdt" : kind == PLACE_FUNCTION ? "function" : "address";
}

/* What the list says about a place's choices. */
struct verdict {
	unsigned int forms[DETOUR_CHOICES_MAX]; /* of each */
	unsigned int all;
	unsigned int best_choice; /* the one that the agent would take */
	enum detour_form best;	  /* 0: none */
};

static const struct control_detour *choice_next(const struct control_detour *choice)
{
	return (const void *)((const char *)choice + choice->bytes);
}

static struct verdict judge(const struct listing *listing, const struct control_detour *choices,
			    unsigned int count)
{
	const struct control_detour *choice = choices;
	struct verdict verdict = { 0 };

	for (unsigned int i = 0; i < count; i++, choice = choice_next(choice)) {
		verdict.forms[i] = forms_of(choice, listing->room, listing->base);
		if (listing->is_unstoppable)
			verdict.forms[i] &= 1u << FORM_BYTE;
		if (listing->shut[0])
			verdict.forms[i] = 0;
		verdict.all |= verdict.forms[i];
	}
	verdict.best = forms_best(verdict.all);
	while (verdict.best_choice + 1 < count &&
	       !(verdict.forms[verdict.best_choice] >> verdict.best & 1))
		verdict.best_choice++;
	return verdict;
}

static const char *safety_word(enum detour_form form)
{
	return !form ? "-" : form == FORM_FIRST ? "unsafe" : "safe";
}

/* ---- text ---- */

static void text_head(struct listing *listing)
{
	if (listing->has_head)
		return;
	listing->has_head = 1;
	list_put_module(listing->out, listing->pid, listing->module);
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

static void text_place(struct listing *listing, const struct code_place *place, int err,
		       const char *detail, const struct verdict *verdict)
{
	struct out *out = listing->out;
	char name[512], address[32];

	text_head(listing);
	snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	snprintf(address, sizeof(address), "0x%llx",
		 (unsigned long long)(place->address ? place->address + listing->base : 0));
	list_put_padded(out, name, NAME_COLUMNS);
	out_literal(out, "  ");
	list_put_padded(out, kind_word(place->kind), 8);
	out_literal(out, "  ");
	list_put_padded(out, address, 14);
	out_literal(out, "  ");
	list_put_padded(out, verdict->best ? forms_word(verdict->best) : "refused", 7);
	out_literal(out, "  ");
	list_put_padded(out, safety_word(verdict->best), 6);
	if (err) {
		out_literal(out, "  ");
		list_put(out, wm_error_text(err));
		if (detail[0]) {
			out_literal(out, ": ");
			list_put(out, detail);
		}
	} else if (place->source && place->source[0]) {
		out_literal(out, "  ");
		list_put(out, place->source);
		out_char(out, ':');
		out_u64(out, place->line);
	}
	out_char(out, '\n');
	if (!err)
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

static void json_place(struct listing *listing, const struct code_place *place, int err,
		       const char *detail, const struct control_detour *choices, unsigned int count,
		       const struct verdict *verdict)
{
	struct json *json = &listing->lines;
	char name[512];

	json_line(json);
	json_open(json, NULL, '{');
	snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	json_string(json, "name", name);
	json_string(json, "kind", kind_word(place->kind));
	if (listing->pid)
		json_number(json, "pid", (uint64_t)listing->pid);
	json_string(json, "module", listing->module);
	json_number(json, "address", place->address ? place->address + listing->base : 0);
	json_string(json, "form", verdict->best ? forms_word(verdict->best) : "refused");
	json_string(json, "beside_uprobes", safety_word(verdict->best));
	json_open(json, "choices", '[');
	for (unsigned int i = 0; i < count; i++, choices = choice_next(choices)) {
		json_open(json, NULL, '{');
		json_number(json, "address", choices->address + listing->base);
		json_open(json, "forms", '[');
		for (int form = FORM_BYTE; form <= FORM_FIRST; form++)
			if (verdict->forms[i] >> form & 1)
				json_string(json, NULL, forms_word((enum detour_form)form));
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
	if (err) {
		json_string(json, "reason", wm_error_text(err));
		json_string(json, "detail", detail);
	}
	json_string(json, "file", place->source);
	json_number(json, "line", place->line);
	json_open(json, "fields", '[');
	for (unsigned int i = 0; !err && i < place->field_count; i++)
		list_json_field(json, NULL, place->fields[i].name, place->fields[i].type);
	json_close(json, ']');
	if (!err && place->wants_return)
		json_returns(json, code_place_returns(place), place->return_count);
	json_close(json, '}');
}

/* ---- what there is ---- */

static void take_place(const struct code_place *place, int err, const char *detail,
		       const struct control_detour *choices, unsigned int count, void *data)
{
	struct listing *listing = data;
	struct verdict verdict = judge(listing, choices, count);

	/* the code allows it, but this process does not, or has no room */
	if (!err && !verdict.best) {
		err = listing->shut[0]		? -WM_E_INJECT
		      : listing->is_unstoppable ? -WM_E_NO_PTRACE
		      : place->is_safe		? -WM_E_SPAN_UNSAFE
						: -WM_E_PUN_TAKEN;
		detail = err == -WM_E_INJECT ? listing->shut : detail;
	}
	listing->count++;
	listing->refused += err != 0;
	listing->unsafe += verdict.best == FORM_FIRST;
	if (listing->json)
		json_place(listing, place, err, detail, choices, count, &verdict);
	else
		text_place(listing, place, err, detail, &verdict);
}

static int list_module(struct listing *listing, struct code_module *module, const char *path,
		       const struct code_process *process)
{
	struct plan_listener listener = { take_place, listing };
	struct plan *plan;
	uint64_t before = listing->count;
	int err;

	listing->module = path;
	listing->has_head = 0;
	listing->base = module->base;
	err = plan_make(&plan, listing->specs, module, process, &listener);
	if (!err)
		err = plan_names(&listing->names, listing->specs, module);
	plan_free(plan);
	if (!listing->json && listing->count > before)
		out_char(listing->out, '\n');
	return err;
}

/* What the process itself does not allow. */
static void look_at_process(struct listing *listing, pid_t pid)
{
	char dir[SOCKETDIR_BYTES];
	struct target target;

	listing->is_unstoppable = 0;
	listing->shut[0] = '\0';
	if (!pid || target_read(&target, pid))
		return;
	listing->is_unstoppable = !target_may_stop_itself(&target);
	if (target_lacks_threads(&target) && reach_published(pid, dir))
		target_thread_limit(&target, 0,
				    (struct detail){ listing->shut, sizeof(listing->shut) });
}

static int list_file(struct listing *listing, const char *path)
{
	struct code_module module = { 0 };
	struct code_file *file;
	int err = code_file_open(&file, path);

	listing->pid = 0;
	look_at_process(listing, 0);
	if (err)
		return complain(err, "%s", path);
	code_module_init(&module, file, 0);
	err = list_module(listing, &module, path, NULL);
	code_module_release(&module);
	return err ? complain(err, "%s", path) : CLI_FINE;
}

/* Of a process of another kind no module would be known. */
static int process_check(pid_t pid)
{
	struct elf elf;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	err = elf_open(&elf, path);
	elf_release(&elf);
	return err == -WM_E_FOREIGN_ARCH ? err : 0;
}

static int list_process(struct listing *listing, pid_t pid)
{
	struct loaded_list list;
	struct code_process process;
	int err = loaded_read(&list, pid), status = CLI_FINE;

	listing->pid = pid;
	look_at_process(listing, pid);
	if (!err)
		err = process_check(pid);
	if (!err)
		err = loaded_open(&list);
	if (!err)
		err = forms_room_read(&listing->room, pid);
	process = loaded_process(&list);
	for (size_t i = 0; !err && i < list.count; i++) {
		const struct loaded *loaded = &list.all[i];

		if (!plan_concerns(listing->specs, loaded->path, &loaded->aliases))
			continue;
		if (loaded->module)
			err = list_module(listing, loaded->module, loaded->path, &process);
		else
			status = complain(loaded->error, "%s", loaded->path);
	}
	loaded_release(&list);
	forms_room_free(listing->room);
	listing->room = NULL;
	return err ? complain(err, "process %d", (int)pid) : status;
}

static int list_all(struct listing *listing, const char *const *files, size_t file_count,
		    const pid_t *pids, size_t pid_count)
{
	int status = CLI_FINE, one;

	if (listing->json)
		json_open(&listing->lines, NULL, '[');
	for (size_t i = 0; i < pid_count; i++) {
		one = list_process(listing, pids[i]);
		status = one ? one : status;
	}
	for (size_t i = 0; i < file_count; i++) {
		one = list_file(listing, files[i]);
		status = one ? one : status;
	}
	if (listing->json)
		out_literal(listing->out, "\n]\n");
	return status;
}

int list_probes(struct spec_list *specs, const char *const *files, size_t file_count,
		const pid_t *pids, size_t pid_count, int json)
{
	struct listing listing = { .out = malloc(sizeof(*listing.out)),
				   .specs = specs,
				   .json = json };
	char why[256] = "";
	int status, err;

	if (!listing.out)
		return complain(-ENOMEM, NULL);
	out_init(listing.out, STDOUT_FILENO);
	listing.lines.out = listing.out;
	status = list_all(&listing, files, file_count, pids, pid_count);
	if (!json && listing.count) {
		out_u64(listing.out, listing.count - listing.refused);
		out_literal(listing.out, " of ");
		out_u64(listing.out, listing.count);
		out_literal(listing.out, " places can be probed, ");
		out_u64(listing.out, listing.count - listing.refused - listing.unsafe);
		out_literal(listing.out, " of them safely beside uprobes of other tools\n");
	}
	err = out_flush(listing.out);
	free(listing.out);
	if (err && err != -EPIPE)
		status = complain(err, "writing the list");
	if (!status && outcome_unmatched(specs, &listing.names, 0, why, sizeof(why)))
		status = CLI_FAILED;
	name_list_release(&listing.names);
	return status;
}
