/* SPDX-License-Identifier: MIT */
/*
 * Calls functions with every value of CF, PF, AF, ZF, SF, OF, DF, NT, AC and ID. None of them
 * changes these itself, but a marker's site, which changes the first six. Prints
 * `WAY calls N wrong N`, and after calls that were wrong the flags that were, ` flags 0xN`.
 * flags [ROUNDS [UNKEPT]]: the flags UNKEPT are set and cleared as the others, and not compared
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/marker.h>

#define MARKED 0x244400ull /* DF, NT, AC and ID */
#define ALL (MARKED | 0x8d5)

uint64_t with_flags(void (*function)(void), uint64_t flags);
extern void plain(void), placed(void), returned(void), chained(void), string(void);
#ifdef HAVE_SDT
extern void noted(void);
#endif

/*
 * with_flags() loads the arguments: values, so that a field is at an address that is not aligned.
 */
__asm__(".text\n"
	".macro begin name\n.p2align 4\n.globl \\name\n.type \\name, @function\n\\name: .cfi_startproc\n.endm\n"
	".macro end name\n.cfi_endproc\n.size \\name, . - \\name\n.endm\n"
	"begin with_flags\n"
	"	push %rbx\n	.cfi_adjust_cfa_offset 8\n"
	"	mov %rdi, %rax\n"
	"	lea text(%rip), %rdi\n"
	"	lea text+1(%rip), %rdx\n"
	"	push %rsi\n	.cfi_adjust_cfa_offset 8\n"
	"	popfq\n	.cfi_adjust_cfa_offset -8\n"
	"	call *%rax\n"
	"	pushfq\n	.cfi_adjust_cfa_offset 8\n"
	"	pop %rax\n	.cfi_adjust_cfa_offset -8\n"
	"	pushq $2\n	.cfi_adjust_cfa_offset 8\n"
	"	popfq\n	.cfi_adjust_cfa_offset -8\n"
	"	pop %rbx\n	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"end with_flags\n"
	"begin plain\n	lea 1(%rdi), %rax\n	ret\nend plain\n"
	"begin returned\n	lea 1(%rdi), %rax\n	ret\nend returned\n"
	"begin string\n	lea 1(%rdi), %rax\n	ret\nend string\n"
	"begin placed\n	lea 1(%rdi), %rax\n"
	".globl placed_middle\nplaced_middle:\n"
	"	mov %rax, -8(%rsp)\n	mov -8(%rsp), %rax\n	ret\nend placed\n"
	/* its return address is that of another probed function's, and so are its flags */
	"begin chained\n	lea 2(%rdi), %rax\n	jmp returned\nend chained\n"
#ifdef HAVE_SDT
	"begin noted\n"
	"noted_at: nop\n"
	"	ret\n"
	"end noted\n"
	".pushsection .note.stapsdt, \"\", \"note\"\n"
	".balign 4\n .long 8, 2f - 1f, 3\n .asciz \"stapsdt\"\n"
	"1: .quad noted_at, _.stapsdt.base, 0\n"
	" .asciz \"flags\"\n .asciz \"noted\"\n .asciz \"1@%dil 8@%rdx 8@(%rdx)\"\n"
	"2: .balign 4\n .popsection\n"
	".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n"
#endif
	".pushsection .rodata\n.balign 8\ntext: .asciz \"a text of some length\"\n.popsection\n");

static void marked(void)
{
	static uint64_t count;

	WAYMARK(flags, marked, count);
}

void marked_portably(void);

static int rounds = 1;
static uint64_t unkept;

static void way_try(const char *name, void (*function)(void), uint64_t wanted)
{
	unsigned int wrong = 0, calls = 0;
	uint64_t changed, all_changed = 0;

	wanted &= ~unkept;
	for (int round = 0; round < rounds; round++)
		for (uint64_t flags = ALL;; flags = (flags - 1) & ALL) {
			calls++;
			changed = (with_flags(function, flags | 0x202) ^ flags) & wanted;
			wrong += changed != 0;
			all_changed |= changed;
			if (!flags)
				break;
		}
	printf("%s calls %u wrong %u", name, calls, wrong);
	if (wrong)
		printf(" flags 0x%llx", (unsigned long long)all_changed);
	printf("\n");
}

/* A thread's first hit has all flags set. */
static void *ways_try(void *data)
{
	(void)data;
	way_try("plain", plain, ALL);
	way_try("placed", placed, ALL);
	way_try("returned", returned, ALL);
	way_try("chained", chained, ALL);
	way_try("string", string, ALL);
#ifdef HAVE_SDT
	way_try("noted", noted, ALL);
#endif
	way_try("marked", marked, MARKED);
	way_try("marked_portably", marked_portably, MARKED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1)
		rounds = atoi(argv[1]);
	if (argc > 2)
		unkept = strtoull(argv[2], NULL, 0);
	if (pthread_create(&thread, NULL, ways_try, NULL) || pthread_join(thread, NULL))
		return 2;
	return 0;
}
