/* SPDX-License-Identifier: MIT */
/* This machine: the trials, and the files, policies and limits that no trial names. */
#include "record/doctor/doctor.h"

#include "abi/engine.h"
#include "abi/release.h"
#include "base/elf.h"
#include "record/perf/instance.h"
#include "record/perf/object.h"
#include "record/trail/origin.h"
#include "target/claim/holder.h"
#include "target/process/agentpath.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

int doctor_is_filtered(void)
{
	return target_status_number(getpid(), "Seccomp") > 0;
}

/* ---- Waymark itself ---- */

static void look_at_sockets(struct check_list *list)
{
	struct check *check = check_add(list, "waymark", "sockets");
	char dir[SOCKETDIR_BYTES];
	int err = socket_place_own(dir);

	check->is_basic = 1;
	if (!err && access(dir, W_OK | X_OK))
		err = -errno;
	if (!err)
		check_say(check, CHECK_FINE, "%s, for this user alone", dir);
	else
		check_error(check, err, dir);
	if (err && !check->change[0])
		check_change(check, "set XDG_RUNTIME_DIR to a folder that this user can write");
}

/* Whether it is of the same release as this command. */
static void look_at_release(struct check *check, const char *path)
{
	char text[RELEASE_BYTES_MAX];
	struct elf elf;
	int err = elf_open(&elf, path);

	if (!err)
		err = elf_release_text(&elf, text, sizeof(text));
	elf_release(&elf);
	if (!err && !strcmp(text, RELEASE_TEXT)) {
		check_say(check, CHECK_FINE, "%s, version %s", path, WAYMARK_VERSION);
		return;
	}
	if (!err || err == -ENOENT)
		check_say(check, CHECK_LIMITED, "%s is %s, and this command is %s", path,
			  err ? "of an unknown version" : text, RELEASE_TEXT);
	else
		check_error(check, err, path);
	check_change(check, "install both from one build");
}

static void look_at_file(struct check_list *list, const char *name,
			 int (*find)(char path[PATH_MAX]), int cause)
{
	struct check *check = check_add(list, "waymark", name);
	char path[PATH_MAX];

	check->is_basic = 1;
	if (find(path))
		check_error(check, cause, path);
	else
		look_at_release(check, path);
}

/* ---- what may forbid what trials try ---- */

/* The first line of a file; "" where it cannot be read. */
static void line_of(const char *path, char line[256])
{
	FILE *file = fopen(path, "re");

	line[0] = '\0';
	if (!file)
		return;
	if (fgets(line, 256, file))
		line[strcspn(line, "\n")] = '\0';
	fclose(file);
}

static void look_at_policies(struct check_list *list)
{
	struct check *check = check_add(list, "code", "policies");
	char line[256];

	check->state = CHECK_FINE;
	line_of("/sys/fs/selinux/enforce", line);
	if (atoi(line)) {
		check_say(check, CHECK_LIMITED, "SELinux enforces its rules");
		check_change(check, "ausearch -m avc shows what it refused");
	}
	line_of("/proc/self/attr/current", line);
	if (strstr(line, "(enforce)")) {
		check_say(check, CHECK_LIMITED, "AppArmor enforces the profile %s", line);
		check_change(check, "aa-complain, or a profile that allows ptrace");
	}
	if (check->state == CHECK_FINE)
		check_say(check, CHECK_FINE, "none that enforces");
}

_Static_assert(ENGINE_ADDRESS_BYTES == UINT64_C(35) << 30, "as the words below say");

static const struct {
	const char *name;
	int resource;
	uint64_t unit, enough;
	const char *words, *change;
} limits[] = {
	{ "open files", RLIMIT_NOFILE, 1, 1025,
	  "(RLIMIT_NOFILE); a watch takes one for each thread and register", "ulimit -n 65536" },
	{ "locked memory", RLIMIT_MEMLOCK, 1 << 10, 64 << 10,
	  "KiB (RLIMIT_MEMLOCK); trails in memory take it", "ulimit -l unlimited" },
	{ "addresses", RLIMIT_AS, 1 << 20, 2 * ENGINE_ADDRESS_BYTES,
	  "MiB (RLIMIT_AS); trail/soft/ maps 35 GiB", "ulimit -v unlimited" },
	{ "file size", RLIMIT_FSIZE, 1 << 10, RLIM_INFINITY,
	  "KiB (RLIMIT_FSIZE); stores of events and traces are files", "ulimit -f unlimited" },
};

static void look_at_limits(struct check_list *list)
{
	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct check *check = check_add(list, "limits", limits[i].name);
		struct rlimit limit = { 0, 0 };

		getrlimit((__rlimit_resource_t)limits[i].resource, &limit);
		if (limit.rlim_cur == RLIM_INFINITY)
			check_say(check, CHECK_FINE, "unlimited");
		else
			check_say(check,
				  limit.rlim_cur >= limits[i].enough ? CHECK_FINE : CHECK_LIMITED,
				  "%" PRIu64 " %s", (uint64_t)limit.rlim_cur / limits[i].unit,
				  limits[i].words);
		if (check->state == CHECK_LIMITED)
			check_change(check, limits[i].change);
	}
}

/* ---- origins and registers ---- */

static void look_at_origins(struct check_list *list, char *const program[])
{
	const struct origin_machine here = { 0 };
	struct origin_state states[ORIGINS];
	int best;

	origins_look(states, &here);
	best = origin_best(states);
	for (int i = 0; i < ORIGINS; i++) {
		struct check *check = check_add(list, "trails", origin_name((enum origin)i));

		check->is_basic = i == ORIGIN_SOFT;
		if (states[i].error) {
			check_error(check, states[i].error, states[i].detail);
			continue;
		}
		check_say(check, CHECK_FINE, "%s",
			  i == best ? "trail/auto/ takes it" : "it can be had");
		if (i == ORIGIN_SOFT && program)
			launched_look_soft(check, program);
	}
}

void doctor_look_registers(struct check *check, int count, pid_t tid, const struct machine *machine)
{
	const struct trial_answer refused = { .error = count };
	const struct trial_answer *answer = &machine->trials[TRIAL_BREAKPOINT_WRITE];
	const struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, tid, -1 };
	const int all = EVENT_SOURCES_MAX;
	char words[256] = "";

	if (count < 0) {
		check_say(check, CHECK_ABSENT, "perf_event_open(2): %s", wm_error_name(count));
		trials_look_remedy(check, TRIAL_BREAKPOINT_WRITE, &refused, machine->is_filtered);
		return;
	}
	check_say(check,
		  !count	? CHECK_ABSENT
		  : count < all ? CHECK_LIMITED
				: CHECK_FINE,
		  "%d of the processor's %d can be had", count, all);
	if (count < all) {
		claim_holder_text(&wanted, words, sizeof(words));
		check_say(check, check->state, "others hold %d; %s", all - count, words);
		check_change(check, "end what holds them: perf, a debugger, another session");
	}
	if (!count || answer->state == TRIAL_WORKS)
		return;
	trial_reason(TRIAL_BREAKPOINT_WRITE, answer, words, sizeof(words));
	check_say(check, answer->state == TRIAL_FAILS ? CHECK_ABSENT : CHECK_UNKNOWN, "%s", words);
	trials_look_remedy(check, TRIAL_BREAKPOINT_WRITE, answer, machine->is_filtered);
}

uint64_t doctor_look(struct check_list *list, char *const program[])
{
	/*
	 * The registers come first: where our thread inherited breakpoints and has children that
	 * ended, Linux counts those breakpoints as free (instance_keeps_place()), and trials are
	 * such children.
	 */
	struct machine machine = { .registers = instance_free_registers(gettid(), -1),
				   .is_filtered = doctor_is_filtered() };
	uint64_t trials_us = trial_ask_all(machine.trials);
	struct check *check;

	look_at_sockets(list);
	look_at_file(list, "agent", agentpath_find, WM_E_NO_AGENT);
	look_at_file(list, "engine", agentpath_find_engine, WM_E_NO_ENGINE);
	launched_look(list, program);
	trials_look(list, &machine, "clock");
	look_at_policies(list);
	trials_look(list, &machine, "code");
	trials_look(list, &machine, "permissions");
	look_at_origins(list, program);
	trials_look(list, &machine, "trails");
	check = check_add(list, "watches", "breakpoints");
	check->is_basic = 1;
	doctor_look_registers(check, machine.registers, gettid(), &machine);
	trials_look(list, &machine, "watches");
	trials_look(list, &machine, "perf");
	look_at_limits(list);
	trials_look(list, &machine, "limits");
	return trials_us;
}
