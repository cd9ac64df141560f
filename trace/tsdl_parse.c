/* SPDX-License-Identifier: MIT */
/*
 * Reading our own metadata. Blocks (trace, env, clock, stream, event) hold assignments; what we
 * don't ask about is jumped over. A block that can't be read is left out as a whole.
 */
#include "trace/tsdl.h"

#include "abi/page.h"
#include "base/array.h"
#include "trace/tsdl_lex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define PROCESSES_MAX (1u << 20) /* a damaged number shall not make us take memory without end */
#define BROKEN (-1)

enum block { BLOCK_TRACE, BLOCK_ENV, BLOCK_CLOCK, BLOCK_STREAM, BLOCK_EVENT, BLOCK_COUNT };

/* What the block being read has said so far. */
struct parse {
	struct tsdl *tsdl;
	struct lex lex;
	char name[32];
	uint64_t freq, offset;
	int64_t offset_s;
	uint32_t stream_id;
	uint32_t clock;
	int clock_seen, cpu_seen;
	struct trace_class event;
	/* one more: a length before its run */
	char fields[SCHEMA_FIELDS_MAX + 1][SCHEMA_NAME_BYTES];
	uint8_t types[SCHEMA_FIELDS_MAX + 1];
	const struct enumeration *names[SCHEMA_FIELDS_MAX + 1];
};

static struct tsdl_process *process_at(struct tsdl *tsdl, uint64_t number)
{
	struct tsdl_process *larger;
	uint32_t count = tsdl->process_count;

	if (number < count)
		return &tsdl->processes[number];
	if (number >= PROCESSES_MAX)
		return NULL;
	larger = reallocarray(tsdl->processes, number + 1, sizeof(*larger));
	if (!larger)
		return NULL;
	memset(larger + count, 0, (number + 1 - count) * sizeof(*larger));
	tsdl->processes = larger;
	tsdl->process_count = (uint32_t)number + 1;
	return &larger[number];
}

static int keep(char **to, const struct lex *lex)
{
	free(*to);
	*to = strdup(lex->text);
	return *to ? 0 : -ENOMEM;
}

/* "at 0xBASE[,NS] BUILD-ID PATH", or "gone"; "-" for no build id. Other text is left out. */
static int add_module(struct tsdl_process *process, const struct lex *lex)
{
	struct tsdl_module module = { 0 };
	const char *id, *path;
	char *end;

	if (lex->token != TOKEN_STRING)
		return BROKEN;
	module.gone = !strncmp(lex->text, "gone ", 5);
	if (!module.gone && strncmp(lex->text, "at ", 3) != 0)
		return 0;
	id = strchr(lex->text, ' ') + 1;
	module.base = strtoull(id, &end, 16);
	if (*end == ',')
		module.ns = strtoull(end + 1, &end, 10);
	path = *end == ' ' ? strchr(end + 1, ' ') : NULL;
	if (!path)
		return 0;
	id = end + 1;
	if (array_grow(&process->modules, &process->module_room, process->module_count + 1,
		       sizeof(module)))
		return -ENOMEM;
	module.path = strdup(path + 1);
	if (*id != '-')
		module.build_id = strndup(id, (size_t)(path - id));
	if (!module.path || (*id != '-' && !module.build_id)) {
		free(module.path);
		return -ENOMEM;
	}
	process->modules[process->module_count++] = module;
	return 0;
}

/* "BEGIN_NS GAP_NS stopped BYTES FROM TO", or "running". Other text is left out. */
static int add_change(struct tsdl_process *process, const struct lex *lex)
{
	struct tsdl_change change = { 0 };
	const char *end = lex->text + strlen(lex->text);
	unsigned long long bytes;
	char *at;

	change.begin_ns = strtoull(lex->text, &at, 10);
	change.gap_ns = strtoull(at, &at, 10);
	change.was_stopped = !strncmp(at, " stopped ", 9);
	if (!change.was_stopped && strncmp(at, " running ", 9) != 0)
		return 0;
	bytes = strtoull(at + 9, &at, 10);
	if (*at != ' ' || bytes >= (size_t)(end - at - 1) || at[1 + bytes] != ' ')
		return 0;
	if (array_grow(&process->changes, &process->change_room, process->change_count + 1,
		       sizeof(change)))
		return -ENOMEM;
	change.from = strndup(at + 1, bytes);
	change.to = strdup(at + bytes + 2);
	if (!change.from || !change.to) {
		free(change.from);
		free(change.to);
		return -ENOMEM;
	}
	process->changes[process->change_count++] = change;
	return 0;
}

/* "BEGIN_NS END_NS NAME". A line with an end replaces the earlier one without. */
static int add_foreign(struct tsdl_process *process, const struct lex *lex)
{
	struct tsdl_foreign foreign = { 0 };
	char *at;

	foreign.begin_ns = strtoull(lex->text, &at, 10);
	foreign.end_ns = strtoull(at, &at, 10);
	if (*at != ' ')
		return 0;
	for (size_t i = process->foreign_count; i > 0; i--) {
		struct tsdl_foreign *before = &process->foreign[i - 1];

		if (before->begin_ns == foreign.begin_ns && !strcmp(before->name, at + 1)) {
			before->end_ns = foreign.end_ns;
			return 0;
		}
	}
	if (array_grow(&process->foreign, &process->foreign_room, process->foreign_count + 1,
		       sizeof(foreign)))
		return -ENOMEM;
	foreign.name = strdup(at + 1);
	if (!foreign.name)
		return -ENOMEM;
	process->foreign[process->foreign_count++] = foreign;
	return 0;
}

/* "WAY BEGIN_NS" */
static void add_begin(struct tsdl_process *process, const struct lex *lex)
{
	process->way = strspn(lex->text, "sfx") == 1 ? lex->text[0] : 0;
	process->begin_ns = strtoull(lex->text + 1, NULL, 10);
}

static int env_of_process(struct parse *parse, const char *key)
{
	struct lex *lex = &parse->lex;
	struct tsdl_process *process;
	char *rest;

	process = process_at(parse->tsdl, strtoul(key, &rest, 10));
	if (!process || rest == key)
		return BROKEN;
	if (!strcmp(rest, "_pid") && lex->token == TOKEN_NUMBER)
		process->pid = (uint32_t)lex->number;
	else if (!strcmp(rest, "_ppid") && lex->token == TOKEN_NUMBER)
		process->ppid = (uint32_t)lex->number;
	else if (!strcmp(rest, "_start_time") && lex->token == TOKEN_STRING)
		process->start_time = strtoull(lex->text, NULL, 10);
	else if (!strcmp(rest, "_exe") && lex->token == TOKEN_STRING)
		return keep(&process->exe, lex);
	else if (!strcmp(rest, "_build_id") && lex->token == TOKEN_STRING)
		return keep(&process->build_id, lex);
	else if (!strcmp(rest, "_began") && lex->token == TOKEN_STRING)
		add_begin(process, lex);
	else if (!strcmp(rest, "_ended") && lex->token == TOKEN_STRING)
		process->end_ns = strtoull(lex->text, NULL, 10);
	else if (!strncmp(rest, "_module_", 8))
		return add_module(process, lex);
	else if (!strncmp(rest, "_change_", 8) && lex->token == TOKEN_STRING)
		return add_change(process, lex);
	else if (!strncmp(rest, "_held_", 6) && lex->token == TOKEN_STRING)
		return add_foreign(process, lex);
	return 0;
}

/* N_processes comes before the others. */
static int env_of_unrecorded(struct parse *parse, const char *key)
{
	struct lex *lex = &parse->lex;
	struct tsdl *tsdl = parse->tsdl;
	char *rest;
	unsigned long number = strtoul(key, &rest, 10);

	if (rest == key)
		return BROKEN;
	if (!strcmp(rest, "_processes") && lex->token == TOKEN_NUMBER &&
	    number == tsdl->unrecorded_count) {
		if (array_grow(&tsdl->unrecorded, &tsdl->unrecorded_room,
			       tsdl->unrecorded_count + 1, sizeof(*tsdl->unrecorded)))
			return -ENOMEM;
		tsdl->unrecorded[tsdl->unrecorded_count++] = (struct tsdl_unrecorded){
			.processes = (uint64_t)lex->number
		};
	} else if (number < tsdl->unrecorded_count && lex->token == TOKEN_STRING) {
		if (!strcmp(rest, "_program"))
			return keep(&tsdl->unrecorded[number].program, lex);
		if (!strcmp(rest, "_reason"))
			return keep(&tsdl->unrecorded[number].reason, lex);
	}
	return 0;
}

static int add_watch(struct tsdl *tsdl, const struct lex *lex)
{
	if (array_grow(&tsdl->watches, &tsdl->watch_room, tsdl->watch_count + 1, sizeof(char *)))
		return -ENOMEM;
	tsdl->watches[tsdl->watch_count++] = NULL;
	return keep(&tsdl->watches[tsdl->watch_count - 1], lex);
}

static int env_value(struct parse *parse, const char *key)
{
	struct lex *lex = &parse->lex;

	if (!strncmp(key, "process_", 8))
		return env_of_process(parse, key + 8);
	if (!strncmp(key, "unrecorded_", 11))
		return env_of_unrecorded(parse, key + 11);
	if (lex->token != TOKEN_STRING)
		return 0;
	if (!strncmp(key, "watch_", 6))
		return add_watch(parse->tsdl, lex);
	if (!strcmp(key, "tracer_name"))
		parse->tsdl->ours = !strcmp(lex->text, "waymark");
	else if (!strcmp(key, "in_memory"))
		return keep(&parse->tsdl->in_memory, lex);
	else if (!strcmp(key, "hostname"))
		return keep(&parse->tsdl->hostname, lex);
	else if (!strcmp(key, "waymark_version"))
		return keep(&parse->tsdl->version, lex);
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void trace_value(struct parse *parse, const char *key)
{
	const char *at = parse->lex.text;
	unsigned int count = 0;

	if (strcmp(key, "uuid") != 0 || parse->lex.token != TOKEN_STRING)
		return;
	for (; *at && count < 32; at++) {
		int digit = hex_digit(*at);
		uint8_t *byte = &parse->tsdl->uuid[count / 2];

		if (digit >= 0)
			*byte = (uint8_t)(count++ % 2 ? *byte | digit : digit << 4);
	}
	parse->tsdl->uuid_known = count == 32;
}

static void clock_value(struct parse *parse, const char *key)
{
	struct lex *lex = &parse->lex;

	if (!strcmp(key, "name") && lex->token == TOKEN_WORD)
		snprintf(parse->name, sizeof(parse->name), "%s", lex->text);
	else if (!strcmp(key, "freq") && lex->token == TOKEN_NUMBER)
		parse->freq = (uint64_t)lex->number;
	else if (!strcmp(key, "offset") && lex->token == TOKEN_NUMBER)
		parse->offset = (uint64_t)lex->number;
	else if (!strcmp(key, "offset_s") && lex->token == TOKEN_NUMBER)
		parse->offset_s = lex->number;
}

/* FILE:LINE#KIND, and the number of counts behind it */
static int uri_value(struct parse *parse)
{
	char *text = parse->lex.text;
	char *kind = strrchr(text, '#'), *line;

	if (!kind || !kind[1] || !strchr("mibe", kind[1]))
		return BROKEN;
	*kind = '\0';
	parse->event.kind = kind[1];
	parse->event.costs = kind[2] > '0' && kind[2] <= '9' ? (uint8_t)(kind[2] - '0') : 0;
	line = strrchr(text, ':');
	if (!line)
		return BROKEN;
	*line = '\0';
	parse->event.line = (uint32_t)strtoul(line + 1, NULL, 10);
	return keep(&parse->event.file, &parse->lex);
}

static int event_value(struct parse *parse, const char *key)
{
	struct lex *lex = &parse->lex;

	if (!strcmp(key, "name") && lex->token == TOKEN_STRING)
		return keep(&parse->event.name, lex);
	if (!strcmp(key, "model.emf.uri") && lex->token == TOKEN_STRING)
		return uri_value(parse);
	if (!strcmp(key, "id") && lex->token == TOKEN_NUMBER)
		parse->event.id = (uint32_t)lex->number;
	else if (!strcmp(key, "stream_id") && lex->token == TOKEN_NUMBER)
		parse->stream_id = (uint32_t)lex->number;
	return 0;
}

static int value(struct parse *parse, enum block block, const char *key)
{
	switch (block) {
	case BLOCK_TRACE:
		trace_value(parse, key);
		return 0;
	case BLOCK_ENV:
		return env_value(parse, key);
	case BLOCK_CLOCK:
		clock_value(parse, key);
		return 0;
	case BLOCK_STREAM:
		if (!strcmp(key, "id") && parse->lex.token == TOKEN_NUMBER)
			parse->stream_id = (uint32_t)parse->lex.number;
		return 0;
	default:
		return event_value(parse, key);
	}
}

/* Jump over a type, to its ';'; a stream's names its clock, and its CPU, on the way. */
static int skip_type(struct parse *parse)
{
	struct lex *lex = &parse->lex;
	char full[32];
	int depth = 0;

	while (lex_next(lex) != TOKEN_END) {
		depth += lex_is(lex, '{') - lex_is(lex, '}');
		if (depth < 0)
			return BROKEN;
		if (!depth && lex_is(lex, ';'))
			return 0;
		parse->cpu_seen |= lex_is_word(lex, TSDL_CPU);
		for (uint32_t i = 0; lex->token == TOKEN_WORD && i < TSDL_CLOCKS; i++) {
			snprintf(full, sizeof(full), "%s_full", tsdl_clock_name(i));
			if (!strcmp(lex->text, full)) {
				parse->clock = i;
				parse->clock_seen = 1;
			}
		}
	}
	return BROKEN;
}

/* Put a field down; a run comes after its length, whose place it takes. */
static int put_field(struct parse *parse, uint8_t type, const struct enumeration *names,
		     const char *name)
{
	unsigned int place = parse->event.count;

	if (schema_element_bytes(type)) {
		if (!place || parse->types[place - 1] != WM_TYPE_U32)
			return BROKEN;
		place--;
	}
	if (place > SCHEMA_FIELDS_MAX)
		return BROKEN;
	parse->types[place] = type;
	parse->names[place] = names;
	snprintf(parse->fields[place], SCHEMA_NAME_BYTES, "%s", name + (*name == '_'));
	parse->event.count = (uint8_t)(place + 1);
	return 0;
}

/* struct { TYPE NAME; TYPE NAME[LENGTH]; ... }; */
static int fields(struct parse *parse)
{
	struct lex *lex = &parse->lex;

	lex_next(lex);
	if (!lex_is_word(lex, "struct") || (lex_next(lex), !lex_is(lex, '{')))
		return BROKEN;
	parse->event.count = 0;
	while (lex_next(lex) == TOKEN_WORD) {
		int state = lex_is_word(lex, "wm_state");
		const struct enumeration *names;
		uint8_t type = tsdl_type_of(&parse->tsdl->enums, lex->text, &names);
		char name[SCHEMA_NAME_BYTES + 1];

		if ((!type && !state) || lex_next(lex) != TOKEN_WORD)
			return BROKEN;
		snprintf(name, sizeof(name), "%s", lex->text);
		if (!state && put_field(parse, type, names, name))
			return BROKEN;
		lex_next(lex);
		if (!state && schema_element_bytes(type)) {
			if (!lex_is(lex, '[') || lex_next(lex) != TOKEN_WORD ||
			    (lex_next(lex), !lex_is(lex, ']')))
				return BROKEN;
			lex_next(lex);
		}
		if (!lex_is(lex, ';'))
			return BROKEN;
	}
	if (!lex_is(lex, '}') || (lex_next(lex), !lex_is(lex, ';')))
		return BROKEN;
	return 0;
}

static int end_event(struct parse *parse)
{
	struct trace_class *event = &parse->event;
	struct tsdl_process *process;
	struct trace_class put;
	int err;

	if (parse->stream_id >= parse->tsdl->process_count || !event->name || !event->file ||
	    event->count > SCHEMA_FIELDS_MAX)
		return BROKEN;
	process = &parse->tsdl->processes[parse->stream_id];
	if (!process->schema)
		return BROKEN;
	event->fields = calloc(SCHEMA_FIELDS_MAX, sizeof(*event->fields));
	if (!event->fields)
		return -ENOMEM;
	memcpy(event->fields, parse->fields, SCHEMA_FIELDS_MAX * sizeof(*event->fields));
	memset(event->types, 0, sizeof(event->types));
	memcpy(event->types, parse->types, event->count);
	if (schema_names(event, parse->names))
		return -ENOMEM;
	put = *event;
	*event = (struct trace_class){ 0 };
	err = schema_put(process->schema, &put);
	return err < 0 && err != -ENOMEM ? BROKEN : err;
}

static int end_stream(struct parse *parse)
{
	struct tsdl_process *process = process_at(parse->tsdl, parse->stream_id);

	if (!process || !parse->clock_seen || process->declared)
		return BROKEN;
	process->declared = 1;
	process->clock = parse->clock;
	process->is_kernel = parse->cpu_seen;
	return trace_schema_new(&process->schema);
}

static int end_block(struct parse *parse, enum block block)
{
	struct tsdl_clock clock = { .used = 1,
				    .ticks_hz = parse->freq,
				    .offset_s = parse->offset_s,
				    .offset_ticks = parse->offset };

	if (block == BLOCK_EVENT)
		return end_event(parse);
	if (block == BLOCK_STREAM)
		return end_stream(parse);
	if (block != BLOCK_CLOCK)
		return 0;
	if (!clock.ticks_hz)
		return BROKEN;
	for (uint32_t i = 0; i < TSDL_CLOCKS; i++)
		if (!strcmp(parse->name, tsdl_clock_name(i)))
			parse->tsdl->clocks[i] = clock;
	return 0;
}

/* The block whose name was read last: "{ KEY = VALUE; KEY := TYPE; ... };" */
static int read_block(struct parse *parse, enum block block)
{
	struct lex *lex = &parse->lex;
	char key[64];
	int err = 0;

	lex_next(lex);
	if (!lex_is(lex, '{'))
		return BROKEN;
	while (!err && lex_next(lex) == TOKEN_WORD) {
		snprintf(key, sizeof(key), "%s", lex->text);
		lex_next(lex);
		if (lex->token == TOKEN_ASSIGN) {
			err = block == BLOCK_EVENT && !strcmp(key, "fields") ? fields(parse)
									     : skip_type(parse);
		} else if (lex_is(lex, '=')) {
			lex_next(lex);
			err = value(parse, block, key);
			if (!err && (lex_next(lex), !lex_is(lex, ';')))
				err = BROKEN;
		} else {
			err = BROKEN;
		}
	}
	if (err)
		return err;
	if (!lex_is(lex, '}') || (lex_next(lex), !lex_is(lex, ';')))
		return BROKEN;
	return end_block(parse, block);
}

static void parse_clear(struct parse *parse)
{
	free(parse->event.name);
	free(parse->event.file);
	free(parse->event.fields);
	free(parse->event.names);
	parse->event = (struct trace_class){ .kind = 'm' };
	parse->stream_id = 0;
	parse->clock_seen = parse->cpu_seen = 0;
	parse->freq = parse->offset = 0;
	parse->offset_s = 0;
	parse->name[0] = '\0';
}

/* One top-level block or statement, whose first token was read. */
static int read_top(struct parse *parse)
{
	static const char *const names[] = { "trace", "env", "clock", "stream", "event" };
	struct lex *lex = &parse->lex;
	int err;

	if (lex_is_word(lex, "typealias")) {
		lex_next(lex);
		return lex_is_word(lex, "enum") ? tsdl_enum_read(&parse->tsdl->enums, lex)
						: skip_type(parse);
	}
	for (enum block block = 0; block < BLOCK_COUNT; block++) {
		if (!lex_is_word(lex, names[block]))
			continue;
		parse_clear(parse);
		err = read_block(parse, block);
		parse_clear(parse);
		return err;
	}
	return BROKEN;
}

int tsdl_parse(struct tsdl *tsdl, const char *text, size_t bytes)
{
	static const char magic[] = "/* CTF 1.8 */";
	struct parse parse = { .tsdl = tsdl };
	int err;

	*tsdl = (struct tsdl){ 0 };
	if (bytes < sizeof(magic) - 1 || memcmp(text, magic, sizeof(magic) - 1) != 0)
		return -WM_E_NOT_A_TRACE;
	lex_init(&parse.lex, text, bytes);
	while (lex_next(&parse.lex) != TOKEN_END) {
		uint32_t line = parse.lex.line;

		err = read_top(&parse);
		if (err == -ENOMEM)
			parse.lex.error = err;
		if (err < 0) {
			if (!tsdl->broken_line)
				tsdl->broken_line = line;
			lex_resume(&parse.lex);
		}
	}
	if (parse.lex.at < parse.lex.end && !tsdl->broken_line)
		tsdl->broken_line = parse.lex.line;
	err = parse.lex.error;
	lex_release(&parse.lex);
	return err ? err : tsdl->ours ? 0 : -WM_E_NOT_A_TRACE;
}
