/* SPDX-License-Identifier: MIT */
#include "target/trial/simulate.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[SIMULATED_COUNT] = {
	[SIMULATED_DEBUG_REGISTERS] = "debug-registers",
	[SIMULATED_DEBUG_REGISTERS_LATER] = "debug-registers-later",
	[SIMULATED_INT80] = "int80",
	[SIMULATED_TSC] = "tsc",
	[SIMULATED_HANG] = "hang",
};

#define VARIABLE "WAYMARK_SIMULATE"

static int is_name(enum simulate_is_on failure, const char *word, size_t bytes)
{
	return bytes == strlen(names[failure]) && !strncmp(word, names[failure], bytes);
}

int simulate_is_on(enum simulate_is_on failure)
{
	const char *at = secure_getenv(VARIABLE);
	size_t bytes;

	for (; at && *at; at += bytes + (at[bytes] == ',')) {
		bytes = strcspn(at, ",");
		if (is_name(failure, at, bytes))
			return 1;
	}
	return 0;
}

const char *simulate_unknown(size_t *bytes)
{
	const char *at = secure_getenv(VARIABLE);
	int i;

	for (; at && *at; at += *bytes + (at[*bytes] == ',')) {
		*bytes = strcspn(at, ",");
		for (i = 0; i < SIMULATED_COUNT && !is_name((enum simulate_is_on)i, at, *bytes);
		     i++)
			;
		if (i == SIMULATED_COUNT && *bytes)
			return at;
	}
	return NULL;
}

int simulate_any(void)
{
	for (int i = 0; i < SIMULATED_COUNT; i++)
		if (simulate_is_on((enum simulate_is_on)i))
			return 1;
	return 0;
}
