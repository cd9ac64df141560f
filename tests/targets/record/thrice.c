/* SPDX-License-Identifier: MIT */
#include <waymark/marker.h>
int main(void)
{
	double rate = 1;
	WAYMARK(shop, sold, 1);
	WAYMARK(shop, rated, 1); /* LINE */
	WAYMARK(shop, rated, rate);
	return 0;
}
