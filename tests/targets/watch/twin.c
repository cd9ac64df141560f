/* SPDX-License-Identifier: MIT */
/*
 * A program that loads libraries one after another, each at the address of the one before:
 * ./twin COUNT LIBRARY...: each writes `shared` so often. With TWIN_AT=PATH in its environment each
 * takes the place of the file of that path before. With -DTWIN=1, =2: such a library.
 */
#ifdef TWIN
#define NAME_(of) twin_##of
#define NAME(of) NAME_(of)

extern volatile long shared;

__attribute__((noinline)) static long NAME(TWIN)(long count)
{
	volatile long room[TWIN * TWIN * 8]; /* frames of other sizes */

	room[0] = 0;
	for (long i = 0; i < count; i++)
		shared = i;
	return room[0] + shared;
}

long twin_go(long count)
{
	return NAME(TWIN)(count) + 1;
}
#else
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile long shared;

int main(int count, char **args)
{
	const char *at = getenv("TWIN_AT");
	uintptr_t first = 0, page;
	long (*go)(long);
	int is_same = 1;

	for (int i = 2; i < count; i++) {
		void *library;

		if (at && (unlink(at), link(args[i], at)))
			return 1;
		library = dlopen(at ? at : args[i], RTLD_NOW);
		*(void **)&go = library ? dlsym(library, "twin_go") : NULL;
		if (!go)
			return 1;
		page = (uintptr_t)go / 4096;
		is_same &= !first || page == first;
		first = page;
		go(strtol(args[1], NULL, 10));
		dlclose(library);
	}
	puts(is_same ? "at one address" : "apart");
	return 0;
}
#endif
