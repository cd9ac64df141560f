/* SPDX-License-Identifier: MIT */
#include <cerrno>
#include <waymark/list.h>
#include <waymark/session.h>
#include <waymark/trace.h>
#include <waymark/trail.h>
int main()
{
	wm_session_status session_status{};
	wm_trail_status trail_status{};
	wm_kevent_status event_status{};
	wm_kevent_source source{};
	wm_kevent_request request{};
	wm_kevent *object;
	wm_trace_options trace_options{};
	const wm_event *event;
	wm_trace *trace;
	uint64_t number;

	source.size = sizeof(source);
	source.kind = WM_KEVENT_KIND_EXECUTE;
	source.address = 1;
	request.size = sizeof(request);
	request.scope = WM_KEVENT_SCOPE_THREAD;
	request.pid = 1;
	request.sources = &source;
	request.source_count = 1;
	int err = wm_kevent_open(&object, &request);
	wm_kevent_close(object);
	err += session_status.size + trail_status.size + event_status.size;
	trace_options.size = sizeof(trace_options);
	err += wm_trace_open(&trace, "/nowhere", &trace_options) != -ENOENT;
	err += wm_trace_next(trace, &event) != -EINVAL;
	err += wm_event_field_u64(wm_event_field_find(event, "rows"), &number) != -ENOENT;
	wm_trace_close(trace);
	wm_list_place place{};
	auto take = [](const wm_list_place *, void *) { return 0; };
	err += wm_list_file("/nowhere", "usdt:*:*", take, nullptr) != -ENOENT;
	err += wm_list_process(0, "usdt:*:*", take, nullptr) != -EINVAL;
	err += place.size;
	return err;
}
