/* SPDX-License-Identifier: MIT */
/* Two functions of one name: this file and, built with -DOTHER, the program's other. */
#include <unistd.h>

int other(int a);

static __attribute__((noinline, noclone)) int same(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a + 1;
}

#ifdef OTHER
int other(int a)
{
	return same(a) + 1;
}
#else
int main(void)
{
	while (same(1) + other(1))
		usleep(1000);
	return 1;
}
#endif
