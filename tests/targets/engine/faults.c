/* SPDX-License-Identifier: MIT */
/*
 * Instructions that fault behind branches of all kinds, and branches that fault because of where
 * they lead. First cold, then after they have often gone well.
 */
#include "seen.h"

#include <sys/mman.h>

enum { OFTEN = 3000 };

extern struct shape {
	char *code, *place;
	const char *before, *fault;
} shapes[];

static sigjmp_buf back;
static const struct shape *shape;
static greg_t stack;
uintptr_t fault_target;

/* Ways to the instruction at 77. */
__asm__(".macro before_jump\n jmp 1f\n .skip 7, 0x90\n1:\n .endm\n"
	".macro before_chain\n jmp 1f\n2: jmp 3f\n .skip 7, 0x90\n1: jmp 2b\n .skip 130, 0x90\n3:\n"
	".endm\n"
	".macro before_call\n call 1f\n jmp fault_well\n1: lea 8(%rsp), %rsp\n jmp 2f\n .skip 7, 0x90\n"
	"2:\n .endm\n"
	".macro before_return\n call 1f\n jmp 2f\n1: ret\n .skip 7, 0x90\n2:\n .endm\n"
	".macro before_other_return\n lea 1f(%rip), %rax\n push %rax\n ret\n .skip 7, 0x90\n1:\n"
	".endm\n"
	".macro before_taken\n cmp %rsp, %rsp\n jz 1f\n .skip 7, 0x90\n1:\n .endm\n"
	".macro before_not_taken\n cmp %rsp, %rsp\n jnz fault_well\n jmp 1f\n .skip 7, 0x90\n1:\n"
	".endm\n"
	".macro before_loop\n mov $3, %ecx\n1: nop\n loop 1b\n jmp 2f\n .skip 7, 0x90\n2:\n .endm\n"
	".macro before_register\n lea 1f(%rip), %rax\n jmp *%rax\n .skip 7, 0x90\n1:\n .endm\n"
	".macro before_constant\n jmp *7f(%rip)\n .skip 7, 0x90\n"
	".pushsection .data.rel.ro.to, \"aw\"\n7: .quad 1f\n .popsection\n1:\n .endm\n"
	".macro before_vector\n pxor %xmm15, %xmm15\n jmp 1f\n .skip 7, 0x90\n1:\n .endm\n"
	".macro before_long\n .rept 300\n nop\n .endr\n jmp 1f\n .skip 7, 0x90\n1:\n .endm\n"
	".macro before_page\n jmp 1f\n .balign 4096\n .skip 4094, 0x90\n1: jmp 2f\n2:\n .endm\n"
	".macro before_two_pages\n jmp 1f\n .balign 4096\n .skip 4093, 0x90\n1: jmp 2f\n2:\n .endm\n");

/* rdi: an address that can be used, or not. */
__asm__(".macro fault_load\n77: mov (%rdi), %eax\n .endm\n"
	".macro fault_store\n77: movl $7, (%rdi)\n .endm\n"
	".macro fault_compare\n77: cmp (%rdi), %rax\n .endm\n"
	".macro fault_vector\n77: movups (%rdi), %xmm15\n .endm\n"
	".macro fault_invalid\n77: ud2\n .endm\n"
	".macro fault_divide\n xor %edx, %edx\n xor %ecx, %ecx\n jmp 6f\n .skip 3, 0x90\n6:\n"
	"77: div %ecx\n .endm\n"
	".macro fault_trap\n77: int3\n .endm\n"
	".macro fault_privileged\n77: hlt\n .endm\n"
	".macro fault_pop\n mov %rdi, %rsp\n jmp 6f\n .skip 3, 0x90\n6:\n77: pop %rax\n .endm\n"
	".macro fault_return\n mov %rdi, %rsp\n jmp 6f\n .skip 3, 0x90\n6:\n77: ret\n .endm\n"
	".macro fault_call\n mov %rdi, %rsp\n jmp 6f\n .skip 3, 0x90\n6:\n77: call 6b\n .endm\n"
	".macro fault_jump_to\n mov fault_target(%rip), %rax\n77: jmp *%rax\n .endm\n"
	".macro fault_call_to\n mov fault_target(%rip), %rcx\n77: call *%rcx\n .endm\n"
	".macro fault_jump_by\n77: jmp *fault_target(%rip)\n .endm\n"
	".macro fault_call_by\n77: call *fault_target(%rip)\n .endm\n"
	".macro fault_return_to\n push fault_target(%rip)\n77: ret\n .endm\n"
	".macro fault_return_on\n lea -16(%rsp), %rsp\n push fault_target(%rip)\n jmp 6f\n .skip 3, 0x90\n"
	"6:\n77: ret $16\n .endm\n"
	".macro fault_return_astray\n call 6f\n jmp fault_well\n6: mov fault_target(%rip), %rax\n"
	"mov %rax, (%rsp)\n77: ret\n .endm\n");

__asm__(".macro shape before, fault\n .balign 64\n70: before_\\before\n fault_\\fault\n"
	"jmp fault_well\n .pushsection .data.rel.ro, \"aw\"\n .quad 70b, 77b, 71f, 72f\n"
	".popsection\n .pushsection .rodata\n71: .asciz \"\\before\"\n72: .asciz \"\\fault\"\n"
	".popsection\n .endm\n"
	".pushsection .data.rel.ro, \"aw\"\n .globl shapes\n .balign 8\nshapes:\n .popsection\n"
	".text\n"
	".irp before, jump, chain, call, return, other_return, taken, not_taken, loop, register, "
	"constant, vector, long, page, two_pages\n"
	".irp fault, load, store, compare, vector, invalid, divide, trap, privileged, pop, return, "
	"call, jump_to, call_to, jump_by, call_by, return_to, return_on, return_astray\n"
	"shape \\before, \\fault\n .endr\n .endr\n"
	".pushsection .data.rel.ro, \"aw\"\n .quad 0, 0, 0, 0\n .popsection\n");

/* Where those go that do not fault. */
static void well(void)
{
	siglongjmp(back, 2);
}
void (*fault_went_well)(void) = well;
extern char fault_well[];
__asm__(".text\nfault_well: mov fault_stack(%rip), %rsp\n jmp *fault_went_well(%rip)\n");
uintptr_t fault_stack;

/* From the instruction on, if it is there. */
static uintptr_t near(uintptr_t address)
{
	uintptr_t at = address - (uintptr_t)shape->place;

	return at + 64 < 128 ? at : address;
}

static void jump_back(int number, siginfo_t *info, void *data)
{
	const greg_t *regs = ((ucontext_t *)data)->uc_mcontext.gregs;
	uintptr_t below = (uintptr_t)(stack - regs[REG_RSP]);

	printf("%s, %s: %d code %d about %lx, at %lx, stack %lx, trap %lld error %llx flags %llx\n",
	       shape->before, shape->fault, number, info->si_code, near((uintptr_t)info->si_addr),
	       near((uintptr_t)regs[REG_RIP]), below < 4096 ? below : (uintptr_t)regs[REG_RSP],
	       regs[REG_TRAPNO], number == SIGTRAP ? 0 : regs[REG_ERR], regs[REG_EFL] & 0xcd5);
	siglongjmp(back, 1);
}

static void run(void *address)
{
	stack = (greg_t)__builtin_frame_address(0);
	if (!sigsetjmp(back, 1))
		((void (*)(void *))shape->code)(address);
}

static int goes_well(const char *fault)
{
	static const char *const names[] = { "load",	  "store",     "compare",      "vector",
					     "jump_to",	  "call_to",   "jump_by",      "call_by",
					     "return_to", "return_on", "return_astray" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(fault, names[i]))
			return 1;
	return 0;
}

int main(void)
{
	static const uintptr_t targets[] = { UINT64_C(0x123456789abcdef0), UINT64_C(1) << 47,
					     UINT64_C(0xffffffffff000000), 0x10 };
	static char signal_stack[65536], room[64] __attribute__((aligned(64))), own[16384];
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

	sigaltstack(&(stack_t){ .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) }, NULL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		seen_ask(numbers[i], SA_ONSTACK, jump_back, 0);
	fault_stack = (uintptr_t)own + sizeof(own) - 128;
	for (shape = shapes; shape->code; shape++)
		for (volatile int round = 0; round < 4; round++) {
			fault_target = (uintptr_t)fault_well;
			for (volatile int i = 0; round == 2 && goes_well(shape->fault) && i < OFTEN;
			     i++)
				run(room);
			fault_target = targets[round];
			run((void *)(round & 1 ? 8 : UINT64_C(0x1122334455667788)));
		}
	return 0;
}
