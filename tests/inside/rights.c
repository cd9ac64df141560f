/* SPDX-License-Identifier: MIT */
/*
 * Programs that give up rights, limit themselves, or lock themselves in, while they are recorded.
 */
#include "inside.h"

#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *hit_some(void *unused)
{
	hits(200);
	return unused;
}

static void in_a_thread(void *(*main)(void *))
{
	pthread_t thread;

	want(!pthread_create(&thread, NULL, main, NULL), "pthread_create");
	pthread_join(thread, NULL);
}

static int over;

static void *hit_until_over(void *unused)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		hits(10);
		sleep_ms(1);
	}
	return unused;
}

static int fork_and_hit(void)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		hits(50);
		_exit(3);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int run_setuid(void)
{
	pthread_t thread;

	want(!pthread_create(&thread, NULL, hit_until_over, NULL), "pthread_create");
	hits(100);
	want(!setgroups(0, NULL) && !setgid(65534) && !setuid(65534), "setuid");
	want(getuid() == 65534 && setuid(0) < 0, "no way back");
	hits(100);
	in_a_thread(hit_some);
	over = 1;
	pthread_join(thread, NULL);
	return 5;
}

/* There and back, so that children can still reach the tool. */
static int run_setresuid(void)
{
	int sum = 0;

	for (int i = 0; i < 10; i++) {
		hits(50);
		want(!setresuid(65534, 65534, 0), "setresuid");
		in_a_thread(hit_some);
		hits(50);
		want(!setresuid(0, 0, 0), "setresuid back");
		sum += fork_and_hit();
	}
	return sum;
}

static int run_chroot(void)
{
	hits(100);
	want(!chroot("/proc/self/fdinfo") && !chdir("/"), "chroot");
	hits(100);
	in_a_thread(hit_some);
	return 3;
}

static int run_unshare(void)
{
	hits(100);
	want(!unshare(CLONE_FILES | CLONE_FS), "unshare");
	want(!unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC),
	     "unshare namespaces");
	hits(100);
	in_a_thread(hit_some);
	want(!unshare(CLONE_NEWPID), "unshare pids");
	return 3 + fork_and_hit();
}

/* ---- seccomp ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW(name)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1),                                    \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What a program that computes needs: to write, to take memory, to make threads and to end. */
static int filter(unsigned int flags, uint32_t otherwise)
{
	struct sock_filter code[] = {
		LOAD(nr),
		ALLOW(write),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(brk),
		ALLOW(futex),
		ALLOW(clone),
		ALLOW(clone3),
		ALLOW(set_robust_list),
		ALLOW(rseq),
		ALLOW(rt_sigprocmask),
		ALLOW(rt_sigaction),
		ALLOW(prlimit64),
		ALLOW(getrandom),
		ALLOW(gettid),
		ALLOW(getpid),
		ALLOW(tgkill),
		ALLOW(rt_sigreturn),
		ALLOW(clock_nanosleep),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW(exit),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, otherwise),
	};
	struct sock_fprog program = { .len = sizeof code / sizeof code[0], .filter = code };

	want(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* Many pages, new threads' first hits, and text that changes behind their back. */
static void compute(void)
{
	for (int i = 0; i < 10; i++) {
		in_a_thread(hit_some);
		hits(2000);
		sleep_ms(10);
	}
}

static int run_seccomp(void)
{
	hits(10);
	want(!filter(0, SECCOMP_RET_KILL_PROCESS), "the filter");
	compute();
	return 4;
}

/* The filter comes before the first hit of any thread. */
static int run_seccomp_first(void)
{
	want(!filter(0, SECCOMP_RET_KILL_PROCESS), "the filter");
	compute();
	return 4;
}

/* A child in which no thread of ours can be started: its hits are lost, and counted. */
static int run_seccomp_fork(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { .len = 1, .filter = code };
	int sum = 0;

	hits(10);
	want(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges");
	want(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "the filter");
	for (int i = 0; i < 3; i++) {
		sum += fork_and_hit();
		hits(10);
	}
	return sum;
}

/*
 * It is put on our threads too. Refusing is all that can be borne; killing is what was asked for.
 */
static int run_seccomp_all(void)
{
	hits(10);
	want(!filter(SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_ERRNO | EPERM), "the filter");
	compute();
	return 4;
}

static int run_seccomp_all_kill(void)
{
	hits(10);
	want(!filter(SECCOMP_FILTER_FLAG_TSYNC, SECCOMP_RET_KILL_THREAD), "the filter");
	compute();
	/* however long that thread is gone, the program continues, and so does its trace */
	sleep_ms(1000);
	compute();
	return 4;
}

/*
 * A thread that may only read, write and exit. No marker there: the kernel takes the time stamp
 * counter away from such a thread, so that an armed one would end it.
 */
static void *live_strictly(void *unused)
{
	volatile uint64_t sum = 0;

	hits(10);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
		sum += over == 0;
	inside_words[2] = 1;
	syscall(SYS_exit, 0);
	return unused;
}

static int run_strict(void)
{
	pthread_t thread;

	want(!pthread_create(&thread, NULL, live_strictly, NULL), "pthread_create");
	for (int i = 0; i < 20; i++) {
		hits(500);
		in_a_thread(hit_some);
		sleep_ms(5);
	}
	over = 1;
	for (int i = 0; i < 5000 && !__atomic_load_n(&inside_words[2], __ATOMIC_ACQUIRE); i++)
		sleep_ms(1);
	return (int)inside_words[2];
}

/* ---- limits: set before anybody attaches ---- */

static void limit(int what, rlim_t most)
{
	struct rlimit limit = { most, most };

	want(!setrlimit((__rlimit_resource_t)what, &limit), "setrlimit");
}

/* Whether or not it can be recorded like this, it must end as it would. */
static int wait_for_tool(void)
{
	inside_ready();
	if (getenv("INSIDE_WAIT"))
		for (int i = 0; i < 1500 && !inside_words[0]; i++) {
			WAYMARK(in, begin, count_one());
			sleep_ms(1);
		}
	hits(1000);
	free(malloc(100000));
	return 6;
}

static int run_few_files(void)
{
	limit(RLIMIT_NOFILE, 4);
	return wait_for_tool();
}

static int run_no_files(void)
{
	limit(RLIMIT_NOFILE, 0);
	return wait_for_tool();
}

static int run_little_memory(void)
{
	limit(RLIMIT_AS, 24 << 20);
	return wait_for_tool();
}

static int run_small_files(void)
{
	limit(RLIMIT_FSIZE, 0);
	return wait_for_tool();
}

static int run_no_threads(void)
{
	if (!getuid()) {
		setgroups(0, NULL);
		want(!setgid(65534) && !setuid(65534), "setuid");
	}
	limit(RLIMIT_NPROC, 1);
	return wait_for_tool();
}

static int run_no_locked_memory(void)
{
	limit(RLIMIT_MEMLOCK, 0);
	return wait_for_tool();
}

static const struct inside_case cases[] = {
	{ "setuid", run_setuid },
	{ "setresuid", run_setresuid },
	{ "chroot", run_chroot },
	{ "unshare", run_unshare },
	{ "seccomp", run_seccomp },
	{ "seccomp_first", run_seccomp_first },
	{ "seccomp_all", run_seccomp_all },
	{ "seccomp_all_kill", run_seccomp_all_kill },
	{ "strict", run_strict },
	{ "seccomp_fork", run_seccomp_fork },
	{ 0 },
};

static const struct inside_case limited[] = {
	{ "few_files", run_few_files },
	{ "no_files", run_no_files },
	{ "little_memory", run_little_memory },
	{ "small_files", run_small_files },
	{ "no_threads", run_no_threads },
	{ "no_locked_memory", run_no_locked_memory },
	{ 0 },
};

int main(int argc, char **argv)
{
	/* these wait by themselves, and not for long */
	for (const struct inside_case *it = limited; argc > 1 && it->name; it++) {
		if (!strcmp(it->name, argv[1])) {
			int status;

			inside_map();
			status = it->run();
			printf("%s: %d\n", it->name, status);
			return status;
		}
	}
	return inside_main(argc, argv, cases);
}
