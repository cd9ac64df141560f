/* SPDX-License-Identifier: MIT */
/*
 * loads LIBRARY TIMES [OTHER]: loads it, has it write six times, unloads it; and after the first
 * time, the other.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

volatile unsigned long own;

static void closed(void *handle, volatile unsigned long *was)
{
	char *page = (char *)((unsigned long)was & ~4095ul);

	dlclose(handle);
	/* another's memory is there from now on */
	if (mmap(page, 4096, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != page)
		return;
	*was = 5;
	munmap(page, 4096);
}

int main(int argc, char **argv)
{
	int times = atoi(argv[2]);
	char byte;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < times; i++) {
		void *handle = dlopen(argv[1], RTLD_NOW);
		void (*write)(void) = (void (*)(void))dlsym(handle, "library_write");

		if (i == 0 && !isatty(0) && argc > 4 && (puts("ready"), read(0, &byte, 1)) < 0)
			return 1;
		own++;
		for (int k = 0; k < 3; k++)
			write();
		if (argc > 3 && i == 0 && strcmp(argv[3], "-") && !dlopen(argv[3], RTLD_NOW))
			puts(dlerror());
		for (int k = 0; k < 3; k++)
			write();
		closed(handle, dlsym(handle, "in_library"));
	}
	puts("right");
	return 0;
}
