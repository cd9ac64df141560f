/* SPDX-License-Identifier: MIT */
/*
 * Instructions that raise a signal by themselves: which one, with which siginfo, trap and
 * registers. Each is alone in a page, and again at its end. raised, or raised others.
 */
#include "seen.h"

#include <sys/mman.h>

#define PAGE 4096ul
#define AT 0x20000000ul
#define DATA 0x20010000ul
#define NOWHERE 0x8000000000000000ul /* not canonical */

struct row {
	const char *name;
	const char *code;
	unsigned int bytes;
	uint64_t regs[3]; /* rax, rcx, rdx */
};

#define ROW(name, code, ...)                                                                       \
	{                                                                                          \
		name, code, sizeof(code) - 1,                                                      \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}

static const struct row rows[] = {
	ROW("int3", "\xcc", 0),
	ROW("int1", "\xf1", 0),
	ROW("int $3, with prefixes", "\x66\x48\xcd\x03", 0),
	ROW("int $4, with a prefix", "\x66\xcd\x04", 0),
	ROW("int $4, with REX", "\x48\xcd\x04", 0),
	ROW("int $4, with a segment", "\x2e\xcd\x04", 0),
	ROW("int $4, with rep", "\xf3\xcd\x04", 0),
	ROW("ud2", "\x0f\x0b", 0),
	ROW("ud2, with a prefix", "\x66\x0f\x0b", 0),
	ROW("ud1", "\x0f\xb9\xc0", 0),
	ROW("ud1 of memory", "\x0f\xb9\x84\x24\x00\x10\x00\x00", 0),
	ROW("ud0", "\x0f\xff\xc0", 0),
	ROW("hlt", "\xf4", 0),
	ROW("cli", "\xfa", 0),
	ROW("sti", "\xfb", 0),
	ROW("in $16, %al", "\xe4\x10", 0),
	ROW("in $16, %eax", "\xe5\x10", 0),
	ROW("out %al, $16", "\xe6\x10", 0),
	ROW("out %eax, $16", "\xe7\x10", 0),
	ROW("in %dx, %al", "\xec", 0, 0, 0x3f8),
	ROW("in %dx, %eax", "\xed", 0, 0, 0x3f8),
	ROW("out %al, %dx", "\xee", 0, 0, 0x80),
	ROW("out %eax, %dx", "\xef", 0, 0, 0x80),
	ROW("insb", "\x6c", 0, 0, 0x80),
	ROW("rep insl", "\xf3\x6d", 0, 3, 0x80),
	ROW("outsb", "\x6e", 0, 0, 0x80),
	ROW("rep outsl", "\xf3\x6f", 0, 3, 0x80),
	ROW("lldt", "\x0f\x00\xd0", 0),
	ROW("ltr", "\x0f\x00\xd8", 0),
	ROW("lgdt", "\x0f\x01\x10", DATA),
	ROW("lidt", "\x0f\x01\x18", DATA),
	ROW("lmsw", "\x0f\x01\xf0", 0),
	ROW("invlpg", "\x0f\x01\x38", DATA),
	ROW("clts", "\x0f\x06", 0),
	ROW("invd", "\x0f\x08", 0),
	ROW("wbinvd", "\x0f\x09", 0),
	ROW("mov %cr0, %rax", "\x0f\x20\xc0", 0),
	ROW("mov %rax, %cr0", "\x0f\x22\xc0", 0),
	ROW("mov %db0, %rax", "\x0f\x21\xc0", 0),
	ROW("mov %rax, %db0", "\x0f\x23\xc0", 0),
	ROW("wrmsr", "\x0f\x30", 0, 0x10),
	ROW("rdmsr", "\x0f\x32", 0, 0x10),
	ROW("rdpmc", "\x0f\x33", 0, 0x7777),
	ROW("rsm", "\x0f\xaa", 0),
	ROW("clac", "\x0f\x01\xca", 0),
	ROW("stac", "\x0f\x01\xcb", 0),
	ROW("xsetbv", "\x0f\x01\xd1", 0, 0),
	ROW("monitor", "\x0f\x01\xc8", DATA),
	ROW("mwait", "\x0f\x01\xc9", 0),
	ROW("vmrun", "\x0f\x01\xd8", DATA),
	ROW("vmload", "\x0f\x01\xda", DATA),
	ROW("clgi", "\x0f\x01\xdd", 0),
	ROW("invlpga", "\x0f\x01\xdf", 0),
	ROW("mov %eax, %ss", "\x8e\xd0", 0x78),
	ROW("mov %eax, %ds", "\x8e\xd8", 0x7770),
	ROW("div %ecx", "\xf7\xf1", 5, 0, 0),
	ROW("div that overflows", "\xf7\xf1", 5, 2, 7),
	ROW("idiv %cl", "\xf6\xf9", 0x4000, 1, 0),
	ROW("movaps at an odd address", "\x0f\x28\x00", DATA + 1),
	ROW("cmpxchg16b at an odd address", "\x48\x0f\xc7\x08", DATA + 8),
	ROW("ldmxcsr of reserved bits", "\x0f\xae\x10", DATA + 64),
	ROW("fxrstor at an odd address", "\x0f\xae\x08", DATA + 1),
	ROW("read nowhere", "\x8b\x00", NOWHERE),
	ROW("write nowhere", "\x89\x00", NOWHERE),
	ROW("read null", "\x8b\x00", 8),
	ROW("write null", "\x89\x00", 8),
	ROW("read nowhere by the stack", "\x48\x89\xc5\x8b\x45\x00", NOWHERE),
	ROW("write to code", "\x89\x00", AT),
	ROW("jump nowhere", "\xff\xe0", NOWHERE),
	ROW("jump to data", "\xff\xe0", DATA),
	ROW("call nowhere", "\xff\xd0", NOWHERE),
	ROW("return nowhere", "\x50\xc3", NOWHERE),
	ROW("xgetbv of no register", "\x0f\x01\xd0", 0, 77),
	ROW("wrpkru with rcx", "\x0f\x01\xef", 0, 5),
	ROW("vmcall", "\x0f\x01\xc1", 0xffffffff),
	ROW("fwait on an exception", "\xdb\xe3\xd9\x28\xd9\xee\xd9\xee\xde\xf9\x9b", DATA + 96),
	ROW("divps with its exceptions on", "\x0f\xae\x50\x44\x0f\x57\xc0\x0f\x5e\xc0", DATA),
};

/* What the engine's tables do not have: the program continues natively from there. */
static const struct row others[] = {
	ROW("into", "\xce", 0),
	ROW("lock int $4", "\xf0\xcd\x04", 0),
	ROW("sysenter", "\x0f\x34", 0),
	ROW("sysexit", "\x0f\x35", DATA),
	ROW("sysret", "\x0f\x07", DATA),
	ROW("swapgs", "\x0f\x01\xf8", 0),
	ROW("push %es", "\x06", 0),
	ROW("daa", "\x27", 0),
	ROW("pusha", "\x60", 0),
	ROW("ljmp", "\xea\x00\x00\x00\x00\x00\x00", 0),
	ROW("salc", "\xd6", 0),
	ROW("mov %eax, %cs", "\x8e\xc8", 0),
	ROW("lock nop", "\xf0\x90", 0),
	ROW("too long", "\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90", 0),
	ROW("pcommit", "\x66\x0f\xae\xf8", 0),
	ROW("aam", "\xd4\x00", 0),
	ROW("int $128", "\xcd\x80", 0xffff),
};

static uint8_t *page;
static const uint8_t *place;
static sigjmp_buf back;

static void raised(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	const greg_t *regs = context->uc_mcontext.gregs;

	printf(" signal %d code %d address %lx at %+ld, trap %lld error %llx flags %llx", number,
	       info->si_code, (unsigned long)info->si_addr,
	       (long)(regs[REG_RIP] - (greg_t)(uintptr_t)place), regs[REG_TRAPNO], regs[REG_ERR],
	       regs[REG_EFL]);
	printf(" rax %llx rcx %llx rdx %llx rbx %llx rsp %llx rbp %llx rsi %llx rdi %llx",
	       regs[REG_RAX], regs[REG_RCX], regs[REG_RDX], regs[REG_RBX], regs[REG_RSP],
	       regs[REG_RBP], regs[REG_RSI], regs[REG_RDI]);
	for (int i = 0; i < 8; i++)
		printf(" r%d %llx", i + 8, regs[REG_R8 + i]);
	siglongjmp(back, 1);
}

static void go(const struct row *row)
{
	register uint64_t rax __asm__("rax") = row->regs[0];
	register uint64_t rcx __asm__("rcx") = row->regs[1];
	register uint64_t rdx __asm__("rdx") = row->regs[2];
	register const uint8_t *r8 __asm__("r8") = place;

	__asm__ volatile("push %%rbp\n lea -256(%%rsp), %%rsp\n"
			 "mov $0x2222, %%rbx\n mov $0x5555, %%rbp\n mov $0x20010800, %%rsi\n"
			 "mov $0x20010900, %%rdi\n mov $8, %%r9d\n mov $10, %%r10d\n"
			 "mov $11, %%r11d\n mov $12, %%r12d\n mov $13, %%r13d\n mov $14, %%r14d\n"
			 "mov $15, %%r15d\n stc\n call *%%r8\n lea 256(%%rsp), %%rsp\n pop %%rbp\n"
			 : "+r"(rax), "+r"(rcx), "+r"(rdx), "+r"(r8)
			 :
			 : "rbx", "rsi", "rdi", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
			   "cc", "memory", "xmm0");
}

static void try(const struct row *row, unsigned long at)
{
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	memset(page, 0x90, 2 * PAGE);
	page[2 * PAGE - 1] = 0xc3;
	memcpy(page + at, row->code, row->bytes);
	mprotect(page, PAGE, PROT_READ | PROT_EXEC);
	place = page + at;
	printf("%s:", row->name);
	if (!sigsetjmp(back, 1)) {
		go(row);
		printf(" none");
	}
	printf("\n");
}

static void data_fill(uint8_t *data)
{
	static const uint32_t environment[7] = { 0xffff0360, 0xffff0000, 0xffffffff };
	uint32_t odd = 0x7fffffff, all = 0;

	memcpy(data + 64, &odd, sizeof(odd));
	memcpy(data + 68, &all, sizeof(all));
	memcpy(data + 96, environment, sizeof(environment));
}

int main(int count, char **values)
{
	static char stack[65536];
	stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	uint8_t *data = mmap((void *)DATA, PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	(void)values;
	page = mmap((void *)AT, 2 * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	mprotect(page + PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	data_fill(data);
	sigaltstack(&other, NULL);
	for (int number = 1; number < 32; number++)
		if (number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
		    number == SIGTRAP || number == SIGSYS)
			seen_ask(number, SA_ONSTACK, raised, 0);
	for (unsigned int i = 0; count > 1 && i < sizeof(others) / sizeof(others[0]); i++)
		try(&others[i], 64);
	for (unsigned int i = 0; count == 1 && i < sizeof(rows) / sizeof(rows[0]); i++) {
		try(&rows[i], 64);
		try(&rows[i], PAGE - rows[i].bytes);
	}
	for (unsigned int number = 0; count == 1 && number < 256; number++) {
		char code[2] = { (char)0xcd, (char)number }, name[16];
		struct row row = { name, code, 2, { 0xffff } };

		snprintf(name, sizeof(name), "int $%u", number);
		/* 20 to 31: some hypervisors raise no #GP there, or behind it */
		if (number != 0x80 && (number < 20 || number > 31))
			try(&row, 64);
	}
	return 0;
}
