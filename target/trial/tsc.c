/* SPDX-License-Identifier: MIT */
/*
 * The time stamp counter: whether it keeps its rate, whether the CPUs agree on it, and whether the
 * kernel trusts it.
 */
#include "target/process/ticks.h"
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CPUS_MAX 4
#define WINDOW_NS 1000000 /* two of them, for the rate */
#define RATE_PPM_MAX 2000 /* between the windows: what a preempted reading costs, times ten */
#define PAIR_NS 50000000  /* at most, that two CPUs hand the counter to each other */
#define HANDED_LEAST 500
#define SKEW_CYCLES_MAX 500
#define INVARIANT_TSC (1u << 8) /* CPUID 80000007h, edx: Intel SDM vol. 3, 18.17.1 */
#define SOURCES "/sys/devices/system/clocksource/clocksource0/available_clocksource"

/* No later instruction may run ahead of it, and it may not run ahead of earlier ones. */
static uint64_t tsc_ordered(void)
{
	uint64_t tsc;

	__builtin_ia32_lfence();
	tsc = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return tsc;
}

struct moment {
	uint64_t tsc, ns;
};

/* Both clocks at one time: the closest of several readings. */
static struct moment moment_read(void)
{
	struct moment best = { 0, 0 };
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 16; i++) {
		uint64_t before = tsc_ordered(), ns = ticks_clock_ns(CLOCK_MONOTONIC_RAW),
			 after = tsc_ordered();

		if (after - before >= least)
			continue;
		least = after - before;
		best = (struct moment){ before + least / 2, ns };
	}
	return best;
}

static struct moment moment_later(uint64_t ns)
{
	while (ticks_clock_ns(CLOCK_MONOTONIC_RAW) < ns)
		;
	return moment_read();
}

static void try_rate(struct trial_answer *answer)
{
	unsigned int eax, ebx, ecx, edx = 0;
	struct moment first = moment_read();
	struct moment second = moment_later(first.ns + WINDOW_NS);
	struct moment third = moment_later(second.ns + WINDOW_NS);
	double one = (double)(second.tsc - first.tsc) / (double)(second.ns - first.ns);
	double two = (double)(third.tsc - second.tsc) / (double)(third.ns - second.ns);
	double ppm = one > 0 ? (two / one - 1) * 1e6 : 1e9;

	if (!__get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) || !(edx & INVARIANT_TSC))
		trial_says(answer, 0, "CPUID says that it is not invariant");
	else if (ppm > RATE_PPM_MAX || ppm < -RATE_PPM_MAX)
		trial_says(answer, 0, "%.4f GHz, then %.4f GHz", one, two);
	else
		trial_says(answer, 1, "%.4f GHz", (one + two) / 2);
}

/* ---- two CPUs ---- */

struct pair {
	uint64_t last;	   /* the newest reading that was handed over */
	uint64_t worst;	   /* how far a later reading was behind an earlier one */
	uint64_t taken[2]; /* readings that each took over from the other */
};

static int pair_is_done(const struct pair *pair)
{
	return __atomic_load_n(&pair->taken[0], __ATOMIC_RELAXED) >= HANDED_LEAST &&
	       __atomic_load_n(&pair->taken[1], __ATOMIC_RELAXED) >= HANDED_LEAST;
}

/* One reading, held against the newest. *own is what this side handed over last. */
static void pair_read(struct pair *pair, int side, uint64_t offset, uint64_t *own)
{
	uint64_t last = __atomic_load_n(&pair->last, __ATOMIC_ACQUIRE);
	uint64_t now = tsc_ordered() + offset;

	if (last != *own)
		__atomic_store_n(&pair->taken[side], pair->taken[side] + 1, __ATOMIC_RELAXED);
	if (now < last && last - now > pair->worst)
		__atomic_store_n(&pair->worst, last - now, __ATOMIC_RELAXED);
	*own = last;
	if (now > last && __atomic_compare_exchange_n(&pair->last, &last, now, 0, __ATOMIC_RELEASE,
						      __ATOMIC_RELAXED))
		*own = now;
}

/*
 * As the kernel's check_tsc_warp() (arch/x86/kernel/tsc_sync.c), without its lock: who holds one
 * may be preempted.
 */
static void pair_run(struct pair *pair, int cpu, int side)
{
	uint64_t end_ns = ticks_clock_ns(CLOCK_MONOTONIC_RAW) + PAIR_NS, own = 0;
	uint64_t offset = side && simulate_is_on(SIMULATED_TSC) ? 1000000 : 0;

	if (trial_move(cpu))
		return;
	do {
		for (int i = 0; i < 64; i++)
			pair_read(pair, side, offset, &own);
	} while (!pair_is_done(pair) && ticks_clock_ns(CLOCK_MONOTONIC_RAW) < end_ns);
}

/* 0 or -errno; *worst in cycles. */
static int pair_try(struct pair *pair, int first, int second, uint64_t *worst)
{
	pid_t parent = getpid(), pid;

	*pair = (struct pair){ 0 };
	pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		pair_run(pair, second, 1);
		_exit(0);
	}
	if (pid < 0)
		return -errno;
	pair_run(pair, first, 0);
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	*worst = pair->worst;
	return pair_is_done(pair) || pair->worst > SKEW_CYCLES_MAX
		       ? 0
		       : -EAGAIN; /* too busy to run both at once */
}

static void try_agreement(struct trial_answer *answer)
{
	int cpus[CPUS_MAX];
	size_t count = trial_cpus(cpus, CPUS_MAX);
	struct pair *pair = mmap(NULL, sizeof(*pair), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t worst = 0;

	if (pair == MAP_FAILED || !count) {
		trial_unknown(answer, pair == MAP_FAILED ? -ENOMEM : -EPERM);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		int err = pair_try(pair, cpus[0], cpus[i], &worst);

		if (err) {
			trial_unknown(answer, err);
			return;
		}
		if (worst > SKEW_CYCLES_MAX) {
			trial_says(answer, 0, "CPU %d and CPU %d: by %llu cycles", cpus[0], cpus[i],
				   (unsigned long long)worst);
			return;
		}
	}
	trial_says(answer, 1, "%zu CPUs compared", count);
}

/* Without stdio: a thread of the program may have held its locks as we were forked. */
static void try_trust(struct trial_answer *answer)
{
	char line[256];
	int fd = open(SOURCES, O_RDONLY | O_CLOEXEC), is_offered = 0;
	ssize_t got = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (got < 0) {
		trial_unknown(answer, -errno);
	} else {
		line[got] = '\0';
		for (char *rest = NULL, *word = strtok_r(line, " \n", &rest); word;
		     word = strtok_r(NULL, " \n", &rest))
			is_offered |= !strcmp(word, "tsc");
		trial_says(answer, is_offered && !simulate_is_on(SIMULATED_TSC), "%s", "");
	}
	if (fd >= 0)
		close(fd);
}

void trial_group_tsc_trust(struct trial_answer answers[TRIAL_COUNT])
{
	try_trust(&answers[TRIAL_TSC_TRUSTED]);
}

void trial_group_tsc(struct trial_answer answers[TRIAL_COUNT])
{
	int mode = PR_TSC_ENABLE;

	/* asked first: to read it where that is forbidden raises SIGSEGV */
	if (!prctl(PR_GET_TSC, &mode) && mode != PR_TSC_ENABLE) {
		trial_unknown(&answers[TRIAL_TSC_RATE], -EACCES);
		trial_unknown(&answers[TRIAL_TSC_AGREES], -EACCES);
		return;
	}
	try_rate(&answers[TRIAL_TSC_RATE]);
	try_agreement(&answers[TRIAL_TSC_AGREES]);
}
