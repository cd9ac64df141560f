/* SPDX-License-Identifier: MIT */
/*
 * A program in which the loader, before any constructor, waits for half a second; with -DSTOPS it
 * stops the parent.
 */
#include "tests/targets/call.h"

#include <signal.h>
#include <sys/syscall.h>
#include <waymark/marker.h>

static void nothing(void)
{
}

static void (*resolve(void))(void)
{
#ifdef STOPS
	call(SYS_kill, call(SYS_getppid, 0, 0, 0, 0), SIGSTOP, 0, 0);
#else
	const long wait[2] = { 0, 500000000 };

	call(SYS_nanosleep, (long)wait, 0, 0, 0);
#endif
	return nothing;
}

void slowly(void) __attribute__((ifunc("resolve")));

int main(void)
{
	slowly();
	WAYMARK(forks, slow, 1);
	return 0;
}
