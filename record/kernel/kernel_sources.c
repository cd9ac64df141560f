/* SPDX-License-Identifier: MIT */
/* Which events of the kernel a session's specs take. */
#include "record/kernel/kernel_own.h"
#include "record/session/session.h"
#include "record/spec/spec.h"

#include <linux/perf_event.h>
#include <sys/stat.h>
#include <waymark/error.h>

#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO, include/linux/proc_ns.h */

int kernel_has_kind(const struct wm_session *session, enum kernel_kind kind)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].kernel && session->specs->all[i].kernel->kind == kind)
			return 1;
	return 0;
}

/* Tracepoints name threads as the first PID namespace does. */
static int has_first_pids(void)
{
	struct stat file;

	return !stat("/proc/self/ns/pid", &file) && file.st_ino == FIRST_PID_NAMESPACE;
}

static struct kernel_source *source_add(struct kernel *kernel, const struct sampler_event *event)
{
	struct kernel_source *source = &kernel->sources[kernel->event_count];

	*source = (struct kernel_source){ .role = KERNEL_RECORDS };
	kernel->events[kernel->event_count++] = *event;
	return source;
}

/* A tracepoint of the scheduler, which needs a privilege. Returns whether it is there. */
static int switch_tracepoint(const char *name, struct sampler_event *event,
			     struct tracepoint *format)
{
	struct detail none = { NULL, 0 };

	*event = (struct sampler_event){ .period = 1, .wants = SAMPLER_RAW };
	return !tracepoint_read(format, name, none) && !count_event_read(&event->what, name, none);
}

static int tracepoints_ask(struct kernel *kernel)
{
	struct sampler_event event;
	struct tracepoint format;
	struct kernel_source *source;

	if (!has_first_pids() || !switch_tracepoint("sched:sched_switch", &event, &format) ||
	    !switch_tracepoint("sched:sched_waking", &kernel->wakes_event, &kernel->wakes_format))
		return 0;
	event.wants |= SAMPLER_USER_IP;
	source = source_add(kernel, &event);
	source->role = KERNEL_STATES;
	source->format = format;
	return 1;
}

/*
 * What `switch` takes beside the kernel's records of switches. By `way`: 0, tracepoints give state,
 * place and wakes; 1, a count of switches gives the place; 2, nothing more.
 */
int kernel_ask_switches(struct kernel *kernel, int way)
{
	struct sampler_event place = { .what = { .name = "context-switches",
						 .type = PERF_TYPE_SOFTWARE,
						 .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
				       .period = 1,
				       .wants = SAMPLER_USER_IP };

	kernel->has_switches = 1;
	kernel->has_wakes = 0;
	kernel->has_places = way < 2;
	if (way == 0) {
		kernel->has_wakes = tracepoints_ask(kernel);
		return kernel->has_wakes;
	}
	if (way == 1)
		source_add(kernel, &place)->role = KERNEL_PLACES;
	return 1;
}

/*
 * A thread that the target starts would inherit the event, and the kernel checks such an event
 * again as if the target had opened it: without the privilege, or the symbol's name in its memory,
 * clone(2) fails there (perf_kprobe_event_init(), hw_breakpoint_parse()).
 */
static int needs_cpus(const struct kernel_request *request)
{
	return request->kind == KERNEL_KPROBE || request->kind == KERNEL_WATCH;
}

/*
 * Linux (seen with 6.18) gives all samples of a software event the id of the first one that records
 * it: perf_prepare_sample() keeps what do_perf_sw_event() shares. Clocks are timers, and apart.
 */
static int is_taken(const struct kernel *kernel, const struct count_event *what)
{
	for (size_t i = 0; i < kernel->event_count && what->type == PERF_TYPE_SOFTWARE; i++)
		if (kernel->events[i].what.type == what->type &&
		    kernel->events[i].what.config == what->config)
			return what->config != PERF_COUNT_SW_CPU_CLOCK &&
			       what->config != PERF_COUNT_SW_TASK_CLOCK;
	return 0;
}

static void group_add(struct kernel *kernel, const struct kernel_request *request, uint32_t id)
{
	for (unsigned int i = 0; i < request->group_count; i++) {
		kernel->count_events[kernel->count_count] = request->group[i];
		kernel->count_groups[kernel->count_count++] = id;
	}
}

int kernel_ask_requests(struct wm_session *session, struct kernel *kernel)
{
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct kernel_request *request = session->specs->all[i].kernel;
		uint32_t id = KERNEL_SPECS + (uint32_t)i;
		struct kernel_source *source;
		char words[256] = "";
		int err = 0;

		if (!request || request->kind == KERNEL_SWITCH)
			continue;
		if (needs_cpus(request) && !kernel->is_of_cpus)
			return session_fail(
				session, -WM_E_SPEC,
				"%s: the kernel's code is watched on CPUs: add -a or -C (the option cpus)",
				session->specs->all[i].text);
		if (request->kind == KERNEL_COUNT) {
			group_add(kernel, request, id);
			continue;
		}
		if (is_taken(kernel, &request->event.what))
			return session_fail(
				session, -WM_E_SPEC,
				"%s: another spec records the same event, and the kernel would not say which sample is whose: take two recordings",
				session->specs->all[i].text);
		source = source_add(kernel, &request->event);
		source->request = request;
		source->id = id;
		if (request->kind == KERNEL_TRACEPOINT)
			err = tracepoint_read(&source->format, request->name,
					      (struct detail){ words, sizeof(words) });
		if (err)
			return session_fail(session, err, "%s: %s", session->specs->all[i].text,
					    words);
	}
	return 0;
}
