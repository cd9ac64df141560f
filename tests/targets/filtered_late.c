/* SPDX-License-Identifier: MIT */
/* A library of tests/targets/filtered.c. */
#include <waymark/marker.h>

void late(int thread, int round);

void late(int thread, int round)
{
	WAYMARK(shop, late, thread, round);
}
