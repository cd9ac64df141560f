/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the agent in the tests of injection: comes when it is loaded, listens where it
 * should, counts how often, and goes to sleep after a short while or the first connection.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

__attribute__((visibility("default"))) atomic_int standin_loaded;
__attribute__((visibility("default"))) unsigned long standin_mask;

static void *listener(void *arg)
{
	struct sockaddr_un address;
	socklen_t bytes = sizeof(address);
	struct pollfd ready = { .fd = (int)(intptr_t)arg, .events = POLLIN };

	poll(&ready, 1, 200);
	if (getsockname(ready.fd, (struct sockaddr *)&address, &bytes))
		address.sun_path[0] = '\0';
	close(ready.fd); /* before the name goes: who sees no name finds no listener */
	unlink(address.sun_path);
	return NULL;
}

int waymark_agent_loaded(const char *socket_dir);

__attribute__((visibility("default"))) int waymark_agent_loaded(const char *socket_dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pthread_t thread;
	sigset_t mask;
	int err;

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/%d.agent", socket_dir,
		 getpid());
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	memcpy(&standin_mask, &mask, sizeof(standin_mask));
	atomic_fetch_add(&standin_loaded, 1);
	unlink(address.sun_path);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1)) {
		err = -errno;
		close(fd);
		return err;
	}
	err = pthread_create(&thread, NULL, listener, (void *)(intptr_t)fd);
	if (!err)
		pthread_detach(thread);
	return -err;
}
