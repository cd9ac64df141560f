/* SPDX-License-Identifier: MIT */
/*
 * Fixture that inlined_test.c compiles in many ways: inlined functions, nested, in classes, in
 * blocks.
 */
namespace shop
{
volatile long total;

struct basket {
	long count;

	inline __attribute__((always_inline)) void add(long n)
	{
		count += n;
		total += count;
	}

	__attribute__((noinline)) long sum(long n)
	{
		for (long i = 0; i < n; i++) {
			long twice = i * 2;

			add(twice);
		}
		return total;
	}
};

static inline __attribute__((always_inline)) void add_two(basket &into, long n)
{
	into.add(n);
	into.add(n + total);
}

template <typename T> static inline __attribute__((always_inline)) void add_all(basket &into, T n)
{
	add_two(into, n);
	total += 3;
	add_two(into, n);
}

/* LLVM describes it in the namespace itself. */
static __attribute__((noinline)) long inner(long n)
{
	basket basket = { n };

	add_two(basket, n);
	return total;
}
} // namespace shop

static inline __attribute__((always_inline)) long plain(long n)
{
	return n * shop::total;
}

__attribute__((noinline)) long work(long n);
__attribute__((noinline)) long work(long n)
{
	shop::basket basket = { plain(n) };

	shop::add_all(basket, n);
	if (__builtin_expect(n == 77, 0)) {
		shop::total = plain(3);
		shop::add_all(basket, 5);
		__builtin_trap();
	}
	return basket.sum(n);
}

int main(int argc, char **)
{
	return (int)(work(argc) + shop::inner(argc));
}
