/* SPDX-License-Identifier: MIT */
/* The folder of sockets of a process of another user, which root makes. */
#include "target/process/socket_owner.h"
#include "target/process/tool_socket.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define NOBODY 65534
#define ROUNDS 1000

static char runtime[] = "/tmp/waymark-place-XXXXXX", folder[SOCKETDIR_BYTES];
static pid_t theirs;

/* A program of the user nobody, started with a runtime folder of that user. */
static void begin(void)
{
	char variable[128], *environment[] = { variable, NULL };
	int pipes[2];
	char byte;

	if (geteuid() != 0)
		cr_skip_test("only root makes folders for other users");
	cr_assert(mkdtemp(runtime));
	cr_assert_eq(chown(runtime, NOBODY, NOBODY), 0);
	snprintf(variable, sizeof(variable), "XDG_RUNTIME_DIR=%s", runtime);
	snprintf(folder, sizeof(folder), "%s/waymark", runtime);
	cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
	theirs = fork();
	if (!theirs) {
		execle("/bin/sleep", "sleep", "60", NULL, environment);
		_exit(127);
	}
	close(pipes[1]);
	cr_assert_eq(read(pipes[0], &byte, 1), 0); /* closed by exec */
	close(pipes[0]);
}

static void end(void)
{
	if (theirs <= 0)
		return;
	kill(theirs, SIGKILL);
	waitpid(theirs, NULL, 0);
	rmdir(folder);
	cr_expect_eq(rmdir(runtime), 0, "something else was left there");
}

Test(place, another_users_folder_is_theirs, .init = begin, .fini = end)
{
	char dir[SOCKETDIR_BYTES];
	struct stat made;
	int signal = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	umask(0177);
	cr_assert_eq(socket_place_of(theirs, NOBODY, dir), 0);
	cr_assert_str_eq(dir, folder);
	cr_assert_eq(lstat(dir, &made), 0);
	cr_assert(S_ISDIR(made.st_mode));
	cr_assert_eq(made.st_uid, NOBODY);
	cr_assert_eq(made.st_mode & 07777, 0700);
	cr_assert_eq(socket_place_of(theirs, NOBODY, dir), 0, "it is there already");
	cr_assert_eq(setfsuid((uid_t)-1), 0, "we are ourselves again");
	cr_assert_eq(prctl(PR_GET_DUMPABLE), 1);
	prctl(PR_GET_PDEATHSIG, &signal);
	cr_assert_eq(signal, SIGKILL);
}

Test(place, a_link_in_its_place_is_not_followed, .init = begin, .fini = end)
{
	char dir[SOCKETDIR_BYTES];

	cr_assert_eq(symlink("/tmp/waymark-place-nowhere", folder), 0);
	cr_assert_eq(socket_place_open(folder, NOBODY), -WM_E_SOCKET_DIR);
	cr_assert_neq(socket_place_of(theirs, NOBODY, dir) == 0 && !strcmp(dir, folder), 1);
	cr_assert_eq(access("/tmp/waymark-place-nowhere", F_OK), -1);
	cr_assert_eq(unlink(folder), 0);
}

/* The path leads to root's folder between the look at it and the socket. */
Test(place, a_socket_is_made_in_the_folder_that_was_checked, .init = begin, .fini = end)
{
	char dir[SOCKETDIR_BYTES], moved[sizeof(folder) + 8], roots[] = "/tmp/waymark-roots-XXXXXX";
	struct listener *listener;
	struct stat made;
	int fd;

	cr_assert(mkdtemp(roots));
	snprintf(moved, sizeof(moved), "%s-moved", folder);
	cr_assert_eq(socket_place_any(theirs, NOBODY, dir), 0);
	fd = socket_place_open(dir, NOBODY);
	cr_assert_geq(fd, 0);
	cr_assert_eq(rename(folder, moved), 0);
	cr_assert_eq(symlink(roots, folder), 0);
	cr_assert_eq(socket_place_open(dir, NOBODY), -WM_E_SOCKET_DIR);
	cr_assert_eq(tool_socket_listener_new(&listener, dir, fd, NOBODY), 0);
	cr_assert_eq(lstat(listener->way, &made), 0);
	cr_assert_eq(made.st_uid, NOBODY);
	cr_assert_eq(rmdir(roots), 0, "it is in root's folder");
	tool_socket_listener_free(listener);
	cr_assert_eq(unlink(folder), 0);
	cr_assert_eq(rmdir(moved), 0);
}

Test(place, a_folder_that_another_user_made_is_passed_over)
{
	char dir[SOCKETDIR_BYTES], taken[64];
	const uid_t uid = 64007; /* no other test is this user */
	struct stat made;
	int fd;

	if (geteuid() != 0)
		cr_skip_test("only root makes folders for other users");
	snprintf(taken, sizeof(taken), "/tmp/waymark-%u", uid);
	rmdir(taken); /* a test that was killed left it */
	cr_assert(!mkdir(taken, 0777));
	fd = socket_place_any(getpid(), uid, dir);
	rmdir(taken);
	cr_assert_eq(fd, 0);
	cr_assert(socketdir_is_private(dir), "%s", dir);
	cr_assert_eq(lstat(dir, &made), 0);
	cr_assert_eq(made.st_uid, uid);
	cr_assert_eq(made.st_mode & 07777, 0700);
	socketdir_leave(dir);
	cr_assert_neq(lstat(dir, &made), 0);
}

static int over;

/* As another tool does, or the user's own agent. Returns what it saw amiss. */
static void *look(void *data)
{
	(void)data;
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		int err = socketdir_check(folder, NOBODY);

		if (err && err != -ENOENT)
			return &over;
	}
	return NULL;
}

Test(place, nobody_sees_it_before_it_is_theirs, .init = begin, .fini = end, .timeout = 60)
{
	char dir[SOCKETDIR_BYTES];
	pthread_t looker;
	void *amiss;

	cr_assert_eq(pthread_create(&looker, NULL, look, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		cr_assert_eq(socket_place_of(theirs, NOBODY, dir), 0);
		rmdir(dir);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	pthread_join(looker, &amiss);
	cr_assert_null(amiss);
}
