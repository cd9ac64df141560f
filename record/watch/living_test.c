/* SPDX-License-Identifier: MIT */
/* Frames are found on stacks of any contents. */
#include "record/watch/living.h"

#include "base/testing/await.h"
#include "target/process/loaded.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10)
#define FRAMES_KEPT 8192

/* It takes a stack and stays there. By its CFI, what is at the top of the stack is its caller. */
void living_stay(const void *stack, uint32_t *is_there);
extern const char living_stays[];
__asm__(".globl living_stay\n.type living_stay, @function\n"
	"living_stay:\n.cfi_startproc\n"
	"mov %rdi, %rsp\nmov %rdi, %rbp\nmovl $1, (%rsi)\n"
	".globl living_stays\nliving_stays:\n1: pause\njmp 1b\n"
	".cfi_endproc\n.size living_stay, . - living_stay\n");

static struct living found[FRAMES_KEPT];
static unsigned int count;
static uint64_t *stack;
static uint32_t *is_there; /* shared with the child */
static pid_t pid;

static void take(const struct living *living, void *data)
{
	cr_assert_eq(data, &count);
	if (count < FRAMES_KEPT)
		found[count] = *living;
	count++;
}

static int is_there_or_dead(int *is_dead)
{
	*is_dead = waitpid(pid, NULL, WNOHANG) == pid;
	return *is_dead || __atomic_load_n(is_there, __ATOMIC_SEQ_CST);
}

/*
 * Have a child stay with that stack pointer, and look at it. -ESRCH: the kernel has ended it, as
 * some machines' do where the pointer is not canonical.
 */
static int look_at(const void *sp)
{
	struct loaded_list list;
	int err, is_dead;

	count = 0;
	*is_there = 0;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(20);
		living_stay(sp, is_there);
	}
	cr_assert(AWAIT(is_there_or_dead(&is_dead)));
	if (is_dead)
		return -ESRCH;
	cr_assert_eq(loaded_read(&list, pid), 0);
	cr_assert_eq(loaded_open(&list), 0);
	err = living_find(pid, list.modules, list.module_count, take, &count);
	loaded_release(&list);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return err;
}

static void begin(void)
{
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	is_there = mmap(NULL, sizeof(*is_there), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	cr_assert(stack != MAP_FAILED && is_there != MAP_FAILED);
}

static void end(void)
{
	munmap(stack, STACK_BYTES);
	munmap(is_there, sizeof(*is_there));
}

TestSuite(living, .init = begin, .fini = end, .timeout = 60);

Test(living, frames_are_found_from_the_innermost)
{
	stack[0] = stack[1] = (uintptr_t)living_stays + 1;
	cr_assert_eq(look_at(stack), 0);
	cr_assert_eq(count, 3, "the third returns to 0");
	for (unsigned int i = 0; i < 3; i++) {
		cr_expect_eq(found[i].cfa, (uintptr_t)(stack + i + 1));
		cr_expect_eq(found[i].tid, pid);
	}
	cr_expect_eq(found[1].pc, (uintptr_t)living_stays);
}

Test(living, stack_without_end_is_left)
{
	for (size_t i = 0; i < STACK_BYTES / 8; i++)
		stack[i] = (uintptr_t)living_stays + 1;
	cr_assert_eq(look_at(stack), 0);
	cr_expect_eq(count, 4096);
}

Test(living, stack_that_is_not_there_has_one_frame)
{
	static const uint64_t bad[] = {
		0, 1, 8, 0x1001, UINT64_C(1) << 47, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int err = look_at((const void *)(uintptr_t)bad[i]);
		int is_canonical = bad[i] >> 47 == 0 || bad[i] >> 47 == 0x1ffff;

		if (err == -ESRCH && !is_canonical)
			continue;
		cr_expect_eq(err, 0);
		cr_expect_eq(count, 1, "%llx: %u", (unsigned long long)bad[i], count);
	}
}

Test(living, return_to_any_address_ends_the_walk)
{
	static const uint64_t bad[] = { 1, UINT64_MAX, UINT64_C(1) << 47, UINT64_C(1) << 63 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		stack[0] = bad[i];
		cr_expect_eq(look_at(stack), 0);
		cr_expect_eq(count, 1, "%llx", (unsigned long long)bad[i]);
	}
	stack[0] = (uintptr_t)stack; /* no code */
	cr_expect_eq(look_at(stack), 0);
	cr_expect_eq(count, 1);
}

Test(living, ended_process_is_reported)
{
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	cr_expect_eq(living_find(pid, NULL, 0, take, &count), -ESRCH);
	cr_expect_eq(count, 0);
}
