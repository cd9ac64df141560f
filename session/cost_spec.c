/* SPDX-License-Identifier: MIT */
#include "session/cost_spec.h"

#include "abi/cost.h"
#include "base/similar_names.h"
#include "perf/count_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define NEAR_MAX 3
#define OPTION "count="
#define MARKERS_HAVE "task-clock, page-faults, minor-faults, major-faults and context-switches"

#define NAME(name, field, unit) name,
static const char *const names[] = { COST_KINDS(NAME) };
#undef NAME

/* As perf(1) has them besides. */
static const struct {
	const char *name;
	enum cost_kind kind;
} short_names[] = { { "faults", COST_PAGE_FAULTS }, { "cs", COST_CONTEXT_SWITCHES } };

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

	(void)!syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
	(void)!syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
	return filters > 0 ? filters : 0;
}

int cost_is_misplaced(const char *text)
{
	return strstr(text, "/" OPTION) || strstr(text, "," OPTION);
}

static int kind_find(const char *name)
{
	for (int kind = 0; kind < COST_KINDS_COUNT; kind++)
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
	count = similar_list(name, names, COST_KINDS_COUNT, near, NEAR_MAX);
	for (int i = 0; i < count; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 i ? ", " : ": did you mean ", near[i]);
	return detail_set(words, -WM_E_COUNT_EVENT, "\"%.60s\"%s", name,
			  count ? list : "; a marker has " MARKERS_HAVE);
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

		if (++count > COST_NAMES_MAX)
			err = detail_set(words, -WM_E_SPEC, "a marker has %d counts at most",
					 COST_NAMES_MAX);
		else if (kind < 0)
			err = name_refuse(name, words);
		else
			*kinds |= 1u << kind;
	}
	if (!err && !count)
		err = detail_set(words, -WM_E_SPEC, "count= takes a name, as task-clock");
	free(copy);
	return err;
}
