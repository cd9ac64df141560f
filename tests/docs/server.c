/* SPDX-License-Identifier: MIT */
/*
 * The server of the manual pages' examples: it has the markers and makes the calls that they
 * record.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/marker.h>

volatile unsigned long queries;

static void query(int key)
{
	WAYMARK_SCOPE(db, query, key);
	char *room = malloc((size_t)(100 + key));

	memset(room, key, 100);
	__asm__ volatile("" : : "r"(room) : "memory");
	free(room);
	usleep(1000);
}

/* Works for SERVER_SECONDS, one where that is not set; its arguments are for show. */
int main(void)
{
	const char *seconds = getenv("SERVER_SECONDS");
	void *zlib = dlopen("libz.so.1", RTLD_NOW);
	const char *(*version)(void) = NULL;

	if (zlib)
		*(void **)&version = dlsym(zlib, "zlibVersion");
	for (int i = 0; i < 1000 * (seconds ? atoi(seconds) : 1); i++) {
		query(i % 100);
		queries++;
		if (i % 10 == 0)
			WAYMARK(net, error, i);
		if (version && i % 10 == 5)
			version();
	}
	return 0;
}
