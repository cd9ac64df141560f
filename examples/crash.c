/* SPDX-License-Identifier: MIT */
/*
 * A program that crashes: the third order has no text. A trail shows what led to it:
 *
 *	cc -g -O1 crash.c -o crash
 *	waymark record -e trail/last=1M/ --on crash -o crash.trail -- ./crash
 */
#include <stdio.h>

struct order {
	const char *what;
	const struct order *next;
};

__attribute__((noinline)) static int length(const char *text)
{
	int count = 0;

	while (text[count])
		count++;
	return count;
}

__attribute__((noinline)) static int widest(const struct order *order)
{
	int width = 0;

	for (; order; order = order->next) {
		int bytes = length(order->what);

		width = bytes > width ? bytes : width;
	}
	return width;
}

int main(void)
{
	const struct order third = { NULL, NULL };
	const struct order second = { "bread", &third };
	const struct order first = { "pie", &second };

	printf("%d\n", widest(&first));
	return 0;
}
