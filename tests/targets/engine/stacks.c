/* SPDX-License-Identifier: MIT */
/*
 * Handlers on other stacks, within each other, out by a jump, and where there is no room for them.
 */
#include "seen.h"

#include <sys/mman.h>

#define DISARM (1u << 31)

static char *alternate;
static sigjmp_buf back;

static int is_on(void)
{
	char here;

	return &here >= alternate && &here < alternate + 65536;
}

static void report(const char *what)
{
	stack_t stack;

	sigaltstack(NULL, &stack);
	printf("%s: on it %d, flags %x, %zu bytes\n", what, is_on(), stack.ss_flags, stack.ss_size);
}

static void nested(int number, siginfo_t *info, void *data)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = 65536 };

	(void)info, (void)data;
	report("handler");
	printf("change while on it: %d", sigaltstack(&stack, NULL));
	printf(" %d\n", errno);
	if (number == SIGUSR1)
		raise(SIGUSR2);
	report("handler's end");
}

static void jump(int number, siginfo_t *info, void *data)
{
	(void)number, (void)data;
	printf("%d code %d on it %d\n", info->si_signo, info->si_code, is_on());
	siglongjmp(back, 1);
}

static void disarmed(void)
{
	stack_t stack = { .ss_sp = alternate, .ss_size = 65536, .ss_flags = (int)DISARM };

	printf("disarm: %d\n", sigaltstack(&stack, NULL));
	report("before");
	raise(SIGUSR1);
	report("after");
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	report("disabled");
	stack.ss_flags = 77;
	printf("bad: %d", sigaltstack(&stack, NULL));
	printf(" %d\n", errno);
	stack.ss_flags = 0;
	stack.ss_size = 2047;
	printf("small: %d", sigaltstack(&stack, NULL));
	printf(" %d\n", errno);
	printf("pointer: %ld", syscall(SYS_sigaltstack, 8, NULL));
	printf(" %d\n", errno);
	stack.ss_size = 2048; /* asked for, but no frame fits */
	printf("least: %d\n", sigaltstack(&stack, NULL));
	seen_ask(SIGSEGV, 0, jump, 0);
	if (!sigsetjmp(back, 1))
		raise(SIGUSR1);
	report("after none fitted");
}

static int eat(int n)
{
	volatile char room[512];

	room[n % 512] = (char)n;
	return n < 1 << 30 ? eat(n + 1) + room[(n + 1) % 512] : 0;
}

static void *bare(void *unused)
{
	(void)unused;
	report("thread");
	raise(SIGUSR2);
	return NULL;
}

int main(void)
{
	stack_t stack = { .ss_size = 65536 };
	pthread_t thread;

	setvbuf(stdout, NULL, _IONBF, 0);
	alternate = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack.ss_sp = alternate;
	sigaltstack(&stack, NULL);
	seen_ask(SIGUSR1, SA_ONSTACK, nested, 0);
	seen_ask(SIGUSR2, SA_ONSTACK, nested, 0);
	raise(SIGUSR1);
	report("main");
	pthread_create(&thread, NULL, bare, NULL);
	pthread_join(thread, NULL);
	seen_ask(SIGSEGV, SA_ONSTACK, jump, 0);
	for (int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1)) {
			struct rlimit limit = { 262144, 262144 };

			setrlimit(RLIMIT_STACK, &limit);
			printf("%d\n", eat(1));
		}
	report("after overflows");
	disarmed();
	return 0;
}
