/* SPDX-License-Identifier: MIT */
/* Linked as a shared library of its own. */
#include "check.h"

int library_run(int value)
{
	WAYMARK(library, run, value);
	for (int i = 0; i < 2; i++)
		WAYMARK(library, shared, once(i));
	return 2 * value;
}
