/* SPDX-License-Identifier: MIT */
/*
 * What is tried on this machine. What a seccomp filter may kill for is tried in a child of ours, which can be spared.
 */
#include "session/claim/holder.h"
#include "session/doctor/launched.h"
#include "session/doctor/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHERS_MAX 256
#define TRIAL_S 5 /* what is left behind ends by itself after that */

static uintptr_t page_bytes(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static int perf_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static void perf_close(int fd)
{
	close(fd);
}

static int perf_ring(int fd, size_t bytes)
{
	void *ring = mmap(NULL, bytes + page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (ring == MAP_FAILED)
		return -errno;
	munmap(ring, bytes + page_bytes());
	return 0;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* Whatever we were started with: the alarm ends us. */
static void end_soon(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	signal(SIGALRM, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	alarm(TRIAL_S);
}

/* In a child: 0 or more of what it returns, or its negative error. */
static int in_child(int (*trial)(int), int argument)
{
	int ends[2], result = -ECANCELED;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		result = -errno;
	} else if (!pid) {
		end_soon();
		result = trial(argument);
		if (write(ends[1], &result, sizeof(result)) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[1]);
	if (pid > 0) {
		int got;

		if (read(ends[0], &got, sizeof(got)) == (ssize_t)sizeof(got))
			result = got;
		reap(pid);
	}
	close(ends[0]);
	return result;
}

static int dumpable(void)
{
	return prctl(PR_GET_DUMPABLE);
}

static int tsc_trial(int unused)
{
	int mode = PR_TSC_ENABLE;

	(void)unused;
	/* asked first: to read it where it is forbidden is SIGSEGV, and a core file */
	if (!prctl(PR_GET_TSC, &mode) && mode != PR_TSC_ENABLE)
		return -EACCES;
	return __builtin_ia32_rdtsc() ? 0 : -ENODATA;
}

static int tsc(void)
{
	return in_child(tsc_trial, 0);
}

static int sync_core_trial(int unused)
{
	(void)unused;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
		return -errno;
	return 0;
}

static int sync_core(void)
{
	return in_child(sync_core_trial, 0);
}

/* A byte of our own code, for the trial; never inlined, so that it has an address in our text. */
static __attribute__((noinline)) int trial_target(void)
{
	__asm__ volatile("");
	return 1;
}

static int write_by_mem(volatile unsigned char *at)
{
	int fd = open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC), err = 0;
	unsigned char byte = *at;
	ssize_t done;

	if (fd < 0)
		return -errno;
	done = pwrite(fd, &byte, 1, (off_t)(uintptr_t)at);
	if (done != 1)
		err = done < 0 ? -errno : -EIO;
	close(fd);
	return err;
}

/* ThreadSanitizer has no notes for what is code. */
static __attribute__((no_sanitize("thread"))) int write_code_trial(int by_mprotect)
{
	volatile unsigned char *at = (volatile unsigned char *)(uintptr_t)trial_target;
	void *page = (void *)((uintptr_t)at & ~(page_bytes() - 1));
	unsigned char byte;

	if (!by_mprotect)
		return write_by_mem(at);
	if (mprotect(page, page_bytes(), PROT_READ | PROT_WRITE | PROT_EXEC))
		return -errno;
	byte = *at;
	*at = byte; /* the same: but it is stored */
	return mprotect(page, page_bytes(), PROT_READ | PROT_EXEC) ? -errno : 0;
}

static int write_code(int by_mprotect)
{
	return in_child(write_code_trial, by_mprotect);
}

static int new_code_trial(int is_writable)
{
	void *memory = mmap(NULL, page_bytes(),
			    PROT_READ | PROT_EXEC | (is_writable ? PROT_WRITE : 0),
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	munmap(memory, page_bytes());
	return 0;
}

static int new_code(int is_writable)
{
	return in_child(new_code_trial, is_writable);
}

/* Take a process, and end it: it is one that was made for this. */
static int take_and_end(pid_t pid, int is_child)
{
	int err = ptrace(PTRACE_SEIZE, pid, NULL, NULL) ? -errno : 0;

	kill(pid, SIGKILL);
	if (is_child || !err)
		reap(pid);
	return err;
}

static _Noreturn void wait_for_end(void)
{
	end_soon();
	for (;;)
		pause();
}

static int trace_child_trial(int unused)
{
	pid_t pid = fork();

	(void)unused;
	if (!pid)
		wait_for_end();
	return pid < 0 ? -errno : take_and_end(pid, 1);
}

static int trace_child(void)
{
	return in_child(trace_child_trial, 0);
}

/* Who is not a descendant of ours: a grandchild whose parent has ended. Its pid comes through the pipe. */
static int stranger_make(int report)
{
	pid_t between = fork(), pid;

	if (between < 0)
		return -errno;
	if (between) {
		reap(between);
		return 0;
	}
	pid = fork();
	if (!pid)
		wait_for_end();
	if (write(report, &pid, sizeof(pid)) < 0)
		_exit(1);
	_exit(0);
}

static int trace_stranger_trial(int unused)
{
	int ends[2], err;
	pid_t pid = -1;

	(void)unused;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	err = stranger_make(ends[1]);
	if (!err && (read(ends[0], &pid, sizeof(pid)) != (ssize_t)sizeof(pid) || pid < 0))
		err = -EAGAIN;
	close(ends[0]);
	close(ends[1]);
	return err ? err : take_and_end(pid, 0);
}

static int trace_stranger(void)
{
	return in_child(trace_stranger_trial, 0);
}

/* The kernel asks the same for its memory as for ptrace(2), and opening that changes nothing. */
static int may_trace(const char *pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

static int trace_others(int *others)
{
	struct dirent *entry;
	int granted = 0;
	DIR *list = opendir("/proc");

	*others = 0;
	if (!list)
		return -errno;
	while (*others < OTHERS_MAX && (entry = readdir(list))) {
		struct stat file;

		/* a process that is not dumpable has root's files: it is passed over where it is taken for one of root's */
		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    fstatat(dirfd(list), entry->d_name, &file, 0) || file.st_uid == geteuid())
			continue;
		++*others;
		granted += may_trace(entry->d_name);
	}
	closedir(list);
	return granted;
}

static int memfd_trial(int unused)
{
	int fd = memfd_create("waymark-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *memory;

	(void)unused;
	if (fd < 0 || ftruncate(fd, (off_t)page_bytes()) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
		return -errno;
	memory = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	*(volatile char *)memory = 1;
	return 0;
}

static int memfd(void)
{
	return in_child(memfd_trial, 0);
}

static void holders(pid_t tid, int cpu, char *text, size_t bytes)
{
	const struct claim_wanted wanted = {
		.resource = CLAIM_DEBUG_REGISTER,
		.tid = cpu >= 0 ? 0
		       : tid	? tid
				: gettid(),
		.cpu = cpu,
	};

	text[0] = '\0';
	claim_holder_text(&wanted, text, bytes);
}

const struct machine_calls machine_kernel = {
	.perf_open = perf_open,
	.perf_close = perf_close,
	.perf_ring = perf_ring,
	.dumpable = dumpable,
	.tsc = tsc,
	.sync_core = sync_core,
	.write_code = write_code,
	.new_code = new_code,
	.trace_child = trace_child,
	.trace_stranger = trace_stranger,
	.trace_others = trace_others,
	.memfd = memfd,
	.holders = holders,
	.claims = claim_list_read_all,
	.launch = launched_try,
	.record = launched_record,
};
