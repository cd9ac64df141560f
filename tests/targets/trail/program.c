/* SPDX-License-Identifier: MIT */
/* Has a loop of TURNS turns, then executes NEXT, where that is given, or ends with 7. */
#include "tests/targets/call.h"

#include <sys/syscall.h>

__attribute__((noinline, noclone)) void WORK(int n)
{
	for (volatile int i = 0; i < n; i++) /* LINE */
		;
}

void _start(void)
{
	WORK(TURNS);
#ifdef NEXT
	static char *args[] = { NEXT, 0 };
	call(SYS_execve, (long)NEXT, (long)args, 0, 0);
#endif
	call(SYS_exit_group, 7, 0, 0, 0);
	for (;;)
		;
}
