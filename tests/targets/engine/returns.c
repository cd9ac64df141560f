/* SPDX-License-Identifier: MIT */
/* rt_sigreturn(2) with frames made by hand, and contexts swapped. */
#include "seen.h"

struct kernel_frame {
	uint64_t flags, link;
	stack_t stack;
	mcontext_t machine;
	uint64_t mask;
	char info[128];
};

static struct kernel_frame frame;
static struct _libc_fpstate legacy;
static sigjmp_buf back;
static ucontext_t first, second;
static char stack[65536];

static void caught(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	printf("%d code %d address %p rax %lld\n", number, info->si_code, info->si_addr,
	       context->uc_mcontext.gregs[REG_RAX]);
	siglongjmp(back, 1);
}

static void frame_return(struct kernel_frame *at)
{
	__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall\n nop" : : "r"(at) : "memory");
	__builtin_unreachable();
}

static void arrived(void)
{
	uint64_t xmm[2], rax, rbx, flags;
	uint32_t control;

	__asm__ volatile(
		"mov %%rax, %0\n mov %%rbx, %1\n movdqu %%xmm15, %2\n stmxcsr %3\n pushfq\n pop %4"
		: "=m"(rax), "=m"(rbx), "=m"(xmm), "=m"(control), "=r"(flags));
	printf("arrived: rax %lu rbx %lu xmm15 %lx %lx mxcsr %x mask %lx flags %lx\n", rax, rbx,
	       xmm[0], xmm[1], control, seen_mask(), flags & 0xfffff);
	siglongjmp(back, 1);
}

static void make(void *vectors, uint64_t flags)
{
	static char there[65536] __attribute__((aligned(64)));

	memset(&frame, 0, sizeof(frame));
	frame.flags = flags;
	frame.stack.ss_flags = SS_DISABLE;
	frame.machine.gregs[REG_RIP] = (greg_t)arrived;
	frame.machine.gregs[REG_RSP] = (greg_t)(there + 32768 - 8);
	frame.machine.gregs[REG_RAX] = 15;
	frame.machine.gregs[REG_RBX] = 99;
	frame.machine.gregs[REG_EFL] = 0x3001 | 0x202; /* IOPL and the like are not to be had */
	frame.machine.gregs[REG_CSGSFS] = (greg_t)0x002b000000000033;
	frame.machine.fpregs = vectors;
	frame.mask = 1ul << (SIGUSR2 - 1) | 1ul << (SIGKILL - 1);
	if (!sigsetjmp(back, 1))
		frame_return(&frame);
}

static void turns(int n)
{
	for (int i = 0; i < 3; i++) {
		printf("context %d\n", n + i);
		swapcontext(&second, &first);
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	seen_ask(SIGSEGV, 0, caught, 0);
	printf("no vectors\n");
	make(NULL, 6);
	printf("legacy vectors\n");
	legacy.mxcsr = 0x1fc0;
	legacy.cwd = 0x37f;
	legacy._xmm[15].element[0] = 0xabcd;
	legacy._xmm[15].element[3] = 0xef01;
	make(&legacy, 6);
	make(&legacy, 0);
	printf("bad vectors\n");
	make((void *)8, 6);
	legacy.mxcsr = 0xffffffff;
	make(&legacy, 6);
	printf("bad frame\n");
	if (!sigsetjmp(back, 1))
		frame_return((struct kernel_frame *)16);
	printf("bad place\n");
	if (!sigsetjmp(back, 1)) {
		memset(&frame, 0, sizeof(frame));
		frame.machine.gregs[REG_RIP] = 0x1234;
		frame.machine.gregs[REG_RAX] = 4;
		frame.machine.gregs[REG_RSP] = (greg_t)(stack + 32768);
		frame.machine.gregs[REG_CSGSFS] = (greg_t)0x002b000000000033;
		frame_return(&frame);
	}
	getcontext(&second);
	second.uc_stack.ss_sp = stack;
	second.uc_stack.ss_size = sizeof(stack);
	second.uc_link = &first;
	makecontext(&second, (void (*)(void))turns, 1, 5);
	for (int i = 0; i < 4; i++) {
		swapcontext(&first, &second);
		printf("main %d\n", i);
	}
	return 0;
}
