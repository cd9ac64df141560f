/* SPDX-License-Identifier: MIT */
#include "target/trial/result_cache.h"
#include "target/trial/simulate.h"
#include "target/trial/trial.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

static char home[64], file[128];

/* A home of the test's own, where nothing is cached. */
static void begin(void)
{
	strcpy(home, "/tmp/waymark-trial-XXXXXX");
	cr_assert(mkdtemp(home));
	snprintf(file, sizeof(file), "%s/.cache/waymark/trials", home);
	setenv("HOME", home, 1);
	unsetenv("XDG_CACHE_HOME");
	unsetenv("WAYMARK_SIMULATE");
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", home);
	cr_assert_eq(system(command), 0);
}

TestSuite(trial, .init = begin, .fini = end);

static struct trial_answer asked(enum trial trial)
{
	struct trial_answer answer;

	trial_ask(trial, &answer);
	return answer;
}

static const char *reason_of(enum trial trial, const struct trial_answer *answer)
{
	static char text[512];

	trial_reason(trial, answer, text, sizeof(text));
	return text;
}

/*
 * A simulated failure is detected; where the mechanism is not to be had at all, there is nothing to
 * detect.
 */
static void expect_failure(enum trial trial)
{
	struct trial_answer answer = asked(trial);

	if (answer.state == TRIAL_UNKNOWN)
		cr_skip_test("%s", reason_of(trial, &answer));
	cr_assert_eq(answer.state, TRIAL_FAILS, "%s", reason_of(trial, &answer));
}

Test(trial, dead_debug_registers_are_detected)
{
	setenv("WAYMARK_SIMULATE", "debug-registers", 1);
	expect_failure(TRIAL_BREAKPOINT_WRITE);
	expect_failure(TRIAL_BREAKPOINT_ACCESS);
	expect_failure(TRIAL_BREAKPOINT_EXECUTE);
	expect_failure(TRIAL_BREAKPOINT_SIGNAL);
	cr_assert_eq(asked(TRIAL_BREAKPOINT_MASKED).state, TRIAL_UNKNOWN);
}

Test(trial, dead_debug_registers_of_cpus_are_detected)
{
	setenv("WAYMARK_SIMULATE", "debug-registers", 1);
	expect_failure(TRIAL_BREAKPOINT_CPU);
}

Test(trial, missing_int80_is_detected)
{
	setenv("WAYMARK_SIMULATE", "int80", 1);
	expect_failure(TRIAL_INT80);
	cr_assert_str_eq(asked(TRIAL_INT80).words, "SIGSEGV");
}

Test(trial, untrusted_tsc_is_detected)
{
	setenv("WAYMARK_SIMULATE", "tsc", 1);
	expect_failure(TRIAL_TSC_TRUSTED);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		expect_failure(TRIAL_TSC_AGREES);
}

Test(trial, names_must_match_whole)
{
	struct trial_answer real = asked(TRIAL_INT80);
	size_t bytes;

	setenv("WAYMARK_SIMULATE", "int80,,tsc", 1);
	cr_assert_null(simulate_unknown(&bytes));
	setenv("WAYMARK_SIMULATE", "int8,xint80,int80x,,", 1);
	cr_assert(!strncmp(simulate_unknown(&bytes), "int8,", 5) && bytes == 4);
	cr_assert_str_eq(asked(TRIAL_INT80).words, real.words);
}

Test(trial, hanging_trial_is_bounded_and_reported)
{
	struct trial_answer answers[TRIAL_COUNT];
	struct timespec before, after;

	setenv("WAYMARK_SIMULATE", "hang", 1);
	clock_gettime(CLOCK_MONOTONIC, &before);
	trial_ask_all(answers);
	clock_gettime(CLOCK_MONOTONIC, &after);
	cr_assert_lt(after.tv_sec - before.tv_sec, 30); /* a hang, not a figure */
	for (int i = 0; i < TRIAL_COUNT; i++) {
		cr_assert_eq(answers[i].state, TRIAL_UNKNOWN);
		cr_assert_eq(answers[i].error, -ETIMEDOUT);
	}
	cr_assert(strstr(reason_of(TRIAL_INT80, &answers[TRIAL_INT80]), "timed out after"));
	cr_assert_eq(waitpid(-1, NULL, __WALL), -1, "a child is left");
	cr_assert_eq(errno, ECHILD);
}

Test(trial, every_trial_answers_and_no_child_is_left)
{
	struct trial_answer answers[TRIAL_COUNT];

	trial_ask_all(answers);
	cr_assert_eq(waitpid(-1, NULL, __WALL), -1);
	cr_assert_eq(errno, ECHILD);
	for (int i = 0; i < TRIAL_COUNT; i++) {
		cr_assert_neq(answers[i].error, -ETIMEDOUT, "%s", trial_row((enum trial)i)->name);
		cr_assert_neq(answers[i].error, -ECANCELED, "%s", trial_row((enum trial)i)->name);
		cr_assert_eq(trial_find(trial_row((enum trial)i)->name), i);
	}
	cr_assert_eq(trial_find("no-such-trial"), -ENOENT);
}

static void on_signal(int number)
{
	(void)number;
}

/* As timeout(1) ends a group whose first process tries something at its end. */
Test(trial, signals_to_process_group_end_no_trial)
{
	struct trial_answer answers[TRIAL_COUNT];
	pid_t child;

	cr_assert(getpgrp() == getpid() || !setpgid(0, 0));
	signal(SIGTERM, on_signal);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGTERM, SIG_IGN);
		for (;;)
			kill(0, SIGTERM);
	}
	trial_ask_all(answers);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int i = 0; i < TRIAL_COUNT; i++)
		cr_assert_neq(answers[i].error, -ECANCELED, "%s", trial_row((enum trial)i)->name);
}

Test(trial, need_names_trial_and_what_it_saw)
{
	char text[256] = "";

	setenv("WAYMARK_SIMULATE", "int80", 1);
	expect_failure(TRIAL_INT80);
	cr_assert_eq(trial_need(TRIAL_INT80, -WM_E_BREAKPOINT_DEAD,
				(struct detail){ text, sizeof(text) }),
		     -WM_E_BREAKPOINT_DEAD);
	cr_assert_str_eq(text, "int80, simulated: SIGSEGV");
}

/* ---- permissions ---- */

/*
 * From here on a call of this process's and its children's is refused with EPERM, or they are
 * killed for it.
 */
static void forbid(unsigned int number, unsigned int action)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(trial, missing_permission_is_unknown_and_never_kept)
{
	struct trial_answer answer, kept[TRIAL_COUNT];

	forbid(SYS_perf_event_open, SECCOMP_RET_ERRNO | EPERM);
	answer = asked(TRIAL_BREAKPOINT_WRITE);
	cr_assert_eq(answer.state, TRIAL_UNKNOWN);
	cr_assert_eq(answer.error, -EPERM);
	asked(TRIAL_INT80); /* writes the cache */
	cr_assert_eq(cache_read(kept) & UINT64_C(1) << TRIAL_BREAKPOINT_WRITE, 0);
}

Test(trial, killed_trial_is_unknown)
{
	struct trial_answer answer;

	forbid(SYS_perf_event_open, SECCOMP_RET_KILL_PROCESS);
	answer = asked(TRIAL_BREAKPOINT_WRITE);
	cr_assert_eq(answer.state, TRIAL_UNKNOWN);
	cr_assert_eq(answer.error, -ECANCELED);
	cr_assert_eq(asked(TRIAL_PERF_USER).state, TRIAL_UNKNOWN);
}

static void expect_refused(enum trial trial, int error, const char *words)
{
	struct trial_answer answer = asked(trial);

	cr_assert_eq(answer.state, TRIAL_FAILS, "%s", reason_of(trial, &answer));
	cr_assert_eq(answer.error, error);
	cr_assert_str_eq(answer.words, words);
}

Test(trial, refused_call_fails_with_its_errno)
{
	forbid(SYS_membarrier, SECCOMP_RET_ERRNO | EPERM);
	expect_refused(TRIAL_MEMBARRIER, -EPERM, "EPERM");
	cr_assert_eq(asked(TRIAL_MEMFD).state, TRIAL_WORKS);
}

Test(trial, refused_ptrace_fails)
{
	forbid(SYS_ptrace, SECCOMP_RET_ERRNO | ENOSYS);
	expect_refused(TRIAL_PTRACE_CHILD, -ENOSYS, "ENOSYS");
	expect_refused(TRIAL_PTRACE_USER, -ENOSYS, "ENOSYS");
	cr_assert_eq(waitpid(-1, NULL, __WALL), -1, "a child is left");
}

Test(trial, file_size_limit_fails_memfd)
{
	signal(SIGXFSZ, SIG_DFL); /* Python, which runs the tests, ignores it */
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 }), 0);
	expect_refused(TRIAL_MEMFD, -EFBIG, "EFBIG");
}

Test(trial, file_size_limit_leaves_cache_unwritten)
{
	signal(SIGXFSZ, SIG_DFL);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 }), 0);
	cr_assert_neq(asked(TRIAL_INT80).state, TRIAL_UNKNOWN);
	cr_assert_eq(access(file, F_OK), -1);
}

Test(trial, permission_is_tried_again_by_each_process)
{
	struct trial_answer kept[TRIAL_COUNT];
	uint64_t rows;

	cr_assert_eq(asked(TRIAL_MEMFD).state, TRIAL_WORKS);
	asked(TRIAL_INT80); /* writes the cache */
	rows = cache_read(kept);
	cr_assert(rows & UINT64_C(1) << TRIAL_INT80);
	cr_assert_eq(rows & UINT64_C(1) << TRIAL_MEMFD, 0);
}

/* ---- the cache ---- */

/* What no machine says, so that it can only come from the cache. */
static const char mark[] = "a mark";

static void cache_make(void)
{
	struct trial_answer answers[TRIAL_COUNT] = { 0 };

	answers[TRIAL_INT80].state = TRIAL_FAILS;
	strcpy(answers[TRIAL_INT80].words, mark);
	cr_assert_eq(cache_write(answers), 0);
}

static size_t file_text(char text[4096])
{
	int fd = open(file, O_RDONLY);
	ssize_t got = read(fd, text, 4095);

	cr_assert_gt(got, 0);
	text[got] = '\0';
	close(fd);
	return (size_t)got;
}

/* Replace the file's text; with a right sum if asked. */
static void file_put(char *text, int is_summed)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	char *last = strstr(text, "\nsum ");
	FILE *to = fopen(file, "w");

	if (is_summed) {
		cr_assert(last);
		last[1] = '\0';
		for (const char *at = text; *at; at++)
			sum = (sum ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	}
	cr_assert(to);
	fputs(text, to);
	if (is_summed)
		fprintf(to, "sum %016llx\n", (unsigned long long)sum);
	fclose(to);
}

static void expect_used(int is_used)
{
	struct trial_answer answer = asked(TRIAL_INT80);

	cr_assert_eq(!strcmp(answer.words, mark), is_used, "%s", answer.words);
}

Test(trial, cached_result_is_used)
{
	cache_make();
	expect_used(1);
}

Test(trial, asking_again_tries_and_replaces_cached_result)
{
	struct trial_answer answer;
	char text[4096];

	cache_make();
	trial_ask_again(TRIAL_INT80, &answer);
	cr_assert_str_neq(answer.words, mark);
	file_text(text);
	cr_assert(!strstr(text, mark));
}

/* One line of the file reads otherwise, with a right sum. */
static void change_line(const char *begins, const char *with)
{
	char text[4096], changed[4096], *at, *end_of;

	cache_make();
	file_text(text);
	at = strstr(text, begins);
	cr_assert(at);
	end_of = strchr(at, '\n');
	cr_assert(end_of);
	snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, with, end_of);
	file_put(changed, 1);
}

Test(trial, unchanged_line_keeps_cache_valid)
{
	char line[64];

	snprintf(line, sizeof(line), "user %u", geteuid());
	change_line("user ", line);
	expect_used(1);
}

Test(trial, cache_of_another_boot_is_ignored)
{
	change_line("boot ", "boot 00000000-0000-0000-0000-000000000000");
	expect_used(0);
}

Test(trial, cache_of_another_kernel_is_ignored)
{
	change_line("kernel ", "kernel 2.6.18 #1");
	expect_used(0);
}

Test(trial, cache_of_another_user_is_ignored)
{
	change_line("user ", "user 12345");
	expect_used(0);
}

Test(trial, cache_of_another_build_is_ignored)
{
	change_line("int80 ", "int81 fails a mark");
	expect_used(0);
}

Test(trial, torn_cache_is_ignored)
{
	char text[4096];
	size_t bytes;

	cache_make();
	bytes = file_text(text);
	for (size_t cut = 0; cut < bytes; cut++) {
		struct trial_answer answers[TRIAL_COUNT];
		char part[4096];

		snprintf(part, sizeof(part), "%.*s", (int)cut, text);
		file_put(part, 0);
		cr_assert_eq(cache_read(answers), 0, "cut at %zu of %zu", cut, bytes);
	}
	expect_used(0);
}

Test(trial, flipped_byte_is_ignored)
{
	struct trial_answer answers[TRIAL_COUNT];
	char text[4096];
	size_t bytes;

	cache_make();
	bytes = file_text(text);
	for (size_t i = 0; i < bytes; i++) {
		text[i] ^= 1;
		file_put(text, 0);
		cr_assert_eq(cache_read(answers), 0, "byte %zu", i);
		text[i] ^= 1;
	}
}

Test(trial, file_that_others_may_write_is_ignored)
{
	cache_make();
	cr_assert_eq(chmod(file, 0666), 0);
	expect_used(0);
}

Test(trial, folder_that_others_may_write_is_ignored)
{
	cache_make();
	*strrchr(file, '/') = '\0';
	cr_assert_eq(chmod(file, 0777), 0);
	expect_used(0);
}

Test(trial, linked_file_is_ignored)
{
	char elsewhere[128];

	cache_make();
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", home);
	cr_assert_eq(rename(file, elsewhere), 0);
	cr_assert_eq(symlink(elsewhere, file), 0);
	expect_used(0);
}

Test(trial, pipe_in_place_of_cache_is_ignored)
{
	cache_make();
	cr_assert_eq(unlink(file), 0);
	cr_assert_eq(mkfifo(file, 0600), 0);
	expect_used(0);
}

Test(trial, file_of_another_owner_is_ignored)
{
	if (geteuid())
		cr_skip_test("only root can give a file away");
	cache_make();
	cr_assert_eq(chown(file, 12345, 12345), 0);
	expect_used(0);
}

Test(trial, cache_folder_is_xdgs_where_it_is_named)
{
	char folder[80];

	snprintf(folder, sizeof(folder), "%s/xdg", home);
	setenv("XDG_CACHE_HOME", folder, 1);
	cache_make();
	snprintf(file, sizeof(file), "%s/waymark/trials", folder);
	cr_assert_eq(access(file, R_OK), 0);
	expect_used(1);
}

Test(trial, without_folder_trials_run_each_time)
{
	unsetenv("HOME");
	expect_used(0);
	cr_assert_neq(asked(TRIAL_INT80).state, TRIAL_UNKNOWN);
}

Test(trial, simulated_result_is_never_kept)
{
	struct trial_answer answers[TRIAL_COUNT];

	setenv("WAYMARK_SIMULATE", "int80", 1);
	trial_ask_all(answers);
	cr_assert_eq(access(file, F_OK), -1);
}

Test(trial, simulation_ignores_cache)
{
	cache_make();
	setenv("WAYMARK_SIMULATE", "tsc", 1);
	expect_used(0);
}
