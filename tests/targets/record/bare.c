/* SPDX-License-Identifier: MIT */
#define KEEP __attribute__((noinline, noclone))
KEEP double half(int a)
{
	return a / 2.0;
}
KEEP int twice(int a)
{
	__asm__ volatile("" : "+r"(a));
	return 2 * a;
}
int main(void)
{
	return half(5) != 2.5 || twice(21) != 42;
}
