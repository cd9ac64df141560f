/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <waymark/trace.h>
int main(int argc, char **argv)
{
	const struct wm_event *event;
	struct wm_trace *trace;
	int got = wm_trace_open(&trace, argv[argc - 1], NULL);

	while (got >= 0 && (got = wm_trace_next(trace, &event)) > 0)
		printf("%llu %u %u %s %u\n", (unsigned long long)event->realtime_ns, event->pid,
		       event->tid, event->name, event->field_count);
	wm_trace_close(trace);
	return got < 0;
}
