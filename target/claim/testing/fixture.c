/* SPDX-License-Identifier: MIT */
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

char fixture_runtime[64], fixture_folder[96], fixture_file[128];

void fixture_setup(void)
{
	snprintf(fixture_runtime, sizeof(fixture_runtime), "/tmp/waymark-claims-XXXXXX");
	cr_assert(mkdtemp(fixture_runtime));
	snprintf(fixture_folder, sizeof(fixture_folder), "%s/waymark", fixture_runtime);
	setenv("XDG_RUNTIME_DIR", fixture_runtime, 1);
}

size_t fixture_files(void)
{
	DIR *dir = opendir(fixture_folder);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(fixture_file, sizeof(fixture_file), "%s/%.24s", fixture_folder,
			 entry->d_name);
		count++;
	}
	if (dir)
		closedir(dir);
	return count;
}

void fixture_teardown(void)
{
	while (fixture_files())
		cr_assert_eq(remove(fixture_file), 0);
	rmdir(fixture_folder);
	cr_expect_eq(rmdir(fixture_runtime), 0, "something else was left there");
}

struct claim fixture_claim(pid_t pid, uint64_t count, uint64_t address, const char *what)
{
	struct claim claim = { .resource = CLAIM_DEBUG_REGISTER,
			       .scope = CLAIM_OF_PROCESS,
			       .target = pid,
			       .count = count,
			       .address = address };

	snprintf(claim.what, sizeof(claim.what), "%s", what);
	return claim;
}

struct claim_list fixture_rows_of(pid_t owner)
{
	struct claim_list list = { 0 };
	size_t kept = 0;

	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	for (size_t i = 0; i < list.count; i++)
		if (list.rows[i].owner.pid == owner)
			list.rows[kept++] = list.rows[i];
	list.count = kept;
	return list;
}

size_t fixture_count_of(pid_t owner)
{
	struct claim_list list = fixture_rows_of(owner);
	size_t count = list.count;

	claim_list_release(&list);
	return count;
}

pid_t fixture_owner(void (*act)(struct ledger *ledger))
{
	struct ledger *ledger;
	char byte, path[256];
	int ends[2];
	pid_t pid, parent = getpid();

	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no child behind */
		close(ends[0]);
		if (getppid() != parent)
			_exit(1);
		if (ledger_new(&ledger))
			_exit(1);
		act(ledger);
		if (ledger_trouble(ledger, path, sizeof(path)))
			_exit(1);
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 1, "the owner failed");
	close(ends[0]);
	return pid;
}

void fixture_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
}
