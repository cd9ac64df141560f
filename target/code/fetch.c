/* SPDX-License-Identifier: MIT */
#include "target/code/fetch.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_S 10
#define ALL_S 300

/* Of elfutils/debuginfod.h. */
struct debuginfod_client;
typedef int progress_call(struct debuginfod_client *client, long done, long all);

static struct {
	pthread_mutex_t lock;
	int is_allowed, is_loaded;
	void (*progress)(const char *build_id, long done, long all);
	const char *build_id;
	time_t begun_s, moved_s;
	long done;
	struct debuginfod_client *(*begin)(void);
	void (*set_progress)(struct debuginfod_client *client, progress_call *call);
	int (*find)(struct debuginfod_client *client, const unsigned char *build_id, int bytes,
		    char **path);
	void (*end)(struct debuginfod_client *client);
} fetch = { .lock = PTHREAD_MUTEX_INITIALIZER };

void code_fetch_allow(void (*progress)(const char *build_id, long done, long all))
{
	fetch.is_allowed = 1;
	fetch.progress = progress;
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Anything but 0 ends the transfer. While no size is known, `done` counts calls. */
static int on_progress(struct debuginfod_client *client, long done, long all)
{
	time_t now = now_s();

	(void)client;
	if (all > 0 && done != fetch.done) {
		fetch.done = done;
		fetch.moved_s = now;
	}
	if (fetch.progress)
		fetch.progress(fetch.build_id, all > 0 ? done : 0, all > 0 ? all : 0);
	if (now - fetch.moved_s > SILENCE_S || now - fetch.begun_s > ALL_S)
		fetch.is_allowed = 0;
	return !fetch.is_allowed;
}

static int load(void)
{
	void *library = fetch.is_loaded ? NULL : dlopen("libdebuginfod.so.1", RTLD_NOW);

	fetch.is_loaded = 1;
	if (library) {
		*(void **)&fetch.begin = dlsym(library, "debuginfod_begin");
		*(void **)&fetch.set_progress = dlsym(library, "debuginfod_set_progressfn");
		*(void **)&fetch.find = dlsym(library, "debuginfod_find_debuginfo");
		*(void **)&fetch.end = dlsym(library, "debuginfod_end");
	}
	return fetch.begin && fetch.set_progress && fetch.find && fetch.end;
}

static int find(const char *build_id, char *path, size_t room)
{
	struct debuginfod_client *client = fetch.begin();
	char *found = NULL;
	int fd;

	if (!client)
		return -ENOENT;
	fetch.build_id = build_id;
	fetch.begun_s = fetch.moved_s = now_s();
	fetch.done = 0;
	fetch.set_progress(client, on_progress);
	fd = fetch.find(client, (const unsigned char *)build_id, 0, &found);
	fetch.end(client);
	if (fetch.progress)
		fetch.progress(build_id, -1, 0);
	if (fd < 0 && fd != -ENOENT)
		fetch.is_allowed = 0;
	if (fd >= 0)
		close(fd);
	if (fd < 0 || snprintf(path, room, "%s", found) >= (int)room)
		fd = -ENOENT;
	free(found);
	return fd < 0 ? fd : 0;
}

int code_fetch_debug(const char *build_id, char *path, size_t room)
{
	const char *urls = secure_getenv("DEBUGINFOD_URLS");
	int err = -ENOENT;

	pthread_mutex_lock(&fetch.lock);
	if (fetch.is_allowed && urls && *urls && load())
		err = find(build_id, path, room);
	pthread_mutex_unlock(&fetch.lock);
	return err;
}
