/* SPDX-License-Identifier: MIT */
#include "record/spec/kernel_spec.h"

#include "base/number_file.h"
#include "base/quantity.h"
#include "base/tracefs.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

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
#define STACK_BYTES 8192u
#define UNITS "/sys/bus/event_source/devices/"

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
static int watch_read(const struct spec_syntax *syntax, char *text)
{
	struct kernel_request *request = syntax->request;
	struct sampler_event *event = &request->event;
	char *at = strstr(text, SPEC_KERNEL_SUFFIX), *length;
	const char *kind = at + sizeof(SPEC_KERNEL_SUFFIX) - 1;
	uint64_t bytes = 0;

	*at = '\0';
	length = strchr(text, '/');
	if (length)
		*length++ = '\0';
	if (!is_symbol(text) || (length && quantity_number(length, 1, 8, &bytes)) ||
	    (bytes & (bytes - 1)))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "is neither SYMBOL@kernel:w nor SYMBOL/4@kernel:rw");
	event->bp_type = HW_BREAKPOINT_W;
	if (!strcmp(kind, ":rw"))
		event->bp_type = HW_BREAKPOINT_RW;
	else if (!strcmp(kind, ":x"))
		event->bp_type = HW_BREAKPOINT_X;
	else if (*kind && strcmp(kind, ":w") != 0)
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "has no such kind: a watch of the kernel takes :w, :rw or :x");
	snprintf(request->name, sizeof(request->name), "%s", text);
	event->bp_bytes = event->bp_type == HW_BREAKPOINT_X ? sizeof(long)
			  : bytes			    ? (uint32_t)bytes
							    : 4;
	event->what.type = PERF_TYPE_BREAKPOINT;
	snprintf(event->what.name, sizeof(event->what.name), "%s", request->name);
	event->what.excludes_user = 1;
	event->period = 1;
	return symbol_find(text, &event->bp_address, syntax->wrong);
}

static int kprobe_find(const struct spec_syntax *syntax)
{
	struct kernel_request *request = syntax->request;
	long type = number_file_read(UNITS "kprobe/type", -1);

	if (!is_symbol(request->name))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC, "is no name of a function");
	if (type < 0)
		return detail_set(syntax->wrong, -WM_E_COUNT_UNIT, "the kernel has no unit kprobe");
	request->event.what.type = (uint32_t)type;
	strcpy(request->event.what.name, request->name);
	request->event.what.config = (uint64_t)request->is_return;
	request->event.what.config1 = (uint64_t)(uintptr_t)request->name;
	return 0;
}

/* "NAME+NAME"; the text is ours to cut. */
static int group_read(const struct spec_syntax *syntax, char *names)
{
	struct kernel_request *request = syntax->request;
	char *save = NULL;
	int err = 0;

	for (char *name = strtok_r(names, "+", &save); name && !err;
	     name = strtok_r(NULL, "+", &save)) {
		struct spec_span span = { syntax->name.at + (size_t)(name - names), strlen(name) };

		for (unsigned int i = 0; i < request->group_count; i++)
			if (!strcmp(request->group[i].name, name))
				return spec_wrong(syntax, span, -WM_E_SPEC, "is there twice");
		if (request->group_count == KERNEL_GROUP_MAX)
			return spec_wrong(syntax, span, -WM_E_SPEC,
					  "is one too many: a group has %u events at most",
					  KERNEL_GROUP_MAX);
		err = count_event_read(&request->group[request->group_count++], name,
				       syntax->wrong);
	}
	if (!err && !request->group_count)
		return count_event_read(&request->group[0], "", syntax->wrong);
	return err;
}

/* What a sample or tracepoint names. */
static int event_read(const struct spec_syntax *syntax)
{
	struct kernel_request *request = syntax->request;
	struct count_event *what = &request->event.what;
	int err = count_event_read(what, request->name, syntax->wrong);

	if (err == -WM_E_COUNT_EVENT && request->kind == KERNEL_TRACEPOINT && !tracefs_events())
		return detail_set(syntax->wrong, -EACCES, "%s", tracefs_missing());
	if (!err && request->kind == KERNEL_TRACEPOINT && what->type != PERF_TYPE_TRACEPOINT)
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "is no tracepoint: try count:%s", request->name);
	if (!err && what->type == PERF_TYPE_SOFTWARE &&
	    (request->event.precise || request->event.wants & SAMPLER_BRANCHES))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "is counted by the kernel: precise and branches are of what the "
				  "processor counts, such as cycles");
	return err;
}

/* What the options come to. */
static int options_apply(const struct spec_syntax *syntax)
{
	struct kernel_request *request = syntax->request;
	struct sampler_event *event = &request->event;

	if (event->freq_hz && event->period)
		return spec_wrong(syntax, syntax->words[0].all, -WM_E_SPEC,
				  "is too much: freq or period, not both");
	if (request->has_args && request->is_return)
		return spec_wrong(
			syntax, syntax->words[0].all, -WM_E_SPEC,
			"is too much: arguments are gone at the end: args or ret, not both");
	if (request->kind == KERNEL_SAMPLE && !event->period && !event->freq_hz)
		event->freq_hz = FREQ_DEFAULT_HZ;
	if (request->kind != KERNEL_SAMPLE)
		event->period = 1;
	request->has_callers = (event->wants & SAMPLER_CALLERS) != 0;
	event->stack_bytes = event->wants & SAMPLER_STACK ? STACK_BYTES : 0;
	if (request->has_regs || request->has_args || request->is_return)
		event->wants |= SAMPLER_REGS;
	if (request->kind == KERNEL_TRACEPOINT)
		event->wants |= SAMPLER_RAW;
	return 0;
}

static int name_read(const struct spec_syntax *syntax, char *name)
{
	struct kernel_request *request = syntax->request;

	if (request->kind == KERNEL_WATCH)
		return watch_read(syntax, name);
	if (strlen(name) >= sizeof(request->name))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC, "is longer than %d bytes",
				  COUNT_NAME_BYTES - 1);
	strcpy(request->name, name);
	if (request->kind == KERNEL_COUNT)
		return group_read(syntax, name);
	return request->kind == KERNEL_KPROBE ? kprobe_find(syntax) : event_read(syntax);
}

int spec_read_kernel(const struct spec_syntax *syntax)
{
	struct kernel_request *request = syntax->request;
	char *name;
	int err;

	request->kind = (enum kernel_kind)syntax->kind->variant;
	err = options_apply(syntax);
	if (!err && request->kind == KERNEL_SWITCH)
		return spec_read_kernel_conditions(syntax);
	if (err)
		return err;
	if (request->kind == KERNEL_FAULT) {
		request->event.what.type = PERF_TYPE_SOFTWARE;
		request->event.what.config = PERF_COUNT_SW_PAGE_FAULTS;
		request->event.wants |= SAMPLER_ADDRESS;
		return 0;
	}
	name = spec_part(syntax, syntax->name);
	if (!name)
		return -ENOMEM;
	err = name_read(syntax, name);
	free(name);
	return err ? err : spec_read_kernel_conditions(syntax);
}
