/* SPDX-License-Identifier: MIT */
/* Statements in many shapes, whose lines gcov and waymark count alike. It needs no library. */
static volatile int sink;

#define TWICE(x) ((x) + (x))
#define SWAP(a, b)                                                                                 \
	do {                                                                                       \
		int t_ = (a);                                                                      \
		(a) = (b);                                                                         \
		(b) = t_;                                                                          \
	} while (0)

static int never(int x)
{
	if (x)
		return 1;
	return 2;
}

static inline int square(int x)
{
	return x * x;
}

static int is_even(int n);

static int is_odd(int n)
{
	return n == 0 ? 0 : is_even(n - 1);
}

static int is_even(int n)
{
	if (n == 0)
		return 1;
	return is_odd(n - 1);
}

static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static int loops(int n)
{
	int sum = 0, i, j;

	for (i = 0; i < n; i++)
		sum += i;
	for (i = 0; i < n; i++) {
		if (i % 3 == 0)
			continue;
		for (j = 0; j < i; j++) {
			sum += j;
			if (sum > 1000)
				break;
		}
	}
	for (i = 0;; i++) {
		sum++;
		if (i > 4)
			break;
	}
	while (n > 0) {
		n -= 2;
		sum ^= n;
	}
	do {
		sum++;
	} while (sum & 7);
	/* clang-format off */
	for (i = 0; i < 3; i++) sum++;
	/* clang-format on */
	while (i < 9)
		i++;
	for (i = 10; i < 5; i++)
		sum--;
	return sum;
}

static int choose(int what)
{
	switch (what) {
	case 0:
		return 5;
	case 1:
	case 2:
		what += 10;
		/* fall through */
	case 3:
		what *= 2;
		break;
	case 7:
		what = never(what);
		break;
	default:
		what = -1;
	}
	return what;
}

static int conditions(int a, int b, int c)
{
	int result = 0;

	if (a && b)
		result++;
	if (a || b || c)
		result += 2;
	else
		result += 4;
	if (a) {
		result += 8;
	} else if (b) {
		result += 16;
	} else if (c) {
		result += 32;
	} else {
		result += 64;
	}
	result += a ? b : c;
	result += TWICE(a);
	SWAP(a, b);
	/* clang-format off */
	result = result + square(a) +
		 square(b);
	/* clang-format on */
	return result + a;
}

static int jumps(int n)
{
	int i = 0;

again:
	if (i++ < n)
		goto again;
	if (n == 3)
		goto out;
	i = 100;
out:
	return i;
}

static unsigned int bits(unsigned int x)
{
	unsigned int count = 0;

	for (; x; x &= x - 1)
		count++;
	return count;
}

int main(void)
{
	int i;

	for (i = 0; i < 6; i++)
		sink += loops(i * 3);
	for (i = 0; i < 8; i++)
		sink += choose(i == 7 ? 4 : i);
	for (i = 0; i < 8; i++)
		sink += conditions(i & 1, i & 2, i & 4);
	for (i = 0; i < 5; i++)
		sink += jumps(i);
	sink += fib(7);
	sink += is_even(9) + is_odd(4);
	sink += (int)bits(0xf0f0u);
	return 0;
}
