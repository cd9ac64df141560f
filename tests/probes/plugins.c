/* SPDX-License-Identifier: MIT */
/*
 * plugins ROUNDS FILE...: opens each, calls its plugin_add 100 times once a probe is there, closes
 * it; ROUNDS times. The
 * loader maps each where the one before was. FILE as TO=FROM: FROM is first written over TO.
 */
#include "armed.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_over(const char *to, const char *from)
{
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	struct stat about;
	ssize_t got = 1;

	if (in < 0 || out < 0 || fstat(in, &about))
		return -1;
	while (got > 0)
		got = sendfile(out, in, NULL, (size_t)about.st_size);
	return close(in) || close(out) || got;
}

static int call(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	long (*add)(long, long);

	if (!library)
		return -1;
	*(void **)&add = dlsym(library, "plugin_add");
	if (!is_armed((const void *)add))
		return -1;
	for (long i = 0; i < 100; i++)
		if (add(i, 1) != i + 1)
			return -1;
	return dlclose(library);
}

int main(int argc, char **argv)
{
	char path[4096];

	for (int round = 0; round < atoi(argv[1]); round++) {
		for (int i = 2; i < argc; i++) {
			const char *from = strchr(argv[i], '=');
			size_t bytes = from ? (size_t)(from - argv[i]) : strlen(argv[i]);

			memcpy(path, argv[i], bytes);
			path[bytes] = '\0';
			if (from && write_over(path, from + 1))
				return 2;
			if (call(path))
				return 1;
		}
	}
	return 0;
}
