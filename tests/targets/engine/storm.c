/* SPDX-License-Identifier: MIT */
/*
 * storm SECONDS: signals by timers, threads and a child while everything that a signal could spoil
 * is in use: flags, all registers, string instructions, calls and returns, indirect branches,
 * vector registers. It prints sums, which must be right.
 */
#include "seen.h"

#include <immintrin.h>
#include <sys/wait.h>

static volatile int is_over;
static volatile long handled[65];
static __thread volatile long mine;

static void count(int number, siginfo_t *info, void *data)
{
	/* What we do to the registers must not be seen. */
	__asm__ volatile("vpcmpeqd %%ymm15, %%ymm15, %%ymm15\n vpxor %%ymm0, %%ymm0, %%ymm0\n"
			 "std\n stc\n cld"
			 :
			 :
			 : "xmm15", "xmm0", "cc");
	(void)info, (void)data;
	handled[number]++;
	mine++;
}

static void nested(int number, siginfo_t *info, void *data)
{
	if (mine % 64 == 0)
		raise(SIGUSR2);
	count(number, info, data);
}

static long leaf(long a)
{
	return a * 3 + 1;
}

static long twice(long a)
{
	return leaf(leaf(a));
}

static long (*const table[4])(long) = { leaf, twice, leaf, twice };

static uint64_t loop(unsigned int rounds)
{
	uint64_t sum = 1;
	char from[64] = "a string of some length to be copied again and again", to[64];

	for (unsigned int i = 0; i < rounds; i++) {
		void *at = to;
		const void *with = from;
		size_t bytes = 52;
		uint64_t carry = 0;

		sum = (uint64_t)table[(sum >> 7) & 3]((long)sum);
		__asm__ volatile("rep movsb" : "+D"(at), "+S"(with), "+c"(bytes) : : "memory");
		sum += (unsigned char)to[i % 52];
		__asm__ volatile("add %2, %0\n adc $0, %1\n"
				 : "+r"(sum), "+r"(carry)
				 : "r"(sum << 9 | 5)
				 : "cc");
		__asm__ volatile("mov $5, %%ecx\n 1: lea 3(%0), %0\n loop 1b\n"
				 : "+r"(sum)
				 :
				 : "rcx");
		sum ^= carry << 13;
	}
	return sum;
}

static uint64_t vectors(unsigned int rounds)
{
	uint64_t out[4];

	__asm__ volatile("vpxor %%ymm15, %%ymm15, %%ymm15\n vpcmpeqd %%ymm14, %%ymm14, %%ymm14\n"
			 "1: vpsubq %%ymm14, %%ymm15, %%ymm15\n"
			 "vpshufd $0x4e, %%ymm15, %%ymm15\n"
			 "dec %1\n jnz 1b\n"
			 "vmovdqu %%ymm15, %0\n"
			 : "=m"(out), "+r"(rounds)
			 :
			 : "xmm14", "xmm15", "memory", "cc");
	return out[0] * 3 + out[1] * 5 + out[2] * 7 + out[3] * 11;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int is_enough(void)
{
	return handled[SIGPROF] > 20 && handled[SIGALRM] > 50 && handled[SIGUSR1] > 50 &&
	       handled[SIGUSR2] > 50;
}

static void *work(void *data)
{
	double end = seconds() + *(double *)data;
	uint64_t first = loop(2000), vector = vectors(5000);
	long wrong = 0;

	/* A busy machine gives little time to handle much in. */
	while (seconds() < end || (!is_enough() && seconds() < end + 30))
		wrong += loop(2000) != first || vectors(5000) != vector;
	printf("%lx %lx wrong %ld\n", first, vector, wrong);
	return NULL;
}

static void *shoot(void *data)
{
	pthread_t *at = data;

	for (int i = 0; !is_over; i++) {
		pthread_kill(*at, i % 3 ? SIGUSR1 : SIGUSR2);
		if (i % 16 == 0)
			usleep(100);
	}
	return NULL;
}

int main(int words, char **word)
{
	double length = words > 1 ? atof(word[1]) : 1;
	struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	pthread_t self = pthread_self(), shooter, worker;
	sigset_t set = seen_set(SIGUSR1, SIGUSR2, SIGPROF);

	seen_ask(SIGPROF, SA_RESTART, count, 0);
	seen_ask(SIGALRM, SA_RESTART, nested, 0);
	seen_ask(SIGUSR1, SA_RESTART, nested, 0);
	seen_ask(SIGUSR2, SA_RESTART, count, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&shooter, NULL, shoot, &self);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	pthread_create(&worker, NULL, work, &length);
	setitimer(ITIMER_PROF, &often, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	work(&length);
	is_over = 1;
	pthread_join(worker, NULL);
	pthread_join(shooter, NULL);
	setitimer(ITIMER_PROF, &never, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	printf("enough %d\n", is_enough());
	if (getenv("VERBOSE"))
		fprintf(stderr, "%ld %ld %ld %ld\n", handled[SIGPROF], handled[SIGALRM],
			handled[SIGUSR1], handled[SIGUSR2]);
	return 0;
}
