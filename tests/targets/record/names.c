/* SPDX-License-Identifier: MIT */
/* One name of a marker with two names of its field, in one line. */
#include <waymark/marker.h>

#define BOTH                                                                                       \
	do {                                                                                       \
		WAYMARK(db, op, rows);                                                             \
		WAYMARK(db, op, bytes);                                                            \
	} while (0)

int main(void)
{
	for (int i = 0; i < 3; i++) {
		int rows = i, bytes = i + 1000;

		BOTH;
	}
	return 0;
}
