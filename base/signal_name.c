/* SPDX-License-Identifier: MIT */
#include "base/signal_name.h"

#include "base/quantity.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int signal_name_read(const char *text)
{
	uint64_t number;

	if (!quantity_number(text, 1, (uint64_t)SIGRTMAX, &number))
		return (int)number;
	if (!strncasecmp(text, "SIG", 3))
		text += 3;
	if (!strcasecmp(text, "RTMIN"))
		return SIGRTMIN;
	if (!strncasecmp(text, "RTMIN+", 6)) {
		if (quantity_number(text + 6, 0, (uint64_t)(SIGRTMAX - SIGRTMIN), &number))
			return 0;
		return SIGRTMIN + (int)number;
	}
	for (int i = 1; i < SIGRTMIN; i++)
		if (sigabbrev_np(i) && !strcasecmp(sigabbrev_np(i), text))
			return i;
	return 0;
}

const char *signal_name_show(uint64_t number, char text[32])
{
	const char *name = number <= INT32_MAX ? sigabbrev_np((int)number) : NULL;

	if (name)
		snprintf(text, 32, "SIG%s", name);
	else if (number >= (uint64_t)SIGRTMIN && number <= (uint64_t)SIGRTMAX)
		snprintf(text, 32, "SIGRTMIN+%d", (int)number - SIGRTMIN);
	else
		snprintf(text, 32, "signal %" PRId64, (int64_t)number);
	return text;
}
