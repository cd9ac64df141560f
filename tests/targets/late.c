/* SPDX-License-Identifier: MIT */
/*
 * Loads itself, built with -DLIBRARY as ./late.so: each has a function with a local variable, and
 * calls are known.
 */
#include <dlfcn.h>

#ifdef LIBRARY
volatile long in_library;

int late(int value)
{
	volatile int mine = value;

	in_library = 7;
	return mine + 1;
}
#else
static __thread volatile long own;

__attribute__((noinline)) static int early(int value)
{
	volatile int mine = value;

	return mine;
}

int main(void)
{
	int status = early(1) != 1;
	void *library = dlopen("./late.so", RTLD_NOW);
	int (*late)(int) = library ? (int (*)(int))dlsym(library, "late") : 0;

	own = 3;
	return status || !late || late(2) != 3 || early(4) != 4;
}
#endif
