/* SPDX-License-Identifier: MIT */
/*
 * Copies its text to anonymous memory at the same addresses, as programs do for huge pages; then
 * calls work() for ever.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

extern char __executable_start, etext;

__attribute__((noinline)) static long work(long x)
{
	__asm__ volatile("");
	return x + 1;
}

/* The bytes are the same at any moment, so that the code may run meanwhile. */
static int move_text(void)
{
	/* with the ELF header, if that is in the code's segment (-z noseparate-code) */
	int is_first = (uintptr_t)&work < (uintptr_t)&__executable_start + PAGE;
	char *from = &__executable_start + (is_first ? 0 : PAGE);
	size_t bytes = (size_t)(&etext - from + PAGE - 1) / PAGE * PAGE;
	void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return 1;
	memcpy(copy, from, bytes);
	return mprotect(copy, bytes, PROT_READ | PROT_EXEC) ||
	       mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from) != from;
}

int main(void)
{
	if (move_text())
		return 1;
	puts("ready");
	fflush(stdout);
	for (long x = 0;;) {
		x = work(x);
		usleep(1000);
	}
}
