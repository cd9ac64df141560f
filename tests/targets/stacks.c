/* SPDX-License-Identifier: MIT */
/*
 * A program that stores to its variable where a signal is least welcome: stacks MODE [BYTES]. It
 * says "right" at the end, or what was wrong; or how deep a hit's signal goes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096
#define AREA (1u << 20)
#define BELOW 65536

/* Alone on its page. */
__attribute__((aligned(PAGE))) volatile uint64_t word;
__attribute__((aligned(PAGE))) volatile uint64_t own;
static volatile int seen, others;
static volatile long *below;
static size_t bytes;
static ucontext_t here, there;
static uintptr_t body_stack;
static sigjmp_buf back;

static void wrong(const char *what)
{
	printf("wrong: %s\n", what);
	exit(1);
}

__attribute__((noinline)) static void write_one(void)
{
	word = word + 1;
}

static void body(void)
{
	for (;;) {
		body_stack = (uintptr_t)__builtin_frame_address(0);
		write_one();
		swapcontext(&there, &here);
	}
}

/* `bytes` of stack, with a page without access below. */
static unsigned char *coroutine(size_t bytes)
{
	unsigned char *area = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || mprotect(area, PAGE, PROT_NONE))
		wrong("mmap");
	getcontext(&there);
	there.uc_stack.ss_sp = area + PAGE;
	there.uc_stack.ss_size = bytes;
	makecontext(&there, body, 0);
	return area + PAGE;
}

/* How far below the storing function's frame the first hit goes. */
static void deep(void)
{
	unsigned char *area = coroutine(AREA);
	size_t at = 0;

	memset(area, 0xa5, AREA - 512);
	swapcontext(&here, &there);
	while (area[at] == 0xa5)
		at++;
	printf("deep: %zu\n", (size_t)(body_stack - (uintptr_t)(area + at)));
}

static void on_coroutines(void)
{
	coroutine(16384);
	for (int i = 0; i < 100; i++)
		swapcontext(&here, &there);
}

static void *write_ten(void *unused)
{
	for (int i = 0; i < 10; i++)
		write_one();
	return unused;
}

static void on_small_threads(void)
{
	pthread_t threads[100];
	pthread_attr_t small;

	pthread_attr_init(&small);
	if (pthread_attr_setstacksize(&small, 16384))
		wrong("a stack's size");
	for (int i = 0; i < 100; i++)
		if (pthread_create(&threads[i], &small, write_ten, NULL))
			wrong("pthread_create");
	for (int i = 0; i < 100; i++)
		pthread_join(threads[i], NULL);
}

static void in_red_zones(void)
{
	for (int i = 0; i < 1000; i++) {
		uint64_t sum;
		double same;

		__asm__ volatile("movq $1, -8(%%rsp)\n\tmovq $2, -128(%%rsp)\n\tincq %1\n\t"
				 "movq -8(%%rsp), %0\n\taddq -128(%%rsp), %0"
				 : "=&r"(sum), "+m"(word));
		__asm__ volatile("movsd %2, %%xmm15\n\tincq %1\n\tmovsd %%xmm15, %0"
				 : "=m"(same), "+m"(word)
				 : "m"((const double){ 3.5 })
				 : "xmm15");
		if (sum != 3 || same != 3.5)
			wrong("a red zone, or a vector register");
	}
}

static void on_jump(int number)
{
	(void)number;
	write_one();
	seen = seen + 1;
	siglongjmp(back, 1);
}

static void by_jumps(void)
{
	signal(SIGUSR1, on_jump);
	for (int i = 0; i < 1000; i++) {
		if (!sigsetjmp(back, 1))
			raise(SIGUSR1);
		write_one();
	}
	if (seen != 1000)
		wrong("jumps");
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)context;
	if (info->si_addr != (const void *)(uintptr_t)&word ||
	    mprotect(info->si_addr, PAGE, PROT_READ | PROT_WRITE))
		_exit(3);
	seen = seen + 1;
}

/* A write barrier, by faults. */
static void by_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < 100; i++) {
		mprotect((void *)(uintptr_t)&word, PAGE, PROT_NONE);
		write_one();
	}
	if (seen != 100 || word != 100)
		wrong("faults");
}

/* The memory goes, and other comes to its place. */
static void in_new_memory(void)
{
	void *page = (void *)(uintptr_t)&word;

	for (int i = 0; i < 100; i++) {
		write_one();
		madvise(page, PAGE, MADV_DONTNEED);
		write_one();
		munmap(page, PAGE);
		if (mmap(page, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			wrong("mmap");
		write_one();
		if (word != 1)
			wrong("new memory");
	}
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	uint64_t data;

	(void)number, (void)context;
	memcpy(&data, (const char *)info + 24, sizeof data);
	if ((info->si_code == 6 && data == 0x42) || info->si_code == SI_KERNEL)
		seen = seen + 1;
	else
		others = others + 1;
}

/* Its own breakpoints: an int3, and a debug register whose hits are signals, too. */
static void by_own_traps(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof attr,
		.sample_period = 1,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&own,
		.bp_len = sizeof own,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.remove_on_exec = 1,
		.sigtrap = 1,
		.sig_data = 0x42,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < 100; i++) {
		write_one();
		__asm__ volatile("int3");
		own = (uint64_t)i;
		write_one();
	}
	close(fd);
	if (seen != (fd < 0 ? 100 : 200) || others)
		wrong("its own traps");
}

static volatile int is_over;

static void *write_on(void *unused)
{
	while (!is_over)
		write_one();
	return unused;
}

static void by_forks(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, write_on, NULL))
			wrong("pthread_create");
	for (int i = 0; i < 100; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			write_one();
			_exit(7);
		}
		if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7)
			wrong("a child");
	}
	is_over = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static unsigned char area[BELOW + 16384]; /* an alternate stack, behind memory that must remain */

static void on_alternate(int number)
{
	(void)number;
	write_one();
}

static void on_small_alternate(void)
{
	stack_t stack = { .ss_sp = area + BELOW, .ss_size = bytes };
	struct sigaction action = { .sa_handler = on_alternate, .sa_flags = SA_ONSTACK };

	memset(area, 0x5a, BELOW);
	if (sigaltstack(&stack, NULL))
		wrong("sigaltstack");
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	for (int i = 0; i < BELOW; i++)
		if (area[i] != 0x5a)
			wrong("the memory below the stack");
}

static void below_stack(void)
{
	char line[8];

	below = (volatile long *)((char *)__builtin_frame_address(0) - bytes);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		wrong("no line");
	for (int i = 0; i < 10; i++)
		*below = i;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {
		{ "deep", deep },
		{ "coroutines", on_coroutines },
		{ "small", on_small_threads },
		{ "red", in_red_zones },
		{ "jumps", by_jumps },
		{ "faults", by_faults },
		{ "memory", in_new_memory },
		{ "traps", by_own_traps },
		{ "forks", by_forks },
		{ "alternate", on_small_alternate },
		{ "below", below_stack },
	};

	bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(modes[i].name, argv[1]))
			modes[i].run();
	puts("right");
	return 0;
}
