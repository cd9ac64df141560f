/* SPDX-License-Identifier: MIT */
/* beat COUNT PAUSE: so many events, with microseconds between them. */
#include <stdlib.h>
#include <unistd.h>
#include <waymark/marker.h>

int main(int count, char **arguments)
{
	long beats = count > 1 ? atol(arguments[1]) : 0;

	for (long i = 0; i < beats; i++) {
		WAYMARK(beat, at, i);
		usleep((useconds_t)atoi(arguments[count - 1]));
	}
	return 0;
}
