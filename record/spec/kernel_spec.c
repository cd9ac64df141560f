/* SPDX-License-Identifier: MIT */
#include "record/spec/kernel_spec.h"

#include "base/number_file.h"
#include "base/quantity.h"
#include "base/tracefs.h"

#include <ctype.h>
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define FREQ_DEFAULT_HZ 1000
#define FREQ_MAX_HZ 1000000
#define STACK_BYTES 8192u
#define KERNEL_SUFFIX "@kernel"
#define UNITS "/sys/bus/event_source/devices/"

static const struct {
	const char *word;
	enum kernel_kind kind;
} kinds[] = {
	{ "count:", KERNEL_COUNT },   { "sample:", KERNEL_SAMPLE },
	{ "switch", KERNEL_SWITCH },  { "fault", KERNEL_FAULT },
	{ "kprobe:", KERNEL_KPROBE }, { "tracepoint:", KERNEL_TRACEPOINT },
};

static int is_named(enum kernel_kind kind)
{
	return kind != KERNEL_SWITCH && kind != KERNEL_FAULT;
}

/* "watch:SYMBOL@kernel", not "watch:x@kernel.so". */
static int is_kernel_watch(const char *text)
{
	const char *at = strncmp(text, "watch:", 6) ? NULL : strstr(text, KERNEL_SUFFIX);

	return at && strchr(":/", at[sizeof(KERNEL_SUFFIX) - 1]);
}

/* Its place in kinds[], or -1. */
static int kind_find(const char *text)
{
	for (int i = 0; i < (int)(sizeof(kinds) / sizeof(kinds[0])); i++) {
		size_t bytes = strlen(kinds[i].word);

		if (!strncmp(text, kinds[i].word, bytes) &&
		    (is_named(kinds[i].kind) || !text[bytes] || strchr(":/", text[bytes])))
			return i;
	}
	return -1;
}

int kernel_spec_is(const char *text)
{
	return is_kernel_watch(text) || kind_find(text) >= 0;
}

/* ---- options ---- */

static int option_read(struct kernel_request *request, const char *option, struct detail words)
{
	struct sampler_event *event = &request->event;
	int is_sample = request->kind == KERNEL_SAMPLE;
	int is_kprobe = request->kind == KERNEL_KPROBE;

	if (is_sample && !strncmp(option, "freq=", 5)) {
		event->period = 0;
		if (quantity_number(option + 5, 1, FREQ_MAX_HZ, &event->freq_hz))
			return detail_set(words, -WM_E_SPEC,
					  "freq takes a number from 1 to %d, not %.20s",
					  FREQ_MAX_HZ, option + 5);
	} else if (is_sample && !strncmp(option, "period=", 7)) {
		if (quantity_number(option + 7, 1, INT64_MAX, &event->period))
			return detail_set(words, -WM_E_SPEC,
					  "period takes a number from 1 on, not %.20s", option + 7);
	} else if (!strcmp(option, "callchain")) {
		request->has_callers = 1;
		event->wants |= SAMPLER_CALLERS;
	} else if (!strcmp(option, "callchain=dwarf")) {
		request->has_callers = 1;
		event->wants |= SAMPLER_CALLERS | SAMPLER_STACK;
		event->stack_bytes = STACK_BYTES;
	} else if (is_sample && !strcmp(option, "addr")) {
		event->wants |= SAMPLER_ADDRESS;
	} else if (is_sample && !strcmp(option, "precise")) {
		event->precise = 2;
	} else if (is_sample && !strcmp(option, "branches")) {
		event->wants |= SAMPLER_BRANCHES;
	} else if (is_sample && !strcmp(option, "regs")) {
		request->has_regs = 1;
		event->wants |= SAMPLER_REGS;
	} else if (is_kprobe && !strcmp(option, "args")) {
		request->has_args = 1;
		event->wants |= SAMPLER_REGS;
	} else if (is_kprobe && !strcmp(option, "ret")) {
		request->is_return = 1;
		event->wants |= SAMPLER_REGS;
	} else {
		return detail_set(words, -WM_E_SPEC, "\"%.40s\" is none of its options%s", option,
				  is_sample   ? ": freq=N, period=N, callchain, callchain=dwarf, "
						"addr, precise, branches, regs"
				  : is_kprobe ? ": args, ret, callchain, callchain=dwarf"
					      : ": callchain, callchain=dwarf");
	}
	return 0;
}

static int options_read(struct kernel_request *request, char *text, struct detail words)
{
	char *save = NULL;
	int err = 0;

	for (char *option = strtok_r(text, ",", &save); option && !err;
	     option = strtok_r(NULL, ",", &save))
		err = option_read(request, option, words);
	if (!err && request->has_args && request->is_return)
		return detail_set(words, -WM_E_SPEC,
				  "arguments are gone at the end: args or ret, not both");
	return err;
}

/*
 * Cut "NAME/OPTIONS/" into both. A NAME of a unit has two slashes of its own: "msr/tsc/". Returns
 * the options, or NULL.
 */
static char *options_cut(char *name)
{
	size_t bytes = strlen(name);
	char *first = strchr(name, '/'), *second = first ? strchr(first + 1, '/') : NULL, *at;
	char path[sizeof(UNITS) + COUNT_NAME_BYTES];

	if (!second || name[bytes - 1] != '/')
		return NULL;
	snprintf(path, sizeof(path), UNITS "%.*s", (int)(first - name), name);
	at = first;
	if (!access(path, F_OK)) {
		at = strchr(second + 1, '/');
		if (!at || at == name + bytes - 1)
			return NULL; /* "msr/tsc/", or modifiers behind it */
	}
	name[bytes - 1] = '\0';
	*at = '\0';
	return at + 1;
}

/* ---- what they name ---- */

static int is_symbol(const char *name)
{
	for (const char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("_.$", *at))
			return 0;
	return name[0] != '\0';
}

/* Its address, by /proc/kallsyms. */
static int symbol_find(const char *name, uint64_t *address, struct detail words)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	char line[512], symbol[256];
	unsigned long long value;
	int found = 0;

	*address = 0;
	if (!file)
		return detail_set(words, -errno, "/proc/kallsyms");
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, "%llx %*c %255s", &value, symbol) == 2 &&
			!strcmp(symbol, name);
	fclose(file);
	if (!found)
		return detail_set(words, -WM_E_COUNT_EVENT,
				  "/proc/kallsyms has no %s; it has no variables in a kernel "
				  "without CONFIG_KALLSYMS_ALL",
				  name);
	*address = value;
	if (!value)
		return detail_set(words, -WM_E_PERF_DENIED,
				  "kernel.kptr_restrict hides the addresses of /proc/kallsyms");
	return 0;
}

/* "SYMBOL[/LENGTH]@kernel[:KIND]": "jiffies/8@kernel:w". */
static int watch_read(struct kernel_request *request, char *text, struct detail words)
{
	struct sampler_event *event = &request->event;
	char *at = strstr(text, KERNEL_SUFFIX), *length;
	const char *kind = at + sizeof(KERNEL_SUFFIX) - 1;
	uint64_t bytes = 0;

	*at = '\0';
	length = strchr(text, '/');
	if (length)
		*length++ = '\0';
	if (!is_symbol(text) || (length && quantity_number(length, 1, 8, &bytes)) ||
	    (bytes & (bytes - 1)))
		return detail_set(words, -WM_E_SPEC,
				  "write it as SYMBOL@kernel:w or SYMBOL/4@kernel:rw");
	event->bp_type = HW_BREAKPOINT_W;
	if (!strcmp(kind, ":rw"))
		event->bp_type = HW_BREAKPOINT_RW;
	else if (!strcmp(kind, ":x"))
		event->bp_type = HW_BREAKPOINT_X;
	else if (*kind && strcmp(kind, ":w") != 0)
		return detail_set(words, -WM_E_SPEC,
				  "a watch of the kernel takes :w, :rw or :x, and no options");
	snprintf(request->name, sizeof(request->name), "%s", text);
	event->bp_bytes = event->bp_type == HW_BREAKPOINT_X ? sizeof(long)
			  : bytes			    ? (uint32_t)bytes
							    : 4;
	event->what.type = PERF_TYPE_BREAKPOINT;
	snprintf(event->what.name, sizeof(event->what.name), "%s", request->name);
	event->what.excludes_user = 1;
	event->period = 1;
	return symbol_find(text, &event->bp_address, words);
}

static int kprobe_find(struct kernel_request *request, struct detail words)
{
	long type = number_file_read(UNITS "kprobe/type", -1);

	if (!is_symbol(request->name))
		return detail_set(words, -WM_E_SPEC, "\"%.40s\" is no name of a function",
				  request->name);
	if (type < 0)
		return detail_set(words, -WM_E_COUNT_UNIT, "the kernel has no unit kprobe");
	request->event.what.type = (uint32_t)type;
	strcpy(request->event.what.name, request->name);
	request->event.what.config = (uint64_t)request->is_return;
	request->event.what.config1 = (uint64_t)(uintptr_t)request->name;
	return 0;
}

/* "NAME+NAME". */
static int group_read(struct kernel_request *request, char *names, struct detail words)
{
	char *save = NULL;
	int err = 0;

	for (char *name = strtok_r(names, "+", &save); name && !err;
	     name = strtok_r(NULL, "+", &save)) {
		for (unsigned int i = 0; i < request->group_count; i++)
			if (!strcmp(request->group[i].name, name))
				return detail_set(words, -WM_E_SPEC, "%s is named twice", name);
		if (request->group_count == KERNEL_GROUP_MAX)
			return detail_set(words, -WM_E_SPEC, "a group has %u events at most",
					  KERNEL_GROUP_MAX);
		err = count_event_read(&request->group[request->group_count++], name, words);
	}
	if (!err && !request->group_count)
		return count_event_read(&request->group[0], "", words);
	return err;
}

static int named_read(struct kernel_request *request, char *name, struct detail words)
{
	char *options = request->kind == KERNEL_COUNT ? NULL : options_cut(name);
	int err = options ? options_read(request, options, words) : 0;

	if (err)
		return err;
	if (strlen(name) >= sizeof(request->name))
		return detail_set(words, -WM_E_SPEC, "the name is longer than %d bytes",
				  COUNT_NAME_BYTES - 1);
	strcpy(request->name, name);
	if (request->kind == KERNEL_COUNT)
		return group_read(request, name, words);
	if (request->kind == KERNEL_KPROBE)
		return kprobe_find(request, words);
	err = count_event_read(&request->event.what, name, words);
	if (!err && request->kind == KERNEL_TRACEPOINT &&
	    request->event.what.type != PERF_TYPE_TRACEPOINT)
		return detail_set(words, -WM_E_SPEC, "%s is no tracepoint: try count:%s", name,
				  name);
	if (!err && request->event.what.type == PERF_TYPE_SOFTWARE &&
	    (request->event.precise || request->event.wants & SAMPLER_BRANCHES))
		return detail_set(words, -WM_E_SPEC,
				  "precise and branches are of what the processor counts, such as "
				  "cycles; the kernel counts %s",
				  name);
	if (err == -WM_E_COUNT_EVENT && request->kind == KERNEL_TRACEPOINT && !tracefs_events())
		return detail_set(words, -EACCES, "%s", tracefs_missing());
	return err;
}

int kernel_spec_parse(struct kernel_request *request, const char *text, struct detail words)
{
	int kind = kind_find(text), err;
	char *copy;

	*request = (struct kernel_request){
		.kind = kind < 0 ? KERNEL_WATCH : kinds[kind].kind,
		.event.period = 1,
	};
	if (request->kind == KERNEL_SAMPLE) {
		request->event.period = 0;
		request->event.freq_hz = FREQ_DEFAULT_HZ;
	}
	copy = strdup(kind < 0 ? text + strlen("watch:") : text + strlen(kinds[kind].word));
	if (!copy)
		return -ENOMEM;
	if (request->kind == KERNEL_WATCH) {
		err = watch_read(request, copy, words);
	} else if (is_named(request->kind)) {
		err = named_read(request, copy, words);
		if (request->kind == KERNEL_TRACEPOINT)
			request->event.wants |= SAMPLER_RAW;
	} else if (request->kind == KERNEL_FAULT) {
		request->event.what.type = PERF_TYPE_SOFTWARE;
		request->event.what.config = PERF_COUNT_SW_PAGE_FAULTS;
		request->event.wants |= SAMPLER_ADDRESS;
		err = 0;
	} else {
		err = 0;
	}
	if (!is_named(request->kind) && request->kind != KERNEL_WATCH && *copy) {
		size_t bytes = strlen(copy);

		if (*copy != '/' || bytes < 2 || copy[bytes - 1] != '/' ||
		    request->kind == KERNEL_SWITCH)
			err = detail_set(words, -WM_E_SPEC, "it is written \"%s\", without more",
					 request->kind == KERNEL_SWITCH ? "switch" : "fault");
		else {
			copy[bytes - 1] = '\0';
			err = options_read(request, copy + 1, words);
		}
	}
	free(copy);
	return err;
}
