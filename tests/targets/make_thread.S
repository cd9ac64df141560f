/* SPDX-License-Identifier: MIT */
/*
 * For programs without a library: make_thread, one more thread of the process, on the stack that
 * ends at rsi; in it the flags say zero.
 */
#define SYS_clone 56
#define THREAD 0x50f00	/* CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM */

	.macro make_thread
	mov	$THREAD, %edi
	xor	%edx, %edx
	xor	%r10d, %r10d
	xor	%r8d, %r8d
	mov	$SYS_clone, %eax
	syscall
	test	%eax, %eax
	.endm
