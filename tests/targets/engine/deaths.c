/* SPDX-License-Identifier: MIT */
/* deaths HOW: ends in one of many ways; the core, the status and what was written are looked at. */
#include "seen.h"

#include <sys/mman.h>

static void nothing(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
}

static int depth;
static void fill(int number, siginfo_t *info, void *data)
{
	(void)info, (void)data;
	depth++;
	raise(number);
}

static void *other(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

static int is(const char *how, const char *name)
{
	return !strcmp(how, name);
}

static void signals(const char *how)
{
	sigset_t set = seen_set(SIGSEGV, SIGTRAP, SIGFPE);
	static char stack[16384];
	stack_t there = { .ss_sp = stack, .ss_size = sizeof(stack) };

	if (is(how, "abort"))
		abort();
	if (is(how, "term"))
		raise(SIGTERM);
	if (is(how, "quit"))
		raise(SIGQUIT);
	if (is(how, "kill"))
		raise(SIGKILL);
	if (is(how, "trap-sent"))
		raise(SIGTRAP);
	if (is(how, "realtime"))
		raise(SIGRTMIN + 2);
	if (is(how, "segv-sent"))
		sigqueue(getpid(), SIGSEGV, (union sigval){ .sival_int = 5 });
	if (is(how,
	       /* no room for the next frame: SIGSEGV, and no room for that one's frame either */
	       "full-stack")) {
		sigaltstack(&there, NULL);
		seen_ask(SIGUSR1, SA_ONSTACK | SA_NODEFER, fill, 0);
		raise(SIGUSR1);
	}
	if (is(how, "no-stack")) {
		seen_ask(SIGUSR1, 0, nothing, 0);
		__asm__ volatile("mov $62, %%eax\n xor %%rsp, %%rsp\n syscall"
				 :
				 : "D"(getpid()), "S"(SIGUSR1));
	}
	if (is(how, "blocked")) { /* a fault does not wait */
		seen_ask(SIGSEGV, 0, nothing, 0);
		sigprocmask(SIG_BLOCK, &set, NULL);
		*(volatile int *)24 = 1;
	}
	if (is(how, "ignored")) {
		signal(SIGSEGV, SIG_IGN);
		*(volatile int *)24 = 1;
	}
	if (is(how, "no-restorer")) {
		struct {
			uint64_t handler, flags, restorer, mask;
		} action = { (uint64_t)nothing, 0, 0, 0 };

		syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
		raise(SIGUSR1);
	}
}

static void faults(const char *how)
{
	void (*volatile null)(void) = NULL;
	volatile int zero = 0;

	if (is(how, "segv"))
		*(volatile int *)24 = 1;
	if (is(how, "fpe"))
		__asm__ volatile("xor %%ecx, %%ecx\n div %%ecx" : "=a"(zero) : : "rcx", "rdx");
	if (is(how, "ill"))
		__asm__ volatile("ud2");
	if (is(how, "trap"))
		__asm__ volatile("int3");
	if (is(how, "general"))
		__asm__ volatile("hlt");
	if (is(how, "null"))
		null();
	if (is(how, "bus")) {
		FILE *file = tmpfile();
		char *at = mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0);

		zero = at[1];
	}
	if (is(how, "step"))
		__asm__ volatile("pushfq\n orl $0x100, (%rsp)\n popfq\n nop\n nop");
	if (is(how, "frame"))
		__asm__ volatile("mov $16, %rsp\n mov $15, %eax\n syscall");
}

int main(int count, char **words)
{
	pthread_t thread;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (count < 2)
		return 2;
	if (count > 2) {
		pthread_create(&thread, NULL, other, NULL);
		pthread_create(&thread, NULL, other, NULL);
	}
	signals(words[1]);
	faults(words[1]);
	printf("%s did not end it\n", words[1]);
	return 0;
}
