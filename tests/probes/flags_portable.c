/* SPDX-License-Identifier: MIT */
#define WAYMARK_PORTABLE
#include <stdint.h>
#include <waymark/marker.h>

void marked_portably(void);
void marked_portably(void)
{
	static uint64_t count;

	WAYMARK(flags, marked_portably, count);
}
