/* SPDX-License-Identifier: MIT */
#include "target/code/rooted.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rooted {
	const char *root;
	void (*call)(void *data);
	void *data;
	int err;
};

/* A namespace of mounts: other folders may be mounted there, in the same root. */
static int is_other_space(const char *root)
{
	char space[64], its[64], ours[64];
	ssize_t bytes, other;

	snprintf(space, sizeof(space), "%.*s/ns/mnt", (int)(strlen(root) - strlen("/root")), root);
	bytes = readlink(space, its, sizeof(its));
	other = readlink("/proc/self/ns/mnt", ours, sizeof(ours));
	return bytes > 0 && (bytes != other || memcmp(its, ours, (size_t)bytes) != 0);
}

int rooted_is_apart(const char *root)
{
	struct stat its, ours;

	if (!*root || stat(root, &its) || stat("/", &ours))
		return 0;
	return its.st_dev != ours.st_dev || its.st_ino != ours.st_ino || is_other_space(root);
}

static void *run(void *data)
{
	struct rooted *rooted = data;

	/* the root and the working folder become this thread's own */
	if (unshare(CLONE_FS) || chroot(rooted->root) || chdir("/"))
		rooted->err = -errno;
	else
		rooted->call(rooted->data);
	return NULL;
}

int rooted_call(const char *root, void (*call)(void *data), void *data)
{
	struct rooted rooted = { .root = root, .call = call, .data = data };
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&thread, NULL, run, &rooted);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return err;
	pthread_join(thread, NULL);
	return rooted.err;
}
