/* SPDX-License-Identifier: MIT */
/* Loaded and unloaded again and again, with functions in it that a session may want. */
#include <stdint.h>
#include <string.h>

uint64_t plugin_point(uint64_t number, uint64_t more);
uint64_t plugin_run(uint64_t times);

__attribute__((noinline)) uint64_t plugin_point(uint64_t number, uint64_t more)
{
	char text[64];

	memset(text, (int)number, sizeof(text));
	__asm__ volatile("" : : "r"(text) : "memory");
	return (uint64_t)(unsigned char)text[more % 64] + more;
}

uint64_t plugin_run(uint64_t times)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < times; i++)
		sum += plugin_point(i & 0x7f, i) - i;
	return sum;
}
