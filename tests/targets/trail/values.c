/* SPDX-License-Identifier: MIT */
/* Is killed by a fault of the kind that its argument says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum how { READS = 1, WRITES, DIVIDES, UNMAPPED };
struct pair {
	int first;
	short second;
};
static volatile int zero;
__attribute__((noinline)) static int faults(enum how how, volatile char *text, struct pair pair,
					    double ratio)
{
	switch (how) {
	case READS:
		return *text + pair.first;
	case WRITES:
		*text = (char)pair.second;
		break;
	case DIVIDES:
		return pair.first / zero + (int)ratio;
	case UNMAPPED:
		return *(volatile int *)0x8000000000000000; /* not canonical */
	}
	return 0;
}
__attribute__((noinline)) static int outer(long number, const char *name)
{
	int result = faults((enum how)atoi(name), (char *)number, (struct pair){ 7, -3 }, 0.5);
	printf("%s %d\n", name, result);
	return result + 1;
}
int main(int argc, char **argv)
{
	return outer(0x1230 + argc, argv[1]) + 1;
}
