/* SPDX-License-Identifier: MIT */
/*
 * A module as Go's linker makes it, with C code in it, and with a runtime that walks stacks. Never
 * run.
 */
#include "target/code/testing/fixture.inc"

	.text

begin c_function
	mov	$0x12345678, %eax
	ret
end c_function

	.type	runtime.text, @function
	.balign	16
runtime.text:
begin goroutine
	mov	$0x12345678, %eax
	ret
end goroutine
	.type	runtime.etext, @function
runtime.etext:

begin JNI_CreateJavaVM
	mov	$0x12345678, %eax
	ret
end JNI_CreateJavaVM

	.section .note.go.buildid, "a", @note
	.long	4, 4, 4
	.asciz	"Go"
	.balign	4
	.long	0
	.section .note.GNU-stack,"",@progbits
