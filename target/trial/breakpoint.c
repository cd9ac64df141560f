/* SPDX-License-Identifier: MIT */
/* Whether debug registers fire: a known access, and the count that it must leave. */
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <immintrin.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS_MAX 4

static _Alignas(64) volatile unsigned char watched[128];
static volatile sig_atomic_t signals;

static int breakpoint_open(struct perf_event_attr *attr, const volatile void *address, int cpu)
{
	long fd;

	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->bp_addr = (uintptr_t)address;
	attr->sample_period = 1;
	attr->exclude_kernel = 1;
	attr->exclude_hv = 1;
	/* what stays disabled is accepted, and never fires */
	attr->disabled = simulate_is_on(SIMULATED_DEBUG_REGISTERS) ||
			 (trial_rounds > 1 && simulate_is_on(SIMULATED_DEBUG_REGISTERS_LATER));
	fd = syscall(SYS_perf_event_open, attr, cpu < 0 ? 0 : -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

static uint64_t count_close(int fd)
{
	uint64_t hits = 0;

	if (read(fd, &hits, sizeof(hits)) != (ssize_t)sizeof(hits))
		hits = 0;
	close(fd);
	return hits;
}

/* Instructions, so that each is one access of that many bytes. */
static void store(unsigned int bytes)
{
	volatile void *at = watched;

	switch (bytes) {
	case 1:
		__asm__ volatile("movb $1, (%0)" ::"r"(at) : "memory");
		break;
	case 2:
		__asm__ volatile("movw $1, (%0)" ::"r"(at) : "memory");
		break;
	case 4:
		__asm__ volatile("movl $1, (%0)" ::"r"(at) : "memory");
		break;
	default:
		__asm__ volatile("movq $1, (%0)" ::"r"(at) : "memory");
	}
}

static void load(unsigned int bytes)
{
	volatile void *at = watched;

	switch (bytes) {
	case 1:
		__asm__ volatile("movb (%0), %%al" ::"r"(at) : "rax");
		break;
	case 2:
		__asm__ volatile("movw (%0), %%ax" ::"r"(at) : "rax");
		break;
	case 4:
		__asm__ volatile("movl (%0), %%eax" ::"r"(at) : "rax");
		break;
	default:
		__asm__ volatile("movq (%0), %%rax" ::"r"(at) : "rax");
	}
}

static __attribute__((noinline)) void run(unsigned int bytes)
{
	__asm__ volatile("" ::"r"(bytes) : "memory");
}

/*
 * `length` is that of the breakpoint and of the access; of code it is 0. On every CPU of the
 * sample.
 */
static int try_length(struct trial_answer *answer, uint32_t type, unsigned int length,
		      void (*access)(unsigned int))
{
	struct perf_event_attr attr = { .bp_type = type, .bp_len = length ? length : sizeof(long) };
	int cpus[CPUS_MAX], moved = 0;
	size_t count = length == 8 ? trial_cpus(cpus, CPUS_MAX) : 0;
	int fd = breakpoint_open(
		&attr, length ? (const volatile void *)watched : (void *)(uintptr_t)run, -1);
	/* through memory: a copy of the function, made for one argument, would be elsewhere */
	void (*volatile call)(unsigned int) = access;
	uint64_t hits;

	if (fd < 0) {
		trial_unknown(answer, fd);
		return 0;
	}
	call(length);
	for (size_t i = 0; i < count; i++) {
		if (trial_move(cpus[i]))
			continue;
		moved++;
		call(length);
	}
	hits = count_close(fd);
	if (hits == 1u + (unsigned int)moved)
		return 1;
	if (length)
		trial_says(answer, 0, "%u byte%s: %llu of %d hits", length, length == 1 ? "" : "s",
			   (unsigned long long)hits, 1 + moved);
	else
		trial_says(answer, 0, "%llu of 1 hits", (unsigned long long)hits);
	return 0;
}

static void try_access(struct trial_answer *answer, uint32_t type, void (*access)(unsigned int))
{
	for (unsigned int length = 1; length <= 8; length *= 2)
		if (!try_length(answer, type, length, access))
			return;
	trial_says(answer, 1, "%s", "");
}

static void on_trap(int signal)
{
	(void)signal;
	signals++;
}

static void try_signal(struct trial_answer *answer)
{
	struct perf_event_attr attr = {
		.bp_type = HW_BREAKPOINT_W, .bp_len = 8, .sigtrap = 1, .remove_on_exec = 1
	};
	struct sigaction action = { .sa_handler = on_trap };
	int fd;

	sigaction(SIGTRAP, &action, NULL);
	fd = breakpoint_open(&attr, watched, -1);
	if (fd < 0) {
		trial_unknown(answer, fd);
		return;
	}
	store(8);
	close(fd);
	if (signals == 1)
		trial_says(answer, 1, "%s", "");
	else
		trial_says(answer, 0, "%d of 1 signals", (int)signals);
}

/* ---- stores whose mask leaves out what is watched ---- */

__attribute__((target("avx512bw"))) static void masked_avx512(void)
{
	_mm512_mask_storeu_epi8((void *)(uintptr_t)watched, 0xffff, _mm512_setzero_si512());
}

__attribute__((target("avx2"))) static void masked_avx2(void)
{
	const __m256i mask = _mm256_setr_epi32(-1, -1, 0, 0, 0, 0, 0, 0);

	_mm256_maskstore_epi32((int *)(uintptr_t)watched, mask, _mm256_setzero_si256());
}

static void masked_sse2(void)
{
	const __m128i mask = _mm_setr_epi32(-1, -1, 0, 0);

	_mm_maskmoveu_si128(_mm_setzero_si128(), mask, (char *)(uintptr_t)watched);
}

static const char *try_masked_stores(struct trial_answer *answer)
{
	static const struct {
		const char *name;
		void (*store)(void);
		unsigned int at; /* of the eight bytes that it leaves alone */
	} forms[] = {
		{ "AVX-512", masked_avx512, 48 },
		{ "AVX2", masked_avx2, 24 },
		{ "SSE2", masked_sse2, 8 },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		struct perf_event_attr attr = { .bp_type = HW_BREAKPOINT_W, .bp_len = 8 };
		int is_there = i == 0	? __builtin_cpu_supports("avx512bw")
			       : i == 1 ? __builtin_cpu_supports("avx2")
					: 1;
		int fd;

		if (!is_there)
			continue;
		fd = breakpoint_open(&attr, watched + forms[i].at, -1);
		if (fd < 0) {
			trial_unknown(answer, fd);
			return NULL;
		}
		forms[i].store();
		if (count_close(fd))
			return forms[i].name;
	}
	return "";
}

static void try_masked(struct trial_answer *answer, const struct trial_answer *plain)
{
	const char *which;

	if (plain->state != TRIAL_WORKS) {
		/* what never fires says nothing of masks */
		trial_unknown(answer, plain->state == TRIAL_FAILS ? -EOPNOTSUPP : plain->error);
		return;
	}
	which = try_masked_stores(answer);
	if (which)
		trial_says(answer, !*which, "%s", which);
}

void trial_group_breakpoint(struct trial_answer answers[TRIAL_COUNT])
{
	try_access(&answers[TRIAL_BREAKPOINT_WRITE], HW_BREAKPOINT_W, store);
	try_access(&answers[TRIAL_BREAKPOINT_ACCESS], HW_BREAKPOINT_RW, load);
	if (try_length(&answers[TRIAL_BREAKPOINT_EXECUTE], HW_BREAKPOINT_X, 0, run))
		trial_says(&answers[TRIAL_BREAKPOINT_EXECUTE], 1, "%s", "");
	try_signal(&answers[TRIAL_BREAKPOINT_SIGNAL]);
	try_masked(&answers[TRIAL_BREAKPOINT_MASKED], &answers[TRIAL_BREAKPOINT_WRITE]);
}

void trial_group_breakpoint_cpu(struct trial_answer answers[TRIAL_COUNT])
{
	struct trial_answer *answer = &answers[TRIAL_BREAKPOINT_CPU];
	struct perf_event_attr attr = { .bp_type = HW_BREAKPOINT_W, .bp_len = 8 };
	int cpu, fd, err = trial_cpus(&cpu, 1) ? trial_move(cpu) : -EPERM;
	uint64_t hits;

	fd = err ? err : breakpoint_open(&attr, watched, cpu);
	if (fd < 0) {
		trial_unknown(answer, fd);
		return;
	}
	store(8);
	hits = count_close(fd);
	/* other processes have memory at that address, too */
	trial_says(answer, hits >= 1, "CPU %d: %s of 1 hits", cpu, hits ? "1" : "0");
}
