/* SPDX-License-Identifier: MIT */
#include "target/process/tool_lock.h"

#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* the lock's holder needs only a processor; a thread of the program is stopped meanwhile */
#define WAIT_MS 20
#define PAUSE_NS 50000

/*
 * What an ended thread has in /proc is root's, so of an ended first thread none is to be had. 0:
 * none lives.
 */
static pid_t oldest_live(pid_t pid)
{
	pid_t *tids = NULL, oldest = 0;
	int count;

	if (target_state_lives(target_thread_state(pid, pid)))
		return pid;
	count = target_threads(pid, &tids);
	for (int i = 0; i < count && !oldest; i++)
		if (target_state_lives(target_thread_state(pid, tids[i])))
			oldest = tids[i];
	if (count >= 0)
		free(tids);
	return oldest;
}

int tool_lock_open(pid_t tid)
{
	pid_t pid = (pid_t)target_status_number(tid, "Tgid"), oldest;
	char path[64];
	int fd, err;

	do {
		oldest = oldest_live(pid);
		if (!oldest)
			return -ESRCH;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, oldest);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = -errno;
	} while (fd < 0 && !target_state_lives(target_thread_state(pid, oldest)));
	return fd < 0 ? err : fd;
}

int tool_lock_try(int lock)
{
	uint64_t deadline_ns = tracee_deadline(WAIT_MS);

	while (flock(lock, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (tracee_late(deadline_ns))
			return -EBUSY;
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
	return 0;
}

void tool_lock_unlock(int lock)
{
	flock(lock, LOCK_UN);
}

void tool_lock_close(int lock)
{
	if (lock < 0)
		return;
	/* a child that somebody has forked meanwhile has the descriptor, and would keep the turn */
	tool_lock_unlock(lock);
	close(lock);
}
