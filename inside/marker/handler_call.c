/* SPDX-License-Identifier: MIT */
#include "inside/marker/handler_call.h"

#include "inside/marker/plan.h"
#include "inside/store/thread_writer.h"

#include <errno.h>
#include <stddef.h>

char probe_added, probe_ran;

static int is_running(const struct writer *writer, const struct plan_probe *probe, int depth)
{
	for (int i = 0; i < depth; i++) {
		if (writer->inside[i] && writer->running_fn[i] == probe->fn &&
		    writer->running[i] == probe->data)
			return 1;
	}
	return 0;
}

/* A handler that passes its own marker is not called again for it: that would never end. */
long handler_probe_call(void *data)
{
	const struct probe_call *call = data;
	struct writer *writer = call->writer;
	int saved_errno = errno;

	for (unsigned int i = 0; i < call->plan->probe_count; i++) {
		const struct plan_probe *probe = &call->plan->probes[i];

		if (is_running(writer, probe, call->depth))
			continue;
		writer->running[call->depth] = probe->data;
		writer->running_fn[call->depth] = probe->fn;
		probe_order_after(&probe_added);
		probe->call(probe->fn, probe->data, call->payload);
		probe_order_before(&probe_ran);
		writer->running_fn[call->depth] = NULL;
	}
	errno = saved_errno;
	return 0;
}
