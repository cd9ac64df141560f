/* SPDX-License-Identifier: MIT */
/*
 * Conditions of the kernel's events. The kernel tests a tracepoint's fields, and of each thread
 * tid, comm and cpu, before it records (PERF_EVENT_IOC_SET_FILTER; Documentation/trace/events.rst,
 * event filtering). It has no field for a process and none for registers: Waymark tests these.
 */
#include "arch/perf_registers.h"
#include "base/predicate.h"
#include "base/similar_names.h"
#include "record/perf/tracepoint.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define FIELDS_MAX (TRACEPOINT_FIELDS_MAX + PERF_REGISTERS_ARGUMENTS + 5)
#define CONDITION_BYTES 256

/* What a condition may be about. */
struct kernel_field {
	const char *name;
	const char *filtered; /* as the kernel's filters have it; NULL: Waymark tests it */
	uint8_t type;	      /* WM_TYPE_* */
	uint8_t value;	      /* enum kernel_value */
	int is_wide;	      /* the kernel compares all 64 bits, without a sign */
};

static const char *const relations[] = {
	[WATCH_BY_EQUAL] = "==",      [WATCH_BY_UNEQUAL] = "!=", [WATCH_BY_LESS] = "<",
	[WATCH_BY_LESS_EQUAL] = "<=", [WATCH_BY_GREATER] = ">",	 [WATCH_BY_GREATER_EQUAL] = ">=",
	[WATCH_BY_BITS] = "&",
};

/* A tracepoint's own first: they hide others of their name. */
static unsigned int fields_list(const struct kernel_request *request,
				const struct tracepoint *format,
				struct kernel_field all[FIELDS_MAX])
{
	static const char *const arguments[] = { "arg1", "arg2", "arg3", "arg4", "arg5", "arg6" };
	const char *tid = request->kind != KERNEL_SWITCH && tracepoint_has_our_pids() ? "common_pid"
										      : NULL;
	unsigned int count = 0;

	_Static_assert(sizeof(arguments) / sizeof(arguments[0]) == PERF_REGISTERS_ARGUMENTS, "");
	for (unsigned int i = 0; i < format->count; i++) {
		const struct tracepoint_field *field = &format->fields[i];

		all[count++] = (struct kernel_field){ field->name, field->name, field->type, 0,
						      field->is_narrowed };
	}
	all[count++] = (struct kernel_field){ "pid", NULL, WM_TYPE_I32, KERNEL_PID, 0 };
	all[count++] = (struct kernel_field){ "tid", tid, WM_TYPE_I32, KERNEL_TID, 0 };
	if (request->kind == KERNEL_SWITCH)
		return count;
	all[count++] = (struct kernel_field){ "comm", "comm", WM_TYPE_STR, 0, 0 };
	all[count++] = (struct kernel_field){ "cpu", "cpu", WM_TYPE_I32, 0, 0 };
	for (unsigned int i = 0; request->has_args && i < PERF_REGISTERS_ARGUMENTS; i++)
		all[count++] = (struct kernel_field){ arguments[i], NULL, WM_TYPE_U64,
						      (uint8_t)(KERNEL_ARGUMENT + i), 0 };
	if (request->is_return)
		all[count++] = (struct kernel_field){ "ret", NULL, WM_TYPE_I64, KERNEL_RESULT, 0 };
	return count;
}

/* NULL, with words: the event has no such field. */
static const struct kernel_field *field_find(const struct spec_syntax *syntax,
					     struct spec_span span, const char *name,
					     const struct kernel_field *all, unsigned int count)
{
	const char *names[FIELDS_MAX];
	char meant[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; i < count; i++) {
		names[i] = all[i].name;
		if (!strcmp(all[i].name, name))
			return &all[i];
	}
	if (!*similar_words(name, names, count, meant, sizeof(meant)))
		for (unsigned int i = 0; i < count && used < sizeof(meant); i++)
			used += (size_t)snprintf(meant + used, sizeof(meant) - used, "%s%s",
						 i ? ", " : ": it has ", names[i]);
	spec_wrong(syntax, span, -WM_E_SPEC, "names no field of the event%s", meant);
	return NULL;
}

/*
 * The kernel takes a text between quotes of one kind as it is, and a glob that begins with a digit
 * or `!` for something else: filter_parse_regex(), kernel/trace/trace_events_filter.c. -EINVAL: it
 * has both kinds of quotes.
 */
static int text_write(const struct predicate *predicate, const char *name,
		      char out[CONDITION_BYTES])
{
	const char *glob = predicate->text;
	char plain[PREDICATE_TEXT_BYTES], quote = strchr(glob, '"') ? '\'' : '"';
	size_t used = 0;
	int is_glob = 0;

	if (strchr(glob, quote))
		return -EINVAL;
	for (const char *at = glob; *at; at++) {
		is_glob |= strchr("*?[", *at) != NULL;
		at += *at == '\\' && at[1];
		plain[used++] = *at;
	}
	plain[used] = '\0';
	if (is_glob)
		snprintf(out, CONDITION_BYTES, "%s ~ %c%s%s%c", name, quote,
			 isdigit((unsigned char)*glob) || *glob == '!' ? "\\" : "", glob, quote);
	else
		snprintf(out, CONDITION_BYTES, "%s %s %c%s%c", name, relations[predicate->by],
			 quote, plain, quote);
	return 0;
}

/* -EINVAL: the kernel would compare it otherwise. */
static int number_write(const struct kernel_field *field, const struct watch_condition *condition,
			char out[CONDITION_BYTES])
{
	int is_signed = field->type == WM_TYPE_I8 || field->type == WM_TYPE_I16 ||
			field->type == WM_TYPE_I32 || field->type == WM_TYPE_I64 ||
			field->type == WM_TYPE_CHAR;
	int is_order = condition->by >= WATCH_BY_LESS && condition->by <= WATCH_BY_GREATER_EQUAL;

	if (field->is_wide && is_signed && (is_order || (int64_t)condition->operand < 0))
		return -EINVAL;
	if (!strcmp(field->filtered, "cpu") && condition->by == WATCH_BY_BITS)
		return -EINVAL; /* never true: filter_pred_cpu() */
	if (is_signed)
		snprintf(out, CONDITION_BYTES, "%s %s %lld", field->filtered,
			 relations[condition->by], (long long)condition->operand);
	else
		snprintf(out, CONDITION_BYTES, "%s %s %llu", field->filtered,
			 relations[condition->by], (unsigned long long)condition->operand);
	return 0;
}

static int filter_add(struct kernel_request *request, const char *condition)
{
	size_t used = strlen(request->filter), room = sizeof(request->filter) - used;
	int took = snprintf(request->filter + used, room, "%s%s", used ? " && " : "", condition);

	request->event.filter = request->filter;
	return took > 0 && (size_t)took < room ? 0 : -E2BIG;
}

static int condition_add(const struct spec_syntax *syntax, struct spec_span span,
			 const struct predicate *predicate, const struct kernel_field *field)
{
	struct kernel_request *request = syntax->request;
	struct watch_condition condition;
	char text[CONDITION_BYTES];
	int err = predicate_bind(predicate, field->type, &condition);

	if (err)
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  err == -ERANGE ? "has a value that the field can't have"
						 : "can't be compared so");
	if (!field->filtered) {
		request->tests[request->test_count++] = (struct kernel_test){ field->value,
									      condition };
		return 0;
	}
	err = field->type == WM_TYPE_STR ? text_write(predicate, field->filtered, text)
					 : number_write(field, &condition, text);
	if (!err)
		err = filter_add(request, text);
	return err ? spec_wrong(syntax, span, -WM_E_SPEC,
				"is no condition that the kernel can test")
		   : 0;
}

int spec_read_kernel_conditions(const struct spec_syntax *syntax)
{
	const struct spec *spec = syntax->spec;
	struct kernel_request *request = syntax->request;
	struct tracepoint format = { .count = 0 };
	struct kernel_field all[FIELDS_MAX];
	unsigned int count, next = 0;
	int err = 0;

	if (spec->predicate_count && request->kind == KERNEL_TRACEPOINT)
		err = tracepoint_read(&format, request->name, syntax->wrong);
	if (err || !spec->predicate_count)
		return err;
	count = fields_list(request, &format, all);
	for (unsigned int i = 0; i < syntax->word_count && !err; i++) {
		struct spec_span name = syntax->words[i].name, span = syntax->words[i].value;
		const struct predicate *predicate = &spec->predicates[next];
		const struct kernel_field *field;

		if (name.bytes != 2 || memcmp(syntax->text + name.at, "if", 2) != 0)
			continue;
		field = field_find(syntax, span, predicate->name, all, count);
		err = field ? condition_add(syntax, span, predicate, field) : -WM_E_SPEC;
		next++;
	}
	return err;
}
