/* SPDX-License-Identifier: MIT */
/*
 * What a hit asks of its thread. confined MODE: a thread whose filter kills for every system call
 * but its end and the return from a signal passes markers and calls functions there. confined
 * stack: how many bytes of its stack a thread's first hits and later ones take. The last line is
 * "hits N": so many markers were passed, and as many calls.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/marker.h>

#define STACK_BYTES (8u << 20)
#define OTHER_BYTES 65536u
#define SIGNALS 500
#define PAUSE 200 /* fewer events, and most signals in a hit yet */
#define PAINT 0xa5

static volatile uint64_t hits;
static volatile int signals, is_over;
static const char *mode;

static int is_mode(const char *name)
{
	return !strcmp(mode, name);
}

__attribute__((noinline)) long called(long number, const char *text)
{
	__asm__ volatile("" : : "r"(text));
	return number + 1;
}

__attribute__((noinline)) void pass(long number)
{
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	WAYMARK(confined, here, number, "some text");
	called(number, "other text");
}

__attribute__((noinline)) static void pass_below(size_t bytes)
{
	volatile char *frame = alloca(bytes);

	frame[0] = 1;
	pass((long)bytes);
	frame[0] = 2;
}

/* ---- coroutines: each call of resume() runs the other stack until it yields ---- */

static __thread void *back, *other;
void stack_switch(void **from, void *to);
__asm__(".text\n.type stack_switch,@function\nstack_switch:\n"
	"push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
	"mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
	"pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void other_make(char *memory, size_t bytes, void (*run)(void))
{
	void **sp = (void **)(memory + bytes) - 2;

	*sp = (void *)run;
	other = memset(sp - 6, 0, 6 * sizeof *sp);
}

static void run_pass(void)
{
	for (;;) {
		for (int i = 0; i < 5; i++)
			pass(i);
		stack_switch(&other, back);
	}
}

/* ---- under a filter ---- */

static void confine(void)
{
	static struct sock_filter words[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof words / sizeof words[0], words };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		puts("no seccomp filters here");
		exit(77);
	}
}

static void on_signal(int number)
{
	signals++;
	is_over = signals >= SIGNALS;
	pass(-number);
}

static void *confined(void *data)
{
	char inner[OTHER_BYTES], *outer = data;
	stack_t stack = { .ss_sp = is_mode("signal_inner") ? inner : outer,
			  .ss_size = OTHER_BYTES };
	struct sigaction action = { .sa_handler = on_signal };

	if (is_mode("signal_outer") || is_mode("signal_inner")) {
		action.sa_flags = SA_ONSTACK;
		sigaltstack(&stack, NULL);
	}
	other_make(outer, OTHER_BYTES, run_pass);
	sigaction(SIGUSR1, &action, NULL);
	confine();
	__atomic_store_n(&signals, 0, __ATOMIC_RELEASE);
	if (is_mode("first"))
		pass(1);
	if (is_mode("many"))
		for (int i = 0; i < 20000; i++)
			pass(i);
	for (size_t below = 0; is_mode("deep") && below < STACK_BYTES / 2; below += 70000)
		pass_below(below);
	for (int i = 0; is_mode("coroutine") && i < 20; i++)
		stack_switch(&back, other);
	while (!strncmp(mode, "signal", 6) && !is_over) {
		pass(3);
		for (volatile int i = 0; i < PAUSE; i++)
			;
	}
	syscall(SYS_exit, 0);
	return NULL;
}

static void *map(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* ---- how much stack ---- */

static __thread int kind;

static void run_kind(void)
{
	for (;;) {
		if (kind == 1)
			WAYMARK(confined, here, 1l, "some text");
		if (kind == 2)
			called(2, "other text");
		hits += kind == 1;
		stack_switch(&other, back);
	}
}

static void *measure(void *data)
{
	unsigned char *memory = map(OTHER_BYTES);

	kind = (int)(intptr_t)data;
	other_make((char *)memory, OTHER_BYTES, run_kind);
	for (int i = 0; i < 2; i++) {
		size_t left = 0;

		memset(memory, PAINT, (size_t)((unsigned char *)other - memory));
		stack_switch(&back, other);
		while (memory[left] == PAINT)
			left++;
		printf("stack %d %d %zu\n", kind, i, OTHER_BYTES - left);
	}
	return NULL;
}

static void in_thread(void *(*run)(void *), void *data)
{
	pthread_attr_t attributes;
	pthread_t thread;

	signals = -1;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (pthread_create(&thread, &attributes, run, data))
		exit(1);
	while (run == confined && __atomic_load_n(&signals, __ATOMIC_ACQUIRE) < 0)
		sched_yield();
	while (!strncmp(mode, "signal", 6) && !is_over) {
		pthread_kill(thread, SIGUSR1);
		usleep(100);
	}
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	mode = argc > 1 ? argv[1] : "first";
	if (is_mode("stack"))
		for (intptr_t i = 0; i < 3; i++)
			in_thread(measure, (void *)i);
	else
		in_thread(confined, map(OTHER_BYTES));
	printf("hits %ju\n", (uintmax_t)hits);
	return 0;
}
