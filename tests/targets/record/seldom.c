/* SPDX-License-Identifier: MIT */
/* Two events in a second, and others never. */
#include <unistd.h>
#include <waymark/marker.h>
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		WAYMARK(seldom, never, 1);
		WAYMARK_SCOPE(seldom, idle);
	}
	WAYMARK(seldom, hit, 1);
	WAYMARK(seldom, hit, 2);
	sleep(1); /* the length is the subject */
	return 0;
}
