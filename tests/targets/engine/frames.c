/* SPDX-License-Identifier: MIT */
/* What a signal frame says, and what a handler may change in it. */
#include "seen.h"

#include <immintrin.h>
#include <sys/mman.h>

static char alternate[65536] __attribute__((aligned(64)));
static volatile uint64_t handled;

static uint64_t rsp_now(void)
{
	uint64_t rsp;

	__asm__("mov %%rsp, %0" : "=r"(rsp));
	return rsp;
}

static void about(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uint64_t mask;
	uint32_t control;

	memcpy(&mask, &context->uc_sigmask, 8);
	__asm__ volatile("stmxcsr %0" : "=m"(control));
	printf("%d code %d: flags %lx link %p stack %d %zu mask %lx oldmask %llx\n", number,
	       info->si_code, context->uc_flags, (void *)context->uc_link,
	       context->uc_stack.ss_flags, context->uc_stack.ss_size, mask,
	       context->uc_mcontext.gregs[REG_OLDMASK]);
	printf("trap %lld error %lld address %llx segments %llx mxcsr %x\n",
	       context->uc_mcontext.gregs[REG_TRAPNO], context->uc_mcontext.gregs[REG_ERR],
	       context->uc_mcontext.gregs[REG_CR2], context->uc_mcontext.gregs[REG_CSGSFS],
	       control);
	printf("frame: vectors at %lu of 64, context at %lu of 16, state %x of %x bytes, on the other stack %d\n",
	       (uintptr_t)context->uc_mcontext.fpregs % 64, (uintptr_t)context % 16,
	       context->uc_mcontext.fpregs->__glibc_reserved1[12],
	       context->uc_mcontext.fpregs->__glibc_reserved1[13],
	       (char *)rsp_now() >= alternate && (char *)rsp_now() < alternate + sizeof(alternate));
	printf("below: vectors %d, context %lld\n",
	       (long long)context->uc_mcontext.gregs[REG_RSP] -
			       (long long)(uintptr_t)context->uc_mcontext.fpregs >
		       0,
	       (long long)(uintptr_t)context->uc_mcontext.fpregs - (long long)(uintptr_t)context);
	handled++;
}

/*
 * The vector registers at a handler's beginning are as the processor begins with; behind it as they
 * were.
 */
static uint64_t seen15[8];
static void vectors(int number, siginfo_t *info, void *data)
{
	__asm__ volatile("vmovdqu %%ymm15, %0" : "=m"(*(__m256i *)seen15));
	__asm__ volatile("vpcmpeqd %%ymm15, %%ymm15, %%ymm15\n vpcmpeqd %%ymm3, %%ymm3, %%ymm3" ::
				 : "xmm15", "xmm3");
	(void)number, (void)info, (void)data;
}

static void keep_vectors(void)
{
	uint64_t in[4] = { 1, 2, 3, 4 }, in3[4] = { 5, 6, 7, 8 }, out[4], out3[4];
	long pid = getpid(), result;

	__asm__ volatile("vmovdqu %[in], %%ymm15\n vmovdqu %[in3], %%ymm3\n"
			 "syscall\n"
			 "vmovdqu %%ymm15, %[out]\n vmovdqu %%ymm3, %[out3]"
			 : [out] "=m"(out), [out3] "=m"(out3), "=a"(result)
			 : [in] "m"(in), [in3] "m"(in3), "a"(SYS_kill), "D"(pid), "S"(SIGUSR1)
			 : "rcx", "r11", "xmm15", "xmm3", "memory");
	printf("in the handler %lu %lu %lu %lu, behind it %lu %lu %lu %lu and %lu %lu %lu %lu\n",
	       seen15[0], seen15[1], seen15[2], seen15[3], out[0], out[1], out[2], out[3], out3[0],
	       out3[1], out3[2], out3[3]);
}

/* A handler that changes what it returns to: ymm15 in the saved state, rax, rip. */
extern char change_at[], change_to[];
static void change(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uint32_t *xmm = (uint32_t *)&context->uc_mcontext.fpregs->_xmm[15];
	uint8_t *state = (uint8_t *)context->uc_mcontext.fpregs;

	printf("%d at %ld code %d address %ld\n", number,
	       (long)context->uc_mcontext.gregs[REG_RIP] - (long)change_at, info->si_code,
	       (long)info->si_addr - (long)change_at);
	xmm[0] = 0x1111;
	xmm[3] = 0x2222;
	*(uint64_t *)(state + 512) |= 6; /* they are there */
	*(uint64_t *)(state + 576 + 15 * 16 + 8) = 0x3333;
	context->uc_mcontext.gregs[REG_RAX] = 77;
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)change_to;
	context->uc_mcontext.gregs[REG_EFL] |= 0x400; /* the direction flag */
	sigaddset(&context->uc_sigmask, SIGWINCH);
}

static void changed(void)
{
	uint64_t out[4], rax, flags;
	sigset_t set;

	__asm__ volatile("vpxor %%ymm15, %%ymm15, %%ymm15\n"
			 "xor %%eax, %%eax\n"
			 "change_at: ud2\n"
			 "mov $1, %%eax\n"
			 "change_to: pushfq\n pop %[flags]\n cld\n"
			 "vmovdqu %%ymm15, %[out]\n"
			 : [out] "=m"(out), "=&a"(rax), [flags] "=&r"(flags)
			 :
			 : "xmm15", "memory");
	sigprocmask(SIG_BLOCK, NULL, &set);
	printf("rax %lu ymm15 %lx %lx %lx %lx direction %lu blocked %d\n", rax, out[0], out[1],
	       out[2], out[3], flags >> 10 & 1, sigismember(&set, SIGWINCH));
}

int main(void)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) }, was;
	uint32_t control = 0x9fc0;
	sigset_t set;

	setvbuf(stdout, NULL, _IONBF, 0);
	seen_ask(SIGUSR1, 0, about, SIGUSR2);
	raise(SIGUSR1);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	__asm__ volatile("ldmxcsr %0" : : "m"(control));
	raise(SIGUSR1);
	__asm__ volatile("stmxcsr %0" : "=m"(control));
	printf("mxcsr %x\n", control);
	control = 0x1f80;
	__asm__ volatile("ldmxcsr %0" : : "m"(control));
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigaltstack(&stack, NULL);
	seen_ask(SIGUSR1, SA_ONSTACK, about, 0);
	raise(SIGUSR1);
	sigaltstack(NULL, &was);
	printf("stack %d %d\n", was.ss_flags, was.ss_sp == alternate);
	seen_ask(SIGUSR1, 0, vectors, 0);
	keep_vectors();
	seen_ask(SIGILL, SA_ONSTACK, change, 0);
	changed();
	changed();
	/* The last trap stays in the frames that follow. */
	seen_ask(SIGSEGV, SA_ONSTACK | SA_RESETHAND, change, 0);
	seen_ask(SIGUSR1, 0, about, 0);
	raise(SIGUSR1);
	printf("handled %lu\n", handled);
	return 0;
}
