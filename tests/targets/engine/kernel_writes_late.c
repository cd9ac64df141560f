/* SPDX-License-Identifier: MIT */
/*
 * What the kernel writes when no call is being made, or while other threads run the code beside it,
 * change it, or are in calls of their own.
 */
#include "tests/targets/engine/kernel_writes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
#define STACK_BYTES 65536
#define ROUNDS 3000
#define LATE_MS 30000

static const uint64_t first = UINT64_C(0x1122334455667788), second = UINT64_C(0x99aabbccddeeff00);

/* Until the code at `at` returns `value`, or it has taken too long. */
static int becomes(const unsigned char *at, uint64_t mask, uint64_t value)
{
	for (int i = 0; i < LATE_MS; i++) {
		for (int k = 0; k < 20; k++)
			if ((operand_run(at) & mask) == value)
				return 1;
		usleep(1000);
	}
	return 0;
}

/* ---- threads that begin and end ---- */

/* A thread that ends at once, and needs no memory for that. */
static long thread_raw(uint64_t flags, void *parent, void *child)
{
	static unsigned char stack[STACK_BYTES] __attribute__((aligned(16)));
	register uint64_t r10 __asm__("r10") = (uint64_t)(uintptr_t)child;
	register uint64_t r8 __asm__("r8") = 0;
	long result;

	__asm__ volatile("syscall\n"
			 "test %%rax, %%rax\n"
			 "jnz 1f\n"
			 "xor %%edi, %%edi\n"
			 "mov $60, %%eax\n" /* exit */
			 "syscall\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone), "D"(THREAD | flags), "S"(stack + STACK_BYTES),
			   "d"(parent), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

static int number_parent(unsigned char *at)
{
	long tid;

	operand_make(at);
	operand_run(at);
	tid = thread_raw(CLONE_PARENT_SETTID, at, NULL);
	return tid > 0 && (uint32_t)operand_run(at) == (uint32_t)tid;
}

static int number_child(unsigned char *at)
{
	long tid;

	operand_make(at);
	operand_run(at);
	tid = thread_raw(CLONE_CHILD_SETTID, NULL, at);
	return tid > 0 && becomes(at, UINT32_MAX, (uint64_t)tid);
}

static int number_cleared(unsigned char *at)
{
	operand_make(at);
	operand_run(at);
	return thread_raw(CLONE_CHILD_CLEARTID, NULL, at) > 0 && becomes(at, UINT32_MAX, 0);
}

static int number_clone3(unsigned char *at)
{
	struct clone_args args = { .flags = CLONE_PARENT_SETTID | CLONE_PIDFD,
				   .exit_signal = SIGCHLD,
				   .parent_tid = (uint64_t)(uintptr_t)at,
				   .pidfd = (uint64_t)(uintptr_t)(at + 64) };
	struct pollfd ended;
	long pid;

	operand_make(at);
	operand_run(at);
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (!pid)
		_exit(0);
	ended = (struct pollfd){ *(int *)(uintptr_t)(at + 64), POLLIN, 0 };
	return pid > 0 && (uint32_t)operand_run(at) == (uint32_t)pid &&
	       poll(&ended, 1, LATE_MS) == 1 && waitpid((pid_t)pid, NULL, 0) == pid;
}

/* Ends so that the C library does not know: it waits for the thread's number to be cleared. */
static void *thread_addressed(void *at)
{
	syscall(SYS_set_tid_address, at);
	code_run(at);
	syscall(SYS_exit, 0);
	return NULL;
}

static int number_addressed(unsigned char *at)
{
	pthread_t thread;

	operand_make(at);
	operand_run(at);
	pthread_create(&thread, NULL, thread_addressed, at);
	return becomes(at, UINT32_MAX, 0);
}

static void *thread_locking(void *at)
{
	static struct robust_list node;
	static struct robust_list_head head;

	node.next = &head.list;
	head = (struct robust_list_head){ .list = { &node },
					  .futex_offset = (char *)at - (char *)&node };
	*(uint32_t *)at = (uint32_t)gettid();
	syscall(SYS_set_robust_list, &head, sizeof(head));
	code_run(at);
	syscall(SYS_exit, 0);
	return NULL;
}

static int lock_left(unsigned char *at)
{
	pthread_t thread;

	operand_make(at);
	operand_run(at);
	pthread_create(&thread, NULL, thread_locking, at);
	return becomes(at, UINT32_MAX, FUTEX_OWNER_DIED);
}

/* ---- calls that block while the page's code runs ---- */

struct reader {
	int fd, other;
	unsigned char *at;
	pid_t tid;
	long result;
	pthread_t thread;
};

static void *reader_run(void *data)
{
	struct reader *reader = data;

	__atomic_store_n(&reader->tid, gettid(), __ATOMIC_RELEASE);
	reader->result = read(reader->fd, reader->at, 8);
	return NULL;
}

static void reader_start(struct reader *reader, unsigned char *at)
{
	int pair[2];

	*reader = (struct reader){ .at = at };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		exit(2);
	reader->fd = pair[0];
	reader->other = pair[1];
	pthread_create(&reader->thread, NULL, reader_run, reader);
	while (!__atomic_load_n(&reader->tid, __ATOMIC_ACQUIRE) || !is_asleep(reader->tid))
		usleep(1000);
}

static int reader_end(struct reader *reader, uint64_t value)
{
	if (write(reader->other, &value, sizeof(value)) != sizeof(value))
		exit(2);
	pthread_join(reader->thread, NULL);
	return reader->result == sizeof(value);
}

/* No code of the page had run when the call began. */
static int blocked_before(unsigned char *at)
{
	struct reader reader;

	operand_make(at);
	reader_start(&reader, at);
	for (int i = 0; i < ROUNDS; i++)
		if (operand_run(at) != UINT64_C(0x5a5a5a5a5a5a5a5a))
			return WRONG;
	return reader_end(&reader, first) && operand_run(at) == first;
}

/* Meanwhile this thread changes the code beside it, and another call writes there, too. */
static int blocked_two(unsigned char *at)
{
	struct reader one, two;
	int is_right = 1;

	operand_make(at);
	operand_make(at + 64);
	operand_make(at + 128);
	operand_run(at + 64);
	reader_start(&one, at);
	reader_start(&two, at + 64);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		memcpy(at + 128, &i, sizeof(i));
		is_right &= operand_run(at + 128) == i;
	}
	is_right &= reader_end(&one, first) && operand_run(at) == first;
	for (int i = 0; i < ROUNDS; i++)
		is_right &= operand_run(at) == first;
	return is_right && reader_end(&two, second) && operand_run(at + 64) == second &&
	       operand_run(at) == first;
}

static volatile int is_over;
static unsigned char *common;

/* What it finds first is old or new, and from then on new. */
static void *runner(void *data)
{
	(void)data;
	while (!is_over) {
		uint64_t value = operand_run(common);

		if (value != first && value != UINT64_C(0x5a5a5a5a5a5a5a5a))
			return NULL;
		if (value == first)
			return common;
	}
	return operand_run(common) == first ? common : NULL;
}

static int blocked_running(unsigned char *at)
{
	struct reader reader;
	pthread_t threads[2];
	void *is_right[2];
	int got;

	operand_make(at);
	common = at;
	is_over = 0;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, runner, NULL);
	reader_start(&reader, at);
	usleep(20000); /* the time is the subject: they run code meanwhile */
	got = reader_end(&reader, first);
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], &is_right[i]);
	return got && is_right[0] && is_right[1];
}

/* ---- calls that are broken off, and made again ---- */

static int handled_fd, handled;

/* In between the page's code runs, so that it is guarded again. */
static void handle(int number)
{
	(void)number;
	handled += operand_run(common) == UINT64_C(0x5a5a5a5a5a5a5a5a);
	if (handled_fd >= 0 && write(handled_fd, &first, sizeof(first)) != sizeof(first))
		exit(2);
}

static int broken(unsigned char *at, int flags)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags }, was;
	struct itimerval soon = { { 0, 0 }, { 0, 30000 } }, before;
	int pipes[2], is_right;
	long got;

	if (pipe(pipes))
		exit(2);
	operand_make(at);
	common = at;
	handled = 0;
	handled_fd = flags & SA_RESTART ? pipes[1] : -1;
	sigaction(SIGALRM, &action, &was);
	setitimer(ITIMER_REAL, &soon, &before);
	operand_run(at);
	got = read(pipes[0], at, 8);
	if (flags & SA_RESTART)
		is_right = got == 8 && operand_run(at) == first;
	else
		is_right = got == -1 && errno == EINTR;
	sigaction(SIGALRM, &was, NULL);
	setitimer(ITIMER_REAL, &before, NULL);
	return is_right && handled == 1;
}

static int broken_off(unsigned char *at)
{
	return broken(at, 0);
}

static int broken_again(unsigned char *at)
{
	return broken(at, SA_RESTART);
}

/* Stopped and continued, the kernel restarts it by restart_syscall(2). */
static int stopped(unsigned char *at)
{
	struct pollfd *polled = (struct pollfd *)(uintptr_t)at;
	int pipes[2], got;
	pid_t pid, parent = getpid();

	if (pipe(pipes))
		exit(2);
	*polled = (struct pollfd){ pipes[0], POLLIN, 0 };
	pid = fork();
	if (!pid) {
		usleep(20000);
		kill(parent, SIGSTOP);
		usleep(20000);
		kill(parent, SIGCONT);
		usleep(20000);
		_exit(write(pipes[1], "x", 1) != 1);
	}
	code_run(at);
	got = poll(polled, 1, LATE_MS);
	waitpid(pid, NULL, 0);
	return got == 1 && polled->revents == POLLIN;
}

static int peeked(unsigned char *at)
{
	pid_t pid = fork();
	int is_right = ABSENT;

	if (!pid) {
		pause();
		_exit(0);
	}
	code_run(at);
	if (!ptrace(PTRACE_ATTACH, pid, NULL, NULL)) {
		waitpid(pid, NULL, 0);
		operand_make(at);
		operand_run(at);
		is_right = !syscall(SYS_ptrace, PTRACE_PEEKDATA, pid, &first, at) &&
			   operand_run(at) == first;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return is_right;
}

/* ---- rings ---- */

static int submitted_of(unsigned char *at, uint64_t bytes)
{
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PREAD }, *blocks = &block;
	int fd = memfd_create("text", 0);
	aio_context_t *context = (aio_context_t *)(uintptr_t)(at + 512);
	struct io_event *event = (struct io_event *)(uintptr_t)(at + 1024);

	*context = 0;
	operand_make(at);
	operand_run(at);
	block.aio_fildes = (uint32_t)fd;
	block.aio_buf = (uint64_t)(uintptr_t)at;
	block.aio_nbytes = bytes;
	block.aio_data = second;
	if (pwrite(fd, &first, sizeof(first), 0) != sizeof(first))
		exit(2);
	if (syscall(SYS_io_setup, 8, context))
		return errno == ENOSYS ? ABSENT : WRONG;
	operand_run(at);
	if (syscall(SYS_io_submit, *context, 1, &blocks) != 1)
		return WRONG;
	operand_run(at);
	return syscall(SYS_io_getevents, *context, 1, 1, event, NULL) == 1 &&
	       event->data == second && event->res == sizeof(first) && operand_run(at) == first &&
	       !syscall(SYS_io_destroy, *context);
}

static int submitted(unsigned char *at)
{
	return submitted_of(at, sizeof(first));
}

/* The kernel reads what the file has. */
static int submitted_huge(unsigned char *at)
{
	return submitted_of(at, UINT64_C(1) << 62);
}

struct ring {
	struct io_uring_params *params;
	unsigned char *rings;
	struct io_uring_sqe *entries;
	int fd;
};

static uint32_t *ring_field(const struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(uintptr_t)(ring->rings + offset);
}

static int ring_open(struct ring *ring, unsigned char *at)
{
	ring->params = (struct io_uring_params *)(uintptr_t)at;
	memset(at, 0, sizeof(*ring->params));
	code_run(at);
	ring->fd = (int)syscall(SYS_io_uring_setup, 4, ring->params);
	if (ring->fd < 0)
		return 0;
	ring->rings = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
			   IORING_OFF_SQ_RING);
	ring->entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			     ring->fd, IORING_OFF_SQES);
	return ring->rings != MAP_FAILED && ring->entries != MAP_FAILED;
}

static void late_run(const unsigned char *at)
{
	for (int i = 0; i < ROUNDS; i++)
		operand_run(at);
}

void (*late_wait)(const unsigned char *at) = late_run;

/* A read that ends when something is written; the page's code runs before that. */
int ringed(unsigned char *at)
{
	struct ring ring;
	struct io_uring_cqe *done;
	int pipes[2], is_right;

	if (pipe(pipes) || !ring_open(&ring, area_like(at)))
		return errno == ENOSYS || errno == EPERM ? ABSENT : WRONG;
	operand_make(at);
	operand_run(at);
	*ring.entries = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
					       .fd = pipes[0],
					       .addr = (uint64_t)(uintptr_t)at,
					       .len = sizeof(first) };
	*ring_field(&ring, ring.params->sq_off.array) = 0;
	__atomic_store_n(ring_field(&ring, ring.params->sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 0, 0, NULL, 0) != 1)
		return WRONG;
	late_wait(at);
	if (write(pipes[1], &first, sizeof(first)) != sizeof(first))
		exit(2);
	syscall(SYS_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	done = (struct io_uring_cqe *)(uintptr_t)(ring.rings + ring.params->cq_off.cqes);
	is_right = *ring_field(&ring, ring.params->cq_off.tail) == 1 &&
		   done->res == sizeof(first) && operand_run(at) == first;
	close(ring.fd);
	return is_right;
}

const struct kernel_case cases_late[] = {
	{ "clone, parent's number", number_parent },
	{ "clone, child's number", number_child },
	{ "clone, cleared number", number_cleared },
	{ "clone3", number_clone3 },
	{ "set_tid_address", number_addressed },
	{ "set_robust_list", lock_left },
	{ "read, blocked before", blocked_before },
	{ "read, two blocked", blocked_two },
	{ "read, code running", blocked_running },
	{ "read, broken off", broken_off },
	{ "read, made again", broken_again },
	{ "restart_syscall", stopped },
	{ "ptrace", peeked },
	{ "io_submit", submitted },
	{ "io_submit, huge", submitted_huge },
	{ "io_uring", ringed },
	{ 0 },
};
