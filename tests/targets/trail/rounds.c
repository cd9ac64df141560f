/* SPDX-License-Identifier: MIT */
/* Rounds that are all alike or, with a second argument, of two kinds. */
#include <stdlib.h>
static volatile int odd;
__attribute__((noinline)) static void more(void)
{
	odd++;
}
int main(int argc, char **argv)
{
	unsigned int state = 1;
	for (long i = atol(argv[1]); i; i--) {
		state = state * 1664525u + 1013904223u;
		if (argc > 2 && state >> 30 == 0)
			more();
		else
			odd = 0;
	}
	return 0;
}
