/* SPDX-License-Identifier: MIT */
/* USDT probes as <sys/sdt.h> leaves them, with arguments of our choice. */
	.macro	probe provider, name, semaphore, arguments
990:	nop
	.pushsection .note.stapsdt, "", @note
	.balign	4
	.long	992f-991f, 994f-993f, 3
991:	.asciz	"stapsdt"
992:	.balign	4
993:	.quad	990b, _.stapsdt.base, \semaphore
	.asciz	"\provider"
	.asciz	"\name"
	.asciz	"\arguments"
994:	.balign	4
	.popsection
	.endm

	.text
	.globl	sample_probes
	.type	sample_probes, @function
sample_probes:
	probe	shop, order, sample_semaphore, "-4@%edi 8@%rsi 8f@%xmm0"
	probe	shop, order, sample_semaphore, "-4@$7 8@8(%rsp) 8f@-16(%rbp,%rax,8)"
	probe	shop, bare, 0, ""
	probe	shop, counted, 0, "-4@sample_counter(%rip) 8@%rax"
	probe	store, strange, 0, "8@%rdi 8@%fs:sample_tls@tpoff"
	probe	store, many, 0, "1@$1 1@$2 1@$3 1@$4 1@$5 1@$6 1@$7 1@$8 1@$9 1@$10 1@$11 1@$12"
	ret
	.size	sample_probes, .-sample_probes

	.section .stapsdt.base, "aG", @progbits, .stapsdt.base, comdat
	.weak	_.stapsdt.base
	.hidden	_.stapsdt.base
_.stapsdt.base:
	.space	1
	.size	_.stapsdt.base, 1

	.section .probes, "aw", @progbits
	.balign	2
sample_semaphore:
	.short	0

	.data
	.balign	4
	.type	sample_counter, @object
sample_counter:
	.long	42
	.size	sample_counter, 4
	.section .note.GNU-stack,"",@progbits
