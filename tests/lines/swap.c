/* SPDX-License-Identifier: MIT */
/* Runs a line of a header of the compiler's. */
#include <x86intrin.h>

volatile int seed;

int main(void)
{
	return __bswapd(seed);
}
