/* SPDX-License-Identifier: MIT */
/* Ends by a signal that it sends itself. */
#include "program.inc"

	expect	ending
_start:
	mov	$3, %ecx
1:	loop	1b
ending:
	call_system __NR_getpid
	mov	%eax, %edi
	mov	$SIGKILL, %esi
	call_system __NR_kill
never_a:
	nop
