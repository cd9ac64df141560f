/* SPDX-License-Identifier: MIT */
/*
 * Cross-modifying code as markers and detours do it: one thread stores the first byte of an
 * instruction, membarrier(2) syncs every core, and another thread, which runs that instruction all
 * the while, must take the new one from then on. A marker's two instructions have one length. A
 * detour's have not: the next one begins elsewhere.
 */
#include "target/process/ticks.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100
#define ROUNDS_LEAST 10
#define ENOUGH_NS 10000000 /* with ROUNDS_LEAST */
#define LIMIT_NS 500000000 /* with fewer: on a busy machine each round takes a time slice */
#define DORMANT 0x3d	   /* cmp $imm32, %eax */
#define MOVED_DORMANT 0x90 /* nop */
#define ARMED 0xe9	   /* jmp rel32 */
#define STACK_BYTES 16384

/* 0 while dormant, 1 while armed; only this trial runs them. */
int trial_code_site(void);
int trial_code_moved(void);
__asm__(".pushsection .text\n"
	"trial_code_site:\n"
	".byte 0x3d\n"
	".long 1f - . - 4\n"
	"xor %eax, %eax\n"
	"ret\n"
	"1: mov $1, %eax\n"
	"ret\n"
	/* a nop, nopl (%rax), add %al, %al; or a jump over 0x1f0f bytes, and %al is left out */
	"trial_code_moved: .byte 0x90, 0x0f, 0x1f, 0x00, 0x00, 0xc0\n"
	"xor %eax, %eax\n"
	"ret\n"
	".fill 0x1f0f + 5 - (. - trial_code_moved), 1, 0xcc\n"
	"mov $1, %eax\n"
	"ret\n"
	".popsection");

static int (*const sites[])(void) = { trial_code_site, trial_code_moved };
static const unsigned char dormant[] = { DORMANT, MOVED_DORMANT };
#define SITES (sizeof(sites) / sizeof(sites[0]))

static struct {
	uint64_t phase; /* even: the site is settled, armed when bit 1 is set; odd: it changes */
	uint64_t calls, wrong;
	int is_over, is_running;
} shared;

static _Alignas(16) char stack[STACK_BYTES];

/*
 * The other thread. A process of its own that shares our memory: no libc's thread is made in a
 * child of a program's.
 */
static int run_site(void *parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != *(pid_t *)parent)
		_exit(1);
	__atomic_store_n(&shared.is_running, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared.is_over, __ATOMIC_ACQUIRE)) {
		uint64_t before = __atomic_load_n(&shared.phase, __ATOMIC_ACQUIRE);
		int results[SITES] = { 0 }, is_settled;

		for (size_t i = 0; i < SITES; i++)
			results[i] = sites[i]();
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* the phase is read behind the sites */
		is_settled = before % 2 == 0 &&
			     __atomic_load_n(&shared.phase, __ATOMIC_ACQUIRE) == before;
		for (size_t i = 0; i < SITES; i++) {
			shared.wrong += is_settled && results[i] != (int)(before / 2 % 2);
			shared.wrong += results[i] != 0 && results[i] != 1;
		}
		__atomic_store_n(&shared.calls, shared.calls + 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* /proc/self/mem as the agent does it. */
static int bytes_store(int mem, int arm)
{
	for (size_t i = 0; i < SITES; i++) {
		unsigned char byte = arm ? ARMED : dormant[i];
		ssize_t done = pwrite(mem, &byte, 1, (off_t)(uintptr_t)sites[i]);

		if (done != 1)
			return done < 0 ? -errno : -EIO;
	}
	return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ? -errno
											 : 0;
}

/* The other thread has run the site meanwhile; or the time is over. */
static void await_calls(uint64_t more, uint64_t end_ns)
{
	uint64_t target = __atomic_load_n(&shared.calls, __ATOMIC_RELAXED) + more;

	while (__atomic_load_n(&shared.calls, __ATOMIC_RELAXED) < target &&
	       ticks_monotonic_ns() < end_ns)
		sched_yield(); /* both may have one CPU */
}

static int change(int mem, unsigned int *rounds)
{
	uint64_t enough_ns = ticks_monotonic_ns() + ENOUGH_NS,
		 end_ns = ticks_monotonic_ns() + LIMIT_NS;
	int err = 0;

	while (!__atomic_load_n(&shared.is_running, __ATOMIC_ACQUIRE) &&
	       ticks_monotonic_ns() < end_ns)
		sched_yield();
	for (*rounds = 0; *rounds < ROUNDS && !err; ++*rounds) {
		if (ticks_monotonic_ns() >= (*rounds < ROUNDS_LEAST ? end_ns : enough_ns))
			break;
		__atomic_add_fetch(&shared.phase, 1, __ATOMIC_SEQ_CST);
		err = bytes_store(mem, !(*rounds % 2));
		__atomic_add_fetch(&shared.phase, 1, __ATOMIC_SEQ_CST);
		await_calls(2, end_ns);
	}
	__atomic_store_n(&shared.is_over, 1, __ATOMIC_RELEASE);
	return err;
}

void trial_group_code(struct trial_answer answers[TRIAL_COUNT])
{
	struct trial_answer *answer = &answers[TRIAL_CODE_CHANGE];
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC), status = 0, err = 0;
	unsigned int rounds = 0;
	pid_t own = getpid(), pid = -1;

	if (mem < 0 ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0)) {
		trial_unknown(answer, -errno);
		return;
	}
	pid = clone(run_site, stack + sizeof(stack), CLONE_VM | CLONE_FILES, &own);
	if (pid < 0) {
		trial_unknown(answer, -errno);
		return;
	}
	err = change(mem, &rounds);
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		trial_says(answer, 0, "signal %d after %u changes", WTERMSIG(status), rounds);
	else if (err || (rounds < ROUNDS_LEAST && !shared.wrong))
		trial_unknown(answer,
			      err ? err : -EAGAIN); /* the machine was too busy to see both run */
	else
		trial_says(answer, !shared.wrong, "%u changes, %llu calls, %llu wrong", rounds,
			   (unsigned long long)shared.calls, (unsigned long long)shared.wrong);
}
