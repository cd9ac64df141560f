/* SPDX-License-Identifier: MIT */
/* The library that target_program.c loads and unloads. */
#include <waymark/marker.h>

#ifndef LOADS
#define LOADS int
#endif
static LOADS loads;

static __attribute__((constructor)) void module_begin(void)
{
	WAYMARK(module, begin, loads);
	loads++;
}

void module_function(void);
void module_function(void)
{
	WAYMARK(module, call, loads);
}
