/* SPDX-License-Identifier: MIT */
/* System calls that write to memory and do more: data is taken, processes are reaped. */
#include "tests/targets/engine/kernel_writes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define TEXT "12345678"
#define BYTES 8

static int has_text(const unsigned char *at)
{
	return !memcmp(at, TEXT, BYTES);
}

/* ---- reads ---- */

static int text_pipe(void)
{
	int pipes[2];

	if (pipe2(pipes, O_NONBLOCK) || write(pipes[1], TEXT, BYTES) != BYTES)
		exit(2);
	return pipes[0];
}

static int text_file(void)
{
	int fd = memfd_create("text", 0);

	if (fd < 0 || pwrite(fd, TEXT, BYTES, 0) != BYTES)
		exit(2);
	return fd;
}

static int read_one(unsigned char *at)
{
	int fd = text_pipe();

	operand_make(at);
	operand_run(at);
	return read(fd, at, BYTES) == BYTES && has_text(at) &&
	       operand_run(at) == UINT64_C(0x3837363534333231);
}

static int read_pages(unsigned char *at)
{
	struct iovec vectors[2] = { { at, 3 }, { area_like(at), 5 } };
	int fd = text_pipe();

	code_run(at);
	code_run(vectors[1].iov_base);
	return readv(fd, vectors, 2) == BYTES && !memcmp(at, "123", 3) &&
	       !memcmp(vectors[1].iov_base, "45678", 5);
}

/* The vectors themselves are beside code, too, and more than have ranges of their own. */
static int read_many(unsigned char *at)
{
	struct iovec *vectors = (struct iovec *)(uintptr_t)at;
	int fd = text_pipe(), is_right = 1;

	for (int i = 0; i < BYTES; i++)
		vectors[i] = (struct iovec){ area_like(at), 0 };
	for (int i = BYTES; i < 2 * BYTES; i++)
		vectors[i] = (struct iovec){ area_like(at), 1 };
	for (int i = BYTES; i < 2 * BYTES; i++)
		code_run(vectors[i].iov_base);
	code_run(at);
	if (readv(fd, vectors, 2 * BYTES) != BYTES)
		return WRONG;
	for (int i = 0; i < BYTES; i++)
		is_right &= *(char *)vectors[BYTES + i].iov_base == TEXT[i];
	return is_right;
}

static int read_at(unsigned char *at)
{
	struct iovec vector = { at, BYTES };

	code_run(at);
	return preadv(text_file(), &vector, 1, 0) == BYTES && has_text(at);
}

static int read_at_2(unsigned char *at)
{
	struct iovec vector = { at, BYTES };

	code_run(at);
	return preadv2(text_file(), &vector, 1, 0, 0) == BYTES && has_text(at);
}

static int read_process(unsigned char *at)
{
	struct iovec to = { at, BYTES }, from = { TEXT, BYTES };

	code_run(at);
	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == BYTES && has_text(at);
}

static int write_process(unsigned char *at)
{
	struct iovec to = { at, BYTES }, from = { TEXT, BYTES };

	code_run(at);
	return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == BYTES && has_text(at);
}

static int splice_pages(unsigned char *at)
{
	struct iovec to = { at, BYTES };
	int fd = text_pipe();

	code_run(at);
	return vmsplice(fd, &to, 1, 0) == BYTES && has_text(at);
}

static int folder_read(unsigned char *at, long number)
{
	int fd = open("/sys/kernel", O_RDONLY | O_DIRECTORY);
	char first[1024], second[1024];
	long got, rest;

	memset(first, FILL, sizeof(first)); /* there are gaps between the names */
	memset(second, FILL, sizeof(second));
	code_run(at);
	got = syscall(number, fd, at, 300);
	rest = syscall(number, fd, first, sizeof(first));
	lseek(fd, 0, SEEK_SET);
	return got > 0 && got == syscall(number, fd, second, 300) && !memcmp(at, second, got) &&
	       rest == syscall(number, fd, second, sizeof(second));
}

static int folder_64(unsigned char *at)
{
	return folder_read(at, SYS_getdents64);
}

static int folder_old(unsigned char *at)
{
	return folder_read(at, SYS_getdents);
}

/* ---- offsets ---- */

static int64_t *offset_at(unsigned char *at, int64_t value)
{
	memcpy(at, &value, sizeof(value));
	code_run(at);
	return (int64_t *)(uintptr_t)at;
}

static int file_sent(unsigned char *at)
{
	int from = text_file(), to = memfd_create("to", 0);
	int64_t *offset = offset_at(at, 2);

	return sendfile(to, from, offset, 5) == 5 && *offset == 7 && lseek(to, 0, SEEK_END) == 5;
}

static int file_spliced(unsigned char *at)
{
	int from = text_pipe(), to = memfd_create("to", 0);
	int64_t *offset = offset_at(at, 0);

	return splice(from, NULL, to, offset, BYTES, 0) == BYTES && *offset == BYTES &&
	       lseek(to, 0, SEEK_END) == BYTES;
}

static int file_copied(unsigned char *at)
{
	int from = text_file(), to = memfd_create("to", 0);
	int64_t *offset = offset_at(at, 2);

	return copy_file_range(from, offset, to, NULL, 5, 0) == 5 && *offset == 7 &&
	       lseek(to, 0, SEEK_END) == 5;
}

/* ---- new descriptors ---- */

/* The descriptors that come next. */
static void next_ones(int next[3])
{
	for (int i = 0; i < 3; i++)
		next[i] = dup(0);
	for (int i = 0; i < 3; i++)
		close(next[i]);
}

static int pair_made(unsigned char *at, long number)
{
	int *pair = (int *)(uintptr_t)at, next[3], behind[3];
	char got[BYTES];
	long result;

	next_ones(next);
	operand_make(at);
	operand_run(at);
	if (number == SYS_socketpair)
		result = syscall(number, AF_UNIX, SOCK_STREAM, 0, pair);
	else
		result = syscall(number, pair, 0);
	next_ones(behind);
	return !result && pair[0] == next[0] && pair[1] == next[1] && behind[0] == next[2] &&
	       write(pair[1], TEXT, BYTES) == BYTES && read(pair[0], got, BYTES) == BYTES &&
	       operand_run(at) == *(uint64_t *)(uintptr_t)at;
}

static int pair_pipe(unsigned char *at)
{
	return pair_made(at, SYS_pipe);
}

static int pair_pipe2(unsigned char *at)
{
	return pair_made(at, SYS_pipe2);
}

static int pair_sockets(unsigned char *at)
{
	return pair_made(at, SYS_socketpair);
}

static int timer_made(unsigned char *at)
{
	int *timer = (int *)(uintptr_t)at;

	operand_make(at);
	operand_run(at);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, timer))
		return WRONG;
	return (uint32_t)operand_run(at) == (uint32_t)*timer && !syscall(SYS_timer_delete, *timer);
}

/* ---- waits ---- */

static int polled(unsigned char *at, int is_old)
{
	struct pollfd *poll_at = (struct pollfd *)(uintptr_t)at;
	struct timespec *limit = (struct timespec *)(uintptr_t)(at + 512);
	int fd = text_pipe();

	poll_at[0] = (struct pollfd){ fd, POLLOUT, POLLOUT };
	poll_at[1] = (struct pollfd){ fd, POLLIN, 0 };
	*limit = (struct timespec){ LIMIT_S, 0 };
	code_run(at);
	if ((is_old ? poll(poll_at, 2, LIMIT_S * 1000)
		    : syscall(SYS_ppoll, poll_at, 2, limit, NULL, 8)) != 1)
		return WRONG;
	return !poll_at[0].revents && poll_at[1].revents == POLLIN &&
	       (is_old || limit->tv_sec < LIMIT_S);
}

static int polled_old(unsigned char *at)
{
	return polled(at, 1);
}

static int polled_mask(unsigned char *at)
{
	return polled(at, 0);
}

static int selected(unsigned char *at, long number)
{
	fd_set *in = (fd_set *)(uintptr_t)at, *out = in + 1, *except = in + 2;
	long *limit = (long *)(uintptr_t)(at + 512);
	int fd = text_pipe();

	memset(at, 0, 3 * sizeof(*in));
	FD_SET(fd, in);
	FD_SET(fd, out);
	FD_SET(fd, except);
	limit[0] = LIMIT_S;
	limit[1] = 0;
	code_run(at);
	return syscall(number, fd + 1, in, out, except, limit, NULL) == 1 && FD_ISSET(fd, in) &&
	       !FD_ISSET(fd, out) && !FD_ISSET(fd, except) && limit[0] < LIMIT_S;
}

static int selected_old(unsigned char *at)
{
	return selected(at, SYS_select);
}

static int selected_mask(unsigned char *at)
{
	return selected(at, SYS_pselect6);
}

/* Broken off by SIGALRM. */
static int slept(unsigned char *at, long number)
{
	struct timespec time = { LIMIT_S, 0 }, *left = (struct timespec *)(uintptr_t)at;
	struct itimerval soon = { { LIMIT_S, 0 }, { 0, 30000 } };
	long result;

	setitimer(ITIMER_REAL, &soon, NULL);
	code_run(at);
	if (number == SYS_nanosleep)
		result = syscall(number, &time, left);
	else
		result = syscall(number, CLOCK_MONOTONIC, 0, &time, left);
	return result == -1 && errno == EINTR && left->tv_sec < LIMIT_S && left->tv_sec >= 0;
}

static int slept_old(unsigned char *at)
{
	return slept(at, SYS_nanosleep);
}

static int slept_clock(unsigned char *at)
{
	return slept(at, SYS_clock_nanosleep);
}

static int signal_taken(unsigned char *at)
{
	siginfo_t *info = (siginfo_t *)(uintptr_t)at;
	struct timespec limit = { LIMIT_S, 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR2);
	code_run(at);
	return syscall(SYS_rt_sigtimedwait, &set, info, &limit, 8) == SIGUSR2 &&
	       info->si_signo == SIGUSR2 && info->si_pid == getpid();
}

static pid_t child_end(int status)
{
	pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(status);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	return pid;
}

static int waited_4(unsigned char *at)
{
	struct rusage *usage = (struct rusage *)(uintptr_t)(at + 64);
	pid_t pid = child_end(3);

	operand_make(at);
	operand_run(at);
	return wait4(pid, (int *)(uintptr_t)at, 0, usage) == pid &&
	       WEXITSTATUS((int)operand_run(at)) == 3 && usage->ru_maxrss > 0 &&
	       waitpid(pid, NULL, 0) == -1 && errno == ECHILD;
}

static int waited_id(unsigned char *at)
{
	siginfo_t *info = (siginfo_t *)(uintptr_t)at;
	struct rusage *usage = (struct rusage *)(uintptr_t)(at + 512);
	pid_t pid = child_end(4);

	code_run(at);
	return !syscall(SYS_waitid, P_PID, pid, info, WEXITED, usage) && info->si_pid == pid &&
	       info->si_status == 4 && usage->ru_maxrss > 0;
}

/* ---- queues, locks, others ---- */

static int queue_taken(unsigned char *at)
{
	int queue = msgget(IPC_PRIVATE, 0600), is_right;
	struct {
		long type;
		char text[BYTES];
	} sent = { 5, TEXT };

	if (queue < 0)
		return ABSENT;
	msgsnd(queue, &sent, BYTES, 0);
	code_run(at);
	is_right = msgrcv(queue, at, BYTES, 0, IPC_NOWAIT) == BYTES &&
		   !memcmp(at, &sent, sizeof(sent)) &&
		   msgrcv(queue, at, BYTES, 0, IPC_NOWAIT) == -1;
	msgctl(queue, IPC_RMID, NULL);
	return is_right;
}

static int queue_received(unsigned char *at)
{
	static const char name[] = "waymark-kernel-writes";
	struct {
		long flags, most, bytes, now, spare[4];
	} size = { 0, 4, 64, 0, { 0 } };
	long fd = syscall(SYS_mq_open, name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &size);

	syscall(SYS_mq_unlink, name);
	if (fd < 0)
		return ABSENT;
	syscall(SYS_mq_timedsend, fd, TEXT, BYTES, 9, NULL);
	code_run(at);
	return syscall(SYS_mq_timedreceive, fd, at, 64, at + 512, NULL) == BYTES && has_text(at) &&
	       *(int *)(uintptr_t)(at + 512) == 9 &&
	       syscall(SYS_mq_timedreceive, fd, at, 64, NULL, NULL) == -1;
}

static int lock_looked(unsigned char *at)
{
	struct flock *lock = (struct flock *)(uintptr_t)at;

	*lock = (struct flock){ .l_type = F_WRLCK };
	code_run(at);
	return !fcntl(text_file(), F_GETLK, lock) && lock->l_type == F_UNLCK;
}

static int lock_taken(unsigned char *at)
{
	uint32_t *lock = (uint32_t *)(uintptr_t)at;

	operand_make(at);
	*lock = 0;
	operand_run(at);
	if (syscall(SYS_futex, lock, FUTEX_LOCK_PI, 0, NULL) || *lock != (uint32_t)gettid() ||
	    (uint32_t)operand_run(at) != *lock)
		return WRONG;
	return !syscall(SYS_futex, lock, FUTEX_UNLOCK_PI) && !*lock && !(uint32_t)operand_run(at);
}

static int lock_changed(unsigned char *at)
{
	uint32_t *lock = (uint32_t *)(uintptr_t)at;
	static uint32_t other;

	operand_make(at);
	operand_run(at);
	return !syscall(SYS_futex, &other, FUTEX_WAKE_OP, 1, 1, lock,
			FUTEX_OP(FUTEX_OP_SET, 77, FUTEX_OP_CMP_EQ, 0)) &&
	       *lock == 77 && (uint32_t)operand_run(at) == 77;
}

static int attribute_read(unsigned char *at, long number)
{
	static const char path[] = "kernel_writes.attribute", name[] = "user.waymark";
	int fd = open(path, O_RDWR | O_CREAT, 0600), is_right = ABSENT;
	struct {
		uint64_t at;
		uint32_t bytes, flags;
	} asked = { (uint64_t)(uintptr_t)at, BYTES, 0 };
	long result = 0;

	if (!setxattr(path, name, TEXT, BYTES, 0)) {
		code_run(at);
		switch (number) {
		case SYS_fgetxattr:
			result = fgetxattr(fd, name, at, BYTES);
			break;
		case 464:
			result = syscall(number, AT_FDCWD, path, 0, name, &asked, sizeof(asked));
			break;
		case 465:
			result = syscall(number, AT_FDCWD, path, 0, at, 100);
			break;
		case SYS_listxattr:
		case SYS_llistxattr:
			result = syscall(number, path, at, 100);
			break;
		case SYS_flistxattr:
			result = syscall(number, fd, at, 100);
			break;
		default:
			result = syscall(number, path, name, at, BYTES);
		}
		is_right = result == BYTES ? has_text(at)
			   : result > 0	   ? memmem(at, (size_t)result, name, sizeof(name)) != NULL
			   : errno == ENOSYS ? ABSENT
					     : WRONG;
	}
	close(fd);
	unlink(path);
	return is_right;
}

#define ATTRIBUTE(name, number)                                                                    \
	static int name(unsigned char *at)                                                         \
	{                                                                                          \
		return attribute_read(at, number);                                                 \
	}

ATTRIBUTE(attribute_get, SYS_getxattr)
ATTRIBUTE(attribute_lget, SYS_lgetxattr)
ATTRIBUTE(attribute_fget, SYS_fgetxattr)
ATTRIBUTE(attribute_getat, 464)
ATTRIBUTE(attribute_list, SYS_listxattr)
ATTRIBUTE(attribute_llist, SYS_llistxattr)
ATTRIBUTE(attribute_flist, SYS_flistxattr)
ATTRIBUTE(attribute_listat, 465)

static int map_looked(unsigned char *at)
{
	union bpf_attr attr;
	uint32_t key = 1;
	long fd;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = BYTES;
	attr.max_entries = 2;
	fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		return ABSENT;
	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uint64_t)(uintptr_t)&key;
	attr.value = (uint64_t)(uintptr_t)TEXT;
	syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &attr, sizeof(attr));
	attr.value = (uint64_t)(uintptr_t)at;
	code_run(at);
	return !syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attr, sizeof(attr)) && has_text(at);
}

static int populated(unsigned char *at)
{
	code_run(at);
	return !madvise(at - ((uintptr_t)at & 4095), 4096, 23 /* MADV_POPULATE_WRITE */) ? RIGHT
	       : errno == EINVAL && !code_run(at)					 ? ABSENT
											 : WRONG;
}

const struct kernel_case cases_calls[] = {
	{ "read", read_one },
	{ "readv", read_pages },
	{ "readv, many", read_many },
	{ "preadv", read_at },
	{ "preadv2", read_at_2 },
	{ "process_vm_readv", read_process },
	{ "process_vm_writev", write_process },
	{ "vmsplice", splice_pages },
	{ "getdents64", folder_64 },
	{ "getdents", folder_old },
	{ "sendfile", file_sent },
	{ "splice", file_spliced },
	{ "copy_file_range", file_copied },
	{ "pipe", pair_pipe },
	{ "pipe2", pair_pipe2 },
	{ "socketpair", pair_sockets },
	{ "timer_create", timer_made },
	{ "poll", polled_old },
	{ "ppoll", polled_mask },
	{ "select", selected_old },
	{ "pselect6", selected_mask },
	{ "nanosleep", slept_old },
	{ "clock_nanosleep", slept_clock },
	{ "rt_sigtimedwait", signal_taken },
	{ "wait4", waited_4 },
	{ "waitid", waited_id },
	{ "msgrcv", queue_taken },
	{ "mq_timedreceive", queue_received },
	{ "fcntl, lock", lock_looked },
	{ "futex, lock", lock_taken },
	{ "futex, change", lock_changed },
	{ "getxattr", attribute_get },
	{ "lgetxattr", attribute_lget },
	{ "fgetxattr", attribute_fget },
	{ "getxattrat", attribute_getat },
	{ "listxattr", attribute_list },
	{ "llistxattr", attribute_llist },
	{ "flistxattr", attribute_flist },
	{ "listxattrat", attribute_listat },
	{ "bpf", map_looked },
	{ "madvise, populate", populated },
	{ 0 },
};
