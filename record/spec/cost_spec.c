/* SPDX-License-Identifier: MIT */
#include "record/spec/cost_spec.h"

#include "abi/cost.h"
#include "base/cost_event.h"
#include "base/lack.h"
#include "base/similar_names.h"
#include "record/perf/count_event.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define NEAR_MAX 3
#define OPTION "count="
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

const char *cost_options_find(const char *text)
{
	size_t bytes = strlen(text);

	if (bytes < 2 || text[bytes - 1] != '/')
		return NULL;
	return memrchr(text, '/', bytes - 1);
}

long cost_calls_try(void)
{
	struct timespec now;
	struct rusage usage;
	long filters = target_filters(gettid());
	uint32_t word = 0;

	(void)!syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
	(void)!syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
	(void)!syscall(SYS_tgkill, getpid(), gettid(), 0);
	(void)!syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
	return filters > 0 ? filters : 0;
}

int cost_is_misplaced(const char *text)
{
	return strstr(text, "/" OPTION) || strstr(text, "," OPTION);
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
static int name_refuse(const char *name, struct detail words)
{
	static struct count_event event;
	const char *near[NEAR_MAX];
	char list[160] = "";
	int count;

	if (!count_event_read(&event, name, (struct detail){ NULL, 0 })) {
		if (event.type != 1 /* software */ &&
		    count_event_probe(&event, (struct detail){ NULL, 0 }) == -WM_E_COUNT_UNIT)
			return detail_set(words, -WM_E_COUNT_UNIT, "%.60s", name);
		return detail_set(words, -WM_E_COUNT_EVENT,
				  "a marker can't count %.60s, only " MARKERS_HAVE, name);
	}
	count = similar_list(name, names, NAMES, near, NEAR_MAX);
	for (int i = 0; i < count; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 i ? ", " : ": did you mean ", near[i]);
	return detail_set(words, -WM_E_COUNT_EVENT, "\"%.60s\"%s", name,
			  count ? list : "; a marker has " MARKERS_HAVE);
}

/*
 * Whether a thread can read its own counter by rdpmc here. read(2) takes a descriptor, which would
 * be in the target's table: the target may close it, and reuse its number for another file.
 */
static int counter_try(enum cost_kind kind, struct detail words)
{
	struct perf_event_attr attr = cost_event_attr(kind);
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	const struct perf_event_mmap_page *page;
	int err = fd < 0 ? -errno : 0, is_readable;

	if (err == -EACCES || err == -EPERM)
		return detail_set(words, -WM_E_PERF_DENIED,
				  "%s: kernel.perf_event_paranoid or a seccomp filter forbids it",
				  names[kind]);
	if (error_is_lack(err))
		return detail_set(words, err, "%s", names[kind]);
	/* on a processor with two kinds of cores, a count would be of one kind */
	if (err || !access("/sys/bus/event_source/devices/cpu_core", F_OK)) {
		if (!err)
			close((int)fd);
		return detail_set(words, -WM_E_COUNT_UNIT, "%s", names[kind]);
	}
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, (int)fd, 0);
	is_readable = page != MAP_FAILED && page->cap_user_rdpmc;
	if (page != MAP_FAILED)
		munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
	close((int)fd);
	return is_readable ? 0
			   : detail_set(words, -WM_E_PERF_DENIED,
					"%s: threads may not read their counters: see " RDPMC,
					names[kind]);
}

int cost_options_read(const char *options, uint32_t *kinds, struct detail words)
{
	char *copy, *save = NULL;
	int err = 0, count = 0;

	*kinds = 0;
	if (strncmp(options + 1, OPTION, strlen(OPTION)) || strchr(options, ','))
		return detail_set(words, -WM_E_SPEC,
				  "a marker's only option is count=NAME+NAME, not \"%.*s\"",
				  (int)strlen(options) - 2, options + 1);
	copy = strdup(options + 1 + strlen(OPTION));
	if (!copy)
		return -ENOMEM;
	copy[strlen(copy) - 1] = '\0';
	for (char *name = strtok_r(copy, "+", &save); name && !err;
	     name = strtok_r(NULL, "+", &save)) {
		int kind = kind_find(name);
		unsigned int bit = kind < 0 ? 0 : 1u << kind;

		if (++count > COST_NAMES_MAX)
			err = detail_set(words, -WM_E_SPEC, "a marker has %d counts at most",
					 COST_NAMES_MAX);
		else if (!bit)
			err = name_refuse(name, words);
		else if (bit & COST_COUNTED)
			err = counter_try((enum cost_kind)kind, words);
		if (!err)
			*kinds |= bit;
	}
	if (*kinds & COST_COUNTED)
		*kinds |= 1u << COST_UNCOUNTED;
	if (!err && !count)
		err = detail_set(words, -WM_E_SPEC, "count= takes a name, as task-clock");
	free(copy);
	return err;
}
