/* SPDX-License-Identifier: MIT */
/* Claims in the shared store to have lost more events than there can be. */
#include "abi/page.h"
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>
int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	unsigned long at;
	WAYMARK(boasts, once);
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "memfd:waymark-store") && sscanf(line, "%lx", &at) == 1) {
			((struct wm_store *)at)->discarded = 1ul << 60;
			return 0;
		}
	return 1;
}
