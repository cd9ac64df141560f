/* SPDX-License-Identifier: MIT */
#include "record/probe/probe_plan.h"

#include "abi/control.h"
#include "abi/page.h"
#include "base/array.h"
#include "base/name_match.h"
#include "base/slots.h"
#include "target/code/probe_fields.h"
#include "target/code/return_look.h"
#include "target/code/sweep.h"
#include "target/code/trampoline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define NAMES_NEAR 3
#define NAMES_TOLD 8
#define LIBC_NAME "libc.so.6"

#define GUARDS_MAX 4	 /* that guard_all() makes */
#define TEXT_BYTES 4096	 /* of an event */
#define RECORD_MAX 16384 /* of one detour's record, texts included */

/* ---- what the requests find in a module, kept until all are resolved ---- */

struct asked {
	struct spec *spec;   /* NULL: a guard, which belongs to no spec */
	uint32_t covered_by; /* number + 1 of an earlier place that records the same; 0: none */
	/* a struct code_place without its unused fields, then its names; NULL: none */
	const void *place;
	/* its records, one for each choice, for base 0; NULL: refused or covered */
	struct control_detour *detour;
	size_t detour_bytes; /* of all records */
	unsigned int choice_count;
	int error;    /* why it is refused; 0: it is not */
	char *detail; /* about the refusal; NULL: "" */
};

struct asked_list {
	struct asked *all;
	size_t count, room;
};

/* Add a zeroed one. Its address is valid until the next call. NULL: no memory. */
static struct asked *asked_add(struct asked_list *list)
{
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return NULL;
	list->all[list->count] = (struct asked){ 0 };
	return &list->all[list->count++];
}

static void asked_release(struct asked_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free((void *)list->all[i].place);
		free(list->all[i].detour);
		free(list->all[i].detail);
	}
	free(list->all);
	*list = (struct asked_list){ 0 };
}

/* Copy no unused fields: most places have few fields, and a module may have many functions. */
static size_t place_bytes(const struct code_place *place)
{
	return offsetof(struct code_place, fields) +
	       (place->field_count + place->return_count) * sizeof(struct code_field);
}

static char *name_append(char **at, const char *name)
{
	char *copy = *at;

	*at = stpcpy(copy, name) + 1;
	return copy;
}

/* Keep a copy of the place, names included. 0 or -ENOMEM. */
static int asked_keep(struct asked *asked, const struct code_place *place)
{
	const char *source = place->source ? place->source : "";
	size_t bytes = place_bytes(place);
	size_t names = strlen(place->subsystem) + strlen(place->event) + strlen(source) + 3;
	struct code_place copy = *place;
	unsigned char *kept = malloc(bytes + names);
	char *at;

	if (!kept)
		return -ENOMEM;
	at = (char *)kept + bytes;
	copy.subsystem = name_append(&at, place->subsystem);
	copy.event = name_append(&at, place->event);
	copy.source = name_append(&at, source);
	memcpy(kept, &copy, bytes);
	asked->place = kept;
	return 0;
}

/* The place that was kept: only its head, that is point and names, may be used. */
static const struct code_place *asked_head(const struct asked *asked)
{
	return asked->place;
}

/* Get the place that was kept. Its names belong to the list. */
static void asked_place(const struct asked *asked, struct code_place *place)
{
	const struct code_place *head = asked_head(asked);

	memset(place, 0, sizeof(*place));
	memcpy(place, asked->place, place_bytes(head));
}

/*
 * Make an event's text (abi/site.h). Its parts end with newlines, which names can't contain; debug
 * information may claim any path. `last`: one more field's name, or "".
 */
static int text_make(char text[TEXT_BYTES], char kind, const struct code_place *place,
		     const struct code_field *fields, unsigned int count, const char *last)
{
	const char *source = place->source && !strchr(place->source, '\n') ? place->source : "";
	int used = snprintf(text, TEXT_BYTES, "%cd\n%s\n%s\n%s\n%u", kind, place->subsystem,
			    place->event, source, place->line);

	if (place->trigger && used < TEXT_BYTES)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, " " SITE_TRIGGER "%u",
				 place->trigger);
	if (used < TEXT_BYTES)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, "\n");

	for (unsigned int i = 0; i < count && used < TEXT_BYTES; i++)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%s", i ? ", " : "",
				 fields[i].name);
	if (*last && used < TEXT_BYTES)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%s", count ? ", " : "",
				 last);
	/* of a call that is one event, at its return */
	if (place->callers && !(place->is_once && kind == 'b') && used < TEXT_BYTES)
		used += snprintf(text + used, TEXT_BYTES - (size_t)used, "%s%s",
				 count || *last ? ", " : "", FIELD_CALLCHAIN);
	return used < TEXT_BYTES ? 0 : -WM_E_SPEC;
}

/*
 * Put a place's predicates and sums behind a record of so many bytes. Returns how many more it has.
 */
static size_t predicates_append(const struct code_place *place, unsigned char *record, size_t bytes)
{
	size_t more = place->predicate_count * sizeof(struct predicate);
	struct control_detour *detour = (struct control_detour *)(void *)record;

	code_predicates_write(place, (struct predicate *)(void *)(record + bytes));
	detour->predicates = (uint8_t)place->predicate_count;
	detour->handler = (uint8_t)place->handler;
	if (place->sums) {
		code_sums_write(place, (struct sum_field *)(void *)(record + bytes + more));
		detour->sums = (uint8_t)place->sums->count;
		detour->flags |= DETOUR_SUMS;
		more += place->sums->count * sizeof(struct sum_field);
	}
	detour->bytes += (uint32_t)more;
	return more;
}

/* Add the record of one more choice. 0; -WM_E_SPEC: its names are too long; -ENOMEM. */
static int asked_record(struct asked *asked, const struct code_place *place,
			const struct trampoline *trampoline)
{
	static __thread unsigned char record[RECORD_MAX] __attribute__((aligned(8)));
	char text[TEXT_BYTES], return_text[TEXT_BYTES];
	char kind = place->wants_return ? 'b' : 'm';
	struct control_detour *copy;
	size_t bytes;
	int err = text_make(text, kind, place, place->fields, place->field_count, "");

	if (!err && place->is_once)
		err = text_make(return_text, 'm', place, place->fields,
				place->field_count + place->return_count, "duration");
	else if (!err && place->wants_return)
		err = text_make(return_text, 'e', place, code_place_returns(place),
				place->return_count, "");
	if (err)
		return err;
	bytes = trampoline_write(trampoline, 0, text, place->wants_return ? return_text : NULL,
				 record, sizeof(record));
	if (bytes + PREDICATES_MAX * sizeof(struct predicate) +
		    SUM_FIELDS_MAX * sizeof(struct sum_field) >
	    sizeof(record))
		return -WM_E_SPEC;
	bytes += predicates_append(place, record, bytes);
	copy = realloc(asked->detour, asked->detour_bytes + bytes);
	if (!copy)
		return -ENOMEM;
	memcpy((unsigned char *)copy + asked->detour_bytes, record, bytes);
	asked->detour = copy;
	asked->detour_bytes += bytes;
	asked->choice_count++;
	return 0;
}

/* Refuse it, and drop its records. 0 or -ENOMEM. */
static int asked_refuse(struct asked *asked, int error, const char *detail)
{
	free(asked->detour);
	free(asked->detail);
	asked->detour = NULL;
	asked->detour_bytes = asked->choice_count = 0;
	asked->error = error;
	asked->detail = strdup(detail);
	return asked->detail ? 0 : -ENOMEM;
}

/* ---- finding ---- */

/* The state of plan_make(), for its callbacks. */
struct making {
	struct plan *plan;
	struct spec *spec; /* whose places are being found */
	int is_glob;
	struct asked_list asked;
	size_t earlier;	    /* how many of `asked` are of earlier specs */
	struct slots slots; /* of `asked`, by point */
	struct code_module *module;
	const struct plan_listener *listener;
	struct sweep sweep;
	struct return_others others;
	struct image_range guarded[GUARDS_MAX]; /* the guards' functions */
	int has_sweep;
	struct trampoline trampoline;
};

/* Enter the last place into the table. */
static int index_last(struct making *making)
{
	size_t last = making->asked.count - 1;
	const struct asked *asked = &making->asked.all[last];

	if (slots_fit(&making->slots))
		return -ENOMEM;
	if (asked->detour && asked->spec)
		slots_add(&making->slots, slots_hash(asked_head(asked)->address), (uint32_t)last);
	return 0;
}

/*
 * One function's name may match several: keep the names found, to report them. An event with a name
 * of its own has all of them, which only their addresses distinguish.
 */
static int name_keep(struct spec *spec, const struct code_place *place)
{
	char name[512];

	if (spec->request->kind != REQUEST_FUNCTION || spec->names.count > NAMES_TOLD ||
	    code_is_glob(spec->request->name))
		return 0;
	if (*spec->request->event)
		snprintf(name, sizeof(name), "%s+0x%" PRIx64, spec->request->name, place->address);
	else
		snprintf(name, sizeof(name), "%s:%s", place->subsystem, place->event);
	return name_list_add(&spec->names, name);
}

static int is_glob(const struct code_request *request)
{
	return request->name && request->kind != REQUEST_LINE && code_is_glob(request->name);
}

static int is_same_field(const struct code_field *field, const struct code_field *other)
{
	return field->type == other->type && !strcmp(field->name, other->name);
}

static int has_same_predicates(const struct code_place *there, const struct code_place *place)
{
	return there->predicate_count == place->predicate_count &&
	       !memcmp(there->predicates, place->predicates,
		       place->predicate_count * sizeof(struct predicate));
}

/* Whether the rows of both would be added up as one. */
static int has_same_sums(const struct code_place *there, const struct code_place *place)
{
	return there->sums && place->sums && there->sums->count == place->sums->count &&
	       !memcmp(there->sums->fields, place->sums->fields,
		       place->sums->count * sizeof(struct sum_field));
}

/* Whether one event or its sums have all hits that the other has, and of sums no others. */
static int has_all_hits(const struct code_place *there, const struct code_place *place)
{
	if (there->is_once != place->is_once || there->trigger != place->trigger ||
	    there->handler != place->handler)
		return 0;
	if (there->sums || place->sums)
		return has_same_sums(there, place) && has_same_predicates(there, place);
	return !there->predicate_count || has_same_predicates(there, place);
}

/* Whether an existing event records all that this one would. */
static int is_covered(const struct making *making, const struct asked *asked,
		      const struct code_place *place)
{
	const struct code_place *there = asked_head(asked);

	if (strcmp(there->subsystem, place->subsystem) || strcmp(there->event, place->event))
		return 0;
	if (!has_all_hits(there, place) || place->callers > there->callers)
		return 0;
	if (making->is_glob)
		return 1;
	for (unsigned int i = 0; i < place->field_count; i++)
		if (i >= there->field_count || !is_same_field(&there->fields[i], &place->fields[i]))
			return 0;
	if (!place->wants_return)
		return 1;
	if (!there->wants_return || there->return_count != place->return_count)
		return 0;
	for (unsigned int i = 0; i < place->return_count; i++)
		if (!is_same_field(&code_place_returns(there)[i], &code_place_returns(place)[i]))
			return 0;
	return 1;
}

/* The first of earlier specs' places at that point whose event serves this one too. */
static size_t covering(const struct making *making, const struct code_place *place)
{
	uint32_t hash = slots_hash(place->address), number;
	size_t first = making->earlier;

	for (uint64_t at = hash; slots_next(&making->slots, hash, &at, &number);)
		if (number < first &&
		    asked_head(&making->asked.all[number])->address == place->address &&
		    is_covered(making, &making->asked.all[number], place))
			first = number;
	return first;
}

/* Whether an earlier spec makes the same sums of other hits there: a trace has these as one. */
static int is_rival(const struct making *making, const struct code_place *place)
{
	uint32_t hash = slots_hash(place->address), number;

	for (uint64_t at = hash; slots_next(&making->slots, hash, &at, &number);)
		if (number < making->earlier &&
		    asked_head(&making->asked.all[number])->address == place->address &&
		    has_same_sums(asked_head(&making->asked.all[number]), place))
			return 1;
	return 0;
}

/* If an earlier spec's event serves this place too, note that and return 1; else 0; or -ENOMEM. */
static int settle_taken(struct making *making, const struct code_place *place)
{
	size_t number = making->slots.count ? covering(making, place) : making->earlier;
	struct asked *asked;

	if (number == making->earlier)
		return 0;
	asked = asked_add(&making->asked);
	if (!asked)
		return -ENOMEM;
	asked->spec = making->spec;
	asked->covered_by = (uint32_t)number + 1;
	return 1;
}

static int sweep_once(struct making *making)
{
	const struct code_symbols *symbols;
	int err;

	if (making->has_sweep)
		return 0;
	symbols = code_module_symbols(making->module);
	if (!symbols)
		return -ENOMEM;
	err = sweep_make(&making->sweep, making->module->file, symbols);
	making->sweep.others = making->others.process ? &making->others : NULL;
	making->has_sweep = !err;
	if (err)
		sweep_release(&making->sweep);
	return err;
}

/* Keep a place with its records, or with the reason why it has none. */
static int keep(struct making *making, const struct code_place *place, int err, const char *detail)
{
	struct asked *asked = asked_add(&making->asked);
	int failed = asked ? asked_keep(asked, place) : -ENOMEM;

	if (failed)
		return failed;
	asked->spec = making->spec;
	for (unsigned int i = 0; !err && i < DETOUR_CHOICES_MAX; i++) {
		err = trampoline_compose(&making->sweep, place, i, &making->trampoline);
		detail = making->trampoline.detail;
		if (!err)
			err = asked_record(asked, place, &making->trampoline);
	}
	/* there are no more choices */
	if (asked->choice_count && err == -ENOENT)
		err = 0;
	if (err == -WM_E_SPEC)
		detail = "its names are too long";
	if (err == -ENOMEM)
		return err;
	return err ? asked_refuse(asked, err, detail) : index_last(making);
}

/* A guard runs in place of the function: nothing behind its jump is ever reached. */
static int is_in_guarded(const struct making *making, uint64_t address)
{
	for (size_t i = 0; i < making->plan->guard_count; i++)
		if (address >= making->guarded[i].start && address < making->guarded[i].end)
			return 1;
	return 0;
}

/*
 * Leave out the last of 16 fields: the callchain is one. 0; -WM_E_EVENT_ROOM: a predicate may need
 * that field.
 */
static int callchain_make_room(struct code_place *place)
{
	const struct code_field *returns = code_place_returns(place);

	if (place->is_once)
		return place->field_count + place->return_count + 2 > CODE_FIELDS_MAX
			       ? -WM_E_EVENT_ROOM
			       : 0;
	if (place->predicate_count && place->field_count == CODE_FIELDS_MAX)
		return -WM_E_EVENT_ROOM;
	if (place->return_count == CODE_RETURNS_MAX)
		place->return_count--;
	if (place->field_count == CODE_FIELDS_MAX)
		place->field_count--;
	memmove(place->fields + place->field_count, returns,
		place->return_count * sizeof(*returns));
	return 0;
}

static int found(const struct code_place *place, int err, const char *detail, void *data)
{
	struct making *making = data;
	struct code_place wanted = *place;
	char replaced[TEXT_BYTES];
	int failed;

	making->spec->matches++;
	wanted.is_safe = making->spec->request->is_safe;
	wanted.callers = making->spec->request->callers;
	wanted.trigger = making->spec->trigger;
	wanted.handler = making->spec->handler;
	/* the result alone, as the handler has it: not errno */
	if (wanted.handler && wanted.return_count > 1)
		wanted.return_count = 1;
	if (*making->spec->request->event) {
		wanted.subsystem = making->spec->request->subsystem;
		wanted.event = making->spec->request->event;
	}
	if (wanted.replaces) {
		snprintf(replaced, sizeof(replaced), "%s" CODE_REPLACED, wanted.event);
		wanted.event = replaced;
	}
	if (!err && wanted.callers) {
		err = callchain_make_room(&wanted);
		detail = err ? "its fields and the callchain are more than 16" : detail;
	}
	failed = err ? 0 : settle_taken(making, &wanted);
	if (failed)
		return failed < 0 ? failed : 0;
	if (!err && making->slots.count && is_rival(making, &wanted)) {
		err = -WM_E_SPEC_TWICE;
		detail = "another spec adds up the same there, under other conditions";
	}
	if (!err)
		err = sweep_once(making);
	if (err == -ENOMEM || err == -ECANCELED)
		return err;
	if (!err && is_in_guarded(making, place->address))
		err = -WM_E_GUARDED;
	return keep(making, &wanted, err, detail);
}

/* ---- from places to the plan ---- */

static int refuse(struct making *making, const struct asked *asked)
{
	const struct code_place *place = asked_head(asked);
	struct plan *plan = making->plan;
	struct plan_refusal refusal = { .address = place->address, .error = asked->error };

	spec_keep_error(asked->spec, asked->error, asked->detail, 1);
	if (array_grow(&plan->refused, &plan->refused_room, plan->refused_count + 1,
		       sizeof(*plan->refused)))
		return -ENOMEM;
	if (asprintf(&refusal.name, "%s:%s", place->subsystem, place->event) < 0)
		return -ENOMEM;
	refusal.detail = strdup(asked->detail);
	if (!refusal.detail) {
		free(refusal.name);
		return -ENOMEM;
	}
	plan->refused[plan->refused_count++] = refusal;
	return 0;
}

/* Move the records to the plan. */
static int place_add(struct making *making, struct asked *asked)
{
	struct plan *plan = making->plan;
	const struct control_detour *detour = asked->detour;
	struct code_place place;
	int err;

	if (array_grow(&plan->places, &plan->place_room, plan->place_count + 1,
		       sizeof(*plan->places)))
		return -ENOMEM;
	plan->places[plan->place_count++] = (struct plan_place){
		.detour = asked->detour,
		.bytes = asked->detour_bytes,
		.choice_count = asked->choice_count,
		.point = asked_head(asked)->address,
	};
	if (asked_head(asked)->address > plan->last)
		plan->last = asked_head(asked)->address;
	asked->detour = NULL;
	if (!asked->spec)
		return 0;
	asked->spec->placed++;
	asked_place(asked, &place);
	err = name_keep(asked->spec, &place);
	return err ? err : enumerated_add(&plan->enumerated, &place, detour);
}

static void report(const struct plan_listener *listener, const struct asked *asked)
{
	struct code_place place;

	asked_place(asked, &place);
	listener->place(&place, asked->error, asked->detail ? asked->detail : "", asked->detour,
			asked->choice_count, listener->data);
}

static int fill(struct making *making)
{
	int err = 0;

	for (size_t i = 0; i < making->asked.count && !err; i++) {
		struct asked *asked = &making->asked.all[i];

		if (asked->covered_by) {
			const struct asked *there = &making->asked.all[asked->covered_by - 1];

			asked->spec->placed += !there->error;
			continue;
		}
		if (making->listener && asked->spec)
			report(making->listener, asked);
		err = asked->detour ? place_add(making, asked) : refuse(making, asked);
	}
	enumerated_sort(&making->plan->enumerated);
	return err;
}

/*
 * Whether the module is libc, and a watch needs SIGTRAP, or a filter may forbid what hits call:
 * markers have counts, probes strings, and both have callers.
 */
static int is_guarded(const struct spec_list *specs, const char *path)
{
	if (strcmp(name_last_part(path), LIBC_NAME))
		return 0;
	return spec_count(specs, SPEC_OF(watch)) || spec_costs(specs) || spec_callers(specs) ||
	       spec_reads_strings(specs);
}

int plan_concerns(const struct spec_list *specs, const char *path,
		  const struct code_aliases *aliases)
{
	if (is_guarded(specs, path))
		return 1;
	for (size_t i = 0; i < specs->count; i++)
		if (specs->all[i].request &&
		    code_request_takes(specs->all[i].request, path, aliases))
			return 1;
	return 0;
}

int plan_fits(const struct plan *plan, const struct spec_list *specs, const char *name,
	      const struct code_aliases *aliases)
{
	if (strcmp(plan->name, name))
		return 0;
	for (size_t i = 0; i < specs->count; i++) {
		const struct code_request *request = specs->all[i].request;

		if (request && code_request_takes(request, plan->path, &plan->aliases) !=
				       code_request_takes(request, plan->path, aliases))
			return 0;
	}
	return 1;
}

static int resolve(struct making *making, struct spec *spec, const struct code_process *process)
{
	int err;

	if (!code_request_takes(spec->request, making->plan->path,
				&making->module->file->aliases) ||
	    (making->module->file->is_vdso && !spec->request->module))
		return 0;
	spec->modules++;
	making->spec = spec;
	making->earlier = making->asked.count;
	err = code_resolve(spec->request, making->module, process, found, making);
	if (err == -ENOMEM || err == -ECANCELED)
		return err;
	if (err < 0)
		spec_keep_error(spec, err, NULL, 0);
	return 0;
}

/* Requests by exact name come before globs. */
static int resolve_all(struct making *making, struct spec_list *specs,
		       const struct code_process *process)
{
	int err = 0;

	for (making->is_glob = 0; making->is_glob < 2; making->is_glob++) {
		for (size_t i = 0; i < specs->count && !err; i++) {
			const struct code_request *request = specs->all[i].request;

			if (request && is_glob(request) == making->is_glob)
				err = resolve(making, &specs->all[i], process);
		}
	}
	return err;
}

/* Make a guard. If that is impossible, leave it out: then the agent refuses watches. */
static int guard(struct making *making, const char *name, uint8_t kind, uint32_t call)
{
	const struct code_symbols *symbols = code_module_symbols(making->module);
	const struct code_function *function = symbols ? code_function_named(symbols, name) : NULL;
	/* without an address, so that no spec's place is covered by it */
	struct code_place place = { .subsystem = "libc", .event = "guard" };
	struct asked *asked;
	int err;

	if (!function)
		return symbols ? -ENOENT : -ENOMEM;
	asked = asked_add(&making->asked);
	err = asked ? asked_keep(asked, &place) : -ENOMEM;
	for (unsigned int i = 0; !err && i < DETOUR_CHOICES_MAX; i++) {
		err = trampoline_compose_guard(&making->sweep, function->address,
					       kind == DETOUR_GUARD_CALL ? 0 : function->bytes,
					       kind, call, i, &making->trampoline);
		if (!err)
			err = asked_record(asked, &place, &making->trampoline);
	}
	if (err == -ENOMEM)
		return err;
	if (!asked->choice_count) {
		making->asked.count--;
		free((void *)asked->place);
		return -ENOENT;
	}
	making->guarded[making->plan->guard_count++] = (struct image_range){
		function->address, function->address + function->bytes
	};
	return 0;
}

static int guard_all(struct making *making, int has_watches)
{
	/*
	 * other functions call the first directly, as sigaction() does; not every glibc has its
	 * symbol
	 */
	static const char *const actions[] = { "__libc_sigaction", "sigaction" };
	static const uint8_t kinds[] = { DETOUR_GUARD_INNER, DETOUR_GUARD_ACTION };
	int err = sweep_once(making);

	if (!err && has_watches)
		err = guard(making, "pthread_sigmask", DETOUR_GUARD_MASK, 0);
	for (size_t i = 0; i < 2 && has_watches && (!err || err == -ENOENT); i++) {
		err = guard(making, actions[i], kinds[i], 0);
		if (!err)
			break;
	}
	/* threads may be asleep in these; without one, the agent notices a seccomp filter late */
	if (!err || err == -ENOENT)
		err = guard(making, "prctl", DETOUR_GUARD_CALL, SYS_prctl);
	if (!err || err == -ENOENT)
		err = guard(making, "syscall", DETOUR_GUARD_CALL, 0);
	return err == -ENOMEM ? err : 0;
}

static int aliases_copy(struct code_aliases *to, const struct code_aliases *from)
{
	to->link = from->link ? strdup(from->link) : NULL;
	to->argument = from->argument ? strdup(from->argument) : NULL;
	return (from->link && !to->link) || (from->argument && !to->argument) ? -ENOMEM : 0;
}

int plan_make(struct plan **plan, struct spec_list *specs, struct code_module *module,
	      const struct code_process *process, const struct plan_listener *listener)
{
	struct making *making = calloc(1, sizeof(*making));
	int err;

	*plan = calloc(1, sizeof(**plan));
	if (!making || !*plan) {
		free(making);
		return -ENOMEM;
	}
	(*plan)->fd = module->file->fd >= 0 ? fcntl(module->file->fd, F_DUPFD_CLOEXEC, 0) : -1;
	(*plan)->version = module->file->version;
	(*plan)->path = strdup(module->file->path);
	(*plan)->name = strdup(module->file->name);
	err = aliases_copy(&(*plan)->aliases, &module->file->aliases);
	making->plan = *plan;
	making->module = module;
	making->listener = listener;
	making->others.process = process;
	if (!(*plan)->path || !(*plan)->name)
		err = -ENOMEM;
	/* first: places that the user wants in the same functions are refused */
	if (!err && is_guarded(specs, (*plan)->path))
		err = guard_all(making, spec_count(specs, SPEC_OF(watch)) != 0);
	if (!err)
		err = resolve_all(making, specs, process);
	if (!err)
		err = fill(making);
	if (making->has_sweep)
		sweep_release(&making->sweep);
	return_others_release(&making->others);
	asked_release(&making->asked);
	free(making->slots.all);
	free(making);
	return err;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->refused_count; i++) {
		free(plan->refused[i].name);
		free(plan->refused[i].detail);
	}
	if (plan->fd >= 0)
		close(plan->fd);
	free(plan->refused);
	enumerated_release(&plan->enumerated);
	for (size_t i = 0; i < plan->place_count; i++)
		free(plan->places[i].detour);
	free(plan->places);
	free(plan->path);
	free(plan->name);
	free((char *)plan->aliases.link);
	free((char *)plan->aliases.argument);
	free(plan);
}

static int names_of_functions(struct name_list *names, const struct code_request *request,
			      struct code_module *module)
{
	const struct code_symbols *symbols = code_module_symbols(module);
	const char *near[NAMES_NEAR];
	int count = symbols ? code_symbols_near(symbols, request->name, near, NAMES_NEAR) : 0;
	int err = 0;

	for (int i = 0; i < count && !err; i++)
		err = name_list_add(names, near[i]);
	return err;
}

static int names_of_usdt(struct name_list *names, struct code_module *module)
{
	const struct code_usdt_list *list = code_module_usdt(module);
	char name[512];
	int err = 0;

	for (size_t i = 0; list && i < list->count && !err; i++) {
		snprintf(name, sizeof(name), "%s:%s", list->all[i].provider, list->all[i].name);
		err = name_list_add(names, name);
	}
	return err;
}

int plan_names(struct name_list *names, const struct spec_list *specs, struct code_module *module)
{
	int err = 0;

	for (size_t i = 0; i < specs->count && !err; i++) {
		const struct spec *spec = &specs->all[i];

		if (!spec->request || spec->matches ||
		    !code_request_takes(spec->request, module->file->path, &module->file->aliases))
			continue;
		if (spec->request->kind == REQUEST_FUNCTION)
			err = names_of_functions(names, spec->request, module);
		else if (spec->request->kind == REQUEST_USDT)
			err = names_of_usdt(names, module);
	}
	return err;
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* Move the record to a base, as trampoline_write() does. */
static void move_to(unsigned char *record, uint64_t base)
{
	struct control_detour detour;
	unsigned char *at = record + sizeof(detour);

	memcpy(&detour, record, sizeof(detour));
	detour.address += base;
	detour.point += base;
	detour.semaphore += detour.semaphore ? base : 0;
	memcpy(record, &detour, sizeof(detour));
	at += padded(detour.code_bytes);
	for (unsigned int i = 0; i < detour.fixup_count; i++, at += sizeof(struct detour_fixup)) {
		struct detour_fixup fixup;

		memcpy(&fixup, at, sizeof(fixup));
		if (fixup.kind != FIXUP_REL32 && fixup.kind != FIXUP_ABS64)
			continue;
		fixup.target += base;
		memcpy(at, &fixup, sizeof(fixup));
	}
}

size_t plan_write(const struct plan *plan, size_t *from, uint64_t base, uint64_t came_ns,
		  unsigned char *buffer, size_t room)
{
	struct control_place head = { .base = base, .came_ns = came_ns };
	size_t used = sizeof(head);

	for (; *from < plan->place_count; (*from)++) {
		const struct plan_place *place = &plan->places[*from];
		size_t at = used;

		if (room - used < place->bytes)
			break;
		memcpy(buffer + used, place->detour, place->bytes);
		used += place->bytes;
		for (; at < used; head.count++) {
			move_to(buffer + at, base);
			at += ((const struct control_detour *)(buffer + at))->bytes;
		}
	}
	memcpy(buffer, &head, sizeof(head));
	return head.count ? used : 0;
}
