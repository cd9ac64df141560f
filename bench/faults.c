/* SPDX-License-Identifier: MIT */
/* Page faults of one thread, once a line has come: faults COUNT. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096L
#define PAGES 4096L

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;
	char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	if (pages == MAP_FAILED || madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE))
		return 3;
	getchar();
	for (long i = 0; i < count; i++) {
		((volatile char *)pages)[i % PAGES * PAGE] = 1;
		if (i % PAGES == PAGES - 1)
			madvise(pages, PAGES * PAGE, MADV_DONTNEED);
	}
	return 0;
}
