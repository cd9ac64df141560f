/* SPDX-License-Identifier: MIT */
/* Each of these must be refused by the compiler, with Waymark's own words. */
#include <waymark/marker.h>

struct aggregate {
	int a[3];
};

void wrong(struct aggregate s, int a);
void wrong(struct aggregate s, int a)
{
	(void)s;
	(void)a;
#if defined(WRONG_STRUCT)
	WAYMARK(wrong, aggregate, s);
#elif defined(WRONG_INT128)
	WAYMARK(wrong, int128, (__int128)a);
#elif defined(WRONG_17)
	WAYMARK(wrong, seventeen, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a);
#elif defined(WRONG_17_EXPRESSIONS)
	WAYMARK(wrong, seventeen, a + 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
		17 + a);
#elif defined(WRONG_SDT_13)
	WAYMARK_SDT(wrong, thirteen, a, a, a, a, a, a, a, a, a, a, a, a, a);
#elif defined(WRONG_SDT_BYTES)
	WAYMARK_SDT(wrong, bytes, WM_BYTES(&a, 4));
#elif defined(WRONG_SCOPE)
	WAYMARK_SCOPE(wrong, scope, s);
#endif
}
