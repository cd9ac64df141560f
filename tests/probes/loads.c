/* SPDX-License-Identifier: MIT */
/* loads LIBRARY TIMES ROUNDS: opens it, calls library_add ROUNDS times, closes it; TIMES times. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[2]) : 1, rounds = argc > 3 ? atoi(argv[3]) : 1;

	for (int i = 0; i < times; i++) {
		void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
		int (*add)(int, int);

		if (!library)
			return 1;
		*(void **)&add = dlsym(library, "library_add");
		for (int j = 0; j < rounds; j++)
			if (add(j, 1) != j + 1)
				return 2;
		dlclose(library);
	}
	return 0;
}
