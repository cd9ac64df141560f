/* SPDX-License-Identifier: MIT */
/* Two tools bring the agent in at once, each with a folder of its own: it listens where it says. */
#include "inside/control/listen.h"

#include "base/socketdir.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ROUNDS 500

static char folders[2][SOCKETDIR_BYTES];
static int is_over;

static void *set_in_turn(void *unused)
{
	for (unsigned int i = 0; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); i++)
		cr_expect_eq(listen_set_folder(folders[i % 2]), 0);
	return unused;
}

/* What the memfd says that names the folder. */
static void read_published(char published[SOCKETDIR_BYTES])
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *entry;
	char link[64];

	published[0] = '\0';
	while ((entry = readdir(list))) {
		ssize_t bytes = readlinkat(dirfd(list), entry->d_name, link, sizeof(link) - 1);

		link[bytes < 0 ? 0 : bytes] = '\0';
		if (strstr(link, SOCKETDIR_MEMFD))
			cr_assert_gt(pread(atoi(entry->d_name), published, SOCKETDIR_BYTES, 0), 0);
	}
	closedir(list);
}

Test(listen, it_is_in_the_folder_that_it_publishes, .timeout = 60)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		cr_assert_eq(socketdir_make_private(geteuid(), folders[i]), 0);
	cr_assert_eq(listen_set_folder(folders[0]), 0);
	cr_assert_eq(pthread_create(&thread, NULL, set_in_turn, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct sockaddr_un address = { 0 };
		socklen_t bytes = sizeof(address);
		char published[SOCKETDIR_BYTES];

		cr_assert_eq(listen_open(), 0);
		cr_assert_eq(getsockname(listen_fd(), (struct sockaddr *)&address, &bytes), 0);
		read_published(published);
		*strrchr(address.sun_path, '/') = '\0';
		cr_assert_str_eq(address.sun_path, published);
		listen_close();
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	for (int i = 0; i < 2; i++)
		socketdir_leave(folders[i]);
}
