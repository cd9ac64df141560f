/* SPDX-License-Identifier: MIT */
/*
 * Loads two libraries, TIMES in all, each in the other's place, and calls them; with -DWORK such
 * a library.
 */
#ifdef WORK
__attribute__((visibility("default"))) int WORK(int n)
{
	int sum = n;

	for (volatile int i = 0; i < n; i++)
		sum += i;
	return sum;
}
#else
#include "tests/targets/call.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define AT 0x700000000000

static void map(long fd)
{
	register long flags __asm__("r10") = MAP_PRIVATE | MAP_FIXED;
	register long r8 __asm__("r8") = fd, offset __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_mmap), "D"(AT), "S"(0x2000), "d"(PROT_READ | PROT_EXEC),
			   "r"(flags), "r"(r8), "r"(offset)
			 : "rcx", "r11", "memory");
}

static int run(const char *path)
{
	long fd = call(SYS_open, (long)path, O_RDONLY, 0, 0);
	int sum;

	map(fd);
	call(SYS_close, fd, 0, 0, 0);
	sum = ((int (*)(int))(AT + ENTRY))(4);
	call(SYS_munmap, AT, 0x2000, 0, 0);
	return sum;
}

void _start(void)
{
	static const char *const paths[] = { FOLDER "/one.so", FOLDER "/two.so" };

	for (int i = 0; i < TIMES; i++)
		run(paths[i % 2]);
	call(SYS_exit_group, 7, 0, 0, 0);
	for (;;)
		;
}
#endif
