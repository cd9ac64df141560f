/* SPDX-License-Identifier: MIT */
__attribute__((noinline, noclone)) static int deref(volatile int *p)
{
	return *p + 1; /* here */
}

__attribute__((noinline, noclone)) static int sum_of(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

int main(void)
{
	return deref((int *)(long)(sum_of(4) - 6)); /* there */
}
