/* SPDX-License-Identifier: MIT */
/* Branches with prefixes that change nothing, and instructions with the most that there may be. */
#include "program.inc"

	expect	a b c d e f g h i j k l m n callee o callee p callee q callee r callee s callee t callee u done
_start:
	endbr64
	bnd jmp	a
	nop
a:	.byte	0x2e			/* predicted not taken */
	jmp	b
	nop
b:	xor	%eax, %eax
	.byte	0x3e			/* predicted taken */
	je	c
	nop
c:	.byte	0x2e
	jne	never_a
d:	.byte	0x48			/* REX.W */
	jmp	e
	nop
e:	.byte	0x4f
	{disp32} jmp	f
	nop
f:	.byte	0xf2
	{disp32} je	g
	nop
g:	.byte	0xf3
	je	h
	nop
h:	.byte	0x64
	jmp	i
	nop
i:	.byte	0x67
	jmp	j
	nop
j:	lea	k(%rip), %rax
	notrack jmp *%rax
	nop
k:	lea	l(%rip), %rax
	rex.W jmp *%rax
	nop
l:	lea	places(%rip), %eax
	jmp	*(%eax)
	nop
m:	.byte	0x2e, 0x3e, 0x65, 0x2e, 0x3e, 0x26, 0x36, 0x2e, 0x3e, 0x2e
	{disp32} jmp	n
never_a:
	nop
n:	bnd call callee
o:	.byte	0x66, 0x66, 0x48	/* as thread-local variables are called for */
	call	callee
p:	lea	callee(%rip), %rax
	notrack call *%rax
q:	bnd call *%rax
r:	rex.W call callee
s:	.byte	0x2e
	call	*%rax
t:	call	callee_plain
u:	.byte	0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	jmp	done
callee:
	endbr64
	repz ret
callee_plain:
	call	1f
	bnd ret
1:	call	callee
	.byte	0xf2, 0x48		/* bnd, REX.W */
	ret
done:
	quit

	.data
	.balign	8
places:	.quad	m
