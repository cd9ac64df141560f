/* SPDX-License-Identifier: MIT */
#include "target/process/launch.h"
#include "target/process/program.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

static char path[128];

static void set_up(void)
{
	folder_make();
	chmod(folder, 0755);
	snprintf(path, sizeof(path), "%s/program", folder);
}

TestSuite(launch, .init = set_up, .fini = folder_remove, .timeout = 60);

static void put_file(const void *bytes, size_t count, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
}

static void put_text(const char *text)
{
	put_file(text, strlen(text), 0755);
}

static void copy_file(const char *from, mode_t mode)
{
	char command[512];

	snprintf(command, sizeof(command), "cp %s %s && chmod %o %s", from, path,
		 (unsigned int)mode, path);
	cr_assert_eq(system(command), 0);
}

static int find(const char *name)
{
	struct program program;

	return program_find(&program, name);
}

Test(launch, find_searches_path)
{
	struct program program;

	cr_assert_eq(program_find(&program, "sleep"), 0);
	cr_assert_eq(program.path[0], '/');
	cr_assert_eq(find("no-such-program-here"), -ENOENT);
	cr_assert_eq(find("/no/such/program"), -ENOENT);
	cr_assert_eq(find(""), -ENOENT);
}

Test(launch, find_file_without_execute_bit_returns_eacces)
{
	put_file("#!/bin/sh\n", 10, 0644);
	cr_assert_eq(find(path), -EACCES);
	cr_assert_eq(find(folder), -EACCES);
	setenv("PATH", folder, 1);
	cr_assert_eq(find("program"), -EACCES);
}

Test(launch, find_script_checks_its_interpreter)
{
	struct program program;

	put_text("#! /bin/sh -e\n");
	cr_assert_eq(program_find(&program, path), 0);
	cr_assert_str_eq(program.path, path);
	cr_assert_str_eq(program.binary, "/bin/sh");
	put_text("#!/no/such/interpreter\n");
	cr_assert_eq(find(path), -ENOENT);
	put_text("no program at all\n");
	cr_assert_eq(find(path), -WM_E_NOT_ELF);
	{
		char self[160];

		snprintf(self, sizeof(self), "#!%s\n", path);
		put_text(self);
		cr_assert_eq(find(path), -ELOOP);
	}
}

static void put_header(unsigned char class, uint16_t machine)
{
	Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', class, ELFDATA2LSB, EV_CURRENT } };

	elf.e_type = ET_EXEC;
	elf.e_machine = machine;
	elf.e_version = EV_CURRENT;
	elf.e_ehsize = sizeof(elf);
	elf.e_phentsize = sizeof(Elf64_Phdr);
	put_file(&elf, sizeof(elf), 0755);
}

Test(launch, find_refuses_foreign_architectures)
{
	put_header(ELFCLASS32, EM_386);
	cr_assert_eq(find(path), -WM_E_FOREIGN_ARCH);
	put_header(ELFCLASS64, EM_AARCH64);
	cr_assert_eq(find(path), -WM_E_FOREIGN_ARCH);
}

Test(launch, find_refuses_static_program)
{
	char command[300];

	snprintf(command, sizeof(command),
		 "echo 'int main(void) { return 0; }' | cc -static -x c - -o %s 2>/dev/null", path);
	if (system(command) != 0)
		cr_skip_test("no compiler, or no static C library");
	cr_assert_eq(find(path), -WM_E_STATIC_PROGRAM);
}

Test(launch, find_refuses_programs_that_gain_privileges)
{
	if (geteuid() != 0)
		cr_skip_test("needs root, to give a file to another user");
	copy_file("/bin/true", 0755);
	cr_assert_eq(chown(path, 65534, 65534), 0);
	cr_assert_eq(chmod(path, 0755), 0);
	cr_assert_eq(find(path), 0);
	cr_assert_eq(chmod(path, 04755), 0);
	cr_assert_eq(find(path), -WM_E_SECURE_PROGRAM);
	cr_assert_eq(chmod(path, 02755), 0);
	cr_assert_eq(find(path), -WM_E_SECURE_PROGRAM);
}

Test(launch, launched_child_gets_environment_and_agent_first)
{
	struct launch_options options = { .agent = "libm.so.6",
					  .tool = "/run/1-2.tool",
					  .prearm = 1 };
	char out[160], script[400], seen[256] = "";
	char *argv[] = { "/bin/sh", "-c", script, NULL };
	pid_t pid;
	FILE *file;
	int status;

	snprintf(out, sizeof(out), "%s/out", folder);
	snprintf(
		script, sizeof(script),
		"echo \"$LD_PRELOAD|$WAYMARK_TOOL|$WAYMARK_PREARM|${WAYMARK_FILTERS:+told}|$MINE\" >%s",
		out);
	setenv("LD_PRELOAD", "libdl.so.2", 1);
	setenv("WAYMARK_TOOL", "stale", 1);
	setenv("MINE", "kept", 1);
	cr_assert_eq(launch_start(&pid, "/bin/sh", argv, &options), 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	file = fopen(out, "r");
	cr_assert_not_null(file);
	cr_assert_not_null(fgets(seen, sizeof(seen), file));
	fclose(file);
	cr_assert_str_eq(seen, "libm.so.6:libdl.so.2|/run/1-2.tool|1|told|kept\n");
}

Test(launch, launch_failed_exec_returns_error_and_leaves_no_child)
{
	struct launch_options options = { .agent = "a", .tool = "t" };
	char *argv[] = { path, NULL };
	pid_t pid;

	put_text("neither ELF nor script\n");
	cr_assert_eq(launch_start(&pid, path, argv, &options), -ENOEXEC);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1);
	cr_assert_eq(errno, ECHILD);
}

/* Launch with a harmless library in place of the agent. */
static int launch_without_agent(char *const argv[])
{
	struct wm_session *session;
	int err;

	setenv("WAYMARK_AGENT", "/lib/x86_64-linux-gnu/libm.so.6", 1);
	if (access(getenv("WAYMARK_AGENT"), R_OK) < 0)
		cr_skip_test("libm is not at the expected path");
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	err = wm_session_launch(session, argv);
	wm_session_close(session);
	return err;
}

Test(launch, launch_program_that_ends_at_once_returns_gone)
{
	char *argv[] = { "true", NULL };

	cr_assert_eq(launch_without_agent(argv), -WM_E_GONE);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "the child was reaped");
}

Test(launch, launch_program_that_never_reports_is_killed)
{
	char *argv[] = { "sleep", "50", NULL };

	cr_assert_eq(launch_without_agent(argv), -WM_E_AGENT_SILENT);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "the child was killed and reaped");
}

Test(launch, launch_without_agent_file_names_it)
{
	char *argv[] = { "true", NULL };
	struct wm_session *session;

	setenv("WAYMARK_AGENT", "/no/such/agent.so", 1);
	cr_assert_eq(wm_session_open(&session, NULL), 0);
	cr_assert_eq(wm_session_launch(session, argv), -WM_E_NO_AGENT);
	cr_assert_str_eq(wm_session_detail(session), "/no/such/agent.so");
	wm_session_close(session);
}
