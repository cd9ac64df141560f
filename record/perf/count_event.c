/* SPDX-License-Identifier: MIT */
#include "record/perf/count_event.h"

#include "base/array.h"
#include "base/name_match.h"
#include "base/quantity.h"
#include "base/similar_names.h"
#include "base/tracefs.h"
#include "record/perf/cpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <waymark/error.h>

/* libpfm4's headers bring a perf_event.h of their own, older than the kernel's. */
#define __PERFMON_PERF_EVENT_H__
#include <perfmon/pfmlib_perf_event.h>

#define UNITS "/sys/bus/event_source/devices"
#define TEXT_BYTES 256
#define TERMS_DEPTH_MAX 4 /* a term that names terms that name terms ends here */

static pthread_once_t pfm_once = PTHREAD_ONCE_INIT;
static int pfm_error;

static void pfm_start(void)
{
	pfm_error = pfm_initialize();
}

static int unknown(const char *name, struct detail detail)
{
	return detail_set(detail, -WM_E_COUNT_EVENT, "%s", name);
}

/* One line of a small file, without its line end. 0, -errno. */
static int line_read(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return -errno;
	if (!fgets(text, (int)bytes, file))
		err = -ENODATA;
	fclose(file);
	if (!err)
		text[strcspn(text, "\n")] = '\0';
	return err;
}

static int is_file_name(const char *name)
{
	return name[0] && name[0] != '.' && !strchr(name, '/');
}

/* ---- modifiers ---- */

static int are_modifiers(const char *text)
{
	return text[0] && text[strspn(text, "ukh")] == '\0';
}

static void modify(struct count_event *event, const char *modifiers)
{
	event->has_modifiers = 1;
	event->excludes_user = !strchr(modifiers, 'u');
	event->excludes_kernel = !strchr(modifiers, 'k');
	event->excludes_hypervisor = !strchr(modifiers, 'h');
}

/* ---- units of sysfs ---- */

/* Put a value into the bits that a format names: "config:0-7,32-35". */
static int bits_put(struct count_event *event, const char *format, uint64_t value)
{
	uint64_t *word = &event->config;
	const char *at = strchr(format, ':');

	if (!at)
		return -EINVAL;
	if (!strncmp(format, "config1:", 8))
		word = &event->config1;
	else if (!strncmp(format, "config2:", 8))
		word = &event->config2;
	else if (strncmp(format, "config:", 7) != 0)
		return -EINVAL;
	while (*at) {
		char *end;
		unsigned long first = strtoul(++at, &end, 10), last = first;

		if (end == at || first > 63)
			return -EINVAL;
		if (*end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
			if (end == at || last < first || last > 63)
				return -EINVAL;
		}
		for (unsigned long bit = first; bit <= last; bit++, value >>= 1)
			*word = (*word & ~(UINT64_C(1) << bit)) | (value & 1) << bit;
		at = end;
		if (*at && *at != ',')
			return -EINVAL;
	}
	return value ? -ERANGE : 0;
}

static int terms_read(struct count_event *event, const char *unit, char *terms, int depth);

/* A term is an event of the unit, a field of its format with a value, or config=VALUE. */
static int term_read(struct count_event *event, const char *unit, char *term, int depth)
{
	char path[PATH_MAX], text[TEXT_BYTES];
	char *value = strchr(term, '=');
	uint64_t number = 1;

	if (value) {
		*value++ = '\0';
		if (quantity_number(value, 0, UINT64_MAX, &number))
			return -EINVAL;
	}
	if (!is_file_name(term))
		return -EINVAL;
	if (!value && depth < TERMS_DEPTH_MAX) {
		snprintf(path, sizeof(path), UNITS "/%s/events/%s", unit, term);
		if (!line_read(path, text, sizeof(text))) {
			char scale[64] = "";

			snprintf(path, sizeof(path), UNITS "/%s/events/%s.scale", unit, term);
			if (!line_read(path, scale, sizeof(scale)) && strtod(scale, NULL) > 0)
				event->scale = strtod(scale, NULL);
			snprintf(path, sizeof(path), UNITS "/%s/events/%s.unit", unit, term);
			line_read(path, event->unit, sizeof(event->unit));
			return terms_read(event, unit, text, depth + 1);
		}
	}
	snprintf(path, sizeof(path), UNITS "/%s/format/%s", unit, term);
	if (!line_read(path, text, sizeof(text)))
		return bits_put(event, text, number);
	if (!value)
		return -ENOENT;
	if (!strcmp(term, "config"))
		event->config = number;
	else if (!strcmp(term, "config1"))
		event->config1 = number;
	else if (!strcmp(term, "config2"))
		event->config2 = number;
	else
		return -ENOENT;
	return 0;
}

static int terms_read(struct count_event *event, const char *unit, char *terms, int depth)
{
	char *save = NULL;

	for (char *term = strtok_r(terms, ",", &save); term; term = strtok_r(NULL, ",", &save)) {
		int err = term_read(event, unit, term, depth);

		if (err)
			return err;
	}
	return 0;
}

/* "UNIT/TERMS/MODIFIERS", cut at its slashes. */
static int unit_read(struct count_event *event, char *text, struct detail detail)
{
	char *terms = strchr(text, '/'), *behind = strchr(terms + 1, '/');
	char path[PATH_MAX], line[TEXT_BYTES];
	unsigned int *cpus;
	size_t count;

	if (!behind)
		return detail_set(detail, -WM_E_COUNT_EVENT, "%s: it needs a slash at its end",
				  event->name);
	*terms++ = *behind++ = '\0';
	if (*behind == ':')
		behind++;
	if (!is_file_name(text) || (*behind && !are_modifiers(behind)))
		return unknown(event->name, detail);
	snprintf(path, sizeof(path), UNITS "/%s/type", text);
	if (line_read(path, line, sizeof(line)))
		return detail_set(detail, -WM_E_COUNT_EVENT, "%s: the kernel has no unit %s",
				  event->name, text);
	event->type = (uint32_t)strtoul(line, NULL, 10);
	snprintf(path, sizeof(path), UNITS "/%s/cpumask", text);
	event->is_of_cpus = !line_read(path, line, sizeof(line));
	/*
	 * A thread that the target starts would inherit it, and be checked for the privilege:
	 * perf_kprobe_event_init(). Then clone(2) fails.
	 */
	if (!strcmp(text, "kprobe") || !strcmp(text, "uprobe")) {
		event->is_of_cpus = 1;
		memset(event->cpus, 0xff, sizeof(event->cpus));
		line[0] = '\0';
	}
	if (event->is_of_cpus && !cpus_parse(line, &cpus, &count)) {
		for (size_t i = 0; i < count; i++)
			if (cpus[i] < COUNT_CPUS_MAX)
				event->cpus[cpus[i] / 64] |= UINT64_C(1) << cpus[i] % 64;
		free(cpus);
	}
	if (*behind)
		modify(event, behind);
	if (terms_read(event, text, terms, 0))
		return detail_set(detail, -WM_E_COUNT_EVENT, "%s: see %s/%s/events and format",
				  event->name, UNITS, text);
	return 0;
}

/* ---- other names ---- */

static int raw_read(struct count_event *event, const char *text)
{
	char *end;

	if (text[0] != 'r' || !isxdigit((unsigned char)text[1]))
		return -1;
	errno = 0;
	event->config = strtoull(text + 1, &end, 16);
	event->type = PERF_TYPE_RAW;
	return errno || *end ? -1 : 0;
}

static int id_read(struct count_event *event, const char *text)
{
	const char *colon = strchr(text, ':'), *folder = tracefs_events();
	char path[PATH_MAX], line[TEXT_BYTES];

	if (!folder || !colon || strchr(text, '/') || text[0] == '.' || colon[1] == '.' ||
	    !colon[1])
		return -1;
	snprintf(path, sizeof(path), "%s/%.*s/%s/id", folder, (int)(colon - text), text, colon + 1);
	if (line_read(path, line, sizeof(line)))
		return -1;
	event->type = PERF_TYPE_TRACEPOINT;
	event->config = strtoull(line, NULL, 10);
	return 0;
}

static int pfm_read(struct count_event *event, const char *text)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	pfm_perf_encode_arg_t arg = { .attr = &attr, .size = sizeof(arg) };

	pthread_once(&pfm_once, pfm_start);
	if (pfm_error || pfm_get_os_event_encoding(text, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT,
						   &arg) != PFM_SUCCESS)
		return -1;
	event->type = attr.type;
	event->config = attr.config;
	event->config1 = attr.config1;
	event->config2 = attr.config2;
	/* libpfm4 has modifiers of its own: u=1, k=0; those that concern guests are not for us */
	if (attr.exclude_host ||
	    ((attr.exclude_user || attr.exclude_kernel) && event->has_modifiers))
		return -1;
	if (attr.exclude_user || attr.exclude_kernel) {
		event->has_modifiers = 1;
		event->excludes_user = attr.exclude_user;
		event->excludes_kernel = attr.exclude_kernel;
	}
	if (attr.type == PERF_TYPE_SOFTWARE &&
	    (attr.config == PERF_COUNT_SW_CPU_CLOCK || attr.config == PERF_COUNT_SW_TASK_CLOCK))
		strcpy(event->unit, "ns");
	return 0;
}

/* ---- names that are similar to an unknown one ---- */

struct names {
	char **all;
	size_t count, room;
};

static int name_keep(void *data, const struct count_listed *listed)
{
	struct names *names = data;

	if (array_grow(&names->all, &names->room, names->count + 1, sizeof(*names->all)))
		return -ENOMEM;
	names->all[names->count] = strdup(listed->name);
	return names->all[names->count++] ? 0 : -ENOMEM;
}

static int unknown_near(const char *name, struct detail detail)
{
	char words[3 * COUNT_NAME_BYTES + 64] = "";
	struct names names = { 0 };

	if (!count_events_list(NULL, strchr(name, ':') != NULL, name_keep, &names))
		similar_words(name, (const char *const *)names.all, names.count, words,
			      sizeof(words));
	for (size_t i = 0; i < names.count; i++)
		free(names.all[i]);
	free(names.all);
	if (!words[0] && strchr(name, ':') && !tracefs_events())
		return detail_set(detail, -WM_E_COUNT_EVENT, "%s, or %s", name, tracefs_missing());
	return detail_set(detail, -WM_E_COUNT_EVENT, "%s%s", name, words);
}

int count_event_read(struct count_event *event, const char *text, struct detail detail)
{
	char name[COUNT_NAME_BYTES], *colon;

	*event = (struct count_event){ .scale = 1 };
	if (!text[0] || strlen(text) >= sizeof(name))
		return unknown(text, detail);
	strcpy(event->name, text);
	strcpy(name, text);
	if (strchr(name, '/'))
		return unit_read(event, name, detail);
	colon = strrchr(name, ':');
	if (colon && are_modifiers(colon + 1) && id_read(event, name)) {
		*colon = '\0';
		modify(event, colon + 1);
	}
	if (!raw_read(event, name) || !pfm_read(event, name) || !id_read(event, name))
		return 0;
	return unknown_near(text, detail);
}

/* ---- the list ---- */

/* What the kernel's own events mean (perf_event_open(2)); libpfm4 has no words for them. */
static const struct {
	const char *name, *group, *description;
} known[] = {
	{ "task-clock", "software", "time that the threads ran, in ns" },
	{ "cpu-clock", "software", "time that the CPUs were given to them, in ns" },
	{ "context-switches", "software", "switches from one thread to another" },
	{ "cpu-migrations", "software", "moves of a thread to another CPU" },
	{ "cgroup-switches", "software", "switches to a thread of another cgroup" },
	{ "page-faults", "software", "page faults, minor and major" },
	{ "minor-faults", "software", "page faults without a read from disk" },
	{ "major-faults", "software", "page faults with a read from disk" },
	{ "cycles", "hardware", "cycles of the CPU; their rate changes with its frequency" },
	{ "ref-cycles", "hardware", "cycles at a constant rate" },
	{ "instructions", "hardware", "instructions that were completed" },
	{ "cache-references", "hardware", "accesses to the last cache" },
	{ "cache-misses", "hardware", "accesses that the last cache could not serve" },
	{ "branches", "hardware", "branch instructions that were completed" },
	{ "branch-misses", "hardware", "branches that the CPU predicted wrongly" },
	{ "bus-cycles", "hardware", "cycles of the bus" },
	{ "stalled-cycles-frontend", "hardware", "cycles without instructions to execute" },
	{ "stalled-cycles-backend", "hardware", "cycles that waited for memory or units" },
};

struct listing {
	const char *glob;
	int (*take)(void *data, const struct count_listed *listed);
	void *data;
};

static int list_one(const struct listing *listing, const struct count_listed *listed)
{
	if (listing->glob && !name_match_event(listing->glob, listed->name))
		return 0;
	return listing->take(listing->data, listed);
}

/* libpfm4's events of one unit; of the kernel's own, those that `known` lacks. */
static int list_pfm(const struct listing *listing, const pfm_pmu_info_t *unit, int is_cache)
{
	for (int i = unit->first_event; i >= 0; i = pfm_get_event_next(i)) {
		pfm_event_info_t info = { .size = sizeof(info) };
		struct count_listed listed = { .group = is_cache ? "cache" : unit->name };
		int err;

		if (pfm_get_event_info(i, PFM_OS_PERF_EVENT, &info) != PFM_SUCCESS ||
		    !strncmp(info.name, "PERF_COUNT_", 11) ||
		    (is_cache && (!info.equiv || !strstr(info.equiv, "_HW_CACHE_") ||
				  !strcasecmp(info.name, "cache-references") ||
				  !strcasecmp(info.name, "cache-misses"))))
			continue;
		listed.description = is_cache || !info.desc ? "" : info.desc;
		snprintf(listed.name, sizeof(listed.name), "%s", info.name);
		for (char *at = listed.name; is_cache && *at; at++)
			*at = (char)tolower((unsigned char)*at);
		err = list_one(listing, &listed);
		if (err)
			return err;
	}
	return 0;
}

static int compare(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

/* Names in a folder as "PREFIXnameSUFFIX". A folder that is not there has none. */
static int list_folder(const struct listing *listing, const char *path, const char *group,
		       const char *prefix, const char *suffix)
{
	struct dirent **all;
	int count = scandir(path, &all, is_shown, compare), err = 0;

	for (int i = 0; i < count; i++) {
		struct count_listed listed = { .group = group, .description = "" };

		if ((size_t)snprintf(listed.name, sizeof(listed.name), "%s%s%s", prefix,
				     all[i]->d_name, suffix) < sizeof(listed.name) &&
		    !err && strcmp(all[i]->d_name, "enable") && strcmp(all[i]->d_name, "filter"))
			err = list_one(listing, &listed);
		free(all[i]);
	}
	if (count >= 0)
		free(all);
	return err;
}

/* Each folder of `path`, with the events in it. */
static int list_folders(const struct listing *listing, const char *path, int is_unit)
{
	struct dirent **all;
	int count = scandir(path, &all, is_shown, compare), err = 0;

	for (int i = 0; i < count; i++) {
		char inner[PATH_MAX], prefix[NAME_MAX + 2];

		snprintf(inner, sizeof(inner), "%s/%s%s", path, all[i]->d_name,
			 is_unit ? "/events" : "");
		snprintf(prefix, sizeof(prefix), "%s%c", all[i]->d_name, is_unit ? '/' : ':');
		if (!err)
			err = list_folder(listing, inner, is_unit ? all[i]->d_name : "tracepoint",
					  prefix, is_unit ? "/" : "");
		free(all[i]);
	}
	if (count >= 0)
		free(all);
	return err;
}

int count_events_list(const char *glob, int tracepoints,
		      int (*take)(void *data, const struct count_listed *listed), void *data)
{
	const struct listing listing = { glob, take, data };
	pfm_pmu_t number;
	int err = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !err; i++) {
		struct count_listed listed = { .group = known[i].group,
					       .description = known[i].description };

		snprintf(listed.name, sizeof(listed.name), "%s", known[i].name);
		err = list_one(&listing, &listed);
	}
	pthread_once(&pfm_once, pfm_start);
	for (number = PFM_PMU_NONE; number < PFM_PMU_MAX && !err && !pfm_error; number++) {
		pfm_pmu_info_t unit = { .size = sizeof(unit) };

		if (pfm_get_pmu_info(number, &unit) != PFM_SUCCESS || !unit.is_present)
			continue;
		if (number == PFM_PMU_PERF_EVENT || unit.type == PFM_PMU_TYPE_CORE)
			err = list_pfm(&listing, &unit, number == PFM_PMU_PERF_EVENT);
	}
	if (!err)
		err = list_folders(&listing, UNITS, 1);
	if (tracepoints && tracefs_events() && !err)
		err = list_folders(&listing, tracefs_events(), 0);
	return err;
}

int count_event_has_user_part(const struct count_event *event)
{
	if (event->type == PERF_TYPE_SOFTWARE)
		return event->config != PERF_COUNT_SW_CONTEXT_SWITCHES &&
		       event->config != PERF_COUNT_SW_CPU_MIGRATIONS &&
		       event->config != PERF_COUNT_SW_CGROUP_SWITCHES;
	return event->type != PERF_TYPE_TRACEPOINT;
}
