/* SPDX-License-Identifier: MIT */
/*
 * switched [ROUNDS]: threads whose states are known. `napper` sleeps, `spinner` and `rival` run on
 * one CPU against each other, `waiter` waits for what `poster` posts. Each prints a line:
 *
 *	NAME TID CPU_NS WALL_NS WAITED_NS SWITCHING_NS
 *
 * with its CPU time so far, the time since it began, and the time that it waited for a CPU by the
 * kernel's own sums: sched_info.run_delay, in /proc/thread-self/schedstat. SWITCHING_NS is the part
 * of its CPU time up to its first instruction and in calls that slept: there the kernel counts the
 * switch to the thread, and with it what a hypervisor took from the CPU meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/marker.h>

#define NAP_NS 10000000
#define SPIN_NS 300000000u

static sem_t posted, taken;
static pthread_barrier_t both;
static int cpu, rounds = 20;
static __thread uint64_t switching_ns;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A macro, so that no function is between the caller and the call. */
#define SLEEPING(call)                                                                             \
	do {                                                                                       \
		uint64_t before_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);                              \
                                                                                                   \
		call;                                                                              \
		switching_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;                       \
	} while (0)

/* By a system call of its own, so that the place is in this function. */
static __attribute__((noinline)) void nap(void)
{
	const struct timespec length = { .tv_nsec = NAP_NS };
#ifdef __x86_64__
	long result = SYS_nanosleep;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(&length), "S"(NULL)
			 : "rcx", "r11", "memory");
#else
	nanosleep(&length, NULL);
#endif
}

static uint64_t begin(const char *name)
{
	switching_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	prctl(PR_SET_NAME, name);
	return now_ns(CLOCK_MONOTONIC);
}

static unsigned long long waited_ns(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	unsigned long long ns;

	if (!file || fscanf(file, "%*s %llu", &ns) != 1)
		exit(3);
	fclose(file);
	return ns;
}

static void end(const char *name, uint64_t begin_ns)
{
	uint64_t wall_ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
	unsigned long long delay_ns = waited_ns();

	printf("%s %ld %llu %llu %llu %llu\n", name, syscall(SYS_gettid),
	       (unsigned long long)now_ns(CLOCK_THREAD_CPUTIME_ID), (unsigned long long)wall_ns,
	       delay_ns, (unsigned long long)switching_ns);
}

static void *napper(void *name)
{
	uint64_t begin_ns = begin(name);

	WAYMARK_BEGIN(switched, napper);
	for (int i = 0; i < rounds; i++) {
		WAYMARK_BEGIN(switched, one_nap);
		SLEEPING(nap());
		WAYMARK_END(switched, one_nap);
	}
	WAYMARK_END(switched, napper);
	end(name, begin_ns);
	return NULL;
}

/* Both spin until each has had its time, so that each is there as long as the other needs. */
static void *spinner(void *name)
{
	uint64_t begin_ns = begin(name), until_ns;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_barrier_wait(&both);
	WAYMARK_BEGIN(switched, spinner);
	until_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + SPIN_NS;
	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until_ns)
		continue;
	WAYMARK_END(switched, spinner);
	end(name, begin_ns);
	return NULL;
}

static void *waiter(void *name)
{
	uint64_t begin_ns = begin(name);

	WAYMARK_BEGIN(switched, waiter);
	for (int i = 0; i < rounds; i++) {
		SLEEPING(sem_wait(&posted));
		sem_post(&taken);
	}
	WAYMARK_END(switched, waiter);
	end(name, begin_ns);
	return NULL;
}

static void *poster(void *name)
{
	uint64_t begin_ns = begin(name);

	for (int i = 0; i < rounds; i++) {
		SLEEPING(nap());
		sem_post(&posted);
		SLEEPING(sem_wait(&taken));
	}
	end(name, begin_ns);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct {
		void *(*run)(void *name);
		const char *name;
	} all[] = { { napper, "napper" },
		    { spinner, "spinner" },
		    { spinner, "rival" },
		    { waiter, "waiter" },
		    { poster, "poster" } };
	pthread_t threads[5];

	if (argc > 1)
		rounds = atoi(argv[1]);
	cpu = sched_getcpu();
	sem_init(&posted, 0, 0);
	sem_init(&taken, 0, 0);
	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 5; i++)
		if (pthread_create(&threads[i], NULL, all[i].run, (void *)(uintptr_t)all[i].name))
			return 1;
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	end("main", 0);
	return 0;
}
