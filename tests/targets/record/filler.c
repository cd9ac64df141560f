/* SPDX-License-Identifier: MIT */
/* Functions with filler for patches, at the entry and partly before it. */
#define KEEP __attribute__((noinline, noclone))
KEEP __attribute__((patchable_function_entry(5, 0))) int at_entry(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a;
}
KEEP __attribute__((patchable_function_entry(8, 3))) int before(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a;
}
int main(void)
{
	int sum = 0;

	for (int i = 1; i <= 10; i++)
		sum += at_entry(i) - before(i);
	return sum;
}
