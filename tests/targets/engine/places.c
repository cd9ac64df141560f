/* SPDX-License-Identifier: MIT */
/*
 * Memory and descriptors that a program may ask for by name, and what it finds of itself: places
 * SCENE.
 */
#include "seen.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define LOW 0x70000000ul   /* where the engine would like to be */
#define STRAY 0x87654321ul /* and where its map is, wherever that begins */
#define MIB (1ul << 20)

static char *map_at(unsigned long at, unsigned long bytes, int flags)
{
	return mmap((void *)at, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

static long use(volatile char *at, unsigned long bytes)
{
	long sum = 0;

	for (unsigned long i = 0; i < bytes; i += 4096)
		at[i] = (char)(i >> 12);
	for (unsigned long i = 0; i < bytes; i += 4096)
		sum += at[i];
	return sum;
}

static void *sleeps(void *data)
{
	int *pipes = data;
	char byte;
	long got = read(pipes[0], &byte, 1);

	return (void *)(got + use(map_at(0, MIB, 0), MIB));
}

static void fixed(void)
{
	pthread_t thread;
	unsigned long where;
	int pipes[2];
	void *result;
	char *at;

	if (pipe(pipes))
		return;
	pthread_create(&thread, NULL, sleeps, pipes);
	usleep(20000);
	/* Where the engine has what it knows of our code. */
	where = (LOW + (unsigned long)(uint32_t)(uintptr_t)fixed * 8) & ~0xffffful;
	at = map_at(where, 4 * MIB, MAP_FIXED);
	printf("there %d: %ld\n", (unsigned long)at == where, use(at, 4 * MIB));
	if (write(pipes[1], "x", 1) != 1)
		return;
	pthread_join(thread, &result);
	printf("other %ld\n", (long)result);
}

/* A request for what is free is refused where it is not free, as the kernel refuses it. */
static void fixed_free(void)
{
	char *at = map_at(LOW + 64 * MIB, MIB, MAP_FIXED_NOREPLACE);

	printf("%d\n", at == MAP_FAILED ? errno == EEXIST : !use(at, 4096));
}

static volatile int is_over;
static long (*volatile steps[2])(long);

static long step_up(long value)
{
	return value + 2;
}

static long step_down(long value)
{
	return value - 2;
}

static void *busy(void *data)
{
	long value = 0;

	for (unsigned long i = 0; !is_over; i++)
		value = steps[i & 1](value);
	*(long *)data = value & 1;
	return NULL;
}

/* Between 8 and 16 GiB, while other threads run code. */
static void between(void)
{
	pthread_t threads[3];
	long values[3] = { 1, 1, 1 }, sum = 0;

	steps[0] = step_up;
	steps[1] = step_down;
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, busy, &values[i]);
	usleep(20000);
	for (unsigned long at = 8; at <= 16; at += 2) {
		char *got = map_at(at << 30, 4 * MIB, at % 4 ? MAP_FIXED_NOREPLACE : MAP_FIXED);

		sum += got == (char *)(at << 30) ? use(got, 4 * MIB) : errno;
	}
	usleep(20000);
	is_over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("between %ld, %ld %ld %ld\n", sum, values[0], values[1], values[2]);
}

/* All that is not ours goes: what a program does that sets up its own address space. */
static void unmap_all(void)
{
	printf("unmapped %d\n", munmap((void *)LOW, 32768 * MIB));
	printf("%d\n", mprotect((void *)LOW, 4096, PROT_READ) ? errno : 0);
	printf("%d\n", madvise((void *)LOW, 4096, MADV_DONTNEED) ? errno : 0);
}

static sigjmp_buf back;

static void met(int number, siginfo_t *info, void *context)
{
	(void)context;
	printf("signal %d code %d at %p\n", number, info->si_code, info->si_addr);
	siglongjmp(back, 1);
}

/* What a program reads and writes by mistake, where the engine has addresses. */
static void stray(void)
{
	char byte = 7, *volatile at = (char *)STRAY;
	char *page = (char *)(STRAY & ~4095ul), *mine;
	struct iovec here = { &byte, 1 }, there = { at, 1 };
	volatile int fd = 4711;

	seen_ask(SIGSEGV, 0, met, 0);
	if (!sigsetjmp(back, 1))
		printf("read %d\n", *at);
	if (!sigsetjmp(back, 1))
		printf("written %d\n", *at = byte);
	printf("%zd", process_vm_readv(getpid(), &here, 1, &there, 1, 0));
	printf(" %d", errno);
	printf(" %zd", process_vm_writev(getpid(), &here, 1, &there, 1, 0));
	printf(" %d", errno);
	printf(" %zd", write(1, at, 1));
	printf(" %d\n", errno);
	printf("%d", munmap(page, 4096));
	printf(" %d", mprotect(page, 4096, PROT_READ | PROT_WRITE) ? errno : 0);
	printf(" %d", madvise(page, 4096, MADV_DONTNEED) ? errno : 0);
	printf(" %d", mremap(page, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0);
	printf(" %d\n", mlock(page, 4096) ? errno : 0);
	fd = open("/proc/self/mem", O_RDWR);
	printf("%zd", pread(fd, &byte, 1, STRAY));
	printf(" %d", errno);
	printf(" %zd", pwrite(fd, &byte, 1, STRAY));
	printf(" %d", errno);
	printf(" %d", lseek(fd, STRAY, SEEK_SET) == STRAY);
	printf(" %zd", read(fd, &byte, 1));
	printf(" %d", errno);
	printf(" %zd", pread(fd, &byte, 1, (off_t)(uintptr_t)&fd));
	printf(" %d\n", byte);
	if (!sigsetjmp(back, 1))
		printf("read %d\n", *at);
	mine = map_at(0x60000000, MIB, 0); /* there, below the map */
	*mine = 7;
	printf("%d\n",
	       mremap(mine, 1ul << 30, 1ul << 31, MREMAP_MAYMOVE) == MAP_FAILED ? errno : 0);
	printf("%d\n", *mine);
}

/* A segment of shared memory over what the program has there. */
static void attached(void)
{
	int number = shmget(IPC_PRIVATE, 65536, IPC_CREAT | 0600);
	char *at = map_at(0, MIB, 0), *got = shmat(number, at, SHM_REMAP);

	shmctl(number, IPC_RMID, NULL);
	printf("attached %d: %ld\n", got == at, use(at, 65536));
}

static void low(void)
{
	char *at[64];
	int count = 0, is_low = 1;

	for (int i = 0; i < 16; i++) {
		at[i] = map_at(0, MIB, MAP_32BIT);
		if (at[i] == MAP_FAILED)
			continue;
		count++;
		is_low &= (unsigned long)at[i] < 1ul << 31;
		use(at[i], MIB);
	}
	printf("%d low %d\n", count, is_low);
}

/* As far as 3 GiB: the program's break may be anywhere, so it begins where there is room. */
static void breaks(void)
{
	char *begin = sbrk(0);
	long sum = 0;
	int failed = 0;

	for (int i = 0; i < 3072 && !failed; i++) {
		char *at = sbrk(MIB);

		failed = at == (void *)-1;
		if (!failed)
			sum += at[0] = at[MIB - 1] = (char)i;
	}
	printf("failed %d, sum %ld, grown %ld\n", failed, sum, (long)((char *)sbrk(0) - begin));
	printf("shrunk %d\n", brk(begin));
}

static void implied(void)
{
	static const char code[] = "\xb8\x2a\x00\x00\x00\xc3";
	char *at;

	printf("personality %d\n", personality(READ_IMPLIES_EXEC) < 0);
	at = map_at(0, 4096, 0);
	memcpy(at, code, sizeof(code));
	printf("%d\n", ((int (*)(void))at)());
	at = malloc(16 * MIB);
	memcpy(at, code, sizeof(code));
	printf("%d\n", ((int (*)(void))at)());
}

static void descriptors(void)
{
	int fd;

	printf("closed %ld\n", syscall(SYS_close_range, 3, ~0u, 0));
	fd = open("/dev/null", O_RDWR);
	printf("next %d\n", fd);
	fflush(stdout);
	for (int i = 0; i < 4096; i++)
		if (i != 1)
			close(i);
	printf("first %d\n", open("/dev/null", O_RDWR));
	fflush(stdout);
	if (!fork()) {
		close(1);
		syscall(SYS_close_range, 0, ~0u, 0);
		_exit(open("/dev/null", O_RDWR));
	}
	wait(&fd);
	printf("child %x\n", fd);
}

static void root(void)
{
	char name[] = "/tmp/waymark-places-XXXXXX";
	void (*volatile often)(int, int, const char *) = NULL;

	(void)often;
	if (!mkdtemp(name))
		return;
	if (geteuid() || chroot(name) || chdir("/")) {
		printf("no root\n");
		rmdir(name);
		return;
	}
	printf("inside %d\n", open("/proc/self/maps", O_RDONLY));
	use(malloc(8 * MIB), 8 * MIB);
	{ /* new code of a library's, whose file can't be opened any more */
		static const char code[] = "\xb8\x2a\x00\x00\x00\xc3";
		char *at = map_at(0, 4096, 0);

		memcpy(at, code, sizeof(code));
		mprotect(at, 4096, PROT_READ | PROT_EXEC);
		printf("%d\n", ((int (*)(void))at)());
	}
	printf("%.0f\n", strtod("12.0", NULL));
}

static void locked(void)
{
	char *at;

	printf("locked %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
	at = map_at(0, 4 * MIB, 0);
	printf("%ld\n", use(at, 4 * MIB));
	printf("child");
	fflush(stdout);
	if (!fork())
		_exit((int)use(malloc(MIB), MIB) & 63);
	{
		int status;

		wait(&status);
		printf(" %x\n", status);
	}
}

/* Where the program finds its stack and its code in its maps. */
static void maps(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long start, end, here = (unsigned long)&start;
	int stack = 0, code = 0, heap = 0, is_sorted = 1;
	unsigned long before = 0;

	free(malloc(100));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		is_sorted &= start >= before;
		before = end;
		stack += here >= start && here < end && strstr(line, "[stack]");
		code += (unsigned long)maps >= start && (unsigned long)maps < end &&
			strstr(line, "engine-places");
		heap += !!strstr(line, "[heap]");
	}
	printf("stack %d code %d heap %d sorted %d\n", stack, code, heap, is_sorted);
}

static void ring(void)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 8, &params), file;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqe;
	char *rings, text[16] = "";
	unsigned int *tail, *array, *head;

	if (fd < 0) {
		printf("no ring %d\n", errno);
		return;
	}
	rings = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	sqes = mmap(NULL, 8 * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    IORING_OFF_SQES);
	file = open("/proc/self/comm", O_RDONLY);
	sqes[0] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
					 .fd = file,
					 .addr = (uintptr_t)text,
					 .len = sizeof(text) - 1,
					 .user_data = 77 };
	tail = (unsigned int *)(rings + params.sq_off.tail);
	array = (unsigned int *)(rings + params.sq_off.array);
	array[*tail & 7] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	printf("entered %ld\n",
	       syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	head = (unsigned int *)(rings + params.cq_off.head);
	cqe = (struct io_uring_cqe *)(rings + params.cq_off.cqes) + (*head & 7);
	printf("read %d for %lld: %s\n", cqe->res, cqe->user_data, text);
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenes[] = {
		{ "fixed", fixed },
		{ "between", between },
		{ "fixed_free", fixed_free },
		{ "unmap_all", unmap_all },
		{ "low", low },
		{ "breaks", breaks },
		{ "implied", implied },
		{ "root", root },
		{ "descriptors", descriptors },
		{ "locked", locked },
		{ "maps", maps },
		{ "ring", ring },
		{ "stray", stray },
		{ "attached", attached },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned int i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (count > 1 && !strcmp(words[1], scenes[i].name))
			scenes[i].run();
	return 0;
}
