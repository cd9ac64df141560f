/* SPDX-License-Identifier: MIT */
/* Each of these must be refused by the compiler, with Waymark's own words. */
#include <waymark/marker.h>

struct aggregate {
	int a[3];
};

void wrong(struct aggregate s, int a);
void wrong(struct aggregate s, int a)
{
	int array[2] = { a, a };
	long double wide[2] = { 1, 2 };
	struct aggregate many[2] = { s, s };

	(void)array;
	(void)wide;
	(void)many;
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
#elif defined(WRONG_ARRAY)
	WAYMARK(wrong, array, array);
#elif defined(WRONG_MEMBER_ARRAY)
	WAYMARK(wrong, array, a, WM_FIELD(member, (s.a)));
#elif defined(WRONG_STRUCT_ARRAY)
	WAYMARK(wrong, array, many);
#elif defined(WRONG_ARRAY_OF_STRUCT)
	WAYMARK(wrong, array, WM_ARRAY(many, 2));
#elif defined(WRONG_ARRAY_OF_LONG_DOUBLE)
	WAYMARK(wrong, array, WM_ARRAY(wide, 2));
#elif defined(WRONG_NET_BYTE)
	WAYMARK(wrong, net, WM_NET((char)a));
#elif defined(WRONG_NET_FLOAT)
	WAYMARK(wrong, net, WM_NET(1.5));
#elif defined(WRONG_HEX)
	WAYMARK(wrong, hex, WM_HEX(wide[0]));
#elif defined(WRONG_HEX_ARRAY)
	WAYMARK(wrong, hex, WM_HEX(array));
#elif defined(WRONG_ENUM)
	WAYMARK(wrong, label, WM_ENUM("text", A));
#elif defined(WRONG_SDT_ARRAY)
	WAYMARK_SDT(wrong, array, WM_ARRAY(array, 2));
#elif defined(WRONG_SCOPE)
	WAYMARK_SCOPE(wrong, scope, s);
#endif
}
