/* SPDX-License-Identifier: MIT */
/*
 * A tool is killed at each call of ptrace(2) and pwrite(2) that an injection makes, whichever
 * process makes it. The program's code must be that of its files again, and the program must
 * continue.
 */
#include "target/process/inject.h"

#include "base/maps.h"
#include "base/testing/await.h"
#include "target/process/testing/subject.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define STEPS_MIN 40 /* an injection has more */
#define STEPS_MAX 400

/* Shared with the tool and what it forks. */
static struct {
	pid_t tool; /* 0: nothing is to be killed */
	int steps, step_at;
	int kept; /* steps that had `held` */
	char detail[512];
} * killing;

static int held = -1; /* a descriptor of the tool's, which is not closed by execve(2) */

static void step(void)
{
	if (!killing || !killing->tool)
		return;
	killing->kept += held >= 0 && fcntl(held, F_GETFD) >= 0;
	if (__atomic_add_fetch(&killing->steps, 1, __ATOMIC_RELAXED) == killing->step_at)
		kill(killing->tool, SIGKILL);
}

long __real_ptrace(int request, pid_t tid, void *address, void *data);
long __wrap_ptrace(int request, pid_t tid, void *address, void *data);
ssize_t __real_pwrite64(int fd, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at);

long __wrap_ptrace(int request, pid_t tid, void *address, void *data)
{
	step();
	return __real_ptrace(request, tid, address, data);
}

ssize_t __wrap_pwrite64(int fd, const void *from, size_t bytes, off_t at)
{
	step();
	return __real_pwrite64(fd, from, bytes, at);
}

/* How many bytes of a file's code are others in memory, also behind it in its last page. */
static int count_changed(const struct map *map, int mem)
{
	int file = open(map->path, O_RDONLY | O_CLOEXEC), count = 0;

	cr_assert_geq(file, 0, "%s", map->path);
	for (uint64_t at = map->start; at < map->end; at += PAGE_BYTES) {
		unsigned char here[PAGE_BYTES], there[PAGE_BYTES] = { 0 };

		cr_assert_eq(pread(mem, here, PAGE_BYTES, (off_t)at), PAGE_BYTES);
		cr_assert_geq(
			pread(file, there, PAGE_BYTES, (off_t)(at - map->start + map->offset)), 0);
		for (int byte = 0; byte < PAGE_BYTES; byte++)
			count += here[byte] != there[byte];
	}
	close(file);
	return count;
}

static int count_all_changed(const struct subject *subject)
{
	struct maps maps;
	int count = 0, mem;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", subject->pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(maps_read(&maps, subject->pid), 0);
	for (size_t i = 0; i < maps.count; i++)
		if (maps.list[i].inode && maps.list[i].prot & PROT_EXEC)
			count += count_changed(&maps.list[i], mem);
	maps_release(&maps);
	close(mem);
	return count;
}

/* Whether the program is our only child: what the tool forked has ended, and came to us. */
static int is_only_child(const struct subject *subject)
{
	char path[64], text[64] = "", own[16];
	int file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(read(file, text, sizeof(text) - 1), 0);
	close(file);
	snprintf(own, sizeof(own), "%d", subject->pid);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		if (strcmp(word, own))
			return waitpid(atoi(word), NULL, WNOHANG) < 0;
	return 1;
}

/* Kill a tool at a step. Returns whether it came to that step. */
static int enter_and_die(struct subject *subject, int step_at)
{
	char agent[PATH_MAX];
	pid_t tool;
	int status;

	subject_file(agent, "libstandin-agent.so");
	*killing = (typeof(*killing)){ .step_at = step_at };
	tool = fork();
	if (!tool) {
		killing->tool = getpid();
		_exit(!!injector_agent(subject->pid, agent, subject->dir, killing->detail,
				       sizeof(killing->detail)));
	}
	cr_assert_eq(waitpid(tool, &status, 0), tool);
	cr_assert(AWAIT(is_only_child(subject)), "step %d: a process stays", step_at);
	cr_assert_eq(count_all_changed(subject), 0, "step %d: code has changed", step_at);
	cr_assert(subject_lives(subject), "step %d: the program has ended", step_at);
	subject_agent_leave(subject);
	if (WIFSIGNALED(status))
		return 1;
	cr_assert_eq(status, 0, "step %d: %s", step_at, killing->detail);
	return 0;
}

static void die_at_each_step(const char *name, const char *argument)
{
	struct subject subject;
	int step_at = 1;

	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	killing = mmap(NULL, sizeof(*killing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	cr_assert_neq(killing, MAP_FAILED);
	subject_start(&subject, name, argument);
	while (step_at < STEPS_MAX && enter_and_die(&subject, step_at))
		step_at++;
	cr_assert_gt(step_at, STEPS_MIN);
	cr_assert_lt(step_at, STEPS_MAX);
	subject_end(&subject);
}

Test(injector, injector_keeps_no_descriptor_of_the_tool)
{
	struct subject subject;

	killing = mmap(NULL, sizeof(*killing), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	held = fcntl(STDIN_FILENO, F_DUPFD, 200);
	cr_assert_geq(held, 0);
	subject_start(&subject, "waits", "poll");
	cr_expect_eq(enter_and_die(&subject, 0), 0);
	cr_expect_gt(killing->steps, STEPS_MIN);
	cr_expect_eq(killing->kept, 0);
	subject_end(&subject);
}

Test(injector, a_tool_that_is_killed_at_any_step_leaves_no_code_in_a_sleeper, .timeout = 120)
{
	die_at_each_step("waits", "poll");
}

Test(injector, a_tool_that_is_killed_at_any_step_leaves_no_code_in_a_busy_loop, .timeout = 120)
{
	die_at_each_step("busy", "0");
}
