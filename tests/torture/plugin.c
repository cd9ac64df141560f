/* SPDX-License-Identifier: MIT */
/* Loaded and unloaded again and again, with markers in it that may be hit just then. */
#include "victim.h"

void plugin_run(int times);

/* Before main, so before the program knows of it: a rule must have armed it already. */
__attribute__((constructor)) static void plugin_loaded(void)
{
	MARK(plugin_loaded, 1);
}

__attribute__((destructor)) static void plugin_unloaded(void)
{
	MARK(plugin_unloaded, 2);
}

void plugin_run(int times)
{
	for (int i = 0; i < times; i++)
		MARK(plugin, i);
}
