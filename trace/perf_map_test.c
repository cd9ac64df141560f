/* SPDX-License-Identifier: MIT */
#include "trace/perf_map.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE "1000 10 made\n"

static char dir[64], map[64], copied[160];
static struct perf_map_owner owner;
static uint64_t room;
static int folder;

static void begin(void)
{
	char name[PERF_MAP_NAME_BYTES];

	sample_folder(dir);
	folder = open(dir, O_RDONLY | O_DIRECTORY);
	owner = (struct perf_map_owner){ .pid = (uint32_t)getpid(), .uid = geteuid() };
	perf_map_name(owner.pid, name);
	snprintf(map, sizeof(map), "/tmp/%s", name + 1);
	snprintf(copied, sizeof(copied), "%s/%s", dir, name);
	unlink(map);
	room = PERF_MAPS_BYTES_MAX;
}

static void end(void)
{
	unlink(map);
	unlink(copied);
	close(folder);
	sample_folder_remove(dir);
}

TestSuite(perf_map, .init = begin, .fini = end);

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int is_copied(void)
{
	struct stat about;

	return !stat(copied, &about);
}

Test(perf_map, map_is_copied_once)
{
	char text[64] = "";
	int fd;

	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_assert_not(is_copied());
	put(map, LINE);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	put(map, "2000 10 other\n");
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	fd = open(copied, O_RDONLY);
	cr_assert_eq(read(fd, text, sizeof(text) - 1), (ssize_t)strlen(LINE));
	close(fd);
	cr_expect_str_eq(text, LINE);
}

Test(perf_map, link_is_not_followed)
{
	char target[80];

	snprintf(target, sizeof(target), "%s/target", dir);
	put(target, LINE);
	cr_assert_eq(symlink(target, map), 0);
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	unlink(map);
	cr_assert_eq(mkfifo(map, 0600), 0);
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	unlink(target);
}

Test(perf_map, other_users_map_is_not_trusted)
{
	put(map, LINE);
	if (geteuid() || chown(map, 65534, (gid_t)-1))
		cr_skip_test("only root can give a file away");
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	/* a map of root's, and the process's own, are */
	cr_assert_eq(chown(map, 0, (gid_t)-1), 0);
	owner.uid = 65534;
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect(is_copied());
	unlink(copied);
	cr_assert_eq(chown(map, 65534, (gid_t)-1), 0);
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect(is_copied());
}

Test(perf_map, map_older_than_the_process_is_not_its_own)
{
	struct timespec times[2], since_boot;
	uint64_t ticks;

	clock_gettime(CLOCK_BOOTTIME, &since_boot);
	ticks = (uint64_t)since_boot.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK);
	put(map, LINE);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= 60;
	times[1] = times[0];
	cr_assert_eq(utimensat(AT_FDCWD, map, times, 0), 0);
	owner.start_time = ticks;
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	owner.start_time = ticks > 100 * (uint64_t)sysconf(_SC_CLK_TCK)
				   ? ticks - 100 * (uint64_t)sysconf(_SC_CLK_TCK)
				   : 1;
	cr_expect_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect(is_copied());
}

Test(perf_map, copy_is_bounded)
{
	struct stat about;

	put(map, LINE);
	cr_assert_eq(truncate(map, (off_t)PERF_MAP_BYTES_MAX + 4096), 0);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_assert_eq(stat(copied, &about), 0);
	cr_expect_eq(about.st_size, PERF_MAP_BYTES_MAX);
}

Test(perf_map, copies_share_the_room_of_a_trace)
{
	struct stat about;

	put(map, LINE);
	room = strlen(LINE) + 4;
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_eq(room, 4);
	unlink(copied);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_assert_eq(stat(copied, &about), 0);
	cr_expect_eq(about.st_size, 4);
	cr_expect_eq(room, 0);
	unlink(copied);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
}

Test(perf_map, hard_link_is_not_followed)
{
	char other[64];

	put(copied, LINE);
	cr_assert_eq(link(copied, map), 0);
	unlink(copied);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect(is_copied());
	unlink(copied);
	snprintf(other, sizeof(other), "/tmp/waymark-perf-map-test-%d", getpid());
	cr_assert_eq(link(map, other), 0);
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	unlink(other);
}

/* Field 22 of a process's stat, whose name has no parenthesis. */
static uint64_t start_time_of(pid_t pid)
{
	char path[64], text[1024] = "", *at = text;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	close(fd);
	for (int field = 1; field < 22; field++)
		at = strchr(at, ' ') + 1;
	return strtoull(at, NULL, 10);
}

Test(perf_map, map_of_a_process_that_changed_its_user_is_its_own)
{
	char name[PERF_MAP_NAME_BYTES];
	int ends[2];
	char byte;

	if (geteuid())
		cr_skip_test("only root can change its user");
	cr_assert_eq(pipe(ends), 0);
	owner.pid = (uint32_t)fork();
	if (!owner.pid) {
		if (setresuid(65533, 65534, 65534))
			_exit(1);
		close(ends[0]);
		close(ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	perf_map_name(owner.pid, name);
	snprintf(map, sizeof(map), "/tmp/%s", name + 1);
	snprintf(copied, sizeof(copied), "%s/%s", dir, name);
	owner.start_time = start_time_of((pid_t)owner.pid);
	put(map, LINE);
	for (uid_t uid = 65532; uid <= 65534; uid++) {
		cr_assert_eq(chown(map, uid, (gid_t)-1), 0);
		cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
		cr_expect_eq(is_copied(), uid > 65532, "%u", uid);
		unlink(copied);
	}
	owner.start_time++;
	cr_assert_eq(perf_map_copy(folder, &owner, &room), 0);
	cr_expect_not(is_copied());
	kill((pid_t)owner.pid, SIGKILL);
	cr_assert_eq(waitpid((pid_t)owner.pid, NULL, 0), (pid_t)owner.pid);
}
