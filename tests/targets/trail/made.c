/* SPDX-License-Identifier: MIT */
/* Makes code, names it in a map for perf, and runs it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int counted;
/* mov $5, %ecx; 1: dec %ecx; jnz 1b; incl (%rdi); ret */
static const unsigned char code[] = { 0xb9, 5, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xff, 0x07, 0xc3 };
int main(void)
{
	int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	char *memory = mmap(NULL, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
	FILE *map;
	if (memory == MAP_FAILED)
		return 77;
	memcpy(memory, code, sizeof(code));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "wx");
	if (!map)
		return 2;
	fprintf(map, "%lx %zx JS:~counting made.js:7;x\n", (unsigned long)memory, sizeof(code));
	fclose(map);
	for (int i = 0; i < 3; i++)
		((void (*)(int *))memory)(&counted); /* LINE */
	return counted != 3;
}
