/* SPDX-License-Identifier: MIT */
/*
 * Ledgers that can't be had, that others spoil, and that are another user's: a recording reports
 * it, and never fails.
 */
#include "target/claim/ledger_file.h"
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(ledger_file, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

static struct ledger *ledger;
static uint64_t id;

/* Claim one; what trouble there is. */
static int claim_one(void)
{
	struct claim claim = fixture_claim(getpid(), 1, 7, "watch:x");
	char path[256] = "";
	int err;

	if (!ledger)
		cr_assert_eq(ledger_new(&ledger), 0);
	cr_expect_eq(ledger_claim(ledger, &claim, 1, &id), 0);
	cr_expect_neq(id, 0);
	err = ledger_trouble(ledger, path, sizeof(path));
	cr_expect(!err || path[0], "it does not say where");
	cr_expect_eq(ledger_trouble(ledger, path, sizeof(path)), 0, "it is told twice");
	ledger_confirm(ledger, &id, 1);
	return err;
}

Test(ledger_file, the_folder_and_the_file_are_the_users_alone)
{
	struct stat found;

	umask(0);
	cr_expect_eq(claim_one(), 0);
	cr_assert_eq(stat(fixture_folder, &found), 0);
	cr_expect_eq(found.st_mode & 07777, 0700);
	cr_assert_eq(fixture_files(), 1);
	cr_assert_eq(lstat(fixture_file, &found), 0);
	cr_expect_eq(found.st_mode & 07777, 0600);
	ledger_free(ledger);
	cr_expect_eq(fixture_files(), 0, "freed, and its file stays");
}

static void *hold_lock(const char *path)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR);

	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &all), 0);
	return NULL; /* fd stays open, and the file counts */
}

/* What a user can put into the folder that root reads, or an owner's remains. */
Test(ledger_file, whatever_else_has_such_a_name_is_no_ledger)
{
	static const char *const names[] = { "noise", "empty",	"huge", "link",
					     "pipe",  "folder", "other" };
	char path[7][160], noise[1000], outside[128];
	struct claim_list list;
	struct stat found;
	int fd;

	cr_assert_eq(mkdir(fixture_folder, 0700), 0);
	for (size_t i = 0; i < 7; i++)
		snprintf(path[i], sizeof(path[i]), "%s/%s.claims", fixture_folder, names[i]);
	snprintf(outside, sizeof(outside), "%s/outside", fixture_runtime);
	memset(noise, 0x5a, sizeof(noise));
	for (size_t i = 0; i < 3; i++) {
		fd = open(path[i], O_RDWR | O_CREAT, 0600);
		cr_assert_eq(i ? 0 : write(fd, noise, sizeof(noise)), i ? 0 : sizeof(noise));
		close(fd);
	}
	cr_assert_eq(truncate(path[2], (off_t)1 << 40), 0);
	for (size_t i = 0; i < 3; i++)
		hold_lock(path[i]);
	fd = open(outside, O_RDWR | O_CREAT, 0600);
	close(fd);
	cr_assert_eq(symlink(outside, path[3]), 0);
	cr_assert_eq(mkfifo(path[4], 0600), 0);
	cr_assert_eq(mkdir(path[5], 0700), 0);
	cr_expect_eq(claim_one(), 0);
	list = fixture_rows_of(getpid());
	cr_expect_eq(list.count, 1);
	cr_expect_eq(list.damaged, 4, "%zu: noise, a link, a pipe, a folder", list.damaged);
	claim_list_release(&list);
	cr_expect_eq(stat(outside, &found), 0, "a link was followed, and its target removed");
	ledger_free(ledger);
	unlink(outside);
}

/* Root reads what any user writes. */
Test(ledger_file, a_folder_of_noise_is_read_within_bounds)
{
	char path[160], noise[LEDGER_ROW_BYTES];
	struct ledger_head head = { .pid = 1 };
	struct ledger_file file[4];
	struct claim_list list = { 0 };

	memset(noise, 0x5a, sizeof(noise));
	for (size_t i = 0; i < 4; i++) {
		cr_assert_eq(ledger_file_make(&file[i], fixture_folder, geteuid(), &head), 0);
		for (size_t row = 1; row < 100; row++)
			cr_assert_eq(pwrite(file[i].fd, noise, sizeof(noise),
					    (off_t)row * LEDGER_ROW_BYTES),
				     LEDGER_ROW_BYTES);
	}
	for (size_t i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "%s/%zu.claims", fixture_folder, i);
		cr_assert_eq(symlink("/dev/zero", path), 0);
	}
	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	cr_expect_leq(list.damaged, 2 * LEDGER_DAMAGED_MAX, "%zu", list.damaged);
	cr_expect_geq(list.damaged, LEDGER_DAMAGED_MAX);
	claim_list_release(&list);
	for (size_t i = 0; i < 4; i++)
		ledger_file_end(&file[i], geteuid());
}

Test(ledger_file, a_file_that_was_removed_is_made_again)
{
	struct claim_list list;

	cr_expect_eq(claim_one(), 0);
	fixture_files();
	unlink(fixture_file);
	cr_expect_eq(fixture_count_of(getpid()), 0);
	cr_expect_eq(claim_one(), 0);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 2, "both of them");
	cr_expect_eq(list.rows[0].state, CLAIM_HELD, "the first is as it was");
	claim_list_release(&list);
	/* with its folder */
	fixture_files();
	unlink(fixture_file);
	rmdir(fixture_folder);
	ledger_mend(ledger);
	cr_expect_eq(fixture_count_of(getpid()), 2);
	ledger_free(ledger);
}

/* Between its create and its lock. */
static void sweep_it(enum ledger_step step)
{
	struct ledger *other;
	uint64_t ids;
	struct claim claim = fixture_claim(getpid(), 1, 8, "watch:other");

	if (step != LEDGER_LOCKING)
		return;
	ledger_at = NULL;
	cr_assert_eq(ledger_new(&other), 0);
	cr_assert_eq(ledger_claim(other, &claim, 1, &ids), 0);
	cr_assert_eq(fixture_files(), 1, "it was not swept");
	ledger_free(other);
}

Test(ledger_file, one_that_a_sweep_overtakes_makes_another)
{
	ledger_at = sweep_it;
	cr_expect_eq(claim_one(), 0);
	cr_expect_null(ledger_at);
	cr_expect_eq(fixture_count_of(getpid()), 1);
	ledger_free(ledger);
}

/* A sweep that is stopped in the middle has the dead claimant's file locked. */
Test(ledger_file, one_that_a_sweep_is_about_to_remove_does_not_count)
{
	struct flock of_a_sweep = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 2 };
	pid_t pid = fork();
	struct claim_list list;
	int fd;

	if (!pid) {
		claim_one();
		raise(SIGKILL);
	}
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(fixture_files(), 1);
	fd = open(fixture_file, O_RDWR);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &of_a_sweep), 0);
	list = fixture_rows_of(pid);
	cr_expect_eq(list.count, 0, "%zu claims of who is dead", list.count);
	cr_expect_eq(list.damaged, 0);
	claim_list_release(&list);
	close(fd);
}

Test(ledger_file, a_folder_that_is_open_to_others_is_not_used)
{
	cr_assert_eq(mkdir(fixture_folder, 0700), 0);
	cr_assert_eq(chmod(fixture_folder, 0755), 0);
	claim_one(); /* in another folder, if this user has one */
	cr_expect_eq(fixture_files(), 0);
	ledger_free(ledger);
}

/* A limit on files' sizes, which the kernel would answer by a signal that kills. */
Test(ledger_file, a_limit_on_files_kills_nobody)
{
	struct rlimit limit = { 200, RLIM_INFINITY };

	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(claim_one(), -EFBIG);
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	ledger_mend(ledger);
	cr_expect_eq(fixture_count_of(getpid()), 1);
	ledger_free(ledger);
}

/* As on file systems that need room even to overwrite. */
Test(ledger_file, what_can_not_be_wiped_does_not_count)
{
	struct claim claims[2] = { fixture_claim(getpid(), 1, 1, "watch:a"),
				   fixture_claim(getpid(), 1, 2, "watch:b") };
	struct rlimit limit = { 100, RLIM_INFINITY };
	struct claim_list list;
	uint64_t ids[2];
	char path[256];

	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, claims, 2, ids);
	setrlimit(RLIMIT_FSIZE, &limit);
	ledger_remove(ledger, &ids[0], 1);
	cr_expect_eq(ledger_trouble(ledger, path, sizeof(path)), -EFBIG);
	cr_expect_eq(fixture_count_of(getpid()), 0, "a claim is stuck");
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	ledger_mend(ledger);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1, "the other is lost");
	cr_expect_str_eq(list.rows[0].claim.what, "watch:b");
	claim_list_release(&list);
	ledger_free(ledger);
}

#define ROWS_OF_A_PAGE 15 /* the first, beside the head */

Test(ledger_file, a_full_disk_is_told_once)
{
	struct claim claims[40];
	uint64_t ids[40];
	char path[256], filler[160];
	int fd;

	if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("waymark", fixture_runtime, "tmpfs", 0, "size=64k,mode=0700"))
		fixture_skip("no file system can be mounted here");
	cr_expect_eq(claim_one(), 0);
	fixture_files();
	snprintf(filler, sizeof(filler), "%s/filler", fixture_runtime);
	fd = open(filler, O_WRONLY | O_CREAT, 0600);
	while (write(fd, path, sizeof(path)) > 0)
		;
	for (uint64_t i = 0; i < 40; i++)
		claims[i] = fixture_claim(getpid(), 1, i, "watch:y");
	cr_expect_eq(ledger_claim(ledger, claims, 40, ids), 0);
	cr_expect_eq(ledger_trouble(ledger, path, sizeof(path)), -ENOSPC);
	cr_expect_str_eq(path, fixture_file);
	cr_expect_eq(fixture_count_of(getpid()), ROWS_OF_A_PAGE, "its page has room for these");
	ledger_remove(ledger, ids, 10);
	cr_expect_eq(fixture_count_of(getpid()), ROWS_OF_A_PAGE - 10, "removing needs no room");
	close(fd);
	unlink(filler);
	ledger_mend(ledger);
	cr_expect_eq(fixture_count_of(getpid()), 31);
	ledger_free(ledger);
	cr_expect_eq(fixture_count_of(getpid()), 0);
	umount2(fixture_runtime, MNT_DETACH);
}

Test(ledger_file, a_file_system_without_writing_is_told_once)
{
	if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mkdir(fixture_folder, 0700) ||
	    mount("waymark", fixture_folder, "tmpfs", MS_RDONLY, "size=64k,mode=0700"))
		fixture_skip("no file system can be mounted here");
	cr_expect_eq(claim_one(), -EROFS);
	cr_expect_eq(fixture_count_of(getpid()), 0);
	ledger_free(ledger);
	umount2(fixture_folder, MNT_DETACH);
}

static void claim_two(struct ledger *of)
{
	struct claim claims[2] = { fixture_claim(getppid(), 1, 1, "watch:a"),
				   fixture_claim(getppid(), 1, 2, "watch:b") };
	uint64_t ids[2];

	ledger_claim(of, claims, 2, ids);
}

/* Bytes of a live owner's file that someone else overwrote. */
static void spoil(off_t offset, size_t bytes)
{
	char noise[LEDGER_ROW_BYTES];
	int fd = open(fixture_file, O_WRONLY);

	memset(noise, 0x5a, sizeof(noise));
	cr_assert_eq(pwrite(fd, noise, bytes, offset), (ssize_t)bytes);
	close(fd);
}

Test(ledger_file, a_spoilt_row_hides_no_other)
{
	pid_t owner = fixture_owner(claim_two);
	struct claim_list list;

	cr_assert_eq(fixture_files(), 1);
	spoil(LEDGER_ROW_BYTES + 40, 1);
	list = fixture_rows_of(owner);
	cr_assert_eq(list.count, 1);
	cr_expect_str_eq(list.rows[0].claim.what, "watch:b");
	cr_expect_eq(list.damaged, 1);
	claim_list_release(&list);
	spoil(16, 4); /* the version */
	list = fixture_rows_of(owner);
	cr_expect_eq(list.count, 0);
	cr_expect_eq(list.damaged, 1);
	claim_list_release(&list);
	fixture_kill(owner);
	list = fixture_rows_of(owner);
	cr_expect_eq(list.damaged, 0, "what a dead owner left is nothing");
	claim_list_release(&list);
}

/* Rows that a user made himself, with right sums and impossible contents. */
Test(ledger_file, forged_rows_are_no_claims)
{
	struct ledger_head head = { .pid = getpid(),
				    .start_time = 1,
				    .pid_namespace = ledger_namespace() };
	struct ledger_row row = { .resource = 77, .scope = 1, .state = 1 };
	struct ledger_file file;
	struct claim_list list;

	memset(head.comm, 'c', sizeof(head.comm));
	cr_assert_eq(ledger_file_make(&file, fixture_folder, geteuid(), &head), 0);
	ledger_file_write(&file, 0, &row);
	row = (struct ledger_row){ .resource = 1, .scope = 99, .state = 1 };
	ledger_file_write(&file, 1, &row);
	row = (struct ledger_row){ .resource = 1, .scope = 1, .state = 3 };
	ledger_file_write(&file, 2, &row);
	row = (struct ledger_row){ .resource = 1, .scope = 1, .state = 1 };
	memset(row.what, 'w', sizeof(row.what));
	ledger_file_write(&file, 3, &row);
	row = (struct ledger_row){ .resource = 1, .scope = 1, .state = 1, .count = 1 };
	ledger_file_write(&file, 4, &row);
	cr_expect_eq(ledger_file_write(&file, LEDGER_ROWS_MAX, &row), -WM_E_LEDGER_FULL);
	list = fixture_rows_of(getpid());
	cr_expect_eq(list.damaged, 4);
	cr_assert_eq(list.count, 1);
	cr_expect(list.rows[0].is_left, "its start is another process's");
	cr_expect_eq(strlen(list.rows[0].owner.comm), 15);
	claim_list_release(&list);
	ledger_file_end(&file, geteuid());
}

Test(ledger_file, an_owner_of_another_namespace_weighs_nothing)
{
	struct ledger_head head = { .pid = getpid(), .pid_namespace = 1 };
	struct ledger_row row = { .resource = 1, .scope = 2, .state = 2, .count = 1 };
	struct ledger_file file;
	struct claim_list list;

	row.target = getpid();
	row.since_ns = UINT64_MAX;
	cr_assert_eq(ledger_file_make(&file, fixture_folder, geteuid(), &head), 0);
	ledger_file_write(&file, 0, &row);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1);
	cr_expect(list.rows[0].is_foreign && !list.rows[0].is_left);
	cr_expect_eq(claim_row_weighs(&list.rows[0], 1, getpid(), getpid(), -1), 0,
		     "its numbers are of other processes");
	claim_list_release(&list);
	ledger_file_end(&file, geteuid());
}

/* A process of the user nobody that waits, with our XDG_RUNTIME_DIR. */
static pid_t start_nobodys(void)
{
	char byte, variable[128];
	int ends[2];
	pid_t pid;

	snprintf(variable, sizeof(variable), "XDG_RUNTIME_DIR=%s", fixture_runtime);
	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		if (setgid(BED_NOBODY) || setuid(BED_NOBODY))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(ends[1], F_SETFD, FD_CLOEXEC);
		execle("/bin/sleep", "sleep", "60", NULL, (char *[]){ variable, NULL });
		_exit(1);
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 0); /* it is executed */
	close(ends[0]);
	return pid;
}

Test(ledger_file, root_writes_into_the_ledger_of_the_processs_user)
{
	char roots[] = "/tmp/waymark-claims-roots-XXXXXX", kept[sizeof(roots) + 40];
	struct claim_list list = { 0 };
	struct claim claim;
	struct stat found;
	char where[128];
	pid_t pid;

	if (geteuid())
		fixture_skip("only root records others' processes");
	cr_assert_eq(chown(fixture_runtime, BED_NOBODY, BED_NOBODY), 0);
	pid = start_nobodys();
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	claim = fixture_claim(pid, 2, 9, "watch:theirs");
	cr_assert_eq(ledger_new(&ledger), 0);
	cr_expect_eq(ledger_claim(ledger, &claim, 1, &id), 0);
	cr_expect_eq(ledger_trouble(ledger, where, sizeof(where)), 0);
	cr_assert_eq(fixture_files(), 1);
	cr_assert_eq(lstat(fixture_file, &found), 0);
	cr_expect_eq(found.st_uid, BED_NOBODY);
	cr_expect_eq(found.st_mode & 07777, 0600);
	cr_assert_eq(claim_list_read(&list, BED_NOBODY, pid), 0);
	cr_assert_eq(list.count, 1);
	cr_expect_eq(list.rows[0].owner.pid, getpid());
	cr_expect_eq(list.rows[0].owner.uid, 0);
	claim_list_release(&list);

	/*
	 * a link in place of the folder leads root nowhere: a file of root's with the same name
	 * stays
	 */
	cr_assert_not_null(mkdtemp(roots));
	snprintf(kept, sizeof(kept), "%s%s", roots, strrchr(fixture_file, '/'));
	cr_assert_eq(close(open(kept, O_CREAT | O_RDWR, 0600)), 0);
	snprintf(where, sizeof(where), "%s/moved", fixture_runtime);
	cr_assert_eq(rename(fixture_folder, where), 0);
	cr_assert_eq(symlink(roots, fixture_folder), 0);
	ledger_free(ledger);
	cr_expect_eq(access(kept, F_OK), 0, "root removed a file of its own");
	unlink(kept);
	rmdir(roots);
	unlink(fixture_folder);
	cr_assert_eq(rename(where, fixture_folder), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
