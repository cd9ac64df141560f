/* SPDX-License-Identifier: MIT */
/*
 * Calls in many shapes: recursive, mutual, by a table, from a loop, inlined, at a function's end.
 * It needs no library.
 */
#define APART __attribute__((noinline, noclone))

typedef int (*operation)(int);

static volatile int sink;
static int table[64];

APART static int increase(int x)
{
	return x + 1;
}

APART static int twice(int x)
{
	return x * 2;
}

APART static int magnitude(int x)
{
	if (x < 0)
		return -x;
	return x;
}

static const operation operations[] = { increase, twice, magnitude };

APART static int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

APART static int choose(int x)
{
	switch (x) {
	case 0:
		sink++;
		return 3;
	case 1:
		return twice(x);
	case 2:
		sink += 2;
		break;
	case 3:
		sink += 4;
		return 9;
	case 4:
		sink ^= 5;
		break;
	case 5:
		return magnitude(-x);
	default:
		sink--;
	}
	return x;
}

APART static int last(int n)
{
	if (n & 1)
		return increase(n);
	return choose(n % 7);
}

APART static int loops(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < i; j++) {
			if ((i ^ j) & 2)
				sum += j;
			else
				sum -= i;
			if (sum & 1)
				sum = operations[(i + j) % 3](sum);
		}
	}
	return sum;
}

static inline __attribute__((always_inline)) int clamp(int x)
{
	if (x > 50) {
		sink++;
		return 50;
	}
	if (x < -50)
		return -50;
	return x;
}

APART static int clamps(int n)
{
	int sum = 0;

	for (int i = -n; i < n; i++)
		sum += clamp(i * 9);
	for (int i = 0; i < n; i++)
		sum += clamp(i);
	return sum;
}

APART static void sort(int n)
{
	for (int i = 0; i < n; i++)
		table[i] = (i * 37) % 64;
	for (int i = 0; i < n; i++)
		for (int j = i + 1; j < n; j++)
			if (table[j] < table[i]) {
				int swapped = table[i];

				table[i] = table[j];
				table[j] = swapped;
			}
}

APART static int is_even(int n);

APART static int is_odd(int n)
{
	return n == 0 ? 0 : is_even(n - 1);
}

APART static int is_even(int n)
{
	return n == 0 ? 1 : is_odd(n - 1);
}

APART static int deep(int n)
{
	int first, second;

	if (n == 0)
		return 1;
	first = deep(n - 1);
	second = n & 1 ? deep(n / 2) : increase(n);
	return first + second;
}

int main(void)
{
	int sum = fib(12);

	for (int i = 0; i < 40; i++)
		sum += last(i);
	sum += loops(18) + clamps(20);
	sort(20);
	sum += is_even(11) + deep(6);
	sink = sum;
	return sum & 1;
}
