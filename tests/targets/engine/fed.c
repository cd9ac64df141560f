/* SPDX-License-Identifier: MIT */
/*
 * Code on pages that another thread of the program provides (userfaultfd(2)): it runs code and
 * makes calls of its own before a page is there, and provides none that no one waits for.
 */
#include "seen.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096ul
#define PAGES 48ul

static int uffd, is_shared, batch = 1;
static uint8_t *area;
static uint8_t filled[8 * PAGE] __attribute__((aligned(4096)));
static volatile int served, protections, removals, forks, is_over, never = -1;
static sigjmp_buf back;
static volatile int alarms, faults;

/*
 * Of each page: a function at its begin, and one at its end that continues on the next page within
 * an instruction, unless its argument is 0.
 */
static void fill(uint8_t *at, unsigned long n)
{
	uint8_t code[] = { 0xb8, (uint8_t)n, 1, 0, 0, 0xc3 };

	memset(at, 0x90, PAGE);
	memcpy(at, code, sizeof(code));
	/* xor %eax, %eax; test %edi, %edi; jz to the ret */
	memcpy(at + PAGE - 64, "\x31\xc0\x85\xff\x74\x34", 6);
	/* jmp over it; ret; movabs, whose last 5 bytes are those of the next page, and its ret */
	memcpy(at + PAGE - 8, "\xeb\x01\xc3\x48\xb8\x07\x00\x00", 8);
}

static int call(unsigned long n)
{
	int (*volatile it)(void) = (int (*)(void))(uintptr_t)(area + n * PAGE);

	return it();
}

static long call_end(unsigned long n, int goes_on)
{
	long (*volatile it)(int) = (long (*)(int))(uintptr_t)(area + (n + 1) * PAGE - 64);

	return it(goes_on);
}

/* New code each time: it must be translated while others wait. */
static long noise(unsigned long n)
{
	uint8_t *made = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action;
	long sum;

	fill(made, n);
	sum = ((int (*)(void))(uintptr_t)made)();
	mprotect(made, PAGE, PROT_READ | PROT_EXEC);
	sum += ((int (*)(void))(uintptr_t)made)();
	munmap(made, PAGE);
	sigaction(SIGUSR1, NULL, &action);
	return sum;
}

static void serve(const struct uffd_msg *message)
{
	uint64_t at = message->arg.pagefault.address & ~(PAGE - 1);
	struct uffdio_writeprotect open = { .range = { at, PAGE } };
	struct uffdio_copy copy = { .dst = at, .src = (uint64_t)filled };
	unsigned long n = (at - (uint64_t)area) / PAGE, count = (unsigned long)batch;

	if (message->event == UFFD_EVENT_REMOVE)
		removals++;
	if (message->event == UFFD_EVENT_FORK) {
		forks++;
		close((int)message->arg.fork.ufd);
	}
	if (message->event != UFFD_EVENT_PAGEFAULT || (int)n == never)
		return;
	noise(n);
	if (message->arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
		protections++;
		ioctl(uffd, UFFDIO_WRITEPROTECT, &open);
		return;
	}
	if (n + count > PAGES)
		count = PAGES - n;
	for (unsigned long i = 0; i < count; i++)
		fill(filled + i * PAGE, n + i);
	copy.len = count * PAGE;
	if (!ioctl(uffd, UFFDIO_COPY, &copy))
		served++;
}

static void *server(void *none)
{
	struct uffd_msg message;

	while (!is_over) {
		struct pollfd one = { .fd = uffd, .events = POLLIN };

		if (poll(&one, 1, 20) > 0 && read(uffd, &message, sizeof(message)) > 0)
			serve(&message);
	}
	return none;
}

static pthread_t begin(uint64_t features, uint64_t mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register area_is = { .mode = mode };
	int fd = is_shared ? memfd_create("fed", 0) : -1;
	pthread_t thread;

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) ||
	    (is_shared && ftruncate(fd, (off_t)(PAGES * PAGE)))) {
		printf("no userfaultfd(2)\n");
		exit(0);
	}
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		    is_shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	area_is.range = (struct uffdio_range){ (uint64_t)area, PAGES * PAGE };
	if (ioctl(uffd, UFFDIO_REGISTER, &area_is))
		printf("not registered: %d\n", errno);
	pthread_create(&thread, NULL, server, NULL);
	return thread;
}

static void end(pthread_t thread)
{
	is_over = 1;
	pthread_join(thread, NULL);
	printf("served %d, opened %d, removed %d, forked %d\n", served, protections, removals,
	       forks);
}

static void *caller(void *sum)
{
	for (int round = 0; round < 5; round++)
		for (unsigned long i = 0; i < PAGES; i++)
			*(long *)sum += i % 3 && i < PAGES - 1 ? call_end(i, (int)i % 3 - 1)
							       : call(i);
	return NULL;
}

/* Two threads, which need the same pages at the same time. */
static void run_both(void)
{
	long sums[2] = { 0, 0 };
	pthread_t callers[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&callers[i], NULL, caller, &sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(callers[i], NULL);
	printf("%ld %ld\n", sums[0], sums[1]);
}

static void missing(void)
{
	pthread_t thread = begin(0, UFFDIO_REGISTER_MODE_MISSING);

	run_both();
	for (int round = 0; round < 10; round++) {
		long sum = 0;

		madvise(area, PAGES * PAGE, MADV_DONTNEED);
		caller(&sum);
		if (round == 9)
			printf("%ld\n", sum);
	}
	end(thread);
}

static void shared(void)
{
	is_shared = 1;
	missing();
}

/* Pages that come many at a time, where code runs already. */
static void batches(void)
{
	pthread_t thread = begin(0, UFFDIO_REGISTER_MODE_MISSING);
	int sum = 0;

	batch = 8;
	for (unsigned long i = 0; i < PAGES; i++) {
		sum += call(i);
		if (i == PAGES - 1)
			continue;
		madvise(area + (i + 1) / 8 * 8 * PAGE, 8 * PAGE, MADV_DONTNEED);
		sum += call((i + 1) / 8 * 8);
	}
	printf("%d\n", sum);
	end(thread);
}

/* The same for as long as there is a file ./feed, which a recorder may use. */
static void attached(void)
{
	pthread_t thread = begin(0, UFFDIO_REGISTER_MODE_MISSING);

	batch = 8;
	printf("ready\n");
	fflush(stdout);
	while (!access("feed", F_OK)) {
		madvise(area, PAGES * PAGE, MADV_DONTNEED);
		for (unsigned long i = 0; i < PAGES; i++)
			call(i);
	}
	is_over = 1;
	pthread_join(thread, NULL);
	printf("right\n");
}

static void protected(void)
{
	pthread_t thread = begin(UFFD_FEATURE_PAGEFAULT_FLAG_WP,
				 UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
	struct uffdio_writeprotect shut = { .range = { (uint64_t)area, PAGES * PAGE },
					    .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	long sum = 0;

	caller(&sum);
	for (int round = 0; round < 3; round++) {
		ioctl(uffd, UFFDIO_WRITEPROTECT, &shut);
		caller(&sum);
		for (unsigned long i = 0; i < PAGES; i++)
			area[i * PAGE + 2]++;
		caller(&sum);
	}
	printf("%ld\n", sum);
	end(thread);
}

static void removed(void)
{
	pthread_t thread = begin(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP |
					 UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP,
				 UFFDIO_REGISTER_MODE_MISSING);
	long sum = 0;
	pid_t child;
	int status = 0;

	for (int round = 0; round < 3; round++) {
		caller(&sum);
		madvise(area, PAGES * PAGE, MADV_DONTNEED);
	}
	caller(&sum);
	child = fork();
	if (!child)
		_exit(call(3) & 15);
	waitpid(child, &status, 0);
	mremap(area + (PAGES - 1) * PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
	munmap(area, (PAGES - 1) * PAGE);
	printf("%ld, child %x\n", sum, (unsigned int)status);
	end(thread);
}

static void alarmed(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)number, (void)info;
	if (at->uc_mcontext.gregs[REG_RIP] == (greg_t)(area + 5 * PAGE))
		alarms++;
	if (alarms == 3)
		siglongjmp(back, 1);
}

/* A page that never comes: signals arrive meanwhile, at the code that waits for it. */
static void signals(void)
{
	pthread_t thread = begin(0, UFFDIO_REGISTER_MODE_MISSING);
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } }, none = { { 0, 0 }, { 0, 0 } };
	sigset_t alarm_only = seen_set(SIGALRM, 0, 0);

	never = 5;
	seen_ask(SIGALRM, 0, alarmed, 0);
	printf("%d, %ld\n", call(4), call_end(4, 0)); /* without the next page */
	if (!sigsetjmp(back, 1)) {
		setitimer(ITIMER_REAL, &often, NULL);
		call(5);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	printf("alarms %d, %d\n", alarms, call(6));
	end(thread);
}

static void faulted(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	faults++;
	if (at->uc_mcontext.gregs[REG_RIP] != (greg_t)info->si_addr)
		printf("the fault is elsewhere\n");
	printf("signal %d code %d, page %ld\n", number, info->si_code,
	       (long)((uint8_t *)info->si_addr - area) / (long)PAGE);
	siglongjmp(back, 1);
}

/* Code that vanishes. */
static void vanished(void)
{
	int fd = memfd_create("vanished", 0);
	uint8_t code[PAGE];

	fill(code, 3);
	if (fd < 0 || write(fd, code, PAGE) != (ssize_t)PAGE)
		exit(2);
	area = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	seen_ask(SIGBUS, 0, faulted, 0);
	seen_ask(SIGSEGV, 0, faulted, 0);
	if (!sigsetjmp(back, 1))
		printf("%d\n", call(1));
	printf("%d\n", call(0));
	if (ftruncate(fd, 0))
		exit(2);
	if (!sigsetjmp(back, 1))
		printf("%d\n", call(0));
	if (ftruncate(fd, (off_t)PAGE) || pwrite(fd, code, PAGE, 0) != (ssize_t)PAGE)
		exit(2);
	printf("%d\n", call(0));
	munmap(area, PAGE);
	if (!sigsetjmp(back, 1))
		printf("%d\n", call(0));
	printf("faults %d\n", faults);
}

/* The page that a signal announces instead (UFFD_FEATURE_SIGBUS). */
static void provide(int number, siginfo_t *info, void *context)
{
	struct uffd_msg message = { .event = UFFD_EVENT_PAGEFAULT };

	(void)number, (void)context;
	faults++;
	message.arg.pagefault.address = (uint64_t)info->si_addr;
	serve(&message);
}

static void announced(void)
{
	pthread_t thread = begin(UFFD_FEATURE_SIGBUS, UFFDIO_REGISTER_MODE_MISSING);
	long sum = 0;

	seen_ask(SIGBUS, 0, provide, 0);
	caller(&sum);
	printf("%ld, faults %d\n", sum, faults);
	end(thread);
}

int main(int count, char **values)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "missing", missing }, { "attached", attached },   { "shared", shared },
		{ "batches", batches }, { "protected", protected }, { "removed", removed },
		{ "signals", signals }, { "vanished", vanished },   { "announced", announced },
	};

	alarm(60);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (count > 1 && !strcmp(values[1], cases[i].name))
			cases[i].run();
	return 0;
}
