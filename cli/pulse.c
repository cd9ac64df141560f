/* SPDX-License-Identifier: MIT */
#include "cli/pulse.h"

#include "target/process/ticks.h"

#include <stdio.h>
#include <unistd.h>

#define FIRST_NS 1000000000u
#define SHOW_NS 250000000u
#define BEAT (1u << 20) /* beats between looks at the clock */

static struct {
	uint64_t due_ns; /* 0: nothing was asked yet */
	uint64_t beats;
	int is_shown, is_none; /* is_none: stderr is no terminal */
} pulse;

int pulse_is_due(void)
{
	if (pulse.is_none)
		return 0;
	if (!pulse.due_ns) {
		pulse.is_none = !isatty(STDERR_FILENO);
		pulse.due_ns = ticks_monotonic_ns() + FIRST_NS;
	}
	return ticks_monotonic_ns() >= pulse.due_ns;
}

void pulse_show(const char *what, uint64_t done, uint64_t all)
{
	unsigned int percent = all ? (unsigned int)((double)done * 100 / (double)all) : 0;

	fprintf(stderr, "\r%s: %u %%\033[K", what, percent > 100 ? 100 : percent);
	fflush(stderr);
	pulse.is_shown = 1;
	pulse.due_ns = ticks_monotonic_ns() + SHOW_NS;
}

void pulse_end(void)
{
	if (pulse.is_shown)
		fputs("\r\033[K", stderr);
	pulse.is_shown = 0;
}

void pulse_beat(const char *what, uint64_t done, uint64_t all)
{
	if (++pulse.beats % BEAT == 0 && pulse_is_due())
		pulse_show(what, done, all);
}
