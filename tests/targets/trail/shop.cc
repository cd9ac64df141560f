/* SPDX-License-Identifier: MIT */
struct shop {
	static __attribute__((noinline)) void add(volatile int *at, int n);
	static __attribute__((noinline)) void add(volatile int *at, long n);
	static __attribute__((noinline)) void add(volatile int *at, char n);
};
__attribute__((noinline, cold)) static void rare(volatile int *at)
{
	*at = 1;
}
void shop::add(volatile int *at, int n)
{
	if (__builtin_expect(n > 2, 0)) {
		rare(at);
		*at += 5;
	}
	*at += n;
}
void shop::add(volatile int *at, long n)
{
	*at += n;
}
void shop::add(volatile int *at, char n)
{
	*at -= n;
}

extern "C" int main()
{
	volatile int sum = 0;

	for (int i = 0; i < 5; i++) {
		shop::add(&sum, i);
		shop::add(&sum, (long)i);
		shop::add(&sum, (char)i);
	}
	return 0;
}
