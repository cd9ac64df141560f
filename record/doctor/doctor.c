/* SPDX-License-Identifier: MIT */
/* This machine: the trials, and the files, policies and limits that no trial names. */
#include "record/doctor/doctor.h"

#include "abi/engine.h"
#include "abi/release.h"
#include "base/elf.h"
#include "record/perf/instance.h"
#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/trail/origin.h"
#include "target/claim/holder.h"
#include "target/process/agentpath.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/trail.h>

#define PERF(level)                                                                                \
	"sysctl kernel.perf_event_paranoid=" level ", or setcap cap_perfmon+ep waymark, or root"
#define TRAIL_BYTES (1u << 20)
#define TRAIL_WAIT_MS 20000

/* ---- the table of trials (target/trial/trial.def) as checks ---- */

/* How to get a permission that the kernel refused, by the trial of that permission. */
static const char *const permits[TRIAL_COUNT] = {
	[TRIAL_PERF_USER] = PERF("2"),
	[TRIAL_PERF_KERNEL] = PERF("1"),
	[TRIAL_PERF_CPU] = PERF("0"),
	[TRIAL_PTRACE_CHILD] = "sysctl kernel.yama.ptrace_scope=1, or root",
	[TRIAL_PTRACE_USER] = "sysctl kernel.yama.ptrace_scope=0, or setcap cap_sys_ptrace+ep "
			      "waymark, or root",
	[TRIAL_MEMFD] = "sysctl vm.memfd_noexec=1",
	[TRIAL_TSC_RATE] = "start waymark from a program that may read it: prctl(2), PR_SET_TSC",
};

/* Whether this process's capabilities count for a user namespace alone, which perf ignores. */
static int has_user_namespace(void)
{
	char text[64] = "";

	/* include/linux/proc_ns.h of Linux */
	return readlink("/proc/self/ns/user", text, sizeof(text) - 1) > 0 &&
	       strcmp(text, "user:[4026531837]") != 0;
}

static int is_refusal(int err)
{
	return err == -EPERM || err == -EACCES || err == -ENOSYS || err == -ECANCELED;
}

/*
 * What to do about an answer that is not TRIAL_WORKS. is_filtered: a seccomp filter may be what
 * refused a call.
 */
static void look_for_remedy(struct check *check, enum trial trial,
			    const struct trial_answer *answer, int is_filtered)
{
	const struct trial_row *row = trial_row(trial);
	const char *permit = permits[row->needs];
	int err = answer->error;

	if (is_filtered && is_refusal(err) && err != -EACCES) {
		check_say(check, check->state, "this process is under a seccomp filter");
		check_change(check, "allow the call in the filter; with Docker: --cap-add "
				    "PERFMON --cap-add SYS_PTRACE");
	} else if (permit && (err == -EPERM || err == -EACCES)) {
		check_change(check, permit);
		if (has_user_namespace())
			check_change(check, "outside of this user namespace");
	} else if (answer->state == TRIAL_FAILS) {
		check_change(check, row->instead);
	} else if (err == -ENOSPC) {
		check_change(check, "end the programs that hold the debug registers");
	} else if (err == -EAGAIN || err == -ETIMEDOUT) {
		check_change(
			check,
			"try again when the machine is less busy; if it fails again, take the mechanism for broken");
	}
}

void doctor_look_trial(struct check *check, enum trial trial, const struct machine *machine)
{
	const struct trial_row *row = trial_row(trial);
	const struct trial_answer *answer = &machine->trials[trial];
	const struct trial_answer *permission = &machine->trials[row->needs];
	char reason[CHECK_BYTES];

	trial_reason(trial, answer, reason, sizeof(reason));
	check->is_basic = row->is_basic;
	check_say(check,
		  answer->state == TRIAL_WORKS	   ? CHECK_FINE
		  : answer->state == TRIAL_UNKNOWN ? CHECK_UNKNOWN
		  : row->is_limit		   ? CHECK_LIMITED
						   : CHECK_ABSENT,
		  "%s", reason + strlen(row->name) + strlen(": "));
	if (answer->state != TRIAL_WORKS) {
		look_for_remedy(check, trial, answer, machine->is_filtered);
	} else if (is_refusal(permission->error)) {
		/* the cache kept it from a command that had the permission */
		trial_reason(row->needs, permission, reason, sizeof(reason));
		check_say(check, CHECK_UNKNOWN, "not in this process: %s", reason);
		look_for_remedy(check, row->needs, permission, machine->is_filtered);
	}
}

void doctor_look_trials(struct check_list *list, const struct machine *machine, const char *area)
{
	for (int i = 0; i < TRIAL_COUNT; i++) {
		const struct trial_row *row = trial_row((enum trial)i);

		if (!strcmp(row->area, area))
			doctor_look_trial(check_add(list, row->area, row->name), (enum trial)i,
					  machine);
	}
}

/*
 * ---- a program is started ----
 *
 * A program started with the agent, or under the engine, to see whether that works. In a process of
 * its own: the program's output is discarded, and a session's changes end with it.
 */

struct launched {
	int error;		 /* 0, -errno or -WM_E_* */
	uint32_t way;		 /* with the agent: enum control_way, which it reported */
	uint64_t branches;	 /* under the engine: how many were recorded */
	char words[CHECK_BYTES]; /* about the error, or "" */
};

static void say(struct launched *launched, int error, const char *words)
{
	launched->error = error;
	snprintf(launched->words, sizeof(launched->words), "%s", words);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* As `waymark record` does it before it arms markers. */
static void launch(struct launched *launched, char *const argv[])
{
	struct wm_session *session;
	int pid = wm_session_open(&session, NULL);

	if (pid < 0) {
		say(launched, pid, "");
		return;
	}
	pid = wm_session_launch(session, argv);
	if (pid < 0)
		say(launched, pid, wm_session_detail(session));
	else if (session->processes)
		launched->way = session->processes->hello.way;
	wm_session_close(session);
	if (pid > 0)
		end(pid);
}

/* Under trail/soft/, to its end. */
static void record(struct launched *launched, char *const argv[])
{
	const struct wm_trail_options options = { .size = sizeof(options),
						  .bytes = TRAIL_BYTES,
						  .cap_bytes = TRAIL_BYTES,
						  .origin = WM_TRAIL_ORIGIN_SOFT };
	struct wm_trail_status status = { .size = sizeof(status) };
	struct wm_trail *trail;
	int pid = wm_trail_launch(&trail, argv, &options);

	if (pid < 0) {
		say(launched, pid, wm_trail_detail(NULL));
		return;
	}
	if (!wm_trail_wait(trail, TRAIL_WAIT_MS))
		say(launched, -ETIMEDOUT, wm_trail_detail(trail));
	wm_trail_status_get(trail, &status);
	launched->branches = status.branches + status.lost;
	if (!launched->error && status.state == WM_TRAIL_STATE_FAILED)
		say(launched, status.error, wm_trail_detail(trail));
	wm_trail_close(trail);
	end(pid);
}

static struct launched apart(char *const argv[],
			     void (*how)(struct launched *launched, char *const argv[]))
{
	struct launched result = { .error = -ENOMEM }, *shared;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return result;
	shared->error = -ECANCELED; /* unless it gets to its end */
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd < 3 && null >= 0; fd++)
			dup2(null, fd);
		result.error = 0;
		how(&result, argv);
		*shared = result;
		_exit(0);
	}
	if (pid < 0)
		shared->error = -errno;
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	result = *shared;
	munmap(shared, sizeof(*shared));
	return result;
}

static void launched_look(struct check_list *list, char *const program[])
{
	struct check *check = check_add(list, "waymark", "preload");
	struct launched launched = { 0 };

	check->is_basic = 1;
	if (!program) {
		check_say(check, CHECK_UNKNOWN, "not tried: /proc/self/exe names no program");
		return;
	}
	launched = apart(program, launch);
	if (launched.error)
		check_error(check, launched.error, launched.words);
	else if (launched.way == WAY_PROC_MEM || launched.way == WAY_MPROTECT)
		check_say(check, CHECK_FINE,
			  "a program was started with the agent, which writes code by %s",
			  launched.way == WAY_PROC_MEM ? "/proc/self/mem" : "mprotect(2)");
	else
		check_say(check, CHECK_LIMITED,
			  "a program was started with the agent, which cannot write code");
	if (check->state == CHECK_LIMITED)
		check_change(check, wm_error_hint(WM_E_NO_TEXT_WRITE));
}

static void launched_look_soft(struct check *check, char *const program[])
{
	struct launched launched = apart(program, record);

	if (!launched.error && launched.branches) {
		check_say(check, CHECK_FINE, "a program was recorded: %" PRIu64 " branches",
			  launched.branches);
		return;
	}
	check->found[0] = '\0';
	check_say(check, CHECK_ABSENT, "a program could not be recorded");
	if (launched.error)
		check_error(check, launched.error, launched.words);
}

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
		look_for_remedy(check, TRIAL_BREAKPOINT_WRITE, &refused, machine->is_filtered);
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
	look_for_remedy(check, TRIAL_BREAKPOINT_WRITE, answer, machine->is_filtered);
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
	doctor_look_trials(list, &machine, "clock");
	look_at_policies(list);
	doctor_look_trials(list, &machine, "code");
	doctor_look_trials(list, &machine, "permissions");
	look_at_origins(list, program);
	doctor_look_trials(list, &machine, "trails");
	check = check_add(list, "watches", "breakpoints");
	check->is_basic = 1;
	doctor_look_registers(check, machine.registers, gettid(), &machine);
	doctor_look_trials(list, &machine, "watches");
	doctor_look_trials(list, &machine, "perf");
	look_at_limits(list);
	doctor_look_trials(list, &machine, "limits");
	return trials_us;
}
