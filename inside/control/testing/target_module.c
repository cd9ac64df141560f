/* SPDX-License-Identifier: MIT */
/* The library that target_program.c loads and unloads. */
#include <unistd.h>
#include <waymark/handler.h>

#ifndef LOADS
#define LOADS int
#endif
static LOADS loads;

static __attribute__((constructor)) void module_begin(void)
{
	WAYMARK(module, begin, loads);
	loads++;
}

/* As an object of handlers; the linker names the first. */
extern const struct wm_handler __start_waymark_handlers[];
extern const struct wm_handler *const module_handler;
const struct wm_handler *const module_handler = __start_waymark_handlers;

WM_MARKER_PROBE(work, one, unsigned int)
{
	usleep(50000);
	return WM_RECORD;
}

void module_function(void);
void module_function(void)
{
	WAYMARK(module, call, loads);
}
