/* SPDX-License-Identifier: MIT */
/*
 * A program and, with -DNUMBER=1 and =2, the two files that it is linked with: each has another
 * function of one name.
 */
int call1(int n);
int call2(int n);

#ifdef NUMBER
#define JOIN(name, number) name##number
#define CALL(number) JOIN(call, number)

__attribute__((noinline, noclone)) static int same(int n)
{
	int sum = NUMBER;

	for (volatile int i = 0; i < n; i++) /* LINE */
		sum += i;
	return sum;
}

int CALL(NUMBER)(int n)
{
	return same(n * NUMBER);
}
#else
int main(void)
{
	return call1(9) + call2(9) > 9;
}
#endif
