/* SPDX-License-Identifier: MIT */
/* A page fault between two markers, again and again: clock_pairs SECONDS. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <waymark/marker.h>

#define PAGE 4096
#define PAGES 4096

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double end_s = now_s() + (argc > 1 ? atof(argv[1]) : 1);
	volatile char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t page = 0;

	if (pages == MAP_FAILED || madvise((void *)(size_t)pages, PAGES * PAGE, MADV_NOHUGEPAGE))
		return 3;
	while (now_s() < end_s) {
		if (page == PAGES) {
			madvise((void *)(size_t)pages, PAGES * PAGE, MADV_DONTNEED);
			page = 0;
		}
		WAYMARK(clock, before);
		pages[page++ * PAGE] = 1;
		WAYMARK(clock, after);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return 0;
}
