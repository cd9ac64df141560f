/* SPDX-License-Identifier: MIT */
/*
 * Each system call that writes to the program's memory, once to ordinary memory and once beside
 * code: `kernel_writes [FILE [ring]]`. A line for each says whether the second did what the first
 * did. With FILE it starts calls that block, says "ready", runs code beside what they write, and
 * continues when there is FILE. With "ring" it does that with an io_uring alone.
 */
#include "tests/targets/engine/kernel_writes.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#define PAGE 4096ul
#define PAGES 1024u
#define AREA_AT 1024u
#define CODE_VALUE 7

/* ---- pages and areas ---- */

static unsigned char *pages, *next_page;

static int is_beside(const unsigned char *at)
{
	return at >= pages && at < pages + PAGES * PAGE;
}

int code_run(const unsigned char *at)
{
	int (*volatile code)(void) = (int (*)(void))(pages + ((at - pages) & ~(PAGE - 1)));

	return !is_beside(at) || code() == CODE_VALUE;
}

/* movabs $OPERAND, %rax; ret */
void operand_make(unsigned char *at)
{
	memcpy(at - 2, "\x48\xb8", 2);
	at[8] = 0xc3;
}

uint64_t operand_run(const unsigned char *at)
{
	uint64_t (*volatile code)(void) = (uint64_t(*)(void))(uintptr_t)(at - 2);
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return is_beside(at) ? code() : value;
}

/* A page that no case had: one that is written often is not guarded any more. */
static unsigned char *area_beside(void)
{
	unsigned char *page = next_page;

	if (page == pages + PAGES * PAGE)
		exit(2);
	next_page += PAGE;
	memcpy(page, "\xb8\x07\0\0\0\xc3", 6); /* mov $7, %eax; ret */
	memset(page + AREA_AT, FILL, AREA_BYTES);
	return page + AREA_AT;
}

static unsigned char *area_ordinary(void)
{
	unsigned char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);

	if (at == MAP_FAILED)
		exit(2);
	memset(at, FILL, PAGE);
	return at + AREA_AT;
}

unsigned char *area_like(const unsigned char *at)
{
	return is_beside(at) ? area_beside() : area_ordinary();
}

/* ---- calls that fill in what an argument points to ---- */

static char work_file[] = "kernel_writes.tmp";
static int file, folder, events, polled, timer_fd, udp, pipes[2], queue, semaphores, segment,
	terminal, mq;
static long timer, user_key;
static const void *some_page;
static struct {
	uint64_t start, length;
} file_range = { 0, 4096 };
static struct {
	uint32_t size, spare;
	uint64_t id, parameter, ns;
} mounts = { 24, 0, ~UINT64_C(0), 0, 0 }, mount = { 24, 0, 0, 1, 0 }, names = { 32, 0, 0, 0, 0 };
static const struct itimerspec no_time;

/* An argument that is in the area, so far in. */
#define AREA UINT64_C(0x7a7a000000000000)
#define OUT(offset) (AREA + (offset))
#define REF(variable) ((uint64_t)(uintptr_t)(variable))
#define GET(variable) (FETCH + REF(&(variable)))
#define FETCH UINT64_C(0x6b6b000000000000) /* the int there */

static const struct simple {
	const char *name;
	long number;
	uint64_t arguments[6];
	uint32_t operand; /* so many bytes are written, at most 8 */
	uint32_t varies;  /* what is written is not always the same */
	uint32_t prepared_at;
	uint64_t prepared;
} simples[] = {
	{ "pread64", SYS_pread64, { GET(file), OUT(0), 8, 0 }, 8, 0, 0, 0 },
	{ "stat", SYS_stat, { REF(work_file), OUT(0) }, 0, 0, 0, 0 },
	{ "fstat", SYS_fstat, { GET(file), OUT(0) }, 0, 0, 0, 0 },
	{ "lstat", SYS_lstat, { REF(work_file), OUT(0) }, 0, 0, 0, 0 },
	{ "newfstatat", SYS_newfstatat, { AT_FDCWD, REF(work_file), OUT(0) }, 0, 0, 0, 0 },
	{ "statx", SYS_statx, { AT_FDCWD, REF(work_file), 0, 0x7ff, OUT(0) }, 0, 0, 0, 0 },
	{ "mincore", SYS_mincore, { REF(&some_page) + FETCH * 2, 4096, OUT(0) }, 1, 1, 0, 0 },
	{ "getitimer", SYS_getitimer, { 0, OUT(0) }, 0, 1, 0, 0 },
	{ "setitimer", SYS_setitimer, { ITIMER_VIRTUAL, 0, OUT(0) }, 0, 0, 0, 0 },
	{ "getsockname", SYS_getsockname, { GET(udp), OUT(0), OUT(1000) }, 0, 0, 1000, 128 },
	{ "getpeername", SYS_getpeername, { GET(udp), OUT(0), OUT(1000) }, 0, 0, 1000, 128 },
	{ "getsockopt", SYS_getsockopt, { GET(udp), 1, 8, OUT(0), OUT(1000) }, 4, 0, 1000, 4 },
	{ "uname", SYS_uname, { OUT(0) }, 0, 0, 0, 0 },
	{ "semctl", SYS_semctl, { GET(semaphores), 0, IPC_STAT, OUT(0) }, 0, 0, 0, 0 },
	{ "semctl, all", SYS_semctl, { GET(semaphores), 0, GETALL, OUT(0) }, 4, 0, 0, 0 },
	{ "msgctl", SYS_msgctl, { GET(queue), IPC_STAT, OUT(0) }, 0, 0, 0, 0 },
	{ "shmctl", SYS_shmctl, { GET(segment), IPC_STAT, OUT(0) }, 0, 0, 0, 0 },
	{ "fcntl", SYS_fcntl, { GET(file), F_GETOWN_EX, OUT(0) }, 8, 0, 0, 0 },
	{ "getcwd", SYS_getcwd, { OUT(0), 1000 }, 0, 0, 0, 0 },
	{ "readlink", SYS_readlink, { REF("/proc/self/cwd"), OUT(0), 1000 }, 0, 0, 0, 0 },
	{ "readlinkat", SYS_readlinkat, { 0, REF("/proc/self/cwd"), OUT(0), 1000 }, 0, 0, 0, 0 },
	{ "gettimeofday", SYS_gettimeofday, { OUT(0), OUT(64) }, 0, 1, 0, 0 },
	{ "getrlimit", SYS_getrlimit, { RLIMIT_NOFILE, OUT(0) }, 0, 0, 0, 0 },
	{ "getrlimit, of memory", SYS_getrlimit, { RLIMIT_AS, OUT(0) }, 0, 0, 0, 0 },
	{ "prlimit64", SYS_prlimit64, { 0, RLIMIT_NOFILE, 0, OUT(0) }, 0, 0, 0, 0 },
	{ "getrusage", SYS_getrusage, { 0, OUT(0) }, 0, 1, 0, 0 },
	{ "sysinfo", SYS_sysinfo, { OUT(0) }, 0, 1, 0, 0 },
	{ "times", SYS_times, { OUT(0) }, 0, 1, 0, 0 },
	{ "time", SYS_time, { OUT(0) }, 8, 1, 0, 0 },
	{ "getgroups", SYS_getgroups, { 64, OUT(0) }, 0, 0, 0, 0 },
	{ "getresuid", SYS_getresuid, { OUT(0), OUT(16), OUT(32) }, 4, 0, 0, 0 },
	{ "getresgid", SYS_getresgid, { OUT(16), OUT(0), OUT(32) }, 4, 0, 0, 0 },
	{ "capget", SYS_capget, { OUT(64), OUT(0) }, 0, 0, 64, _LINUX_CAPABILITY_VERSION_3 },
	{ "rt_sigpending", SYS_rt_sigpending, { OUT(0), 8 }, 8, 0, 0, 0 },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, { 0, 0, OUT(0), 8 }, 8, 0, 0, 0 },
	{ "rt_sigaction", SYS_rt_sigaction, { SIGUSR1, 0, OUT(0), 8 }, 0, 0, 0, 0 },
	{ "sigaltstack", SYS_sigaltstack, { 0, OUT(0) }, 0, 0, 0, 0 },
	{ "statfs", SYS_statfs, { REF("/proc"), OUT(0) }, 0, 0, 0, 0 },
	{ "fstatfs", SYS_fstatfs, { GET(events), OUT(0) }, 0, 0, 0, 0 },
	{ "sysfs", SYS_sysfs, { 2, 0, OUT(0) }, 0, 0, 0, 0 },
	{ "sched_getparam", SYS_sched_getparam, { 0, OUT(0) }, 4, 0, 0, 0 },
	{ "sched_rr_get_interval", SYS_sched_rr_get_interval, { 0, OUT(0) }, 0, 0, 0, 0 },
	{ "sched_getaffinity", SYS_sched_getaffinity, { 0, 8, OUT(0) }, 8, 0, 0, 0 },
	{ "sched_getattr", SYS_sched_getattr, { 0, OUT(0), 56, 0 }, 0, 0, 0, 0 },
	{ "sched_setattr, size", SYS_sched_setattr, { 0, OUT(0), 0 }, 0, 0, 0, 0 },
	{ "perf_event_open, size", SYS_perf_event_open, { OUT(0), 0, -1ul, -1ul, 0 }, 0, 0, 0, 0 },
	{ "modify_ldt", SYS_modify_ldt, { 2, OUT(0), 64 }, 0, 0, 0, 0 },
	{ "prctl, name", SYS_prctl, { PR_GET_NAME, OUT(0) }, 0, 0, 0, 0 },
	{ "prctl, signal", SYS_prctl, { PR_GET_PDEATHSIG, OUT(0) }, 4, 0, 0, 0 },
	{ "prctl, auxv", SYS_prctl, { 0x41555856, OUT(0), 400 }, 0, 0, 0, 0 },
	{ "prctl, tid", SYS_prctl, { 40, OUT(0) }, 8, 0, 0, 0 },
	{ "arch_prctl", SYS_arch_prctl, { ARCH_GET_FS, OUT(0) }, 8, 0, 0, 0 },
	{ "arch_prctl, gs", SYS_arch_prctl, { ARCH_GET_GS, OUT(0) }, 8, 0, 0, 0 },
	{ "adjtimex", SYS_adjtimex, { OUT(0) }, 0, 1, 0, 0 },
	{ "clock_adjtime", SYS_clock_adjtime, { 0, OUT(0) }, 0, 1, 0, 0 },
	{ "clock_gettime", SYS_clock_gettime, { 1, OUT(0) }, 0, 1, 0, 0 },
	{ "clock_getres", SYS_clock_getres, { 1, OUT(0) }, 0, 0, 0, 0 },
	{ "timer_gettime", SYS_timer_gettime, { GET(timer), OUT(0) }, 0, 0, 0, 0 },
	{ "timer_settime", SYS_timer_settime, { GET(timer), 0, REF(&no_time), OUT(0) }, 0, 0, 0, 0 },
	{ "timerfd_gettime", SYS_timerfd_gettime, { GET(timer_fd), OUT(0) }, 0, 0, 0, 0 },
	{ "epoll_wait", SYS_epoll_wait, { GET(polled), OUT(0), 8, 0 }, 0, 0, 0, 0 },
	{ "epoll_pwait", SYS_epoll_pwait, { GET(polled), OUT(0), 8, 0, 0, 8 }, 0, 0, 0, 0 },
	{ "epoll_pwait2", SYS_epoll_pwait2, { GET(polled), OUT(0), 8, 0, 0, 8 }, 0, 0, 0, 0 },
	{ "get_mempolicy", SYS_get_mempolicy, { OUT(0), OUT(64), 2048, 0, 0 }, 4, 0, 0, 0 },
	{ "mq_getsetattr", SYS_mq_getsetattr, { GET(mq), 0, OUT(0) }, 0, 0, 0, 0 },
	{ "keyctl", SYS_keyctl, { 6, GET(user_key), OUT(0), 200 }, 0, 0, 0, 0 },
	{ "get_robust_list", SYS_get_robust_list, { 0, OUT(0), OUT(64) }, 8, 0, 0, 0 },
	{ "move_pages", SYS_move_pages, { 0, 1, REF(&some_page), 0, OUT(0), 0 }, 4, 0, 0, 0 },
	{ "name_to_handle_at",
	  SYS_name_to_handle_at,
	  { AT_FDCWD, REF(work_file), OUT(0), OUT(1000), 0 },
	  0,
	  0,
	  0,
	  128 },
	{ "getcpu", SYS_getcpu, { OUT(0), OUT(64) }, 4, 1, 0, 0 },
	{ "getrandom", SYS_getrandom, { OUT(0), 100, 0 }, 0, 1, 0, 0 },
	{ "seccomp", SYS_seccomp, { 3, 0, OUT(0) }, 6, 0, 0, 0 },
	{ "ioctl, pipe", SYS_ioctl, { GET(pipes[0]), FIONREAD, OUT(0) }, 4, 0, 0, 0 },
	{ "ioctl, terminal", SYS_ioctl, { GET(terminal), TCGETS, OUT(0) }, 0, 0, 0, 0 },
	{ "ioctl, number", SYS_ioctl, { GET(terminal), TIOCGPTN, OUT(0) }, 4, 0, 0, 0 },
	{ "ioctl, flags", SYS_ioctl, { GET(file), 0x80086601, OUT(0) }, 4, 0, 0, 0 },
	{ "cachestat", 451, { GET(file), REF(&file_range), OUT(0), 0 }, 0, 1, 0, 0 },
	{ "statmount", 457, { REF(&mount), OUT(0), 512, 0 }, 0, 1, 0, 0 },
	{ "listmount", 458, { REF(&mounts), OUT(0), 4, 0 }, 0, 1, 0, 0 },
	{ "lsm_get_self_attr", 459, { 100, OUT(0), OUT(1000), 0 }, 0, 0, 1000, 512 },
	{ "lsm_list_modules", 461, { OUT(0), OUT(1000), 0 }, 0, 0, 1000, 512 },
	{ "file_getattr", 468, { AT_FDCWD, REF(work_file), OUT(0), 24, 0 }, 0, 0, 0, 0 },
	{ "listns", 470, { REF(&names), OUT(0), 4, 0 }, 0, 1, 0, 0 },
};

static uint64_t argument(uint64_t asked, unsigned char *at)
{
	if (asked >> 48 == AREA >> 48)
		return (uint64_t)(uintptr_t)at + (asked & 0xffff);
	if (asked >> 48 == FETCH >> 48)
		return (uint64_t) * (const int *)(uintptr_t)(asked - FETCH);
	if (asked >> 48 == FETCH * 2 >> 48)
		return *(const uint64_t *)(uintptr_t)(asked - FETCH * 2);
	return asked;
}

static long simple_call(const struct simple *simple, unsigned char *at)
{
	uint64_t a[6];
	long result;

	for (int i = 0; i < 6; i++)
		a[i] = argument(simple->arguments[i], at);
	if (simple->prepared)
		memcpy(at + simple->prepared_at, &simple->prepared, sizeof(simple->prepared));
	if (strstr(simple->name, "adjtime"))
		memset(at, 0, 4); /* no change is asked for */
	if (simple->operand) {
		operand_make(at);
		operand_run(at);
	}
	code_run(at);
	errno = 0;
	result = syscall(simple->number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return result < 0 ? -errno : result;
}

static int is_changed(const unsigned char *at)
{
	for (uint32_t i = 9; i < AREA_BYTES; i++)
		if (at[i] != FILL)
			return 1;
	for (uint32_t i = 0; i < 8; i++)
		if (at[i] != FILL)
			return 1;
	return 0;
}

static int simple_run(const struct simple *simple)
{
	unsigned char *first = area_ordinary(), *second = area_beside();
	long was = simple_call(simple, first), result;

	if (!is_changed(first) || was == -ENOSYS || was == -EPERM)
		return ABSENT;
	result = simple_call(simple, second);
	if (!simple->varies)
		return result == was && !memcmp(first, second, AREA_BYTES) && code_run(second) &&
		       (!simple->operand || operand_run(first) == operand_run(second));
	return (result < 0) == (was < 0) && is_changed(second) && code_run(second) &&
	       (!simple->operand || !memcmp(&(uint64_t){ operand_run(second) }, second, 8));
}

static void simples_prepare(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(here);
	char text[4096] = "\x31\x32\x33\x34\x35\x36\x37\x38";
	gid_t groups[2] = { 0, 7 };
	struct statx about;
	int id = 0;

	setgroups(2, groups); /* or it has some */
	file = open(work_file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	events = eventfd(1, EFD_CLOEXEC);
	polled = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 2, 0600);
	segment = shmget(IPC_PRIVATE, PAGE, 0600);
	mq = (int)syscall(SYS_mq_open, "waymark-kernel-writes", O_RDWR | O_CREAT, 0600, NULL);
	syscall(SYS_mq_unlink, "waymark-kernel-writes");
	user_key = syscall(SYS_keyctl, 0, -4, 1, 0, 0);
	if (!statx(AT_FDCWD, "/", 0, 0x4000 /* STATX_MNT_ID_UNIQUE */, &about))
		memcpy(&mount.id, (char *)&about + 0x90, sizeof(mount.id));
	if (file < 0 || write(file, text, sizeof(text)) != sizeof(text) || pipe(pipes) ||
	    write(pipes[1], "abc", 3) != 3 || bind(udp, (struct sockaddr *)&here, bytes) ||
	    getsockname(udp, (struct sockaddr *)&here, &bytes) ||
	    connect(udp, (struct sockaddr *)&here, bytes) ||
	    epoll_ctl(polled, EPOLL_CTL_ADD, events, &event) ||
	    syscall(SYS_timer_create, CLOCK_MONOTONIC, NULL, &id))
		exit(2);
	timer = id;
	some_page = pages;
	pages[0] = 1;
}

static void simples_end(void)
{
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	shmctl(segment, IPC_RMID, NULL);
	unlink(work_file);
}

/* ---- all ---- */

static void print_result(const char *name, int got)
{
	static const char *const words[] = { "absent", "wrong", "right" };

	printf("%s: %s\n", name, words[got + 1]);
	fflush(stdout);
}

static void cases_run(const struct kernel_case *cases)
{
	for (; cases->name; cases++) {
		unsigned char *at;
		int got = cases->run(area_ordinary());

		if (got == RIGHT) {
			at = area_beside();
			got = cases->run(at) == RIGHT && code_run(at);
		}
		print_result(cases->name, got);
	}
}

static void waits_for(const char *path);

static const char *go_file;

static void wait_running(const unsigned char *at)
{
	printf("ready\n");
	fflush(stdout);
	while (access(go_file, F_OK)) {
		operand_run(at);
		usleep(1000);
	}
}

static void alarmed(int number)
{
	(void)number;
}

int main(int count, char **values)
{
	struct sigaction action = { .sa_handler = alarmed };
	struct itimerval every = { { LIMIT_S, 0 }, { LIMIT_S, 0 } };

	pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED)
		return 2;
	next_page = pages + PAGE;
	if (count > 2) {
		go_file = values[1];
		late_wait = wait_running;
		print_result("io_uring, taken", ringed(area_beside()));
		return 0;
	}
	if (count > 1)
		waits_for(values[1]);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	simples_prepare();
	for (unsigned int i = 0; i < sizeof(simples) / sizeof(simples[0]); i++)
		print_result(simples[i].name, simple_run(&simples[i]));
	simples_end();
	cases_run(cases_calls);
	cases_run(cases_sockets);
	cases_run(cases_late);
	return 0;
}

/* ---- calls that are being made when the engine comes ---- */

struct blocked {
	const char *name;
	long (*call)(int fd, unsigned char *at);
	int fd, other;
	pid_t tid;
	unsigned char *at;
	long result;
	pthread_t thread;
};

static long blocked_read(int fd, unsigned char *at)
{
	return syscall(SYS_read, fd, at, 8);
}

static long blocked_readv(int fd, unsigned char *at)
{
	struct iovec vector = { at, 8 };

	return syscall(SYS_readv, fd, &vector, 1);
}

static long blocked_recvmsg(int fd, unsigned char *at)
{
	struct iovec vector = { at, 8 };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

	return syscall(SYS_recvmsg, fd, &message, 0);
}

static long blocked_poll(int fd, unsigned char *at)
{
	struct pollfd *poll = (struct pollfd *)(uintptr_t)at;

	*poll = (struct pollfd){ .fd = fd, .events = POLLIN };
	code_run(at);
	syscall(SYS_poll, poll, 1, 60000);
	return poll->revents == POLLIN ? syscall(SYS_read, fd, at, 8) : -1;
}

static void *blocked_run(void *data)
{
	struct blocked *blocked = data;

	__atomic_store_n(&blocked->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	blocked->result = blocked->call(blocked->fd, blocked->at);
	return NULL;
}

int is_asleep(pid_t tid)
{
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		exit(2);
	close(fd);
	return strstr(text, ") S ") != NULL;
}

static void blocked_start(struct blocked *blocked)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		exit(2);
	blocked->fd = pair[0];
	blocked->other = pair[1];
	blocked->at = area_beside();
	operand_make(blocked->at);
	operand_run(blocked->at);
	pthread_create(&blocked->thread, NULL, blocked_run, blocked);
	while (!__atomic_load_n(&blocked->tid, __ATOMIC_ACQUIRE) || !is_asleep(blocked->tid))
		usleep(1000);
}

static int blocked_end(struct blocked *blocked)
{
	uint64_t value = UINT64_C(0x1122334455667788);

	if (write(blocked->other, &value, sizeof(value)) != sizeof(value))
		exit(2);
	pthread_join(blocked->thread, NULL);
	return blocked->result == sizeof(value) && operand_run(blocked->at) == value;
}

static void waits_for(const char *path)
{
	struct blocked all[] = { { .name = "read, taken", .call = blocked_read },
				 { .name = "readv, taken", .call = blocked_readv },
				 { .name = "recvmsg, taken", .call = blocked_recvmsg },
				 { .name = "poll, taken", .call = blocked_poll } };

	for (int i = 0; i < 4; i++)
		blocked_start(&all[i]);
	printf("ready\n");
	fflush(stdout);
	while (access(path, F_OK)) {
		for (int i = 0; i < 4; i++)
			operand_run(all[i].at);
		usleep(1000);
	}
	for (int i = 0; i < 4; i++)
		print_result(all[i].name, blocked_end(&all[i]));
}
