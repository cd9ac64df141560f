/* SPDX-License-Identifier: MIT */
/* Prints its memory map; a sanitizer's name is in its data alone. */
#include <stdio.h>
const char *volatile name = "__asan_init";
int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	for (int c; maps && (c = getc(maps)) != EOF;)
		putchar(c);
	return name[0] != '_';
}
