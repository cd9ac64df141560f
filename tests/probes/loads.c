/* SPDX-License-Identifier: MIT */
/*
 * loads LIBRARY TIMES ROUNDS [armed|stop]: opens it, calls library_add ROUNDS times, closes it;
 * TIMES times. With "armed" it calls once a probe is there. With "stop" its parent is stopped
 * meanwhile; then it stays open for a while.
 */
#include "armed.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 1, rounds = argc > 3 ? atoi(argv[3]) : 1;
	int waits = argc > 4 && !strcmp(argv[4], "armed"), stops = argc > 4 && !waits;

	if (stops)
		kill(getppid(), SIGSTOP);
	for (int i = 0; i < times; i++) {
		void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
		int (*add)(int, int);

		if (!library)
			return 1;
		*(void **)&add = dlsym(library, "library_add");
		if (waits && !is_armed((const void *)add))
			return 3;
		for (int j = 0; j < rounds; j++)
			if (add(j, 1) != j + 1)
				return 2;
		dlclose(library);
	}
	if (stops) {
		kill(getppid(), SIGCONT);
		if (!dlopen(argv[1], RTLD_NOW))
			return 1;
		sleep(1);
	}
	return 0;
}
