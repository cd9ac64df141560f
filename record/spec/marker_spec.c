/* SPDX-License-Identifier: MIT */
/* Specs of markers, and what they count: marker:SUBSYS:EVENT/count=NAME+NAME/. */
#include "abi/cost.h"
#include "base/cost_event.h"
#include "base/lack.h"
#include "base/similar_names.h"
#include "record/perf/count_event.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define MARKERS_HAVE                                                                               \
	"task-clock, page-faults, minor-faults, major-faults, context-switches, cycles, "          \
	"instructions, cache-references, cache-misses, branches and branch-misses"
#define RDPMC "/sys/bus/event_source/devices/cpu/rdpmc"

#define NAME(name, field, unit) name,
static const char *const names[] = { COST_KINDS(NAME) };
#undef NAME
#define NAMES COST_UNCOUNTED /* so many are for people */

/* As perf(1) has them besides. */
static const struct {
	const char *name;
	enum cost_kind kind;
} short_names[] = {
	{ "faults", COST_PAGE_FAULTS },
	{ "cs", COST_CONTEXT_SWITCHES },
	{ "cpu-cycles", COST_CYCLES },
	{ "branch-instructions", COST_BRANCHES },
};

/* Whether it is a name or glob: characters of identifiers and of fnmatch(3), brackets closed. */
static int name_check(const char *name, size_t bytes)
{
	int in_brackets = 0;

	if (!bytes)
		return 0;
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c == '[')
			in_brackets = 1;
		else if (c == ']' && in_brackets)
			in_brackets = 0;
		else if (in_brackets ? !isgraph(c) : !isalnum(c) && !strchr("_*?$", c) && c < 0x80)
			return 0;
	}
	return !in_brackets;
}

int spec_read_marker(const struct spec_syntax *syntax)
{
	struct spec *spec = syntax->spec;
	struct spec_span subsystem = syntax->name, event;
	const char *name = syntax->text + syntax->name.at;
	const char *colon = memchr(name, ':', syntax->name.bytes);

	if (!colon)
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "has no second colon: marker:SUBSYSTEM:EVENT");
	subsystem.bytes = (size_t)(colon - name);
	event.at = subsystem.at + subsystem.bytes + 1;
	event.bytes = syntax->name.bytes - subsystem.bytes - 1;
	if (!name_check(name, subsystem.bytes))
		return spec_wrong(syntax, subsystem, -WM_E_SPEC,
				  "is no SUBSYSTEM and no glob: marker:SUBSYSTEM:EVENT");
	if (!name_check(colon + 1, event.bytes))
		return spec_wrong(syntax, event, -WM_E_SPEC,
				  "is no EVENT and no glob: marker:SUBSYSTEM:EVENT");
	if (spec->costs && spec->sums.is_wanted)
		return spec_wrong(syntax, (struct spec_span){ 0, strlen(syntax->text) }, -WM_E_SPEC,
				  "has counts of each event, and sums in place of events");
	if (spec->costs & COST_COUNTED)
		spec->costs |= 1u << COST_UNCOUNTED;
	if (spec_sums_finish(syntax, &spec->sums, &spec->callers))
		return -WM_E_SPEC;
	spec->glob = spec_part(syntax, syntax->name);
	return spec->glob ? 0 : -ENOMEM;
}

static int kind_find(const char *name)
{
	for (int kind = 0; kind < NAMES; kind++)
		if (!strcmp(names[kind], name))
			return kind;
	for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++)
		if (!strcmp(short_names[i].name, name))
			return (int)short_names[i].kind;
	return -1;
}

/* Why a marker can't have it: the machine has no unit for it, the agent can't read it, unknown. */
static int name_refuse(const struct spec_syntax *syntax, const char *name, struct spec_span span)
{
	static struct count_event event;
	char meant[160];

	if (!count_event_read(&event, name, (struct detail){ NULL, 0 })) {
		if (event.type != 1 /* software */ &&
		    count_event_probe(&event, (struct detail){ NULL, 0 }) == -WM_E_COUNT_UNIT)
			return spec_wrong(syntax, span, -WM_E_COUNT_UNIT,
					  "is not counted by this machine");
		return spec_wrong(syntax, span, -WM_E_COUNT_EVENT,
				  "can't be counted by a marker, only " MARKERS_HAVE);
	}
	return spec_wrong(syntax, span, -WM_E_COUNT_EVENT, "is no count%s",
			  *similar_words(name, names, NAMES, meant, sizeof(meant))
				  ? meant
				  : "; a marker has " MARKERS_HAVE);
}

/*
 * Whether a thread can read its own counter by rdpmc here. read(2) takes a descriptor, which would
 * be in the target's table: the target may close it, and reuse its number for another file.
 */
static int counter_try(const struct spec_syntax *syntax, enum cost_kind kind, struct spec_span span)
{
	struct perf_event_attr attr = cost_event_attr(kind);
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	const struct perf_event_mmap_page *page;
	int err = fd < 0 ? -errno : 0, is_readable;

	if (err == -EACCES || err == -EPERM)
		return spec_wrong(syntax, span, -WM_E_PERF_DENIED,
				  "is forbidden by kernel.perf_event_paranoid or a seccomp filter");
	if (error_is_lack(err))
		return spec_wrong(syntax, span, err, "can't be opened");
	/* on a processor with two kinds of cores, a count would be of one kind */
	if (err || !access("/sys/bus/event_source/devices/cpu_core", F_OK)) {
		if (!err)
			close((int)fd);
		return spec_wrong(syntax, span, -WM_E_COUNT_UNIT, "is not counted by this machine");
	}
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, (int)fd, 0);
	is_readable = page != MAP_FAILED && page->cap_user_rdpmc;
	if (page != MAP_FAILED)
		munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
	close((int)fd);
	return is_readable ? 0
			   : spec_wrong(syntax, span, -WM_E_PERF_DENIED,
					"can't be read by threads: see " RDPMC);
}

int spec_read_cost(const struct spec_syntax *syntax, const char *name, struct spec_span span)
{
	int kind = kind_find(name), err;
	unsigned int bit = kind < 0 ? 0 : 1u << kind;

	if (!bit)
		return name_refuse(syntax, name, span);
	err = bit & COST_COUNTED ? counter_try(syntax, (enum cost_kind)kind, span) : 0;
	if (!err)
		syntax->spec->costs |= bit;
	return err;
}
