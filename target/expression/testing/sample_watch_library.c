/* SPDX-License-Identifier: MIT */
/* The library of sample_watch_live.c. */
#include "target/expression/testing/sample_watch_live.h"

#include <stdio.h>

int exported = 4;
static struct thing the_thing = { 1, 2, { { 3, 4 }, { 5, 6 } } };
struct thing *thing = &the_thing;
static int of_library = 7;
static int in_both = 8;
static _Thread_local int of_librarys_thread = 9, second_of_librarys;

void library_tell(void)
{
	printf("of_library %p\n", (void *)&of_library);
	printf("in_both@libwatched.so %p\n", (void *)&in_both);
	printf("of_librarys_thread %p\n", (void *)&of_librarys_thread);
	printf("second_of_librarys@libwatched.so %p\n", (void *)&second_of_librarys);
	of_librarys_thread++;
}
