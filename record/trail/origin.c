/* SPDX-License-Identifier: MIT */
#include "record/trail/origin.h"

#include "base/number_file.h"
#include "record/perf/refused.h"
#include "record/trail/soft/soft_image.h"
#include "record/trail/tracing.h"
#include "target/claim/holder.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <waymark/error.h>

#define PATH_BYTES 4096
#define CAP_SYS_ADMIN_BIT 21
#define CAP_PERFMON_BIT 38
#define SECCOMP_FILTERED 2
#define YAMA_NONE 3
#define PARANOID_KERNEL_MAX 1 /* perf_allow_kernel() of the kernel */

const struct tracing_calls *tracing_oracle;

static const struct origin_text {
	const char *name;
	enum trail_origin kind;
	const char *unit; /* Intel's: the folder of its event source */
	int paranoid_max; /* without a capability */
} texts[ORIGINS + 1] = {
	[ORIGIN_PT] = { "pt", TRAIL_PT, "intel_pt", 2 },
	/*
	 * bts_event_init() in arch/x86/events/intel/bts.c: it shows kernel addresses even where
	 * user code alone is wanted
	 */
	[ORIGIN_BTS] = { "bts", TRAIL_BTS, "intel_bts", 1 },
	[ORIGIN_SOFT] = { "soft", TRAIL_SOFT, NULL, 0 },
	[ORIGIN_ORACLE] = { "step", TRAIL_STEP, NULL, 0 },
};

/* The surroundings that all origins share. */
struct surroundings {
	const struct origin_machine *machine;
	const struct perf_calls *perf;
	char vendor[16];
	long family, model, paranoid; /* -1: not known */
	long seccomp, yama;
	int is_virtual, has_capability;
};

/* ---- files ---- */

static const char *root_of(const struct origin_machine *machine)
{
	return machine && machine->root ? machine->root : "";
}

static long file_number(const struct origin_machine *machine, const char *path)
{
	char full[PATH_BYTES];

	snprintf(full, sizeof(full), "%s%s", root_of(machine), path);
	return number_file_read(full, -1);
}

/*
 * The value of a line "name : value" of the form that procfs has, in text[bytes]. 1: it was there.
 */
static int line_value(char *line, const char *name, char *text, size_t bytes)
{
	size_t length = strlen(name);
	char *at = line + length;

	if (strncmp(line, name, length))
		return 0;
	at += strspn(at, " \t");
	if (*at++ != ':')
		return 0;
	at += strspn(at, " \t");
	at[strcspn(at, "\n")] = '\0';
	snprintf(text, bytes, "%s", at);
	return 1;
}

static int has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		if ((at == text || isspace((unsigned char)at[-1])) &&
		    (!at[length] || isspace((unsigned char)at[length])))
			return 1;
	return 0;
}

/* Read a file's lines. Of /proc/cpuinfo those of the first processor: an empty line ends them. */
static void read_lines(struct surroundings *around, const char *path)
{
	char full[PATH_BYTES], text[PATH_BYTES], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root_of(around->machine), path);
	file = fopen(full, "re");
	while (file && getline(&line, &room, file) > 1) {
		if (line_value(line, "vendor_id", text, sizeof(text)))
			snprintf(around->vendor, sizeof(around->vendor), "%.15s", text);
		else if (line_value(line, "cpu family", text, sizeof(text)))
			around->family = strtol(text, NULL, 10);
		else if (line_value(line, "model", text, sizeof(text)))
			around->model = strtol(text, NULL, 10);
		else if (line_value(line, "flags", text, sizeof(text)))
			around->is_virtual = has_word(text, "hypervisor");
		else if (line_value(line, "CapEff", text, sizeof(text)))
			around->has_capability = !!(
				strtoull(text, NULL, 16) &
				(1ull << CAP_SYS_ADMIN_BIT | 1ull << CAP_PERFMON_BIT));
		else if (line_value(line, "Seccomp", text, sizeof(text)))
			around->seccomp = strtol(text, NULL, 10);
	}
	free(line);
	if (file)
		fclose(file);
}

static void look_around(struct surroundings *around, const struct origin_machine *machine)
{
	*around = (struct surroundings){
		.machine = machine, .perf = &perf_kernel, .family = -1, .model = -1
	};
	if (machine && machine->perf)
		around->perf = machine->perf;
	read_lines(around, "/proc/cpuinfo");
	read_lines(around, "/proc/self/status");
	around->paranoid = file_number(machine, "/proc/sys/kernel/perf_event_paranoid");
	around->yama = file_number(machine, "/proc/sys/kernel/yama/ptrace_scope");
}

/* ---- one origin ---- */

static int refused(struct origin_state *state, int error, const char *form, ...)
	__attribute__((format(printf, 3, 4)));

static int refused(struct origin_state *state, int error, const char *form, ...)
{
	va_list arguments;

	va_start(arguments, form);
	vsnprintf(state->detail, sizeof(state->detail), form, arguments);
	va_end(arguments);
	return state->error = -error;
}

/* Intel's units are in no processor by another. */
static int is_foreign(const struct surroundings *around)
{
	return around->vendor[0] && strcmp(around->vendor, "GenuineIntel") != 0;
}

/* There is no such unit: because of the processor, or because it is a virtual one. */
static int no_unit(struct origin_state *state, const struct surroundings *around, const char *what)
{
	if (is_foreign(around))
		return refused(state, WM_E_TRAIL_NO_UNIT,
			       "only Intel's processors have the unit, and this one is %s",
			       around->vendor);
	return refused(state, WM_E_TRAIL_NO_UNIT, "%s%s",
		       around->is_virtual ? "the virtual machine's host does not lend it the unit: "
					  : "",
		       what);
}

/*
 * "LBR, BTM, or BTS records may have incorrect branch 'from' information": Nehalem to Ivy Bridge,
 * of family 6.
 */
static int has_erratum(const struct surroundings *around)
{
	static const long models[] = { 0x1a, 0x1e, 0x1f, 0x25, 0x2a, 0x2c, 0x2d, 0x2e, 0x2f, 0x3a };

	if (strcmp(around->vendor, "GenuineIntel") != 0 || around->family != 6)
		return 0;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
		if (around->model == models[i])
			return 1;
	return 0;
}

/* The event source's number, which events of it have for a type; or -1. */
static long unit_type(const struct origin_machine *machine, const struct origin_text *text)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/type", text->unit);
	return file_number(machine, path);
}

static int attr_of(struct perf_event_attr *attr, enum origin origin,
		   const struct surroundings *around, struct origin_state *state)
{
	const struct origin_text *text = &texts[origin];
	long type;

	if (!text->unit)
		return refused(state, EINVAL, "%s", "it is not perf's");
	type = unit_type(around->machine, text);
	if (type < 0 || is_foreign(around)) {
		char what[96];

		snprintf(what, sizeof(what), "there is no /sys/bus/event_source/devices/%s",
			 text->unit);
		return no_unit(state, around, what);
	}
	*attr = (struct perf_event_attr){
		.size = sizeof(*attr),
		.type = (uint32_t)type,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.sample_id_all = 1,
		.context_switch = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
	};
	if (origin == ORIGIN_PT)
		attr->config = 1u << 10; /* IA32_RTIT_CTL.TSCEn; branches are on by themselves */
	return 0;
}

int origin_attr(struct perf_event_attr *attr, enum origin origin,
		const struct origin_machine *machine, char *detail, size_t bytes)
{
	struct origin_state state = { 0 };
	struct surroundings around;
	int err;

	look_around(&around, machine);
	err = attr_of(attr, origin, &around, &state);
	if (bytes)
		snprintf(detail, bytes, "%s", state.detail);
	return err;
}

/* What perf_event_open(2) said, in our words. */
static void on_refusal(struct origin_state *state, const struct surroundings *around, int err)
{
	int is_filtered = around->seccomp == SECCOMP_FILTERED;
	char what[80];

	switch (-err) {
	case ENOSYS:
		if (is_filtered)
			refused(state, WM_E_PERF_DENIED, "%s", PERF_IS_FILTERED);
		else
			refused(state, WM_E_TRAIL_NO_UNIT, "%s", PERF_IS_MISSING);
		break;
	case EPERM:
	case EACCES:
		if (is_filtered && err == -EPERM)
			refused(state, WM_E_PERF_DENIED, "%s", PERF_IS_FILTERED);
		else
			refused(state, WM_E_PERF_DENIED, PERF_PARANOID " is %ld", around->paranoid);
		break;
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		snprintf(what, sizeof(what), "perf_event_open(2): %s", strerrorname_np(-err));
		no_unit(state, around, what);
		break;
	case EBUSY:
		state->error = -WM_E_PERF_TAKEN;
		claim_holder_text(&(struct claim_wanted){ CLAIM_BRANCH_UNIT, 0, -1 }, state->detail,
				  sizeof(state->detail));
		break;
	default:
		refused(state, -err, "%s", "perf_event_open(2)");
	}
}

static void look_at(struct origin_state *state, enum origin origin,
		    const struct surroundings *around)
{
	const struct origin_text *text = &texts[origin];
	struct perf_event_attr attr;
	int fd;

	*state = (struct origin_state){ 0 };
	if (attr_of(&attr, origin, around, state))
		return;
	if (origin == ORIGIN_BTS && has_erratum(around)) {
		refused(state, WM_E_TRAIL_NO_UNIT, "%s",
			"this processor's branch records can be wrong (Intel's erratum AAJ122)");
		return;
	}
	if (around->paranoid > text->paranoid_max && !around->has_capability) {
		refused(state, WM_E_PERF_DENIED, PERF_PARANOID " is %ld, and at most %d is needed",
			around->paranoid, text->paranoid_max);
		return;
	}
	fd = around->perf->open(&attr, 0);
	if (fd < 0)
		on_refusal(state, around, fd);
	else
		around->perf->close(fd);
}

/* It needs its file. */
static void look_at_soft(struct origin_state *state, const struct origin_machine *machine)
{
	struct soft_image image;
	char detail[sizeof(state->detail)];
	int err = soft_image_find(&image, machine ? machine->engine : NULL, detail, sizeof(detail));

	*state = (struct origin_state){ 0 };
	if (err)
		refused(state, -err, "%s", detail);
	soft_image_close(&image);
}

void origins_look(struct origin_state states[ORIGINS], const struct origin_machine *machine)
{
	struct surroundings around;

	look_around(&around, machine);
	for (int i = 0; i < ORIGINS; i++)
		if (texts[i].unit)
			look_at(&states[i], (enum origin)i, &around);
	look_at_soft(&states[ORIGIN_SOFT], machine);
	if (around.yama == YAMA_NONE)
		refused(&states[ORIGIN_SOFT], EPERM, "%s",
			"kernel.yama.ptrace_scope is 3: no process may trace");
}

void origins_need_kernel(struct origin_state states[ORIGINS], const struct origin_machine *machine)
{
	struct surroundings around;

	look_around(&around, machine);
	for (int i = 0; i < ORIGINS; i++) {
		if (states[i].error)
			continue;
		if (i == ORIGIN_SOFT)
			refused(&states[i], WM_E_TRAIL_ASKED, "a translator never sees the kernel");
		else if (around.paranoid > PARANOID_KERNEL_MAX && !around.has_capability)
			refused(&states[i], WM_E_PERF_DENIED,
				PERF_PARANOID
				" is %ld, and at most %d is needed for the kernel's branches",
				around.paranoid, PARANOID_KERNEL_MAX);
	}
}

int origin_best(const struct origin_state states[ORIGINS])
{
	for (int i = 0; i < ORIGINS; i++)
		if (!states[i].error)
			return i;
	return -1;
}

const char *origin_name(enum origin origin)
{
	return texts[origin].name;
}

enum trail_origin origin_kind(enum origin origin)
{
	return texts[origin].kind;
}
