/* SPDX-License-Identifier: MIT */
#include "cli/guardian.h"

#include "cli/folders.h"
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPAIR_TRIES 50
#define REPAIR_STEP_MS 20

/*
 * Nothing of the recorder's is kept: no terminal, no lock on the folder, no pipe that others wait
 * on.
 */
static void let_go_of_all(int keep)
{
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (keep > 3)
		close_range(3, (unsigned int)keep - 1, 0);
	close_range((unsigned int)keep + 1, ~0u, 0);
}

static void watch(int fd, const char *dir)
{
	char byte, name[PATH_MAX + 16];
	ssize_t got;
	sigset_t all;

	setsid();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	let_go_of_all(fd);
	prctl(PR_SET_NAME, "waymark-guard");
	do {
		got = read(fd, &byte, 1);
	} while (got < 0 && errno == EINTR);
	if (got != 0)
		_exit(0);
	/*
	 * the lock falls with the recorder's descriptors, which may take a moment longer than the
	 * pipe
	 */
	folders_newest(dir, name);
	for (int i = 0; i < REPAIR_TRIES && trace_repair(name) == -EBUSY; i++)
		poll(NULL, 0, REPAIR_STEP_MS);
	_exit(0);
}

void guardian_start(struct guardian *guardian, const char *dir)
{
	char folder[PATH_MAX], whole[2 * PATH_MAX];
	int ends[2];

	*guardian = (struct guardian){ .fd = -1 };
	if (dir[0] == '/')
		snprintf(whole, sizeof(whole), "%s", dir);
	else if (getcwd(folder, sizeof(folder)))
		snprintf(whole, sizeof(whole), "%s/%s", folder, dir);
	else
		return;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	guardian->pid = fork();
	if (guardian->pid == 0)
		watch(ends[0], whole);
	close(ends[0]);
	if (guardian->pid < 0) {
		close(ends[1]);
		guardian->pid = 0;
		return;
	}
	guardian->fd = ends[1];
}

void guardian_release(struct guardian *guardian)
{
	if (!guardian->pid)
		return;
	/* any byte will do; it may have been killed, and the recorder handles SIGPIPE */
	if (write(guardian->fd, "", 1) < 0)
		errno = 0;
	close(guardian->fd);
	while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*guardian = (struct guardian){ .fd = -1 };
}
