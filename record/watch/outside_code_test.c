/* SPDX-License-Identifier: MIT */
/* Code is read wherever a hit's registers point. */
#include "record/watch/outside_code.h"

#include "arch/insn.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define ROUNDS 20000

/* Instructions of 3, 10 and 1 bytes, then another function. */
extern const uint8_t code_of_stores[], code_of_next[];
__asm__(".globl code_of_stores\n.type code_of_stores, @function\n"
	"code_of_stores:\n.cfi_startproc\n"
	"mov %rax, (%rdi)\nmovabs $0x1122334455667788, %rax\nret\n"
	".cfi_endproc\n.size code_of_stores, . - code_of_stores\n"
	".globl code_of_next\n.type code_of_next, @function\n"
	"code_of_next:\n.cfi_startproc\nnop\nret\n.cfi_endproc\n"
	".size code_of_next, . - code_of_next\n");

static struct outside_code *code;
static uint64_t stores;

static void begin(void)
{
	stores = (uintptr_t)code_of_stores;
	cr_assert_eq(outside_code_new(&code, getpid()), 0);
	outside_code_round(code);
}

static void end(void)
{
	outside_code_free(code);
}

static unsigned int before(uint64_t address, int *is_start)
{
	*is_start = 0;
	return outside_code_before(code, address, is_start);
}

TestSuite(outside_code, .init = begin, .fini = end, .timeout = 60);

Test(outside_code, instruction_is_found_by_its_end)
{
	int is_start;

	cr_expect_eq(before(stores + 3, &is_start), 3);
	cr_expect_not(is_start);
	cr_expect_eq(before(stores + 13, &is_start), 10);
	cr_expect_eq(before(stores + 14, &is_start), 1);
	cr_expect(is_start, "the next function begins there");
	cr_expect_eq(before(stores + 4, &is_start), 0, "none ends there");
	cr_expect(outside_code_is(code, stores));
	cr_expect_not(outside_code_is(code, (uintptr_t)&stores));
	cr_expect_not(outside_code_is(code, 0));
	cr_expect_not(outside_code_is(code, UINT64_MAX));
}

Test(outside_code, bytes_are_those_of_the_program)
{
	uint8_t room[INSN_BYTES_MAX];
	const uint8_t *at;

	at = outside_code_at(code, stores, 3, 1, room);
	cr_assert_not_null(at);
	cr_expect_arr_eq(at, code_of_stores, 3);
	at = outside_code_at(code, stores, INSN_BYTES_MAX, 0, room);
	cr_assert_not_null(at);
	cr_expect_arr_eq(at, code_of_stores, INSN_BYTES_MAX);
}

/* An instruction at a page's end, before one that is not mapped; and at both ends of memory. */
Test(outside_code, address_next_to_nothing_is_read_up_to_there)
{
	static const uint64_t edges[] = { 0,
					  1,
					  15,
					  16,
					  UINT64_MAX,
					  UINT64_MAX - 15,
					  UINT64_MAX - 16,
					  UINT64_C(1) << 47,
					  UINT64_C(1) << 63 };
	uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	uint8_t room[INSN_BYTES_MAX];
	int is_start;

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(munmap(pages + PAGE, PAGE), 0);
	memset(pages, 0x90, PAGE);
	cr_expect_not_null(outside_code_at(code, (uintptr_t)pages + PAGE - 2, 2, 1, room));
	cr_expect_null(outside_code_at(code, (uintptr_t)pages + PAGE, 2, 0, room));
	cr_expect_eq(before((uintptr_t)pages + PAGE, &is_start), 0, "no function is known there");
	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		cr_expect_null(outside_code_at(code, edges[i], 2, 1, room));
		cr_expect_null(outside_code_at(code, edges[i], INSN_BYTES_MAX, 0, room));
		cr_expect_eq(before(edges[i], &is_start), 0);
	}
	munmap(pages, PAGE);
}

Test(outside_code, any_address_is_read_or_refused)
{
	uint64_t seed = 8;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t random = sample_random(&seed), address = sample_random(&seed);
		uint8_t room[INSN_BYTES_MAX];
		int is_start, has_run = random >> 8 & 1;
		size_t bytes = 1 + (random >> 16) % INSN_BYTES_MAX;
		const uint8_t *at;

		address = random % 4 ? stores + address % 64 - 16 : address >> random % 60;
		at = outside_code_at(code, address, bytes, has_run, room);
		if (at && random % 4) /* elsewhere may be what only a sanitizer has */
			cr_assert_arr_eq(at, (const void *)(uintptr_t)address, bytes);
		cr_assert_leq(before(address, &is_start), INSN_BYTES_MAX);
		if (i % 64 == 0)
			outside_code_round(code);
	}
}

Test(outside_code, change_of_code_is_seen_in_the_next_round)
{
	uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	uint8_t room[INSN_BYTES_MAX];

	cr_assert_neq(page, MAP_FAILED);
	page[64] = 1;
	cr_expect_eq(outside_code_at(code, (uintptr_t)page + 64, 1, 0, room)[0], 1);
	page[64] = 2;
	cr_expect_eq(outside_code_at(code, (uintptr_t)page + 64, 1, 0, room)[0], 1);
	outside_code_round(code);
	cr_expect_eq(outside_code_at(code, (uintptr_t)page + 64, 1, 0, room)[0], 2);
	munmap(page, PAGE);
}

Test(outside_code, code_of_an_ended_process_is_its_files)
{
	struct outside_code *ended;
	uint8_t room[INSN_BYTES_MAX];
	const uint8_t *at;
	int is_start;
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!pid)
		pause();
	cr_assert_eq(outside_code_new(&ended, pid), 0);
	cr_expect_not(outside_code_is_gone(ended));
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_expect(outside_code_is_gone(ended));
	outside_code_round(ended);
	at = outside_code_at(ended, stores, 3, 1, room);
	cr_assert_not_null(at);
	cr_expect_arr_eq(at, code_of_stores, 3);
	cr_expect_eq(outside_code_before(ended, stores + 3, &is_start), 3);
	outside_code_free(ended);
	cr_expect_eq(outside_code_new(&ended, pid), -ESRCH);
	cr_expect_null(ended);
}
