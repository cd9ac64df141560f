/* SPDX-License-Identifier: MIT */
/*
 * Permissions and settings, which each command tries again: files in memory, changed and new code,
 * perf events, ptrace(2). A call that the kernel refuses is a failure, with the name of its errno.
 */
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES                                                                                 \
	(512u << 10) /* kernel.perf_event_mlock_kb allows so much unless it was changed */
#define STRANGER_S 5 /* it ends by itself after that */
#define STACK_BYTES 16384

/* 0 or more: it works; -errno: the kernel refuses it. */
static void answer_call(struct trial_answer *answer, int result)
{
	const char *name = result < 0 ? strerrorname_np(-result) : "";

	trial_says(answer, result >= 0, "%s", name ? name : "");
	answer->error = result < 0 ? result : 0;
}

/* ---- memory and code ---- */

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int map(int prot, int flags, int fd)
{
	volatile char *memory = mmap(NULL, page_bytes(), prot, flags, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	if (fd >= 0)
		*memory = 1;
	return 0;
}

static int try_memfd(void)
{
	int fd = memfd_create("waymark-trial", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)page_bytes()) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
		return -errno;
	return map(PROT_READ | PROT_WRITE, MAP_SHARED, fd);
}

/* A byte of our text; nothing runs it. */
extern unsigned char trial_permission_byte[];
__asm__(".pushsection .text\n"
	"trial_permission_byte: .byte 0x90\n"
	".popsection");

static int try_text_mem(void)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ssize_t done = fd < 0 ? -1 : pwrite(fd, "\xcc", 1, (off_t)(uintptr_t)trial_permission_byte);

	return done == 1 ? 0 : done < 0 ? -errno : -EIO;
}

/* ThreadSanitizer keeps no shadow of code. */
static __attribute__((no_sanitize("thread"))) int try_text_mprotect(void)
{
	volatile unsigned char *at = trial_permission_byte;
	void *page = (void *)((uintptr_t)at & ~(uintptr_t)(page_bytes() - 1));

	if (mprotect(page, page_bytes(), PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	*at = 0x90;
	return mprotect(page, page_bytes(), PROT_READ | PROT_EXEC) ? -errno : 0;
}

static int try_membarrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
		return -errno;
	return 0;
}

/* membarrier(2) is last: of these, filters most often kill for it. */
void trial_group_permission_memory(struct trial_answer answers[TRIAL_COUNT])
{
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS, code = PROT_READ | PROT_EXEC;

	signal(SIGXFSZ, SIG_IGN); /* RLIMIT_FSIZE: EFBIG instead */
	answer_call(&answers[TRIAL_MEMFD], try_memfd());
	answer_call(&answers[TRIAL_TEXT_MEM], try_text_mem());
	answer_call(&answers[TRIAL_TEXT_MPROTECT], try_text_mprotect());
	answer_call(&answers[TRIAL_NEW_CODE], map(code, anonymous, -1));
	answer_call(&answers[TRIAL_WRITABLE_CODE], map(code | PROT_WRITE, anonymous, -1));
	answer_call(&answers[TRIAL_MEMBARRIER], try_membarrier());
}

/* ---- perf events ---- */

/* Opened disabled; the end of the child closes it. */
static int event_open(uint32_t type, uint64_t config, int is_kernel, pid_t tid, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = config,
		.disabled = 1,
		.exclude_kernel = !is_kernel,
		.exclude_hv = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static void try_ring(struct trial_answer *answer, int fd)
{
	if (fd < 0)
		trial_unknown(answer, fd);
	else if (mmap(NULL, RING_BYTES + page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
		 MAP_FAILED)
		trial_says(answer, 0, "%s", strerrorname_np(errno));
	else
		trial_says(answer, 1, "%s", "");
}

void trial_group_permission_perf(struct trial_answer answers[TRIAL_COUNT])
{
	const uint32_t soft = PERF_TYPE_SOFTWARE, dummy = PERF_COUNT_SW_DUMMY; /* takes no unit */
	int user = event_open(soft, dummy, 0, 0, -1), cpu = 0;

	answer_call(&answers[TRIAL_PERF_USER], user);
	answer_call(&answers[TRIAL_PERF_KERNEL], event_open(soft, dummy, 1, 0, -1));
	trial_cpus(&cpu, 1);
	answer_call(&answers[TRIAL_PERF_CPU], event_open(soft, dummy, 0, -1, cpu));
	try_ring(&answers[TRIAL_PERF_RING], user);
}

/* ---- ptrace(2) ---- */

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

static _Noreturn void wait_for_end(void)
{
	alarm(STRANGER_S);
	for (;;)
		pause();
}

/* Stop a process that was made for this, and end it. */
static void try_trace(struct trial_answer *answer, pid_t pid, int is_child)
{
	int err;

	if (pid < 0) {
		trial_unknown(answer, -errno);
		return;
	}
	err = ptrace(PTRACE_SEIZE, pid, NULL, NULL) ? -errno : 0;
	kill(pid, SIGKILL);
	if (is_child || !err)
		reap(pid);
	answer_call(answer, err);
}

static pid_t child_make(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);

	if (!pid)
		wait_for_end();
	return pid;
}

static int make_and_end(void *pid)
{
	*(pid_t *)pid = child_make();
	return 0;
}

/* Not a descendant of this process: its parent has ended. */
static pid_t stranger_make(void)
{
	static _Alignas(16) char stack[STACK_BYTES];
	pid_t stranger = -1,
	      between = clone(make_and_end, stack + sizeof(stack), CLONE_VM, &stranger);

	if (between < 0)
		return -1;
	reap(between);
	return stranger;
}

void trial_group_permission_trace(struct trial_answer answers[TRIAL_COUNT])
{
	try_trace(&answers[TRIAL_PTRACE_CHILD], child_make(), 1);
	try_trace(&answers[TRIAL_PTRACE_USER], stranger_make(), 0);
}
