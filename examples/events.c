/* SPDX-License-Identifier: MIT */
/* How often each event of a trace came, and what is missing: events DIR. Link with -lwaymark. */
#include <stdio.h>
#include <waymark/error.h>
#include <waymark/trace.h>

#define NAMES 1000

static unsigned long long counts[NAMES]; /* by the number of the name */
static char names[NAMES][128];

static void take(const struct wm_trace *trace, const struct wm_event *event)
{
	uint64_t lost = 0; /* unchanged by an error */
	if (event->kind == 'd') {
		fprintf(stderr, "damaged: %s\n", wm_trace_detail(trace));
	} else if (event->kind == 'l') {
		wm_event_field_u64(wm_event_field_find(event, "events"), &lost);
		fprintf(stderr, "thread %u lost %llu events\n", event->tid, lost + 0ULL);
	} else if (event->id < NAMES && !counts[event->id]++) {
		snprintf(names[event->id], sizeof(names[0]), "%s", event->name);
	}
}

int main(int argc, char **argv)
{
	struct wm_trace *trace = NULL;
	const struct wm_event *event;
	int got = wm_trace_open(&trace, argc > 1 ? argv[1] : ".", NULL);

	while (got >= 0 && (got = wm_trace_next(trace, &event)) > 0)
		take(trace, event);
	if (got < 0)
		fprintf(stderr, "events: %s: %s\n", wm_error_text(got), wm_trace_detail(trace));
	for (int id = 0; id < NAMES; id++)
		if (counts[id])
			printf("%10llu  %s\n", counts[id], names[id]);
	wm_trace_close(trace);
	return got < 0;
}
