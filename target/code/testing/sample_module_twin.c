/* SPDX-License-Identifier: MIT */
/* Has a static function that is called like one of sample_module.c's. */
#include "target/code/testing/sample_module.h"

__attribute__((noinline)) static int same(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a + 2;
}

int sample_other_same(int a)
{
	return same(a) + 3;
}
