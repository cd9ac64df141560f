/* SPDX-License-Identifier: MIT */
#include "record/session/process_trace.h"

#include "record/probe/probes.h"
#include "record/session/life.h"
#include "record/session/process.h"
#include "target/process/target.h"
#include "trace/writer.h"

#include <string.h>
#include <unistd.h>

int process_trace_event(struct wm_session *session, const struct process *process,
			const struct control_event *event, const char *text)
{
	const struct enumeration *names[CODE_FIELDS_MAX];

	if (process->trace < 0 || !session->writer)
		return 0;
	enumerated_find(session->probes->plans, text, names);
	return trace_event_add_named(session->writer, process->trace, event->id, event->types, text,
				     names);
}

struct tracing {
	struct wm_session *session;
	struct process *process;
};

static int trace_one(const struct event *event, void *data)
{
	const struct tracing *to = data;
	struct control_event head = { .id = event->id };

	memcpy(head.types, event->types, sizeof(head.types));
	return process_trace_event(to->session, to->process, &head, event->text);
}

int process_trace(struct wm_session *session, struct process *process)
{
	struct trace_process about = {
		.pid = (uint32_t)process->pid,
		.ppid = process->hello.ppid,
		.start_time = process->hello.start_time,
		.exe = process->exe,
		.build_id_bytes = process->build_id_bytes,
	};
	char host[256] = "";

	life_begin(session, process);
	about.way = process->life.way;
	about.begin_ns = process->life.begin_ns;
	if (!session->writer || process->trace >= 0 || !process->drain)
		return 0;
	/* after the return above, which each packet takes */
	about.uid = process->is_kernel ? 0 : (uid_t)target_status_number(process->pid, "Uid");
	gethostname(host, sizeof(host) - 1);
	about.hostname = host;
	about.clock = drain_clock(process->drain);
	about.ticks_hz = session_hz(session, about.clock);
	memcpy(about.build_id, process->build_id, sizeof(about.build_id));
	process->trace = trace_process_add(session->writer, &about);
	if (process->trace < 0)
		return process->trace;
	for (size_t i = 0; i < process->module_count; i++) {
		const struct process_module *module = &process->modules[i];
		int err = trace_module_add(session->writer, process->trace, &module->about,
					   module->path, module->ns);

		if (err)
			return err;
	}
	return event_list_each(process->events, trace_one, &(struct tracing){ session, process });
}
