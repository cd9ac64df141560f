/* SPDX-License-Identifier: MIT */
/*
 * Processes that an engine can't take over, or must be careful with: `attached_odd HOW [BYTES]`.
 * Each says "ready", continues until its standard input ends, and then says "right" and ends with
 * 0, unless something has changed.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_right = 1;

/* Until the other side has closed. */
static void await(void)
{
	char byte;

	(void)!write(1, "ready\n", 6);
	while (read(0, &byte, 1) > 0)
		;
}

/* The engine would open /proc/self/maps: this one kills for that. */
static void under_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	is_right = !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	await();
}

static void with_gs(void)
{
	static uint64_t mine[8] = { 4711 };
	uint64_t got;

	syscall(SYS_arch_prctl, ARCH_SET_GS, mine);
	await();
	__asm__("mov %%gs:0, %0" : "=r"(got));
	is_right = got == 4711;
}

/* Code that reads beside itself, with no free address within 2 GiB of it. */
static void without_room(void)
{
	static const uint8_t code[] = { 0x8b, 0x05, 0x0a, 0, 0, 0, 0xc3 }; /* mov 10(%rip), %eax */
	const size_t around = (size_t)4 << 30;
	char *at = mmap(NULL, 2 * around, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	int (*read_it)(void);

	if (at == MAP_FAILED || mprotect(at + around, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		return;
	memcpy(at + around, code, sizeof(code));
	at[around + 16] = 47;
	*(void **)&read_it = at + around;
	is_right = read_it() == 47;
	await();
}

/* Code that reads beside itself, far from all other. */
static void *code_far_away(void)
{
	static const uint8_t code[] = { 0x8b, 0x05, 0x0a, 0, 0, 0, 0xc3 }; /* mov 10(%rip), %eax */
	char *at = mmap((void *)0x300000000000, 4096, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	memcpy(at, code, sizeof(code));
	at[16] = 47;
	mprotect(at, 4096, PROT_READ | PROT_EXEC);
	return at;
}

/* The kernel makes no more memory for code. */
static void without_new_code(void)
{
	int (*get)(void);

	*(void **)&get = code_far_away();
	prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0);
	is_right = get() == 47;
	await();
}

/* Code that can be run and not read. */
static void unread(void)
{
	static const uint8_t code[] = { 0xb8, 47, 0, 0, 0, 0xc3 };
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int (*get)(void);

	memcpy(at, code, sizeof(code));
	mprotect(at, 4096, PROT_EXEC);
	*(void **)&get = at;
	is_right = get() == 47;
	await();
}

/* Another process sets a limit of memory that has no room for more. */
static void cramped(void)
{
	struct rlimit limit = { 1 << 20, RLIM_INFINITY };
	pid_t pid = getpid();
	int (*get)(void);

	*(void **)&get = code_far_away();
	if (!fork())
		_exit(prlimit(pid, RLIMIT_AS, &limit, NULL) != 0);
	wait(NULL);
	is_right = get() == 47;
	await();
}

static void locked(void)
{
	is_right = !mlockall(MCL_CURRENT | MCL_FUTURE);
	await();
}

static void with_few_addresses(void)
{
	struct rlimit limit = { 1 << 30, 1 << 30 };

	setrlimit(RLIMIT_AS, &limit);
	await();
}

static void *vforks_until(void *data)
{
	const int *ends = data;
	char byte = 0;
	pid_t child = vfork();

	if (!child)
		_exit(write(ends[1], &byte, 1) != 1 || read(ends[2], &byte, 1) != 1);
	waitpid(child, NULL, 0);
	return data;
}

/* A call is made while a thread waits in vfork(2), until the call is made. */
static int while_one_vforks(int (*call)(void))
{
	pthread_t thread;
	char byte = 0;
	int ends[4];

	return !pipe(ends) && !pipe(ends + 2) &&
	       !pthread_create(&thread, NULL, vforks_until, ends) && read(ends[0], &byte, 1) == 1 &&
	       !call() && write(ends[3], &byte, 1) == 1 && !pthread_join(thread, NULL);
}

static int limit_addresses(void)
{
	struct rlimit limit = { 1 << 30, 1 << 30 };

	return setrlimit(RLIMIT_AS, &limit);
}

static void with_few_addresses_in_vfork(void)
{
	is_right = while_one_vforks(limit_addresses) && malloc(100 << 20);
	await();
}

static int lock_all(void)
{
	return mlockall(MCL_CURRENT | MCL_FUTURE);
}

/* The engine's gigabytes don't become the program's. */
static void locked_in_vfork(void)
{
	struct rusage usage;

	is_right = while_one_vforks(lock_all) && !getrusage(RUSAGE_SELF, &usage) &&
		   usage.ru_maxrss < 1 << 20;
	await();
}

static void without_descriptors(void)
{
	struct rlimit limit = { 3, 3 };

	setrlimit(RLIMIT_NOFILE, &limit);
	await();
}

static void plainly(void)
{
	await();
}

/* Its child runs in its memory, and it can't be stopped. */
static void in_vfork(void)
{
	char *const arguments[] = { "cat", NULL };
	int status;
	pid_t child;

	(void)!write(1, "ready\n", 6);
	child = vfork();
	if (!child) {
		char byte;

		while (syscall(SYS_read, 0, &byte, 1) > 0)
			;
		execv("/bin/true", arguments);
		_exit(1);
	}
	is_right = waitpid(child, &status, 0) == child && !status;
}

static void *other(void *unused)
{
	(void)unused;
	usleep(100000); /* the first has ended */
	await();
	puts("right");
	fflush(stdout);
	exit(0);
}

static void without_leader(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, other, NULL);
	pthread_exit(NULL);
}

/* As the kernel has it registered, before and after, and new threads have it too. */
static void *has_cpu(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)(sched_getcpu() >= 0);
}

static void with_rseq(void)
{
	pthread_t thread;
	void *got = NULL;

	for (int i = 0; i < 300; i++) {
		struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() +
						    __rseq_offset);

		if (!i)
			(void)!write(1, "ready\n", 6);
		usleep(10000);
		if (sched_getcpu() < 0 ||
		    (__rseq_size && (int)area->cpu_id == RSEQ_CPU_ID_REGISTRATION_FAILED))
			is_right = 0;
		if (pthread_create(&thread, NULL, has_cpu, NULL) || pthread_join(thread, &got) ||
		    !got)
			is_right = 0;
	}
	await();
	if (__rseq_size) {
		volatile struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() +
							     __rseq_offset);

		is_right = is_right && (int)area->cpu_id >= 0;
	}
}

/* The engine's memory for translated code; NULL: it has none yet. */
static unsigned char *area_of_engine(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start = 0, end = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx rwxp", &start, &end) == 2 && strstr(line, " rwxp ") &&
		    end - start == 64ul << 20)
			break;
		else
			start = 0;
	if (maps)
		fclose(maps);
	return (unsigned char *)start;
}

/*
 * Memory where the engine has its own, once it is there: the engine gives it up, and what is there
 * then is ours.
 */
static void over(void)
{
	unsigned char *at;
	const size_t bytes = 1 << 20;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	(void)!write(1, "ready\n", 6);
	while (!(at = area_of_engine()))
		usleep(1000);
	is_right = mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) == at;
	memset(at, 7, bytes);
	await();
	for (size_t i = 0; i < bytes; i++)
		is_right &= at[i] == 7;
}

/* A descriptor that it had before: what it blocks is read there, while it is recorded too. */
static void with_signalfd(void)
{
	struct signalfd_siginfo info;
	struct pollfd fds[2] = { { .events = POLLIN }, { .events = POLLIN } };
	sigset_t set;
	int got = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fds[1].fd = signalfd(-1, &set, 0);
	(void)!write(1, "ready\n", 6);
	while (!(fds[0].revents & (POLLIN | POLLHUP))) {
		fds[0].revents = fds[1].revents = 0;
		if (poll(fds, 2, 50) <= 0 || !fds[1].revents)
			continue;
		got += read(fds[1].fd, &info, sizeof(info)) == sizeof(info) &&
		       info.ssi_signo == SIGSEGV;
		(void)!write(1, "got\n", 4);
	}
	is_right = got == 1;
}

static void *waits_for_signal(void *unused)
{
	siginfo_t info = { 0 };
	sigset_t set;

	(void)unused;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (sigwaitinfo(&set, &info) < 0 && errno == EINTR)
		;
	is_right = info.si_signo == SIGUSR2 && info.si_pid == getpid();
	return NULL;
}

/* A thread is in one sigwaitinfo(3) all the time; its signal comes when all is over. */
static void in_sigwait(void)
{
	pthread_t waiter;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&waiter, NULL, waits_for_signal, NULL);
	await();
	pthread_kill(waiter, SIGUSR2);
	pthread_join(waiter, NULL);
}

static void sleeps(int number)
{
	struct timespec left = { .tv_sec = 4 };

	(void)number;
	(void)!write(1, "in\n", 3);
	while (nanosleep(&left, &left))
		;
}

static void *vforks_at_signal(void *unused)
{
	const struct timespec length = { .tv_sec = 2 };
	sigset_t set;
	pid_t child;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (sigwaitinfo(&set, NULL) < 0)
		;
	child = vfork();
	if (!child) {
		nanosleep(&length, NULL);
		_exit(0);
	}
	is_right = waitpid(child, NULL, 0) == child;
	return unused;
}

/* SIGUSR2: a thread waits in vfork(2) for 2 s; SIGFPE: main is in a handler for 4 s. */
static void in_handler(void)
{
	const struct sigaction action = { .sa_handler = sleeps, .sa_flags = SA_RESTART };
	pthread_t thread;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGFPE, &action, NULL);
	pthread_create(&thread, NULL, vforks_at_signal, NULL);
	await();
	pthread_join(thread, NULL);
}

/* Memory for the engine's file, as a killed tool leaves it, and as much of the program's own. */
static size_t left_bytes;

static void with_left(void)
{
	const int prot = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *left = mmap((char *)0x360080000000, left_bytes, prot, flags | MAP_FIXED_NOREPLACE, -1,
			  0);
	char *own = mmap(NULL, left_bytes, prot, flags, -1, 0);

	if (left == MAP_FAILED || own == MAP_FAILED)
		return;
	await();
	is_right = !msync(own, left_bytes, MS_ASYNC) && msync(left, left_bytes, MS_ASYNC) &&
		   errno == ENOMEM;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} hows[] = {
		{ "filter", under_filter },
		{ "gs", with_gs },
		{ "room", without_room },
		{ "mdwe", without_new_code },
		{ "unread", unread },
		{ "cramped", cramped },
		{ "locked", locked },
		{ "addresses", with_few_addresses },
		{ "addresses_in_vfork", with_few_addresses_in_vfork },
		{ "locked_in_vfork", locked_in_vfork },
		{ "descriptors", without_descriptors },
		{ "plain", plainly },
		{ "vfork", in_vfork },
		{ "leaderless", without_leader },
		{ "rseq", with_rseq },
		{ "over", over },
		{ "signalfd", with_signalfd },
		{ "sigwait", in_sigwait },
		{ "left", with_left },
		{ "handler", in_handler },
	};

	left_bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	for (size_t i = 0; argc > 1 && i < sizeof(hows) / sizeof(hows[0]); i++) {
		if (strcmp(argv[1], hows[i].name))
			continue;
		hows[i].run();
		puts(is_right ? "right" : "wrong");
		return !is_right;
	}
	return 2;
}
