/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/subject.h"

#include "base/testing/await.h"
#include "record/trail/trail.h"
#include "target/code/file.h"
#include "target/code/symbol.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <waymark/error.h>

static const char no_engine[] = "/nowhere";

/* By single steps, where nothing else is said. */
__attribute__((constructor)) static void engine_hide(void)
{
	setenv("WAYMARK_ENGINE", no_engine, 1);
}

const struct wm_trail_options *subject_by_steps(const struct wm_trail_options *options)
{
	static struct wm_trail_options with;

	if (strcmp(getenv("WAYMARK_ENGINE"), no_engine) != 0 || (options && options->origin))
		return options;
	with = options ? *options : (struct wm_trail_options)WM_TRAIL_OPTIONS_INIT;
	if (!options)
		with.flags = WM_TRAIL_FLAG_SIGNALS | WM_TRAIL_FLAG_SYSCALLS;
	with.origin = TRAIL_ORIGIN_ORACLE;
	return &with;
}

struct wm_trail *trail;
pid_t child;

void subject_end(void)
{
	wm_trail_close(trail);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

void subject_launch_of(const char *program, const char *mode,
		       const struct wm_trail_options *options)
{
	char *argv[] = { (char *)program, (char *)mode, NULL };
	int pid = wm_trail_launch(&trail, argv, subject_by_steps(options));

	cr_assert_gt(pid, 0, "%s: %s", wm_error_text(pid), wm_trail_detail(NULL));
	child = pid;
}

void subject_launch(const char *mode, const struct wm_trail_options *options)
{
	subject_launch_of(PROGRAM, mode, options);
}

/* Its end, as wait(2) has it. */
int subject_ended(void)
{
	int status = 0;

	cr_assert_eq(wm_trail_wait(trail, WAIT_MS), 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	child = 0;
	return status;
}

uint64_t subject_ticks(pid_t pid)
{
	unsigned long user = 0, kernel = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			    &user, &kernel),
		     2);
	fclose(file);
	return user + kernel;
}

void subject_runs_on(pid_t pid)
{
	uint64_t before = subject_ticks(pid);

	cr_assert(AWAIT(subject_ticks(pid) >= before + 2), "process %d does not run", pid);
}

struct wm_branch subject_get(uint64_t index)
{
	struct wm_branch branch = { .size = sizeof(branch) };
	int got = wm_trail_get(trail, 0, index, &branch);

	cr_assert_eq(got, 1, "%d", got);
	return branch;
}

struct wm_trail_status subject_status(void)
{
	struct wm_trail_status status = { .size = sizeof(status) };

	cr_assert_eq(wm_trail_status_get(trail, &status), 0);
	return status;
}

uint64_t subject_address(const char *program, const char *name)
{
	struct code_file *file;
	uint64_t address = 0;

	cr_assert_eq(code_file_open(&file, program), 0);
	cr_assert_eq(code_symbol_value(file, name, &address), 0, "%s", name);
	code_file_close(file);
	return address;
}

int subject_keep(const struct wm_branch *branch, void *data)
{
	struct subject_drained *drained = data;

	if (drained->count == drained->room) {
		drained->room = drained->room ? 2 * drained->room : 64;
		drained->all = reallocarray(drained->all, drained->room, sizeof(*branch));
	}
	drained->all[drained->count++] = *branch;
	return drained->most && drained->count == drained->most ? 42 : 0;
}

void subject_same(const struct wm_branch *a, const struct wm_branch *b)
{
	cr_assert_eq(a->from, b->from);
	cr_assert_eq(a->to, b->to);
	cr_assert_eq(a->last, b->last);
	cr_assert_eq(a->flags, b->flags);
	cr_assert_eq(a->event, b->event);
	cr_assert_eq(a->instructions, b->instructions);
	cr_assert_eq(a->tid, b->tid);
	cr_assert_eq(a->monotonic_ns, b->monotonic_ns);
}
