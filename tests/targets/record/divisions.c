/* SPDX-License-Identifier: MIT */
/* Events before, during and after a chain of divisions. */
#include <waymark/marker.h>
static volatile unsigned long divisor = 3;
int main(void)
{
	unsigned long by = divisor, value = 1;

	for (int i = 0; i < 1001; i++) {
		__asm__ volatile("lfence" : : : "memory");
		WAYMARK(late, before, i);
		for (int j = 0; j < 32; j++) {
			value = value / by + 1000000007;
			__asm__ volatile("" : "+r"(value));
		}
		WAYMARK(late, during, i);
		__asm__ volatile("lfence" : : "r"(value) : "memory");
		WAYMARK(late, after, i);
	}
	return 0;
}
