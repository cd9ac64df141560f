/* SPDX-License-Identifier: MIT */
/* A library of tests/targets/filtered.c: its marker, and a call of the program's function. */
#include <waymark/marker.h>

void late(int thread, int round);
void late_call(int (*place)(int, long, const char *, int), int thread, int round);

void late(int thread, int round)
{
	WAYMARK(shop, late, thread, round);
}

/* The size is below 0, as in no call of the program's own. */
void late_call(int (*place)(int, long, const char *, int), int thread, int round)
{
	int got = place(thread, -1 - round, "late", 7);

	__asm__ volatile("" : : "r"(got)); /* no tail call: its return address would be ours */
}
