/* SPDX-License-Identifier: MIT */
/*
 * Stands in for the agent in the tests of injection: comes when it is loaded, listens where it should,
 * counts how often, and goes to sleep after a short while or the first connection.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

__attribute__((visibility("default"))) atomic_int standin_loaded;
__attribute__((visibility("default"))) unsigned long standin_mask;

void *waymark_agent_loaded(const char *socket_dir);

__attribute__((visibility("default"))) void *waymark_agent_loaded(const char *socket_dir)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	sigset_t mask;

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/%d.agent", socket_dir, getpid());
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	memcpy(&standin_mask, &mask, sizeof(standin_mask));
	atomic_fetch_add(&standin_loaded, 1);
	unlink(address.sun_path);
	if (!bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 1)) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		poll(&ready, 1, 200);
	}
	unlink(address.sun_path);
	close(fd);
	return NULL;
}
