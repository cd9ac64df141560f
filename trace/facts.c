/* SPDX-License-Identifier: MIT */
#include "trace/facts.h"

#include "abi/page.h"
#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Damaged numbers shall not make us take memory without end. */
#define PROCESSES_MAX (1u << 20)
#define ENUMS_MAX 65536u

#define PROCESS_FIELDS "process, pid, ppid, clock_kind, start_time, since_ns, build_id, program"
#define PROCESS_TYPES                                                                              \
	{                                                                                          \
		WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_U8, WM_TYPE_U64, WM_TYPE_U64,       \
			WM_TYPE_BYTES, WM_TYPE_STR                                                 \
	}

static const struct {
	const char *name, *fields;
	uint8_t types[16]; /* WM_TYPE_* */
} shapes[FACTS] = {
	[FACT_TRACE] = { "trace", "format, version", { WM_TYPE_U32, WM_TYPE_STR } },
	[FACT_HOST] = { "host", "name", { WM_TYPE_STR } },
	[FACT_IN_MEMORY] = { "in_memory", "what", { WM_TYPE_STR } },
	[FACT_PROCESS] = { "process", PROCESS_FIELDS, PROCESS_TYPES },
	[FACT_START] = { "start", PROCESS_FIELDS, PROCESS_TYPES },
	[FACT_FORK] = { "fork", PROCESS_FIELDS, PROCESS_TYPES },
	[FACT_EXEC] = { "exec", PROCESS_FIELDS, PROCESS_TYPES },
	[FACT_END] = { "end", "process, end_ns", { WM_TYPE_U32, WM_TYPE_U64 } },
	[FACT_MODULE] = { "module",
			  "process, gone, base, since_ns, build_id, path",
			  { WM_TYPE_U32, WM_TYPE_BOOL, WM_TYPE_PTR, WM_TYPE_U64, WM_TYPE_BYTES,
			    WM_TYPE_STR } },
	[FACT_CHANGE] = { "change",
			  "process, begin_ns, gap_ns, before, after",
			  { WM_TYPE_U32, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_STR, WM_TYPE_STR } },
	[FACT_GAP] = { "gap",
		       "process, begin_ns, end_ns, name, cause",
		       { WM_TYPE_U32, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_STR, WM_TYPE_STR } },
	[FACT_CUT] = { "cut", "process", { WM_TYPE_U32 } },
	[FACT_UNRECORDED] = { "unrecorded",
			      "processes, program, reason",
			      { WM_TYPE_U64, WM_TYPE_STR, WM_TYPE_STR } },
	[FACT_WATCH] = { "watch", "number, spec", { WM_TYPE_U32, WM_TYPE_STR } },
	[FACT_FIGURE] = { "figure",
			  "watch, name, value",
			  { WM_TYPE_U32, WM_TYPE_STR, WM_TYPE_U64 } },
	[FACT_CLOCK] = { "clock",
			 "clock_kind, ticks_hz, offset_s, offset_ticks",
			 { WM_TYPE_U8, WM_TYPE_U64, WM_TYPE_I64, WM_TYPE_U64 } },
	/* values: a uint64_t and a NUL-terminated name for each */
	[FACT_ENUM] = { "enum", "number, type, values", { WM_TYPE_U32, WM_TYPE_U8, WM_TYPE_BYTES } },
	/* text: a site's (abi/site.h); enums: a uint32_t for each field, UINT32_MAX: none */
	[FACT_CLASS] = { "class",
			 "process, id, types, text, enums",
			 { WM_TYPE_U32, WM_TYPE_U32, WM_TYPE_BYTES, WM_TYPE_STR, WM_TYPE_BYTES } },
};

int fact_schema_new(struct trace_schema **schema)
{
	int err = trace_schema_new(schema);

	for (uint32_t i = 0; i < FACTS && !err; i++) {
		char text[192];

		snprintf(text, sizeof(text), "md\nwaymark\n%s\nfacts\n0\n%s", shapes[i].name,
			 shapes[i].fields);
		err = trace_schema_add(*schema, i, shapes[i].types, text);
	}
	return err;
}

/* ---- writing ---- */

union fact_value fact_string(const char *string)
{
	return (union fact_value){ .run = { string ? string : "", string ? strlen(string) : 0 } };
}

static void add(struct text *to, const void *bytes, size_t count)
{
	text_add(to, bytes, count);
}

static void put_run(struct text *to, uint8_t type, const union fact_value *value)
{
	uint8_t state = FIELD_WHOLE;
	uint32_t count = (uint32_t)value->run.bytes;

	add(to, &state, sizeof(state));
	if (type == WM_TYPE_BYTES)
		add(to, &count, sizeof(count));
	add(to, value->run.start, value->run.bytes);
	if (type == WM_TYPE_STR)
		add(to, "", 1);
}

void fact_put(struct text *to, enum fact fact, uint64_t wall_ns, const union fact_value *values)
{
	uint8_t mark = EVENT_EXTENDED;
	uint32_t id = fact;

	add(to, &mark, sizeof(mark));
	add(to, &id, sizeof(id));
	add(to, &wall_ns, sizeof(wall_ns));
	for (const uint8_t *type = shapes[fact].types; *type; type++, values++) {
		int bytes = schema_type_bytes(*type);

		if (bytes > 0)
			add(to, &values->u, (size_t)bytes);
		else
			put_run(to, *type, values);
	}
}

/* In place of a first name: the value is which bits are flags. It is no identifier. */
#define ENUM_FLAGS "|"

void fact_put_enum(struct text *to, uint64_t wall_ns, const struct enumeration *of)
{
	struct text values = { 0 };

	if (of->flags) {
		add(&values, &of->flags, sizeof(of->flags));
		add(&values, ENUM_FLAGS, sizeof(ENUM_FLAGS));
	}
	for (uint32_t i = 0; i < of->count; i++) {
		const char *name = enumeration_name_at(of, i);

		add(&values, &of->all[i].value, sizeof(of->all[i].value));
		add(&values, name, strlen(name) + 1);
	}
	fact_put(to, FACT_ENUM, wall_ns,
		 (union fact_value[]){ { .u = of->number },
				       { .u = of->type },
				       { .run = { values.at, values.bytes } } });
	if (values.error)
		to->error = values.error;
	text_release(&values);
}

void fact_put_class(struct text *to, uint64_t wall_ns, uint32_t process,
		    const struct trace_class *class)
{
	uint32_t enums[SCHEMA_FIELDS_MAX];
	struct text text = { 0 };

	schema_text(class, &text);
	for (unsigned int i = 0; class->names && i < class->count; i++)
		enums[i] = class->names[i] ? class->names[i]->number : UINT32_MAX;
	fact_put(to, FACT_CLASS, wall_ns,
		 (union fact_value[]){
			 { .u = process },
			 { .u = class->id },
			 { .run = { class->types, class->count } },
			 { .run = { text.at, text.bytes } },
			 { .run = { enums, class->names ? class->count * sizeof(*enums) : 0 } } });
	if (text.error)
		to->error = text.error;
	text_release(&text);
}

/* ---- reading ---- */

static int keep_text(struct facts *facts, const char **to, const char *text)
{
	char *copy;

	if (array_grow(&facts->texts, &facts->text_room, facts->text_count + 1,
		       sizeof(*facts->texts)))
		return -ENOMEM;
	*to = copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	facts->texts[facts->text_count++] = copy;
	return 0;
}

static int keep(struct facts *facts, const char **to, const struct wm_event_field *field)
{
	return keep_text(facts, to, field->value.run.start ? field->value.run.start : "");
}

/* Bytes in hex; NULL for none. */
static int keep_hex(struct facts *facts, const char **to, const struct wm_event_field *field)
{
	struct text hex = { 0 };
	int err;

	if (!field->value.run.bytes)
		return 0;
	text_hex(&hex, (const unsigned char *)field->value.run.start, field->value.run.bytes);
	err = hex.error ? hex.error : keep_text(facts, to, hex.at);
	text_release(&hex);
	return err;
}

/* Whether a field is a string, and not one that could not be read. */
static int is_there(const struct wm_event_field *field)
{
	return field->value.run.start != NULL;
}

static struct fact_process *process_of(const struct facts *facts, uint64_t number)
{
	return number < facts->process_count && facts->processes[number].declared
		       ? &facts->processes[number]
		       : NULL;
}

static char way_of(enum fact fact)
{
	return fact == FACT_START  ? LIFE_START
	       : fact == FACT_FORK ? LIFE_FORK
	       : fact == FACT_EXEC ? LIFE_EXEC
				   : LIFE_UNKNOWN;
}

static int take_process(struct facts *facts, enum fact fact, const struct wm_event_field *field)
{
	uint64_t number = field[0].value.u, count = facts->process_count;
	struct fact_process *process;
	int err;

	if (number >= PROCESSES_MAX || process_of(facts, number) ||
	    field[3].value.u >= CLOCK_OF_FACTS || !is_there(&field[7]))
		return -EINVAL;
	if (number >= count) {
		process = reallocarray(facts->processes, number + 1, sizeof(*process));
		if (!process)
			return -ENOMEM;
		memset(process + count, 0, (number + 1 - count) * sizeof(*process));
		facts->processes = process;
		facts->process_count = (uint32_t)number + 1;
	}
	process = &facts->processes[number];
	*process = (struct fact_process){ .is_kernel = !field[1].value.u,
					  .pid = (uint32_t)field[1].value.u,
					  .ppid = (uint32_t)field[2].value.u,
					  .clock = (uint32_t)field[3].value.u,
					  .start_time = field[4].value.u,
					  .begin_ns = field[5].value.u,
					  .way = way_of(fact) };
	err = keep_hex(facts, &process->build_id, &field[6]);
	if (!err)
		err = keep(facts, &process->exe, &field[7]);
	if (!err)
		err = trace_schema_new(&process->schema);
	process->declared = !err;
	return err;
}

int fact_module_add(struct fact_process *process, const struct fact_module *about, const char *path,
		    const void *build_id, size_t bytes)
{
	struct fact_module module = *about;
	struct text hex = { 0 };

	if (bytes)
		text_hex(&hex, build_id, bytes);
	module.build_id = hex.at;
	module.path = strdup(path);
	if (hex.error || !module.path ||
	    array_grow(&process->modules, &process->module_room, process->module_count + 1,
		       sizeof(module))) {
		free(module.build_id);
		free(module.path);
		return -ENOMEM;
	}
	process->modules[process->module_count++] = module;
	return 0;
}

static int take_module(struct fact_process *process, const struct wm_event_field *field)
{
	const struct fact_module about = { .gone = field[1].value.u != 0,
					   .base = field[2].value.u,
					   .ns = field[3].value.u };

	if (!is_there(&field[5]))
		return -EINVAL;
	return fact_module_add(process, &about, field[5].value.run.start, field[4].value.run.start,
			       field[4].value.run.bytes);
}

static int take_change(struct facts *facts, struct fact_process *process,
		       const struct wm_event_field *field)
{
	struct fact_change change = { .begin_ns = field[1].value.u, .gap_ns = field[2].value.u };

	if (!is_there(&field[3]) || !is_there(&field[4]))
		return -EINVAL;
	if (array_grow(&process->changes, &process->change_room, process->change_count + 1,
		       sizeof(change)) ||
	    keep(facts, &change.from, &field[3]) || keep(facts, &change.to, &field[4]))
		return -ENOMEM;
	process->changes[process->change_count++] = change;
	return 0;
}

static int take_gap(struct facts *facts, struct fact_process *process,
		    const struct wm_event_field *field)
{
	struct fact_gap gap = { .begin_ns = field[1].value.u, .end_ns = field[2].value.u };

	if (!is_there(&field[3]) || !is_there(&field[4]))
		return -EINVAL;
	if (array_grow(&process->gaps, &process->gap_room, process->gap_count + 1, sizeof(gap)) ||
	    keep(facts, &gap.name, &field[3]) || keep(facts, &gap.cause, &field[4]))
		return -ENOMEM;
	process->gaps[process->gap_count++] = gap;
	return 0;
}

static int take_unrecorded(struct facts *facts, const struct wm_event_field *field)
{
	struct fact_unrecorded one = { .processes = field[0].value.u };

	if (!is_there(&field[1]) || !is_there(&field[2]))
		return -EINVAL;
	if (array_grow(&facts->unrecorded, &facts->unrecorded_room, facts->unrecorded_count + 1,
		       sizeof(one)) ||
	    keep(facts, &one.program, &field[1]) || keep(facts, &one.reason, &field[2]))
		return -ENOMEM;
	facts->unrecorded[facts->unrecorded_count++] = one;
	return 0;
}

static int take_watch(struct facts *facts, const struct wm_event_field *field)
{
	struct fact_watch watch = { 0 };

	if (field[0].value.u != facts->watch_count || !is_there(&field[1]))
		return -EINVAL;
	if (array_grow(&facts->watches, &facts->watch_room, facts->watch_count + 1,
		       sizeof(watch)) ||
	    keep(facts, &watch.spec, &field[1]))
		return -ENOMEM;
	facts->watches[facts->watch_count++] = watch;
	return 0;
}

static int take_figure(struct facts *facts, const struct wm_event_field *field)
{
	struct fact_figure figure = { .value = field[2].value.u };
	struct fact_watch *watch;

	if (field[0].value.u >= facts->watch_count || !is_there(&field[1]))
		return -EINVAL;
	watch = &facts->watches[field[0].value.u];
	if (array_grow(&watch->figures, &watch->room, watch->count + 1, sizeof(figure)) ||
	    keep(facts, &figure.name, &field[1]))
		return -ENOMEM;
	watch->figures[watch->count++] = figure;
	return 0;
}

static int take_clock(struct facts *facts, const struct wm_event_field *field)
{
	if (field[0].value.u >= CLOCK_OF_FACTS || !field[1].value.u)
		return -EINVAL;
	facts->clocks[field[0].value.u] = (struct trace_clock){ .used = 1,
								.ticks_hz = field[1].value.u,
								.offset_s = field[2].value.i,
								.offset_ticks = field[3].value.u };
	return 0;
}

static int take_enum(struct facts *facts, const struct wm_event_field *field)
{
	struct enumeration_draft draft = { .type = (uint8_t)field[1].value.u };
	const char *at = field[2].value.run.start, *end = at + field[2].value.run.bytes;
	uint64_t number = field[0].value.u, value;

	if (number >= ENUMS_MAX || number < facts->enum_count)
		return -EINVAL;
	if (array_grow(&facts->enums, &facts->enum_room, number + 1, sizeof(*facts->enums)))
		return -ENOMEM;
	memset(facts->enums + facts->enum_count, 0,
	       (number + 1 - facts->enum_count) * sizeof(*facts->enums));
	facts->enum_count = number + 1;
	while ((size_t)(end - at) > sizeof(value)) {
		const char *name = at + sizeof(value);
		const char *nul = memchr(name, 0, (size_t)(end - name));

		if (!nul)
			break;
		memcpy(&value, at, sizeof(value));
		if (!strcmp(name, ENUM_FLAGS))
			draft.flags = value;
		else
			enumeration_draft_add(&draft, value, name);
		at = nul + 1;
	}
	facts->enums[number] = enumeration_pool_make(&facts->pool, &draft);
	enumeration_draft_release(&draft);
	return at == end ? 0 : -EINVAL;
}

static int take_class(const struct facts *facts, struct fact_process *process,
		      const struct wm_event_field *field)
{
	const struct enumeration *names[SCHEMA_FIELDS_MAX] = { 0 };
	size_t count = field[2].value.run.bytes, enums = field[4].value.run.bytes;
	uint8_t types[SCHEMA_FIELDS_MAX] = { 0 };
	uint32_t number;
	int err;

	if (count > SCHEMA_FIELDS_MAX || !is_there(&field[3]) ||
	    (enums && enums != count * sizeof(number)))
		return -EINVAL;
	memcpy(types, field[2].value.run.start, count);
	for (size_t i = 0; i < enums / sizeof(number); i++) {
		memcpy(&number, field[4].value.run.start + i * sizeof(number), sizeof(number));
		names[i] = number < facts->enum_count ? facts->enums[number] : NULL;
	}
	err = schema_put_text(process->schema, (uint32_t)field[1].value.u, types,
			      field[3].value.run.start, names);
	return err == -EEXIST ? -EINVAL : err < 0 ? err : 0;
}

static int take_of_process(struct facts *facts, struct fact_process *process, enum fact fact,
			   const struct wm_event_field *fields)
{
	if (!process)
		return -EINVAL;
	switch (fact) {
	case FACT_END:
		process->end_ns = fields[1].value.u;
		return 0;
	case FACT_MODULE:
		return take_module(process, fields);
	case FACT_CHANGE:
		return take_change(facts, process, fields);
	case FACT_GAP:
		return take_gap(facts, process, fields);
	case FACT_CLASS:
		return take_class(facts, process, fields);
	default:
		return 0;
	}
}

int facts_take(struct facts *facts, enum fact fact, const struct wm_event_field *fields)
{
	switch (fact) {
	case FACT_TRACE:
		facts->format = (uint32_t)fields[0].value.u;
		return 0;
	case FACT_HOST:
		return keep(facts, &facts->hostname, &fields[0]);
	case FACT_IN_MEMORY:
		return keep(facts, &facts->in_memory, &fields[0]);
	case FACT_PROCESS:
	case FACT_START:
	case FACT_FORK:
	case FACT_EXEC:
		return take_process(facts, fact, fields);
	case FACT_UNRECORDED:
		return take_unrecorded(facts, fields);
	case FACT_WATCH:
		return take_watch(facts, fields);
	case FACT_FIGURE:
		return take_figure(facts, fields);
	case FACT_CLOCK:
		return take_clock(facts, fields);
	case FACT_ENUM:
		return take_enum(facts, fields);
	default:
		return take_of_process(facts, process_of(facts, fields[0].value.u), fact, fields);
	}
}

/* By begin, then by name; one with an end is before the same without. */
static int gap_order(const void *a, const void *b)
{
	const struct fact_gap *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (left->begin_ns != right->begin_ns)
		return left->begin_ns < right->begin_ns ? -1 : 1;
	return order ? order : !left->end_ns - !right->end_ns;
}

static void gap_merge(struct fact_process *process)
{
	struct fact_gap *all = process->gaps;
	size_t kept = 0;

	if (process->gap_count)
		qsort(all, process->gap_count, sizeof(*all), gap_order);
	for (size_t i = 0; i < process->gap_count; i++) {
		if (!kept || all[i].begin_ns != all[kept - 1].begin_ns ||
		    strcmp(all[i].name, all[kept - 1].name) != 0)
			all[kept++] = all[i];
	}
	process->gap_count = kept;
}

void facts_end(struct facts *facts)
{
	for (uint32_t i = 0; i < facts->process_count; i++)
		gap_merge(&facts->processes[i]);
}

int facts_init(struct facts *facts)
{
	*facts = (struct facts){ .clocks[CLOCK_OF_FACTS] = { .used = 1, .ticks_hz = 1000000000 } };
	return fact_schema_new(&facts->schema);
}

void fact_modules_release(struct fact_process *process)
{
	for (size_t i = 0; i < process->module_count; i++) {
		free(process->modules[i].build_id);
		free(process->modules[i].path);
	}
	free(process->modules);
}

void facts_release(struct facts *facts)
{
	for (uint32_t i = 0; i < facts->process_count; i++) {
		struct fact_process *process = &facts->processes[i];

		fact_modules_release(process);
		free(process->changes);
		free(process->gaps);
		trace_schema_free(process->schema);
	}
	for (size_t i = 0; i < facts->watch_count; i++)
		free(facts->watches[i].figures);
	free(facts->processes);
	free(facts->unrecorded);
	free(facts->watches);
	free(facts->enums);
	enumeration_pool_release(&facts->pool);
	trace_schema_free(facts->schema);
	for (size_t i = 0; i < facts->text_count; i++)
		free(facts->texts[i]);
	free(facts->texts);
	*facts = (struct facts){ 0 };
}
