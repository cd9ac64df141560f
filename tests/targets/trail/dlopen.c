/* SPDX-License-Identifier: MIT */
/* A library that is loaded, called into, unloaded and loaded again. */
#include "program.h"

#include <dlfcn.h>
#include <stddef.h>

ATTACHED;
EXPECT("loading calling called closing loading calling called closing left");

int main(void)
{
	begin();
#pragma GCC unroll 1
	for (volatile int i = 0; i < 2; i++) {
		int (*function)(int);
		void *library;

		PASS(loading);
		library = dlopen(TRAIL_LIBRARY, RTLD_NOW);
		if (!library)
			leave(2);
		function = (int (*)(int))dlsym(library, "entered");
		PASS(calling);
		if (!function || function(2) != 42)
			leave(1);
		PASS(called);
		__asm__ volatile("nop");
		PASS(closing);
		dlclose(library);
	}
	PASS(left);
	leave(0);
}
