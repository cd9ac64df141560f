/* SPDX-License-Identifier: MIT */
/*
 * Code that changes in each way that we know of: what it computes is printed, and the same
 * natively.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)

typedef int function(int);

/* lea value(%rdi), %eax; ret */
static void make(uint8_t *at, int32_t value)
{
	uint8_t code[] = { 0x8d, 0x87, 0, 0, 0, 0, 0xc3 };

	memcpy(code + 2, &value, 4);
	memcpy(at, code, sizeof(code));
}

static int call(const void *at, int value)
{
	function *volatile it = (function *)(uintptr_t)at;

	return it(value);
}

static uint8_t *get(size_t bytes, int protection)
{
	uint8_t *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(2);
	return at;
}

static void written(void)
{
	uint8_t *at = get(2 * PAGE, RWX);
	long sum = 0;

	for (int i = 0; i < 3000; i++) {
		make(at + 64 * (i % 3), i);
		sum += call(at + 64 * (i % 3), 1) + call(at, 2);
		make(at + PAGE - 3, i ^ 5); /* over the edge */
		sum += call(at + PAGE - 3, 3);
	}
	printf("written %ld\n", sum);
	make(at, 1);
	sum = 0;
	for (int i = 0; i < 20000; i++) /* calm */
		sum += call(at, i);
	make(at, 2);
	for (int i = 0; i < 20000; i++)
		sum += call(at, i);
	printf("calm %ld\n", sum);
}

static void protected(void)
{
	uint8_t *at = get(PAGE, PROT_READ | PROT_WRITE);
	long sum = 0;

	for (int i = 0; i < 300; i++) {
		mprotect(at, PAGE, PROT_READ | PROT_WRITE);
		make(at, i);
		mprotect(at, PAGE, PROT_READ | PROT_EXEC);
		sum += call(at, i);
	}
	printf("protected %ld\n", sum);
}

static void mapped(void)
{
	uint8_t *at = get(4 * PAGE, RWX), *to = get(4 * PAGE, PROT_NONE);
	long sum = 0;

	for (int i = 0; i < 300; i++) {
		mmap(at, PAGE, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		make(at, i);
		sum += call(at, 1);
		munmap(at, PAGE);
		mmap(at, PAGE, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		make(at, 3 * i);
		sum += call(at, 1);
		madvise(at, PAGE, MADV_DONTNEED);
		make(at, 5 * i);
		sum += call(at, 1);
		mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		sum += call(to, 1);
		make(to, 7 * i); /* not read-only on its way */
		sum += call(to, 1);
	}
	printf("mapped %ld\n", sum);
}

static void shared(void)
{
	int fd = memfd_create("code", 0);
	uint8_t *write, *run;
	long sum = 0;

	if (fd < 0 || ftruncate(fd, PAGE))
		exit(2);
	write = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	run = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	for (int i = 0; i < 3000; i++) {
		make(write, i);
		sum += call(run, 2);
	}
	printf("shared %ld\n", sum);
	/* other code there, in memory that can't be run first */
	mprotect(run, PAGE, PROT_READ);
	mmap(run, PAGE, RWX, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	make(run, 4711);
	printf("replaced %d\n", call(run, 2));
}

/* Private code of a file that is written in other ways: as long as it is the file's page. */
static void aliased(void)
{
	char path[64];
	uint8_t *write, *run, code[16] = { 0 };
	long sum = 0;
	int fds[2], file;

	fds[0] = memfd_create("code", 0);
	snprintf(path, sizeof(path), "aliased.%d", (int)getpid());
	fds[1] = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fds[0] < 0 || fds[1] < 0)
		exit(2);
	for (int n = 0; n < 2; n++) {
		if (ftruncate(fds[n], PAGE))
			exit(2);
		write = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[n], 0);
		run = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fds[n], 0);
		for (int i = 0; i < 200; i++) {
			make(write, i);
			sum += call(run, 2);
			make(code, 3 * i);
			if (pwrite(fds[n], code, sizeof(code), 0) != sizeof(code))
				exit(2);
			sum += call(run, 2);
		}
		printf("aliased %ld\n", sum);
		munmap(run, PAGE);
		munmap(write, PAGE);
	}
	/* by a descriptor that can't write, and written later: opened so, then mapped so */
	file = open(path, O_RDONLY);
	for (int n = 0; n < 2; n++) {
		run = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
		sum += call(run, 1);
		close(fds[1]);
		fds[1] = open(path, O_RDWR);
		for (int i = 0; i < 100; i++) {
			make(code, 5 * i);
			if (pwrite(fds[1], code, sizeof(code), 0) != sizeof(code))
				exit(2);
			sum += call(run, 2);
		}
		write = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
		for (int i = 0; i < 100; i++) {
			make(write, 7 * i);
			sum += call(run, 2);
		}
		printf("later %ld\n", sum);
		munmap(run, PAGE);
		munmap(write, PAGE);
	}
	unlink(path);
}

static void read_in(void)
{
	uint8_t *at = get(2 * PAGE, RWX), code[16] = { 0 };
	int pipes[2];
	long sum = 0, got = 0;

	if (pipe(pipes))
		exit(2);
	for (int i = 0; i < 100; i++) {
		make(code, i);
		if (write(pipes[1], code, sizeof(code)) != sizeof(code))
			exit(2);
		got += read(pipes[0], at + PAGE - 8, sizeof(code));
		sum += call(at + PAGE - 8, 4);
		call(at + PAGE - 8, 4);
	}
	printf("read %ld %ld\n", got, sum);
}

/* By the kernel, in pieces, and past what is protected. */
static void written_beside(void)
{
	uint8_t *at = get(2 * PAGE, RWX), code[16] = { 0 }, other[8];
	struct iovec from = { code, 15 }, vectors[2] = { { other, 8 }, { at, 7 } };
	int self = open("/proc/self/mem", O_RDWR | O_CLOEXEC), file = memfd_create("code", 0);
	long sum = 0, got = 0;

	if (self < 0 || file < 0)
		exit(2);
	make(at, 1);
	for (int i = 0; i < 30; i++) {
		sum += call(at, 4);
		make(code + 8, i);
		got += pwrite(self, code + 8, 7, (off_t)(uintptr_t)at);
		sum += call(at, 4);
		make(code + 8, 3 * i);
		got += pwrite(file, code, 15, 0) + preadv(file, vectors, 2, 0);
		sum += call(at, 5);
		make(code + 8, 5 * i);
		got += process_vm_writev(getpid(), &from, 1, vectors, 2, 0);
		sum += call(at, 6);
		mprotect(at, PAGE, PROT_READ | PROT_EXEC);
		sum += call(at, 7);
		make(code + 8, 7 * i);
		got += pwrite(self, code + 8, 7, (off_t)(uintptr_t)at);
		sum += call(at, 7);
		mprotect(at, PAGE, RWX);
	}
	printf("beside %ld %ld\n", got, sum);
}

/* More than is there, whatever is behind it. Returns whether the call has changed its count. */
static int read_more(int fd, void *to, const void *from)
{
	const uint64_t most = (UINT64_C(1) << 47) - (UINT64_C(1) << 30);
	register off_t offset __asm__("r10") = (off_t)(uintptr_t)from;
	uint64_t bytes = most;
	long got = SYS_pread64;

	__asm__ volatile("syscall"
			 : "+a"(got), "+d"(bytes)
			 : "D"((long)fd), "S"(to), "r"(offset)
			 : "rcx", "r11", "memory");
	if (got != (long)PAGE)
		exit(3);
	return bytes != most;
}

static volatile sig_atomic_t signals;

static void note(int number)
{
	(void)number;
	signals++;
}

#define SIGNALS 2000 /* so that some come right behind a call */

/* By /proc/self/mem. */
static void signalled(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
	/* low, so that the count is no address that the kernel refuses */
	uint8_t *at = mmap((void *)0x20000000, 3 * PAGE, PROT_READ | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	uint8_t *to = at + 2 * PAGE, code[7];
	int self = open("/proc/self/mem", O_RDWR | O_CLOEXEC), stale = 0, changed = 0;

	if (self < 0 || at == MAP_FAILED || munmap(at + PAGE, PAGE) ||
	    mprotect(to, PAGE, PROT_READ | PROT_WRITE))
		exit(2);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; signals < SIGNALS; i++) {
		make(code, i);
		if (pwrite(self, code, sizeof(code), (off_t)(uintptr_t)at) != sizeof(code))
			exit(2);
		stale += call(at, 4) != i + 4;
		changed += read_more(self, to, at);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("signalled %d %d\n", stale, changed);
}

/*
 * A loop that writes the operand of an instruction behind itself, 1 to 100: mov $100, %ecx; 1: mov
 * %ecx, 2f+1(%rip); 2: add $0, %eax; loop 1b; ret; with eax 0 to begin with.
 */
static void writes_itself(void)
{
	static const uint8_t code[] = { 0x31, 0xc0, 0xb9, 100, 0, 0, 0, 0x89, 0x0d, 1,	 0,
					0,    0,    0x05, 0,   0, 0, 0, 0xe2, 0xf3, 0xc3 };
	uint8_t *at = get(PAGE, RWX);
	long sum = 0;

	for (int i = 0; i < 30; i++) {
		memcpy(at + i, code, sizeof(code));
		sum += call(at + i, 0);
	}
	printf("itself %ld\n", sum);
}

static void on_stack(void)
{
	uint8_t code[64] __attribute__((aligned(64)));
	long sum = 0;

	mprotect((void *)((uintptr_t)code & ~(PAGE - 1)), PAGE, RWX);
	mprotect((void *)((uintptr_t)(code + 63) & ~(PAGE - 1)), PAGE, RWX);
	for (int i = 0; i < 200; i++) {
		make(code, i);
		sum += call(code, 1);
	}
	printf("stack %ld\n", sum);
}

static void forked(void)
{
	uint8_t *at = get(PAGE, RWX);
	int status;

	make(at, 5);
	call(at, 1);
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		pid_t child = i == 2 ? vfork() : fork();

		if (!child) {
			make(at, 6 + i);
			_exit(call(at, 1));
		}
		waitpid(child, &status, 0);
		printf("child %d, we %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		       call(at, 1));
		make(at, 9);
		printf("and %d\n", call(at, 1));
	}
}

#define LENT_PAGES 3000
#define LENT_ROUNDS 3

static pthread_barrier_t lent_barrier;

static void *vforks(void *data)
{
	for (int i = 0; i < LENT_ROUNDS; i++) {
		pthread_barrier_wait(&lent_barrier);
		if (!vfork())
			_exit(0);
		wait(NULL);
		pthread_barrier_wait(&lent_barrier);
	}
	return data;
}

/* First writes to pages that have run, while a child of vfork(2) borrows the memory. */
static void lent(void)
{
	pthread_t thread;
	long sum = 0;

	pthread_barrier_init(&lent_barrier, NULL, 2);
	pthread_create(&thread, NULL, vforks, NULL);
	for (int i = 0; i < LENT_ROUNDS; i++) {
		uint8_t *at = get(LENT_PAGES * PAGE, RWX);

		for (int page = 0; page < LENT_PAGES; page++) {
			make(at + page * PAGE, page);
			sum += call(at + page * PAGE, i);
		}
		pthread_barrier_wait(&lent_barrier);
		for (int page = LENT_PAGES; page-- > 0;)
			make(at + page * PAGE, page ^ 5);
		pthread_barrier_wait(&lent_barrier);
		for (int page = 0; page < LENT_PAGES; page++)
			sum += call(at + page * PAGE, i);
		munmap(at, LENT_PAGES * PAGE);
	}
	pthread_join(thread, NULL);
	printf("lent %ld\n", sum);
}

/* In a heap that can be run, given back and taken again. */
static void in_heap(void)
{
	long sum = 0;

	if (personality(READ_IMPLIES_EXEC) < 0)
		exit(2);
	for (int i = 0; i < 50; i++) {
		uint8_t *at = sbrk((intptr_t)(64 * PAGE)), *code;

		if (at == (void *)-1)
			exit(2);
		code = (uint8_t *)(((uintptr_t)at + 2 * PAGE) & ~(PAGE - 1));
		make(code, i);
		for (int k = 0; k < 10; k++)
			sum += call(code, k);
		sbrk(-(intptr_t)(64 * PAGE));
	}
	personality(0);
	printf("heap %ld\n", sum);
}

/* Two pieces of code whose addresses have the same low half. */
static void far_apart(void)
{
	uint8_t *first = get(PAGE, RWX);
	uint8_t *second = MAP_FAILED;
	long sum = 0;

	make(first, 1);
	for (int i = 0; i < 100; i++)
		sum += call(first, i);
	for (uint64_t apart = 1; apart < 64 && second == MAP_FAILED; apart++)
		second = mmap(first - (apart << 32), PAGE, RWX,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (second == MAP_FAILED)
		exit(2);
	make(second, 1000);
	for (int i = 0; i < 3000; i++)
		sum = sum * 3 + call(i & 1 ? first : second, i);
	munmap(first, PAGE);
	for (int i = 0; i < 100; i++)
		sum = sum * 3 + call(second, i);
	printf("apart %ld\n", sum);
}

/*
 * Code in many places 5 GiB apart, so that the low halves of four are the same: called round and
 * round.
 */
static void regions(void)
{
	uint8_t *places[192];
	uint64_t next = UINT64_C(0x200000000000);
	uint32_t count = 0;
	long sum = 0;

	for (uint32_t i = 0; i < 192; i++, next += UINT64_C(5) << 30) {
		uint8_t *at = mmap((void *)(uintptr_t)next, PAGE, RWX,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (at == MAP_FAILED)
			exit(2);
		make(at, (int32_t)i);
		sum += call(at, 1);
		places[count++] = at;
	}
	for (uint32_t i = 0; i < 100000; i++)
		sum = (sum * 3 + call(places[i * 7 % count], (int)(i % 100))) % 1000003;
	printf("regions %ld\n", sum);
}

/* lea 4096(%rip), %rax; mov (%rax), %eax; add %edi, %eax; ret */
static void make_near(uint8_t *at)
{
	static const uint8_t code[] = { 0x48, 0x8d, 0x05, 0,	0x10, 0,
					0,    0x8b, 0x00, 0x01, 0xf8, 0xc3 };

	memcpy(at, code, sizeof(code));
}

/* Code that asks for what is near it, where no address near is free. */
static void crowded(void)
{
	uint64_t from = UINT64_C(0x300000000000);
	uint8_t *at, *left;
	long sum = 0;

	left = mmap((void *)(uintptr_t)from, UINT64_C(8) << 30, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (left == MAP_FAILED)
		exit(2);
	at = left + (UINT64_C(4) << 30);
	mprotect(at, 4 * PAGE, RWX);
	make(at + PAGE, 5);
	for (int i = 0; i < 300; i++)
		sum += call(at + PAGE, i);
	printf("crowded %ld\n", sum);
	munmap(left, 3 * PAGE << 8); /* room for a small one */
	munmap(at - (1u << 22), 1u << 22);
	make_near(at);
	memcpy(at + PAGE + 7, &sum, 4);
	for (int i = 0; i < 300; i++)
		sum += call(at, i);
	printf("crowded %ld\n", sum);
	if (mmap(at - (1u << 22), 1u << 22, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
		 0) == MAP_FAILED)
		errno = 0; /* the engine's */
	at = left + (UINT64_C(7) << 30);
	mprotect(at, 4 * PAGE, RWX);
	munmap(left + (UINT64_C(8) << 30) - PAGE, PAGE);
	make_near(at);
	memcpy(at + PAGE + 7, &sum, 4);
	for (int i = 0; i < 300; i++)
		sum += call(at, i);
	printf("crowded %ld\n", sum);
}

static uint8_t *common;
static volatile int turn;

/* Whole code, entered only behind a turn of its own. */
static void *other(void *sum)
{
	for (int i = 0; i < 500; i++) {
		while (turn != 2 * i + 1)
			;
		*(long *)sum += call(common, 1) + call(common + 16, 2);
		make(common, 3 * i);
		turn = 2 * i + 2;
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread;
	long sum = 0, its = 0;

	common = get(PAGE, RWX);
	pthread_create(&thread, NULL, other, &its);
	for (int i = 0; i < 500; i++) {
		make(common, i);
		make(common + 16, 7 * i);
		turn = 2 * i + 1;
		while (turn != 2 * i + 2)
			;
		sum += call(common, 1);
	}
	pthread_join(thread, NULL);
	printf("threads %ld %ld\n", sum, its);
}

static void met(int number, siginfo_t *info, void *context)
{
	(void)context;
	printf("signal %d %d\n", number, info->si_code);
	mprotect((void *)((uintptr_t)info->si_addr & ~(PAGE - 1)), PAGE, RWX);
}

/* Its own faults stay its own. */
static void faults(void)
{
	struct sigaction action = { .sa_sigaction = met, .sa_flags = SA_SIGINFO };
	uint8_t *at = get(PAGE, RWX);

	sigaction(SIGSEGV, &action, NULL);
	make(at, 1);
	call(at, 1);
	make(at, 2);
	call(at, 1);
	mprotect(at, PAGE, PROT_READ | PROT_EXEC);
	make(at, 3);
	printf("faults %d\n", call(at, 1));
	mprotect(at, PAGE, PROT_READ | PROT_WRITE);
	printf("faults %d\n", call(at, 1));
	signal(SIGSEGV, SIG_DFL);
}

/* ---- jumps through memory that no code writes, until some code does ---- */

function *slots[PAGE / sizeof(function *)]
	__attribute__((aligned(4096), used, visibility("hidden"))) = { abs };

int by_jump(int value), by_call(int value);

__asm__(".text\n"
	"by_jump: jmp *slots(%rip)\n"
	"by_call: sub $8, %rsp; call *slots(%rip); add $8, %rsp; ret\n");

static int once(int value)
{
	return value;
}

static int twice(int value)
{
	return 2 * value;
}

/* Hot after a while. */
static long by_slot(void)
{
	long sum = 0;

	for (int i = 0; i < 40000; i++)
		sum += by_jump(i) + 3l * by_call(i);
	return sum;
}

static void constant(void)
{
	function **other;
	int fd;

	for (int i = 0; i < 20; i++) {
		mprotect(slots, PAGE, PROT_READ | PROT_WRITE);
		slots[0] = i % 2 ? once : twice;
		mprotect(slots, PAGE, PROT_READ);
		printf("constant %d %ld\n", i, by_slot());
	}
	mprotect(slots, PAGE, PROT_READ | PROT_WRITE);
	slots[0] = twice;
	printf("no longer %ld\n", by_slot());
	slots[0] = once;
	printf("written %ld\n", by_slot());
	mprotect(slots, PAGE, PROT_READ);
	printf("again %ld\n", by_slot());
	other = (function **)get(PAGE, PROT_READ | PROT_WRITE);
	other[0] = twice;
	mprotect(other, PAGE, PROT_READ);
	mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, slots);
	printf("moved there %ld\n", by_slot());
	mprotect(slots, PAGE, PROT_READ);
	printf("again %ld\n", by_slot());
	fd = open("/proc/self/mem", O_WRONLY);
	other = (function *[]){ once };
	if (pwrite(fd, other, sizeof(*other), (off_t)(uintptr_t)slots) != sizeof(*other))
		exit(3);
	close(fd);
	printf("written through %ld\n", by_slot());
}

int main(int count, char **values)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "written", written },	      { "protected", protected },  { "mapped", mapped },
		{ "aliased", aliased },	      { "shared", shared },	   { "read", read_in },
		{ "beside", written_beside }, { "itself", writes_itself }, { "stack", on_stack },
		{ "heap", in_heap },	      { "forked", forked },	   { "apart", far_apart },
		{ "regions", regions },	      { "threads", threads },	   { "faults", faults },
		{ "crowded", crowded },	      { "constant", constant },	   { "lent", lent },
		{ "signalled", signalled },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (count < 2 || !strcmp(values[1], cases[i].name))
			cases[i].run();
	return 0;
}
