/* SPDX-License-Identifier: MIT */
/*
 * Handlers that change where the program continues and with what, that never return, and that mend
 * faults: contexts SCENE.
 */
#include "seen.h"

#include <alloca.h>
#include <cpuid.h>
#include <fcntl.h>
#include <asm/hwcap2.h>
#include <sys/auxv.h>
#include <sys/mman.h>

static sigjmp_buf back;
static ucontext_t contexts[3];
static volatile int handled, depth, moved;
static char *heap;

static void landed(void)
{
	printf("landed\n");
	siglongjmp(back, 1);
}

static void send_elsewhere(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)number, (void)info;
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)landed;
	context->uc_mcontext.gregs[REG_RSP] = (context->uc_mcontext.gregs[REG_RSP] & -16) - 264;
}

static void change(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uint32_t *xmm = (uint32_t *)context->uc_mcontext.fpregs->_xmm;

	(void)number, (void)info;
	context->uc_mcontext.gregs[REG_RBX] = 0x1111;
	context->uc_mcontext.gregs[REG_R15] = 0x2222;
	context->uc_mcontext.gregs[REG_EFL] |= 0x801; /* carry, overflow */
	for (int i = 0; i < 16; i++)
		xmm[i * 4] += 100u + (uint32_t)i;
	sigaddset(&context->uc_sigmask, SIGUSR2);
	context->uc_mcontext.gregs[REG_RIP] += 2; /* over ud2 */
}

static void registers(void)
{
	uint64_t rbx, r15, flags;
	uint32_t low[16 * 4] __attribute__((aligned(16)));

	seen_ask(SIGILL, 0, change, 0);
	for (int i = 0; i < 64; i++)
		low[i] = (uint32_t)i;
	for (int round = 0; round < 3; round++) {
		__asm__ volatile(
			"movaps (%3), %%xmm0\n movaps 16(%3), %%xmm1\n movaps 224(%3), %%xmm14\n"
			"movaps 240(%3), %%xmm15\n xor %%ebx, %%ebx\n xor %%r15d, %%r15d\n"
			"test %%rbx, %%rbx\n ud2\n pushfq\n pop %2\n"
			"movaps %%xmm0, (%3)\n movaps %%xmm1, 16(%3)\n movaps %%xmm14, 224(%3)\n"
			"movaps %%xmm15, 240(%3)\n mov %%rbx, %0\n mov %%r15, %1\n"
			: "=&r"(rbx), "=&r"(r15), "=&r"(flags)
			: "r"(low)
			: "rbx", "r15", "xmm0", "xmm1", "xmm14", "xmm15", "memory", "cc");
		printf("rbx %lx r15 %lx flags %lx xmm %u %u %u %u mask %lx\n", rbx, r15,
		       flags & 0xcd5, low[0], low[4], low[56], low[60], seen_mask());
	}
	seen_ask(SIGUSR1, 0, send_elsewhere, 0);
	if (!sigsetjmp(back, 1))
		raise(SIGUSR1);
	seen_ask(SIGSEGV, 0, send_elsewhere, 0);
	if (!sigsetjmp(back, 1))
		*(volatile int *)8 = 1;
	if (!sigsetjmp(back, 1))
		((void (*)(void))0x1234)();
}

extern char divides[];

static void divided(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	printf("%d code %d: the x87's last is the division %d, control %x status %x\n", number,
	       info->si_code, (uintptr_t)context->uc_mcontext.fpregs->rip == (uintptr_t)divides,
	       context->uc_mcontext.fpregs->cwd, context->uc_mcontext.fpregs->swd & 0x3fff);
	context->uc_mcontext.fpregs->cwd |= 0x3f;
	context->uc_mcontext.fpregs->swd &= 0x7f00;
}

static void x87(void)
{
	static const uint16_t unmasked = 0x37b;

	seen_ask(SIGFPE, 0, divided, 0);
	__asm__ volatile("fninit\n fldcw %0\n fldz\n fld1\n"
			 "divides: fdivp\n nop\n fwait\n fninit"
			 :
			 : "m"(unmasked)
			 : "memory");
}

static uint8_t stored[4096] __attribute__((aligned(64)));

static int is_kept(void)
{
	uint64_t at;

	memset(stored, 0, sizeof(stored));
	__asm__ volatile("fninit\n fldz\n fstp %%st\n fxsave64 %0" : "=m"(stored) : : "st");
	memcpy(&at, stored + 8, sizeof(at));
	return at != 0;
}

/* Reach the store in turns straight on and by an indirect jump, in a loop that becomes hot. */
#define STORES(NAME, STORE, OFFSET, BYTES)                                                         \
	static void NAME(void)                                                                     \
	{                                                                                          \
		int same = 0;                                                                      \
                                                                                                   \
		for (int i = 0; i < 20000; i++) {                                                  \
			uint64_t last = 0, at = 0;                                                 \
                                                                                                   \
			memset(stored, 0, 1024);                                                   \
			__asm__ volatile("lea 1f(%%rip), %0\n fninit\n fld1\n1: fstp %%st\n"       \
					 : "=r"(last)                                              \
					 :                                                         \
					 : "st");                                                  \
			if (i % 1000 == 0)                                                         \
				getppid();                                                         \
			__asm__ volatile("test $1, %1\n jz 2f\n lea 2f(%%rip), %%rcx\n"            \
					 "jmp *%%rcx\n2: " STORE                                   \
					 : "+m"(stored)                                            \
					 : "r"(i), "a"(7), "d"(0)                                  \
					 : "rcx", "st", "cc");                                     \
			memcpy(&at, stored + (OFFSET), BYTES);                                     \
			same += !memcmp(&at, &last, BYTES);                                        \
		}                                                                                  \
		printf(#NAME ": the x87's last is the program's %d times\n", same);                \
	}

STORES(fnstenv, "fnstenv %0", 12, 4)
STORES(fnsave, "fnsave %0", 12, 4)
STORES(fxsave, "fxsave64 %0", 8, 8)
STORES(xsave, "xsave64 %0", 8, 8)
STORES(xsavec, "xsavec64 %0", 8, 8)

static void x87_stores(void)
{
	unsigned int a = 0, b, c, d;

	if (!is_kept()) {
		printf("the processor keeps no such address\n");
		return;
	}
	fnstenv();
	fnsave();
	fxsave();
	__cpuid_count(1, 0, a, b, c, d);
	if (!(c & bit_OSXSAVE))
		return;
	xsave();
	__cpuid_count(0xd, 1, a, b, c, d);
	if (a & bit_XSAVEC)
		xsavec();
}

/* gs is the engine's: the program continues natively. */
static void x87_left(void)
{
	uint64_t last = 0, at = 0;

	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE) || !is_kept()) {
		printf("no such instruction or no such address\n");
		return;
	}
	__asm__ volatile("lea 1f(%%rip), %0\n fninit\n fld1\n1: fstp %%st\n rdgsbase %%rax\n"
			 "fxsave64 %1"
			 : "=&r"(last), "+m"(stored)
			 :
			 : "rax", "st");
	memcpy(&at, stored + 8, sizeof(at));
	printf("natively the x87's last is the program's %d\n", at == last);
}

/*
 * Preemptive threads of the program's own making: out of a handler by swapcontext(3). The alarm is
 * blocked wherever no runner runs: its handler would save main's context over a runner's.
 */
static void switch_over(int number, siginfo_t *info, void *data)
{
	(void)number, (void)info, (void)data;
	handled++;
	swapcontext(&contexts[handled & 1 ? 1 : 2], &contexts[handled & 1 ? 2 : 1]);
}

static volatile long sums[2], ended;

static void runner(int which)
{
	sigset_t alarm = seen_set(SIGALRM, 0, 0);

	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	for (long i = 0; i < 6000000; i++)
		sums[which] += i ^ (sums[which] >> 5);
	ended++;
	while (ended < 2)
		;
	setcontext(&contexts[0]);
}

static void preempted(void)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, none = { { 0, 0 }, { 0, 0 } };
	sigset_t alarm = seen_set(SIGALRM, 0, 0);

	sigprocmask(SIG_BLOCK, &alarm, NULL);
	for (int i = 1; i < 3; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(1 << 18);
		contexts[i].uc_stack.ss_size = 1 << 18;
		makecontext(&contexts[i], (void (*)(void))runner, 1, i - 1);
	}
	seen_ask(SIGALRM, SA_RESTART, switch_over, 0);
	setitimer(ITIMER_REAL, &often, NULL);
	handled = 0;
	swapcontext(&contexts[0], &contexts[1]);
	setitimer(ITIMER_REAL, &none, NULL);
	signal(SIGALRM, SIG_IGN); /* one may be pending */
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	printf("sums %ld %ld, switched %d\n", sums[0], sums[1], handled > 2);
}

#define MANY 10000
static ucontext_t *many, whole;
static long many_sum;

static void coroutine(int number)
{
	for (int i = 0; i < 3; i++) {
		many_sum = many_sum * 31 + number + i;
		swapcontext(&many[number], &whole);
	}
}

static void coroutines(void)
{
	char *stacks = mmap(NULL, (size_t)MANY * 16384, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	many = calloc(MANY, sizeof(*many));
	for (int i = 0; i < MANY; i++) {
		getcontext(&many[i]);
		many[i].uc_stack.ss_sp = stacks + (size_t)i * 16384;
		many[i].uc_stack.ss_size = 16384;
		many[i].uc_link = &whole;
		makecontext(&many[i], (void (*)(void))coroutine, 1, i);
	}
	for (int round = 0; round < 4; round++)
		for (int i = 0; i < MANY; i++)
			swapcontext(&whole, &many[i]);
	printf("coroutines %ld\n", many_sum);
}

static void deeper(int number, siginfo_t *info, void *data)
{
	int here = ++depth;

	(void)info, (void)data;
	if (here < 50)
		raise(number == SIGUSR1 ? SIGUSR2 : SIGUSR1);
	if (here == 50)
		printf("50 deep, mask %lx\n", seen_mask());
	handled += here;
}

static void nested(void)
{
	handled = depth = 0;
	seen_ask(SIGUSR1, SA_NODEFER, deeper, 0);
	seen_ask(SIGUSR2, SA_NODEFER, deeper, 0);
	raise(SIGUSR1);
	printf("handled %d mask %lx\n", handled, seen_mask());
	for (int i = 0; i < 1000; i++) {
		depth = 0;
		if (!sigsetjmp(back, 1))
			raise(SIGUSR1);
	}
	printf("handled %d\n", handled);
}

/* A collector's write barrier: each page is closed, and opened by the handler of the fault. */
#define PAGES 512
static void open_page(int number, siginfo_t *info, void *data)
{
	char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);

	(void)data;
	if (number != SIGSEGV || page < heap || page >= heap + PAGES * 4096)
		_exit(9);
	handled++;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *writer(void *data)
{
	long sum = 0;

	for (int round = 0; round < 3; round++)
		for (long i = (long)data; i < PAGES * 4096; i += 64)
			sum += heap[i] = (char)(i * 7 + round);
	return (void *)sum;
}

static void barrier(void)
{
	pthread_t threads[3];
	long total = 0;
	void *sum;

	heap = mmap(NULL, PAGES * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen_ask(SIGSEGV, SA_RESTART, open_page, 0);
	for (long i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, writer, (void *)i);
	for (int i = 0; i < 20; i++) {
		mprotect(heap, PAGES * 4096, PROT_READ);
		usleep(500);
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &sum);
		total += (long)sum;
	}
	mprotect(heap, PAGES * 4096, PROT_READ);
	handled = 0;
	memset(heap, 5, PAGES * 4096); /* by string instructions, or wide ones */
	__asm__ volatile("" ::: "memory");
	printf("total %ld, memset %d faults", total, handled);
	mprotect(heap, PAGES * 4096, PROT_READ);
	handled = 0;
	{
		char *to = heap + 100;
		const char *from = heap + 64 * 4096 + 5;
		unsigned long left = 32 * 4096;

		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left)::"memory");
		printf(", movs %d faults, left %lu, to %ld from %ld\n", handled, left,
		       (long)(to - heap), (long)(from - heap));
	}
}

static void exact(int number, siginfo_t *info, void *data)
{
	const greg_t *regs = ((ucontext_t *)data)->uc_mcontext.gregs;

	printf("%d code %d address %ld", number, info->si_code,
	       (long)((char *)info->si_addr - heap));
	if (moved > 0)
		printf(": rcx %lld rsi %lld rdi %lld", regs[REG_RCX],
		       moved > 1 ? regs[REG_RSI] - (greg_t)(uintptr_t)heap : 0,
		       regs[REG_RDI] - (greg_t)(uintptr_t)heap);
	printf("\n");
	siglongjmp(back, 1);
}

static void strings(void)
{
	int fd = open("short", O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *file;

	heap = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(heap + 5 * 4096, 4096, PROT_NONE);
	seen_ask(SIGSEGV, SA_NODEFER, exact, 0);
	seen_ask(SIGBUS, SA_NODEFER, exact, 0);
	for (int which = 0; which < 6; which++) {
		char *to = heap + 4 * 4096 + which * 8, *from = heap + which;
		unsigned long count = 4096;

		if (sigsetjmp(back, 1))
			continue;
		moved = which == 2 || which == 4 ? 1 : 2;
		switch (which) {
		case 0:
			__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
			break;
		case 1:
			__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count)::"memory");
			break;
		case 2:
			__asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(7) : "memory");
			break;
		case 3:
			__asm__ volatile("repe cmpsb"
					 : "+D"(to), "+S"(from), "+c"(count)::"memory", "cc");
			break;
		case 4:
			__asm__ volatile("repne scasb"
					 : "+D"(to), "+c"(count)
					 : "a"(9)
					 : "memory", "cc");
			break;
		default:
			to = heap + 6 * 4096 + 80;
			__asm__ volatile("std\n rep movsb\n cld"
					 : "+D"(to), "+S"(from), "+c"(count)::"memory");
		}
	}
	if (ftruncate(fd, 5000))
		return;
	file = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	heap = file;
	if (!sigsetjmp(back, 1)) {
		char *to = file + 4000, *from = file;
		unsigned long count = 8192;

		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
	}
	moved = 0;
	if (!sigsetjmp(back, 1))
		file[3 * 4096 + 5]++;
	unlink("short");
}

static __attribute__((noinline)) long grow(long bytes)
{
	volatile char *room = alloca((size_t)bytes);
	long sum = 0;

	for (long i = bytes - 1; i >= 0; i -= 4096)
		room[i] = (char)i;
	for (long i = bytes - 1; i >= 0; i -= 4096)
		sum += room[i];
	return sum;
}

static int down(int levels)
{
	volatile char room[512];

	room[0] = (char)levels;
	return levels ? down(levels - 1) + room[0] : 0;
}

static void stack(void)
{
	printf("alloca %ld %ld %ld, recursion %d\n", grow(4097), grow(1 << 20), grow(6 << 20),
	       down(10000));
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} scenes[] = { { "x87", x87 },
		       { "stores", x87_stores },
		       { "registers", registers },
		       { "preempted", preempted },
		       { "coroutines", coroutines },
		       { "nested", nested },
		       { "barrier", barrier },
		       { "strings", strings },
		       { "stack", stack },
		       { "left", x87_left } };

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned int i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (count < 2 || !strcmp(words[1], scenes[i].name))
			scenes[i].run();
	return 0;
}
