/* SPDX-License-Identifier: MIT */
#include <waymark/marker.h>
template <class T> __attribute__((noinline)) void twice(T v)
{
	WAYMARK(shop, twice, v); /* LINE */
}
int main()
{
	twice(1);
	twice(2.0);
}
