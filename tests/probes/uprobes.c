/* SPDX-License-Identifier: MIT */
/*
 * uprobes load SECONDS [gdb | alone]: calls functions of many beginnings, in a thread and in forked
 * children, and checks each result; until SIGTERM at most. With "gdb", a child may end at a
 * breakpoint of gdb's: gdb 13 leaves its breakpoints in a child that was forked while gdb stopped
 * the parent for the last time (1 child of 4,119, without Waymark). With "alone", it has no
 * children: one that is forked after a uprobe at a nop of 5 bytes was hit ends by SIGSEGV in Linux
 * 6.18, whose trampoline for these is not copied (3 of 3, without Waymark). uprobes storm FILE
 * ROUNDS PID ADDRESS...: inserts uprobes there, as linked, in all processes or in PID alone (always
 * in it alone if PID begins with '='), for some milliseconds each; often two at one place. Prints
 * how many rounds there were.
 *
 * uprobes rounds ROUNDS: calls each function so often. uprobes count FILE ADDRESS COMMAND...: runs
 * it with a uprobe there in all processes, and prints the number of hits last; with its status.
 * uprobes hits FILE ROUNDS PID ADDRESS...: inserts one uprobe a time, in turn, and removes it when
 * it has been hit. Prints how many were not within 20 s. An address that begins with 'r' is a
 * function's, whose return is hit.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <waymark/marker.h>

#ifdef HAVE_SDT
#include <sys/sdt.h>
#else
#define DTRACE_PROBE1(provider, name, value) (void)(value)
#endif

/*
 * Each returns its argument plus 7. The labels are where instructions begin in the bytes that a
 * jump's distance may end in.
 */
__asm__(".text\n"
	".globl up_push, up_push_1, up_rex, up_rex_1, up_short, up_short_1, up_short_2\n"
	".globl up_long, up_pushes, nop_first\n"
	".type up_push, @function\n.p2align 4\nup_push:\n"
	"	push %rbp\nup_push_1:\n	mov %rsp, %rbp\n	lea 7(%rdi), %rax\n	pop %rbp\n	ret\n"
	".size up_push, .-up_push\n"
	".type up_rex, @function\n.p2align 4\nup_rex:\n"
	"	mov %rdi, %rax\nup_rex_1:\n	add $7, %rax\n	ret\n"
	".size up_rex, .-up_rex\n"
	".type up_short, @function\n.p2align 4\nup_short:\n"
	"	xor %eax, %eax\nup_short_1:\n	mov %edi, %edi\nup_short_2:\n	add %rdi, %rax\n	add $7, %rax\n	ret\n"
	".size up_short, .-up_short\n"
	".type up_long, @function\n.p2align 4\nup_long:\n"
	"	lea 0x12345678(%rdi), %rax\n	sub $0x12345671, %rax\n	ret\n"
	".size up_long, .-up_long\n"
	".type up_pushes, @function\n.p2align 4\nup_pushes:\n"
	"	push %r15\n	push %r14\n	mov %rdi, %r15\n	mov $7, %r14d\n	lea (%r15,%r14), %rax\n"
	"	pop %r14\n	pop %r15\n	ret\n"
	".size up_pushes, .-up_pushes\n"
	".type nop_first, @function\n.p2align 4\nnop_first:\n"
	"	.byte 0x0f, 0x1f, 0x44, 0, 0\n	lea 7(%rdi), %rax\n	ret\n"
	".size nop_first, .-nop_first\n");

uint64_t up_push(uint64_t), up_rex(uint64_t), up_short(uint64_t), up_long(uint64_t),
	up_pushes(uint64_t), nop_first(uint64_t);

static uint64_t (*const functions[])(uint64_t) = { up_push, up_rex,    up_short,
						   up_long, up_pushes, nop_first };
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static volatile int over;
static volatile uint64_t wrong;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

__attribute__((noinline)) static uint64_t places(uint64_t i)
{
	uint64_t sum = i;

	DTRACE_PROBE1(up, place, sum);
	/* between the two: the nop's jump ends in it, and leads to below the program */
	sum -= 64;
	__asm__ volatile("" : "+r"(sum));
	WAYMARK(up, marker, sum);
	return sum + 71;
}

static uint64_t check_all(uint64_t i)
{
	uint64_t bad = 0;

	for (size_t f = 0; f < FUNCTIONS; f++)
		bad += functions[f](i & 0xffffff) != (i & 0xffffff) + 7;
	return bad + (places(i) != i + 7);
}

static void *work(void *data)
{
	uint64_t i = 0, bad = 0;

	while (!over) {
		bad += check_all(i++);
		/* a hit each 20 us or so: a gap in the trace is seen */
		for (uint64_t until = now_ns() + 10000; now_ns() < until;)
			;
	}
	__atomic_fetch_add(&wrong, bad, __ATOMIC_RELAXED);
	*(uint64_t *)data = i;
	return NULL;
}

static void end(int number)
{
	(void)number;
	over = 1;
}

#define LEFT_BREAKPOINT 3 /* a child's status */

static void trap(int number, siginfo_t *info, void *context)
{
	const ucontext_t *at = context;
	const uint8_t *next = (const uint8_t *)at->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	_exit(next[-1] == 0xcc ? LEFT_BREAKPOINT : 1);
}

static int load(double seconds, const char *how)
{
	int beside_gdb = !strcmp(how, "gdb"), is_alone = !strcmp(how, "alone");
	const struct sigaction trapped = { .sa_sigaction = trap, .sa_flags = SA_SIGINFO };
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
	uint64_t count = 0, children = 0, failed = 0, left = 0;
	int last_status = 0;
	pthread_t thread;

	signal(SIGTERM, end);
	if (pthread_create(&thread, NULL, work, &count))
		return 1;
	while (!over && now_ns() < until) {
		int status = -1;
		pid_t child = is_alone ? -1 : fork();

		if (is_alone) {
			usleep(20000);
			continue;
		}
		if (!child) {
			uint64_t bad = 0;

			if (beside_gdb)
				sigaction(SIGTRAP, &trapped, NULL);
			for (uint64_t i = 0; i < 200; i++)
				bad += check_all(i);
			_exit(bad != 0);
		}
		if (child > 0)
			waitpid(child, &status, 0);
		if (beside_gdb && WIFEXITED(status) && WEXITSTATUS(status) == LEFT_BREAKPOINT) {
			left++;
		} else if (status) {
			failed++;
			last_status = status;
		}
		children++;
		usleep(20000);
	}
	over = 1;
	pthread_join(thread, NULL);
	printf("%s %llu of %llu rounds wrong, %llu of %llu children failed (the last with status %#x), "
	       "%llu left by gdb\n",
	       wrong || failed ? "WRONG" : "right", (unsigned long long)wrong,
	       (unsigned long long)count, (unsigned long long)failed, (unsigned long long)children,
	       (unsigned int)last_status, (unsigned long long)left);
	return wrong || failed;
}

/* ---- the storm ---- */

static int uprobe_type(void)
{
	FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	int type = -1;

	if (file && fscanf(file, "%d", &type) != 1)
		type = -1;
	if (file)
		fclose(file);
	return type;
}

/* In a PIE that ld laid out, the text's file offset is its linked address. */
static int insert_on(const char *path, uint64_t offset, int is_return, pid_t pid, int cpu)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = (uint32_t)uprobe_type() };

	attr.config = (uint64_t)is_return;
	attr.config1 = (uintptr_t)path;
	attr.config2 = offset;
	return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int insert(const char *path, uint64_t offset, pid_t pid)
{
	return insert_on(path, offset, 0, pid, pid > 0 ? -1 : 0);
}

static int storm(const char *path, unsigned int rounds, const char *whom, char **addresses,
		 int count)
{
	int alone = *whom == '=';
	pid_t pid = atoi(whom + alone);
	unsigned int done = 0, refused = 0;

	if (uprobe_type() < 0)
		return 1;
	srandom((unsigned int)getpid());
	for (; done < rounds; done++) {
		int fds[4], wanted = 1 + (int)(random() % 4);
		uint64_t at = strtoull(addresses[random() % count], NULL, 16);

		for (int i = 0; i < wanted; i++) {
			if (i != 1) /* the second is where the first is */
				at = strtoull(addresses[random() % count], NULL, 16);
			fds[i] = insert(path, at, !alone && random() % 3 ? -1 : pid);
			refused += fds[i] < 0;
		}
		usleep((useconds_t)(random() % 8000));
		for (int i = 0; i < wanted; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		usleep((useconds_t)(random() % 150000));
	}
	printf("%u rounds, %u refused\n", done, refused);
	return refused > done;
}

/* ---- hits ---- */

static uint64_t hits_of(int fd)
{
	uint64_t count = 0;

	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static int rounds(uint64_t count)
{
	uint64_t bad = 0;

	for (uint64_t i = 0; i < count; i++)
		bad += check_all(i);
	puts(bad ? "WRONG" : "right");
	return bad != 0;
}

static int count(const char *path, const char *address, char **command)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	uint64_t offset = strtoull(address + (*address == 'r'), NULL, 16), sum = 0;
	int fds[1024], status = -1;
	pid_t child;

	for (int i = 0; i < cpus && i < 1024; i++)
		fds[i] = insert_on(path, offset, *address == 'r', -1, i);
	child = fork();
	if (!child) {
		execvp(command[0], command);
		_exit(127);
	}
	if (child > 0)
		waitpid(child, &status, 0);
	for (int i = 0; i < cpus && i < 1024; i++)
		sum += hits_of(fds[i]);
	printf("%llu\n", (unsigned long long)sum);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int hits(const char *path, unsigned int rounds, pid_t pid, char **addresses, int count)
{
	unsigned int without = 0;

	for (unsigned int i = 0; i < rounds; i++) {
		const char *address = addresses[i % (unsigned int)count];
		int fd = insert_on(path, strtoull(address + (*address == 'r'), NULL, 16),
				   *address == 'r', pid, -1);
		uint64_t until = now_ns() + 20000000000;

		while (!hits_of(fd) && now_ns() < until)
			usleep(500);
		if (!hits_of(fd)) {
			fprintf(stderr, "%s: no hit (%d)\n", address, fd);
			without++;
		}
		if (fd >= 0)
			close(fd);
	}
	printf("%u of %u uprobes without a hit\n", without, rounds);
	return without != 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "rounds"))
		return rounds(strtoull(argv[2], NULL, 10));
	if (argc > 4 && !strcmp(argv[1], "count"))
		return count(argv[2], argv[3], argv + 4);
	if (argc > 5 && !strcmp(argv[1], "hits"))
		return hits(argv[2], (unsigned int)atoi(argv[3]), atoi(argv[4]), argv + 5,
			    argc - 5);
	if (argc >= 3 && !strcmp(argv[1], "load"))
		return load(atof(argv[2]), argc > 3 ? argv[3] : "");
	if (argc > 5 && !strcmp(argv[1], "storm"))
		return storm(argv[2], (unsigned int)atoi(argv[3]), argv[4], argv + 5, argc - 5);
	fputs("usage: uprobes load SECONDS [gdb | alone] | storm FILE ROUNDS PID ADDRESS... |\n"
	      "  rounds ROUNDS | count FILE ADDRESS COMMAND... | hits FILE ROUNDS PID ADDRESS...\n",
	      stderr);
	return 2;
}
