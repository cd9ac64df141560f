/* SPDX-License-Identifier: MIT */
/* Our own stack, unwound, is what libc says it is; and what is forged ends. */
#include "base/cfi.h"

#include "base/testing/entered.h"

#include <criterion/criterion.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES_MAX 64

static int read_own(void *data, uint64_t address, void *to, size_t bytes)
{
	struct iovec local = { to, bytes };
	struct iovec remote = { (void *)(uintptr_t)address, bytes };

	(void)data;
	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

static const struct cfi_reader reader = { .read = read_own };

struct wanted {
	uint64_t pc, header;
};

static int find(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct wanted *wanted = data;
	uint64_t header = 0;
	int is_it = 0;

	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type == PT_GNU_EH_FRAME)
			header = start;
		is_it |= part->p_type == PT_LOAD && wanted->pc - start < part->p_memsz;
	}
	if (is_it)
		wanted->header = header;
	return is_it;
}

static uint64_t header_of(uint64_t pc)
{
	struct wanted wanted = { pc, 0 };

	dl_iterate_phdr(find, &wanted);
	return wanted.header;
}

static __attribute__((noinline)) unsigned int walk(uint64_t *pcs)
{
	static const int places[CFI_REGISTERS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						   REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						   REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						   REG_R15, REG_RIP };
	struct cfi_registers registers = { .known = (1u << CFI_REGISTERS) - 1, .is_exact = 1 };
	ucontext_t context;
	unsigned int count = 0;

	getcontext(&context);
	for (unsigned int i = 0; i < CFI_REGISTERS; i++)
		registers.values[i] = (uint64_t)context.uc_mcontext.gregs[places[i]];
	while (count < FRAMES_MAX) {
		uint64_t pc = registers.values[CFI_RETURN] - !registers.is_exact, cfa;
		struct cfi_function function;
		struct cfi_row row;

		pcs[count++] = registers.values[CFI_RETURN];
		if (cfi_find(&reader, header_of(pc), pc, &function)) {
			if (cfi_interrupted(&reader, &registers))
				break;
			continue;
		}
		if (function.is_signal && !cfi_interrupted(&reader, &registers))
			continue;
		if (cfi_row(&reader, &function, pc, &row, NULL) ||
		    cfi_cfa(&reader, &row, &registers, &cfa) ||
		    cfi_step(&reader, &row, cfa, &registers) != CFI_OUT)
			break;
	}
	return count;
}

static uint64_t ours[FRAMES_MAX];
static void *theirs[FRAMES_MAX];
static unsigned int our_count;
static int their_count;

/* libc's backtrace(3). A sanitizer interposes that name, and its own frame would be the first. */
int __backtrace(void **frames, int most);

static __attribute__((noinline)) void compare(int signal)
{
	(void)signal;
	our_count = walk(ours);
	their_count = __backtrace(theirs, FRAMES_MAX);
}

static void are_the_same(void)
{
	cr_assert_gt(our_count, 3);
	/* ours begins in walk(), and the next is at another instruction of compare() */
	cr_assert_eq((int)our_count, their_count + 1, "%u, %d", our_count, their_count);
	for (int i = 1; i < their_count; i++)
		cr_assert_eq(ours[i + 1], (uintptr_t)theirs[i], "frame %d", i);
}

Test(cfi, our_own_stack_is_what_libc_says)
{
	compare(0);
	are_the_same();
}

Test(cfi, so_it_is_in_a_signals_handler)
{
	struct sigaction action = { .sa_handler = compare };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	are_the_same();
}

static int by_libc(const void *a, const void *b)
{
	if (!our_count)
		compare(0);
	return *(const char *)a - *(const char *)b;
}

Test(cfi, so_it_is_through_a_library)
{
	char letters[] = "dcba";

	our_count = 0;
	qsort(letters, 4, 1, by_libc);
	are_the_same();
}

static void compare_entered(void)
{
	compare(0);
}

Test(cfi, so_it_is_from_what_an_armed_marker_enters)
{
	entered_by_marker(compare_entered);
	are_the_same();
	/* compare_entered(), entered(), the stub, the entry's own, and the function again */
	cr_assert_gt(our_count, 8);
}

/* ---- forged ---- */

static uint8_t forged[4096];

static int read_forged(void *data, uint64_t address, void *to, size_t bytes)
{
	(void)data;
	if (address >= sizeof(forged) || bytes > sizeof(forged) - address)
		return -1;
	memcpy(to, forged + address, bytes);
	return 0;
}

Test(cfi, what_is_forged_ends, .timeout = 60)
{
	static const uint8_t head[12] = { 1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 4 };
	const struct cfi_reader hostile = { .read = read_forged };

	srand(1);
	for (int round = 0; round < 200000; round++) {
		struct cfi_function function;
		struct cfi_row row;
		uint64_t until;

		for (size_t i = 0; i < 512; i++)
			forged[i] = (uint8_t)rand();
		memcpy(forged, head, sizeof(head));
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t pair[2] = { 100 * i, 64u + (uint32_t)rand() % 64 };

			memcpy(forged + sizeof(head) + 8 * i, pair, sizeof(pair));
		}
		/* records that are whole, with what is in them made up */
		memcpy(forged + 64, "\x40\0\0\0\0\0\0\0\1zR\0\1\x78\x10\1\x1b", 17);
		cfi_find(&hostile, 0, (uint64_t)rand() % 512, &function);
		function = (struct cfi_function){ .end = 4096,
						  .common = 128,
						  .common_end = 160,
						  .own = 160,
						  .own_end = 512,
						  .code_step = 1,
						  .data_step = -8 };
		cfi_row(&hostile, &function, (uint64_t)rand() % 4096, &row, &until);
	}
}
