/* SPDX-License-Identifier: MIT */
#include "session/trial/simulate.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[SIMULATED_COUNT] = {
	[SIMULATED_DEBUG_REGISTERS] = "debug-registers",
	[SIMULATED_DEBUG_REGISTERS_LATER] = "debug-registers-later",
	[SIMULATED_STEP_TRAP] = "step-trap",
	[SIMULATED_INT80] = "int80",
	[SIMULATED_TSC] = "tsc",
	[SIMULATED_HANG] = "hang",
};

int simulated(enum simulated failure)
{
	const char *at = secure_getenv("WAYMARK_SIMULATE");
	size_t bytes;

	for (; at && *at; at += bytes + (at[bytes] == ',')) {
		bytes = strcspn(at, ",");
		if (bytes == strlen(names[failure]) && !strncmp(at, names[failure], bytes))
			return 1;
	}
	return 0;
}

int simulated_any(void)
{
	for (int i = 0; i < SIMULATED_COUNT; i++)
		if (simulated((enum simulated)i))
			return 1;
	return 0;
}
