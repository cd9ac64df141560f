/* SPDX-License-Identifier: MIT */
/* Instructions of all encodings: VEX, x87, SSE, locked, cpuid and the like. */
#include "program.inc"

	expect	sse vex_skipped_or_run atomic floating done
_start:
	mov	$1, %eax
	xor	%ecx, %ecx
	cpuid
	mov	%ecx, %r12d
	rdtsc
	lfence
	mfence
	sfence
	pause
sse:
	pxor	%xmm0, %xmm0
	movdqu	memory(%rip), %xmm1
	pshufb	%xmm0, %xmm1
	crc32b	%al, %eax
	cvtsi2sd %eax, %xmm2
	movups	%xmm2, memory(%rip)
	movbe	memory(%rip), %ecx
	bt	$28, %r12d		/* avx */
	jnc	vex_skipped_or_run
	vzeroupper
	vmovdqu	memory(%rip), %ymm0
	vpxor	%xmm1, %xmm0, %xmm3
	vpaddd	%ymm0, %ymm0, %ymm15
	vbroadcastss memory(%rip), %ymm4
	vzeroall
vex_skipped_or_run:
	nop
atomic:
	lock incl memory(%rip)
	lock cmpxchg %ecx, memory(%rip)
	xchg	%ecx, memory(%rip)
	lock xadd %ecx, memory(%rip)
	cmovne	%ecx, %eax
	bswap	%rax
	enter	$16, $0
	leave
floating:
	fninit
	fldpi
	fld1
	faddp
	fstpt	memory(%rip)
	emms
	prefetcht0 memory(%rip)
	clflush	memory(%rip)
	.byte	0x0f, 0x1f, 0xc0
	.byte	0xf3, 0x0f, 0x1e, 0xc8	/* rdsspd, which does nothing without shadow stacks */
	lea	memory(%rip), %rbx
	xor	%eax, %eax
	xlat
done:
	quit

	.data
	.balign	32
memory:	.skip	64
	.skip	256
