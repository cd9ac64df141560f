/* SPDX-License-Identifier: MIT */
/*
 * A program to probe: probed ROUNDS [THREADS [PAUSE_US]]. Each of its threads calls each function
 * once a round, with arguments that follow from the round, and checks what comes back; it ends with
 * 0 when all was right. ROUNDS 0: until SIGTERM. Nothing of it knows of Waymark.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_SDT
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
__extension__ unsigned short shop_order_semaphore __attribute__((section(".probes")));
__extension__ unsigned short shop_bare_semaphore __attribute__((section(".probes")));
#define shop_order_ENABLED() __builtin_expect(shop_order_semaphore, 0)
#endif

#define KEEP __attribute__((noinline, noclone))
#define THREADS_MAX 64

static long rounds, pause_us, semaphore_seen, wrong;
static volatile sig_atomic_t ended;
static volatile int data_word = 42;

KEEP int add(int a, long b);
KEEP long sum6(char a, short b, int c, long d, unsigned char e, uint64_t f);
KEEP double scale(double by, int n);
KEEP size_t greet(const char *name, const char *nothing, const char *nowhere);
KEEP uint64_t factorial(unsigned int n);
void split(void); /* something jumps behind the prefix of its first instruction */
void lean(void);  /* a ret, another function behind it: one byte is written */
int hop(int n);	  /* n - 64, by a jump: the bytes behind its opcode have to change */
int past(int n);  /* n + 7: its push can't become a jump, for that leads into the program itself */
KEEP int jumps(jmp_buf *back, int n);
KEEP int tail(int n);

int add(int a, long b)
{
	__asm__ volatile("" : "+r"(a), "+r"(b));
	return a + (int)b; /* line of add */
}

long sum6(char a, short b, int c, long d, unsigned char e, uint64_t f)
{
	__asm__ volatile("" : "+r"(c));
	return a + b + c + d + e + (long)f;
}

double scale(double by, int n)
{
	__asm__ volatile("" : "+r"(n));
	return by * n;
}

size_t greet(const char *name, const char *nothing, const char *nowhere)
{
	__asm__ volatile("" : : "r"(nothing), "r"(nowhere));
	return strlen(name);
}

uint64_t factorial(unsigned int n)
{
	uint64_t below = n ? factorial(n - 1) : 1;

	__asm__ volatile("" : "+r"(below));
	return n ? n * below : 1;
}

__asm__(".text\n.globl split, split_next\n.type split, @function\n.type split_next, @function\n"
	"split:\n.cfi_startproc\n.byte 0x3e\n1: lea (%rdi), %rax\nret\n.cfi_endproc\n"
	".size split, . - split\n"
	"split_next:\n.cfi_startproc\njmp 1b\n.cfi_endproc\n.size split_next, . - split_next\n.skip 8, 0xf4\n"
	".globl lean, lean_next\n.type lean, @function\n.type lean_next, @function\n"
	"lean:\n.cfi_startproc\nret\n.cfi_endproc\n.size lean, . - lean\n"
	"lean_next:\n.cfi_startproc\nlea -64(%rdi), %rax\nret\n.cfi_endproc\n"
	".size lean_next, . - lean_next\n"
	".globl hop, past\n.type hop, @function\n.type past, @function\n"
	"past:\n.cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\nadd $-0x40000000, %rax\n"
	"lea 7(%rdi), %eax\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
	".size past, . - past\n"
	"hop:\n.cfi_startproc\n.byte 0xe9\n.long lean_next - . - 4\n.cfi_endproc\n"
	".size hop, . - hop\n");

int jumps(jmp_buf *back, int n)
{
	__asm__ volatile("" : "+r"(n));
	if (n & 1)
		longjmp(*back, n);
	return n;
}

int tail(int n)
{
	__asm__ volatile("" : "+r"(n));
	return add(n, 1);
}

static void order(int round, const char *what)
{
#ifdef HAVE_SDT
	if (shop_order_ENABLED())
		__atomic_add_fetch(&semaphore_seen, 1, __ATOMIC_RELAXED);
	DTRACE_PROBE2(shop, bare, round, what);
	DTRACE_PROBE3(shop, order, round, what, (long)round * 7);
#else
	(void)round, (void)what;
#endif
}

static void check(int right)
{
	if (!right)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void one_round(int i)
{
	char name[32];
	jmp_buf back;
	volatile int came = 0;

	snprintf(name, sizeof(name), "customer %d", i);
	check(add(i, -2L * i) == -i);
	check(sum6((char)(i % 100), -2, i, -i, (unsigned char)i, 7) ==
	      i % 100 - 2 + (unsigned char)i + 7);
	check(scale(0.5, i) == 0.5 * i);
	check(greet(name, NULL, (const char *)16) == strlen(name));
	check(factorial((unsigned int)i % 12) >= 1);
	split();
	lean();
	check(hop(i) == i - 64);
	check(past(i) == i + 7);
	if (!setjmp(back))
		came = jumps(&back, i);
	check((i & 1) ? !came : came == i);
	check(tail(i) == i + 1);
	order(i, name);
}

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static void *run(void *unused)
{
	for (long i = 1; !ended && (!rounds || i <= rounds); i++) {
		one_round((int)i);
		if (pause_us)
			usleep((useconds_t)pause_us);
	}
	return unused;
}

int main(int argc, char **argv)
{
	long threads = argc > 2 ? atol(argv[2]) : 1;
	pthread_t started[THREADS_MAX];

	rounds = argc > 1 ? atol(argv[1]) : 1;
	pause_us = argc > 3 ? atol(argv[3]) : 0;
	signal(SIGTERM, end);
	for (long i = 1; i < threads; i++)
		pthread_create(&started[i], NULL, run, NULL);
	run(NULL);
	for (long i = 1; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("semaphore %ld data %d wrong %ld\n", semaphore_seen, data_word, wrong);
	return wrong != 0;
}
