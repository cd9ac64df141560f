/* SPDX-License-Identifier: MIT */
/* The README's example: a program that works, and can be watched at it. */
#include <unistd.h>
#include <waymark/marker.h>

static int bake(int order, const char *what)
{
	WAYMARK_SCOPE(shop, bake, order, what);
	usleep(1000 + order % 7 * 100);
	return order % 50 == 0;
}

int main(void)
{
	static const char *const menu[] = { "bread", "cake", "pie" };

	for (int order = 1;; order++)
		if (bake(order, menu[order % 3]))
			WAYMARK(shop, burnt, order, WM_FIELD(lost, 2.50));
}
