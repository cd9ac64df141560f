/* SPDX-License-Identifier: MIT */
#include "record/kernel/kernel_events.h"

#include "base/array.h"
#include "base/tracefs.h"
#include "record/drain/watermark.h"
#include "record/kernel/kernel_own.h"
#include "record/perf/cpus.h"
#include "record/session/findings.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "target/claim/limits.h"
#include "target/process/descendants.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "trace/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define OPENS_MAX 20	    /* while the processes to record come and go */
#define COUNT_NS 100000000u /* between two writes of counts */
#define FOLLOW_NS 50000000u /* between two looks at CPUs, each of which interrupts all of them */
/* longer than a record waits to be sorted */
#define FORKS_NS UINT64_C(150000000)
#define STEP_MS 5

static int is_wanted(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].kernel)
			return 1;
	return 0;
}

int kernel_is_of_cpus(const struct wm_session *session)
{
	return session->running && session->kernel && session->kernel->is_of_cpus;
}

/* Now, as target_start_time() has it. */
static uint64_t start_ticks(void)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000u;
}

/* ---- over what ---- */

static int is_in_scope(const struct kernel *kernel, pid_t pid)
{
	for (size_t i = 0; i < kernel->pid_count; i++)
		if (kernel->pids[i] == pid)
			return 1;
	return 0;
}

/* A process may have two entries: one with an agent, and one from outside or for its trail. */
static void pid_add(struct kernel *kernel, pid_t pid)
{
	if (!is_in_scope(kernel, pid))
		kernel->pids[kernel->pid_count++] = pid;
}

/* Whether we may have events on it; *began: as target_start_time(). */
static int is_open_to_us(pid_t pid, uint64_t *began)
{
	struct target target;

	if (target_read(&target, pid) || target_has_ended(&target))
		return 0;
	*began = target.start_time;
	return !geteuid() || target.uid == geteuid();
}

/*
 * Children had the events of those before by inheritance, and need no agent: so they are asked.
 * Where there were no events for a while, a number may be another process's by now, and others have
 * come since: of a parent that is recorded, which is found before them. Room for the known ones is
 * there already. 0 or -errno.
 */
static int children_add(const struct wm_session *session, struct kernel *kernel)
{
	uint64_t ago_ns = ticks_monotonic_ns() - session->started_ns, began;
	uint64_t first = start_ticks() - ago_ns * (uint64_t)sysconf(_SC_CLK_TCK) / 1000000000u;
	pid_t *found = NULL, *pids;
	int count;

	for (size_t i = 0; i < kernel->known.room; i++) {
		const struct known_thread *thread = &kernel->known.all[i];

		if (thread->tid && !thread->has_ended && is_open_to_us(thread->pid, &began) &&
		    (!kernel->ended_ticks || began <= kernel->ended_ticks))
			pid_add(kernel, thread->pid);
	}
	count = descendants_glance(kernel->pids, kernel->pid_count, &found);
	pids = count > 0 ? reallocarray(kernel->pids, kernel->pid_count + (size_t)count,
					sizeof(*pids))
			 : NULL;
	kernel->pids = pids ? pids : kernel->pids;
	for (int i = 0; i < count && pids; i++)
		if (is_open_to_us(found[i], &began) && began >= first &&
		    is_in_scope(kernel, target_parent(found[i])))
			pid_add(kernel, found[i]);
	free(found);
	if (count < 0)
		return count;
	return count && !pids ? -ENOMEM : 0;
}

/* *claimants: so many of the pids are the session's own, and the others inherited their events. */
static int scope_find(struct wm_session *session, struct kernel *kernel, size_t *claimants)
{
	const struct wm_session_options *options = &session->options;
	size_t count = 0;
	int err = 0;

	kernel->cgroup_fd = -1;
	kernel->is_of_cpus = options->cpus != NULL;
	if (kernel->is_of_cpus) {
		err = strcmp(options->cpus, "all")
			      ? cpus_parse(options->cpus, &kernel->cpus, &kernel->cpu_count)
			      : 0;
		if (err)
			return session_fail(session, err, "CPUs %s", options->cpus);
		if (options->cgroup)
			kernel->cgroup_fd = open(options->cgroup,
						 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (options->cgroup && kernel->cgroup_fd < 0)
			return session_fail(session, -errno, "cgroup %s", options->cgroup);
		return 0;
	}
	for (const struct process *p = session->processes; p; p = p->next)
		count++;
	for (const struct live_process *p = session->live->processes; p; p = p->next)
		count++;
	count += kernel->known.count;
	kernel->pids = calloc(count + 1, sizeof(*kernel->pids));
	if (!kernel->pids)
		return -ENOMEM;
	for (const struct process *p = session->processes; p; p = p->next)
		if (process_is_usable(p) && !process_is_dead(p))
			pid_add(kernel, p->pid);
	for (const struct live_process *p = session->live->processes; p; p = p->next)
		pid_add(kernel, p->pid);
	*claimants = kernel->pid_count;
	if (kernel->is_changed && options->follow != WM_FOLLOW_NONE)
		err = children_add(session, kernel);
	if (err)
		return session_fail(session, err, "the processes' children");
	return kernel->pid_count
		       ? 0
		       : session_fail(session, -WM_E_GONE, "no process is left to record");
}

/* ---- which events the specs take ---- */

static int has_kind(const struct wm_session *session, enum kernel_kind kind)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].kernel && session->specs->all[i].kernel->kind == kind)
			return 1;
	return 0;
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

	if (!tracepoint_has_our_pids() ||
	    !switch_tracepoint("sched:sched_switch", &event, &format) ||
	    !switch_tracepoint("sched:sched_waking", &kernel->wakes_event, &kernel->wakes_format))
		return 0;
	event.wants |= SAMPLER_USER_IP | kernel->switch_wants;
	event.stack_bytes = kernel->switch_stack_bytes;
	source = source_add(kernel, &event);
	source->role = KERNEL_STATES;
	source->format = format;
	return 1;
}

/*
 * What `switch` takes beside the kernel's records of switches. By `way`: 0, tracepoints give state,
 * place and wakes; 1, a count of switches gives the place; 2, nothing more. Whether that is
 * permitted.
 */
static int switches_ask(struct kernel *kernel, int way)
{
	struct sampler_event place = { .what = { .name = "context-switches",
						 .type = PERF_TYPE_SOFTWARE,
						 .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
				       .period = 1,
				       .wants = SAMPLER_USER_IP | kernel->switch_wants,
				       .stack_bytes = kernel->switch_stack_bytes };

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

/* Departures have what any spec of switches asks for. */
static void switch_wants_find(const struct wm_session *session, struct kernel *kernel)
{
	int has_all = 0;

	for (size_t i = 0; i < session->specs->count; i++) {
		const struct kernel_request *request = session->specs->all[i].kernel;

		if (!request || request->kind != KERNEL_SWITCH)
			continue;
		has_all |= !request->test_count;
		kernel->switch_wants |= request->event.wants;
		if (request->event.stack_bytes)
			kernel->switch_stack_bytes = request->event.stack_bytes;
	}
	kernel->has_switch_tests = !has_all;
}

static int requests_ask(struct wm_session *session, struct kernel *kernel)
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

/* ---- the kernel, as one more process ---- */

static int event_declare(struct wm_session *session, struct kernel *kernel, uint32_t id,
			 const struct kernel_request *request, const struct tracepoint *format)
{
	struct process *process = kernel->process;
	uint8_t types[16] = { 0 };
	char text[2048];
	int has_callers = (kernel->switch_wants & SAMPLER_CALLERS) != 0;
	int err = kernel_event_text(id, request, format, has_callers, text, sizeof(text), types);

	if (!err)
		err = process_declare(session, process, id, types, text);
	session->markers += !err;
	return err;
}

int kernel_declare(struct kernel *kernel, uint32_t id)
{
	int err;

	if (kernel->declared >> id & 1)
		return 0;
	err = event_declare(kernel->session, kernel, id, NULL, NULL);
	kernel->declared |= (uint32_t)!err << id;
	return err;
}

static int events_declare(struct wm_session *session, struct kernel *kernel)
{
	int err = 0;

	for (size_t i = 0; i < kernel->event_count && !err; i++)
		if (kernel->sources[i].role == KERNEL_RECORDS)
			err = event_declare(session, kernel, kernel->sources[i].id,
					    kernel->sources[i].request, &kernel->sources[i].format);
	for (size_t i = 0; i < session->specs->count && !err; i++) {
		const struct kernel_request *request = session->specs->all[i].kernel;

		if (request && request->kind == KERNEL_COUNT)
			err = event_declare(session, kernel, KERNEL_SPECS + (uint32_t)i, request,
					    NULL);
	}
	return err;
}

static int process_make(struct wm_session *session, struct kernel *kernel)
{
	struct link none = { .fd = -1 };
	struct process *process;
	int err = process_new(&process, session, &none, 0);

	if (err)
		return err;
	process->is_kernel = 1;
	process->invited = 1;
	process->arming = PROCESS_ARMED; /* -> ARMED */
	process->exe = strdup("kernel");
	if (!process->exe)
		err = -ENOMEM;
	if (!err)
		err = own_store_new(&kernel->store, 0, session->options.buffer_bytes,
				    session_store_policy(session));
	if (!err)
		err = drain_new(&process->drain, own_store_fd(kernel->store), 0);
	process->state = PROCESS_HUNG_UP; /* NEW -> HUNG_UP */
	kernel->process = process;
	if (!err)
		err = process_trace(session, process);
	if (!err && session->watermark)
		err = watermark_add(session->watermark, process->drain);
	return err;
}

/* ---- its life ---- */

static void arrays_free(struct kernel *kernel)
{
	free(kernel->events);
	free(kernel->sources);
	free(kernel->claimed);
	free(kernel->count_events);
	free(kernel->count_groups);
	free(kernel->count_values);
	for (size_t i = 0; kernel->departing && i < COUNT_CPUS_MAX; i++)
		free(kernel->departing[i].callers);
	free(kernel->departing);
	known_release(&kernel->known);
	known_release(&kernel->named);
	free(kernel->pids);
	free(kernel->cpus);
	kernel_tasks_free(kernel->tasks);
	if (kernel->cgroup_fd >= 0)
		close(kernel->cgroup_fd);
}

static struct kernel *kernel_new(size_t specs)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));
	size_t counts = specs * KERNEL_GROUP_MAX;

	if (!kernel)
		return NULL;
	kernel->cgroup_fd = -1;
	kernel->events = calloc(specs + 2, sizeof(*kernel->events));
	kernel->sources = calloc(specs + 2, sizeof(*kernel->sources));
	kernel->count_events = calloc(counts, sizeof(*kernel->count_events));
	kernel->count_groups = calloc(counts, sizeof(*kernel->count_groups));
	kernel->count_values = calloc(counts, sizeof(*kernel->count_values));
	kernel->departing = calloc(COUNT_CPUS_MAX, sizeof(*kernel->departing));
	if (kernel->events && kernel->sources && kernel->count_events && kernel->count_groups &&
	    kernel->count_values && kernel->departing)
		return kernel;
	arrays_free(kernel);
	free(kernel);
	return NULL;
}

static int counts_start(struct wm_session *session, struct kernel *kernel)
{
	char words[512] = "";
	int err;

	if (!kernel->count_count)
		return 0;
	kernel->counts_request = (struct counts_request){
		.scope = kernel->is_of_cpus ? COUNTS_CPUS : COUNTS_PROCESSES,
		.events = kernel->count_events,
		.groups = kernel->count_groups,
		.event_count = kernel->count_count,
		.ids = kernel->pids,
		.id_count = kernel->pid_count,
		.cpus = kernel->cpus,
		.cpu_count = kernel->cpu_count,
		.cgroup_fd = kernel->cgroup_fd,
		.no_children = session->options.follow == WM_FOLLOW_NONE,
	};
	err = counts_open(&kernel->counts, &kernel->counts_request,
			  (struct detail){ words, sizeof(words) });
	return err ? session_fail(session, err, "%s", words) : 0;
}

/* One way to have switches: see switches_ask(). */
static int sampler_start(struct wm_session *session, struct kernel *kernel, int way)
{
	int wants_switches = has_kind(session, KERNEL_SWITCH), err;
	char words[512] = "";

	kernel->event_count = kernel->count_count = 0;
	switch_wants_find(session, kernel);
	if (wants_switches && !switches_ask(kernel, way))
		return -WM_E_PERF_DENIED;
	err = requests_ask(session, kernel);
	if (err || (!kernel->event_count && !wants_switches))
		return err;
	kernel->request = (struct sampler_request){
		.scope = kernel->is_of_cpus ? SAMPLER_CPUS : SAMPLER_PROCESSES,
		.events = kernel->events,
		.event_count = kernel->event_count,
		.switches = wants_switches,
		.tasks = 1,
		.pids = kernel->pids,
		.pid_count = kernel->pid_count,
		.cpus = kernel->cpus,
		.cpu_count = kernel->cpu_count,
		.cgroup_fd = kernel->cgroup_fd,
	};
	err = sampler_open(&kernel->sampler, &kernel->request,
			   (struct detail){ words, sizeof(words) });
	if ((err == -EINVAL || err == -ENOENT) && kernel->cgroup_fd >= 0)
		return session_fail(session, err, "%s: %s", session->options.cgroup, words);
	return err ? session_fail(session, err, "%s", words) : 0;
}

/* Wakes, on all CPUs. The CPUs of a cgroup's recording have those of its threads. */
static int waker_start(struct wm_session *session, struct kernel *kernel)
{
	char words[512] = "";
	int err;

	if (!kernel->has_wakes)
		return 0;
	kernel->wakes_request = (struct sampler_request){
		.scope = SAMPLER_CPUS,
		.events = &kernel->wakes_event,
		.event_count = 1,
		.cpus = kernel->cpus,
		.cpu_count = kernel->cpu_count,
		.cgroup_fd = -1,
	};
	err = sampler_open(&kernel->waker, &kernel->wakes_request,
			   (struct detail){ words, sizeof(words) });
	return err ? session_fail(session, err, "%s", words) : 0;
}

/* With as much of switches as is permitted. */
static int sampler_start_best(struct wm_session *session, struct kernel *kernel)
{
	int last = has_kind(session, KERNEL_SWITCH) ? 2 : 0, err = 0;

	for (int way = 0; way <= last; way++) {
		err = sampler_start(session, kernel, way);
		if (!err) {
			session->detail[0] = '\0'; /* of the ways before */
			return waker_start(session, kernel);
		}
		if (err != -WM_E_PERF_DENIED && err != -EACCES && err != -EPERM)
			return err;
	}
	return err;
}

/*
 * Claim a counter on each process, or on each of the session's CPUs, for each event that the specs
 * name. Kernel breakpoints take none.
 */
static int counters_claim(struct wm_session *session, const pid_t *pids, size_t pid_count)
{
	struct kernel *kernel = session->kernel;
	struct counts_request request = {
		.scope = kernel->is_of_cpus ? COUNTS_CPUS : COUNTS_PROCESSES,
		.ids = pids,
		.id_count = pid_count,
		.cpus = kernel->cpus,
		.cpu_count = kernel->cpu_count,
		.cgroup_fd = kernel->cgroup_fd,
	};
	struct count_event *events = calloc(session->specs->count * KERNEL_GROUP_MAX,
					    sizeof(*events));
	char words[512] = "";
	int err = !events || array_grow(&kernel->claimed, &kernel->claimed_room,
					kernel->claimed_count + 1, sizeof(*kernel->claimed))
			  ? -ENOMEM
			  : 0;

	for (size_t i = 0; i < session->specs->count && !err; i++) {
		const struct kernel_request *asked = session->specs->all[i].kernel;
		unsigned int groups = asked && asked->kind == KERNEL_COUNT ? asked->group_count : 0;

		for (unsigned int j = 0; j < groups; j++)
			events[request.event_count++] = asked->group[j];
		if (asked && !groups && asked->kind != KERNEL_SWITCH && asked->kind != KERNEL_WATCH)
			events[request.event_count++] = asked->event.what;
	}
	request.events = events;
	if (!err && request.event_count)
		err = counter_claims_take(&kernel->claimed[kernel->claimed_count], &request,
					  "kernel events", 0,
					  (struct detail){ words, sizeof(words) });
	kernel->claimed_count += !err && request.event_count;
	free(events);
	return err ? session_fail(session, err, "%s", words) : 0;
}

/* Claim the rings' memory, where it is locked, before anything is recorded. */
static int memory_claim(struct wm_session *session, struct kernel *kernel)
{
	struct sampler_coverage all = { 0 }, wakes = { 0 };
	struct ledger *ledger = session_ledger(session);
	char words[512] = "";
	int err;

	if (kernel->sampler)
		sampler_covered(kernel->sampler, &all);
	if (kernel->waker)
		sampler_covered(kernel->waker, &wakes);
	if (!all.locked_bytes)
		return 0;
	err = ledger ? claim_locked_bytes(ledger, all.locked_bytes + wakes.locked_bytes,
					  "kernel events", &kernel->claim,
					  (struct detail){ words, sizeof(words) })
		     : -ENOMEM;
	if (!err)
		ledger_confirm(ledger, &kernel->claim, 1);
	return err ? session_fail(session, err, "%s", words) : 0;
}

static void begin(struct wm_session *session)
{
	struct kernel *kernel = session->kernel;

	kernel->begun_ticks = start_ticks();
	/* first the wakes, else the first arrivals would be without */
	if (kernel->waker)
		sampler_enable(kernel->waker);
	if (kernel->sampler)
		sampler_enable(kernel->sampler);
	if (kernel->counts)
		counts_enable(kernel->counts);
	for (size_t i = 0; i < kernel->pid_count; i++)
		kernel_tasks_follow(kernel->tasks, kernel->pids[i]);
	/* with all CPUs: what is there already may end before its first event is read */
	for (const struct process *p = session->processes; p; p = p->next)
		if (!p->is_kernel)
			kernel_tasks_follow(kernel->tasks, p->pid);
	kernel_write_names(kernel);
	kernel_write_counts(kernel);
	if (kernel->has_switches)
		kernel_write_runnable(kernel);
	kernel->counted_ns = ticks_monotonic_ns();
	kernel->is_begun = 1;
}

static void coverage_get(const struct wm_session *session, struct kernel_coverage *coverage)
{
	const struct kernel *kernel = session->kernel;
	struct sampler_coverage sampled = { 0 };
	struct counts_coverage counted = { 0 };

	*coverage = kernel ? kernel->coverage : (struct kernel_coverage){ 0 };
	if (!kernel || !kernel->process)
		return;
	if (kernel->sampler)
		sampler_covered(kernel->sampler, &sampled);
	if (kernel->counts)
		counts_covered(kernel->counts, &counted);
	coverage->has_switches = kernel->has_switches;
	coverage->has_places = kernel->has_places;
	coverage->has_wakes = kernel->has_wakes;
	coverage->excludes_kernel |= sampled.excludes_kernel || counted.excludes_kernel;
	coverage->is_doubtful |= sampled.is_doubtful || counted.is_doubtful;
	coverage->cpus_back += sampled.cpus_back;
	coverage->throttled += sampled.throttled;
	coverage->unnamed += kernel_tasks_refused(kernel->tasks);
	coverage->privileged += kernel->privileged;
}

/* ---- what they lack, in words ---- */

/* For want of a privilege. */
static void begin_findings(const struct kernel_coverage *coverage, struct findings *list)
{
	if (coverage->has_switches && !coverage->has_wakes)
		finding_add(
			list, "kernel-wakes", FINDING_NOTE, "switches have no wakes%s: %s",
			coverage->has_places ? ", nor what a thread waits for"
					     : ", places, nor what a thread waits for",
			!geteuid() && !tracefs_events()
				? tracefs_missing()
				: "that takes root, or a readable /sys/kernel/tracing with kernel.perf_event_paranoid at -1");
	if (coverage->excludes_kernel)
		finding_add(
			list, "kernel-excluded", FINDING_NOTE,
			"kernel.perf_event_paranoid allows user space alone: what happens in the kernel is left out");
}

static void end_findings(const struct kernel_coverage *coverage, struct findings *list)
{
	finding_counted(
		list, "kernel-throttled", coverage->throttled, "time",
		"the kernel stopped an event for a while, as it came too often: take a lower freq, or a larger period");
	if (coverage->is_doubtful)
		finding_add(
			list, "kernel-threads", FINDING_LOSS,
			"a process could not be stopped: kernel events of threads that it started just then may be missing");
	finding_counted(
		list, "kernel-unnamed", coverage->unnamed, "process",
		"without names of functions: the trace has room for 4,096 that no agent reports");
	finding_counted(
		list, "kernel-privileged", coverage->privileged, "process",
		"executed a program with more privileges (setuid): the kernel ended the events there; -a records them");
	finding_counted(list, "kernel-cpus", coverage->cpus_back, "CPU", "came online meanwhile");
}

void kernel_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	struct kernel_coverage coverage;

	coverage_get(session, &coverage);
	if (is_over)
		end_findings(&coverage, list);
	else
		begin_findings(&coverage, list);
}

/* ---- while it runs ---- */

/* CPUs that came, or came back. */
static int follow(struct kernel *kernel, uint64_t now_ns)
{
	int err = 0;

	if (now_ns - kernel->followed_ns < FOLLOW_NS)
		return 0;
	kernel->followed_ns = now_ns;
	if (kernel->sampler)
		err = sampler_follow(kernel->sampler);
	if (!err && kernel->waker)
		err = sampler_follow(kernel->waker);
	if (!err && kernel->counts)
		err = counts_follow(kernel->counts);
	return err;
}

static int pump(struct wm_session *session)
{
	struct kernel *kernel = session->kernel;
	uint64_t now_ns, before;
	int err;

	if (!kernel || !kernel->process || !kernel->is_begun)
		return 0;
	now_ns = ticks_monotonic_ns();
	before = kernel->taken;
	err = follow(kernel, now_ns);
	if (!err && kernel->sampler)
		err = sampler_read(kernel->sampler, 0, kernel_take, kernel);
	if (!err && kernel->waker)
		err = sampler_read(kernel->waker, 0, kernel_take_wake, kernel);
	known_sweep(&kernel->known);
	kernel_tasks_attend(kernel->tasks);
	if (!err && now_ns - kernel->counted_ns >= COUNT_NS) {
		kernel->counted_ns = now_ns;
		kernel_write_counts(kernel);
	}
	return err ? err : (int)(kernel->taken - before);
}

static int answered(struct wm_session *session, struct process *process, uint16_t request)
{
	/* detours of the process are about to be run */
	if ((request == CONTROL_COMMIT || request == CONTROL_ADOPT) && session->kernel &&
	    session->kernel->process)
		kernel_tasks_moved(session->kernel->tasks, process->pid);
	return 0;
}

/* Record no more, and take the last. The store is then drained as that of a dead process. */
static void kernel_end(struct wm_session *session)
{
	struct kernel *kernel = session->kernel;

	if (!kernel)
		return;
	if (kernel->process && kernel->is_begun) {
		kernel->end_ns = ticks_monotonic_ns();
		if (kernel->sampler)
			sampler_disable(kernel->sampler);
		if (kernel->waker)
			sampler_disable(kernel->waker);
		/* before the rings are read, which may take long: they would be of a later time */
		kernel_write_counts(kernel);
		if (kernel->has_switches)
			kernel_write_runnable(kernel);
		if (kernel->sampler)
			sampler_read(kernel->sampler, 1, kernel_take, kernel);
		if (kernel->waker)
			sampler_read(kernel->waker, 1, kernel_take_wake, kernel);
		if (kernel->sampler)
			kernel_tasks_attend(kernel->tasks);
	}
	coverage_get(session, &kernel->coverage);
	sampler_close(kernel->sampler);
	sampler_close(kernel->waker);
	if (kernel->claim)
		ledger_remove(session_ledger(session), &kernel->claim, 1);
	kernel->claim = 0;
	counts_close(kernel->counts);
	while (kernel->claimed_count)
		counter_claims_give(&kernel->claimed[--kernel->claimed_count]);
	kernel->sampler = kernel->waker = NULL;
	kernel->counts = NULL;
	if (!kernel->process)
		return;
	if (kernel->store)
		own_store_quiet(kernel->store);
	kernel->process->arming = PROCESS_QUIET; /* ARMED -> QUIET */
	kernel->process->invited = 0;		 /* it may be forgotten once it is drained */
	kernel->process = NULL;
}

static void drop(struct wm_session *session)
{
	struct process *process = session->kernel ? session->kernel->process : NULL;

	if (!process)
		return;
	session->kernel->is_begun = 0;
	kernel_end(session);
	if (session->watermark && process->drain)
		watermark_remove(session->watermark, process->drain);
	drain_free(process->drain);
	process->drain = NULL;
}

static void kernel_free(struct kernel *kernel)
{
	if (!kernel)
		return;
	own_store_free(kernel->store);
	arrays_free(kernel);
	free(kernel);
}

static void release(struct wm_session *session)
{
	kernel_end(session);
	kernel_free(session->kernel);
	session->kernel = NULL;
}

/* At the session's end. */
static void end(struct wm_session *session)
{
	kernel_end(session);
}

/* The names of threads, which readers want of all in it. */
static void folder(struct wm_session *session)
{
	if (session->kernel)
		kernel_write_names(session->kernel);
}

static void results(struct wm_session *session)
{
	if (session->kernel)
		kernel_tasks_end(session->kernel->tasks);
}

/*
 * Open the events over the session's processes, or its CPUs: all or none; begin. What `before`
 * knows of threads, losses and the kernel's addresses goes on; NULL: it is the first.
 */
static int open_behind(struct wm_session *session, struct kernel *before, int is_changed)
{
	struct kernel *kernel = kernel_new(session->specs->count);
	size_t claimants = 0;
	int err;

	session->kernel = kernel;
	if (!kernel)
		return -ENOMEM;
	kernel->session = session;
	kernel->is_changed = is_changed;
	if (before) {
		kernel->ended_ticks = before->ended_ticks;
		kernel->known = before->known;
		before->known = (struct known_threads){ 0 };
		kernel->coverage = before->coverage;
	}
	err = kernel_tasks_new(&kernel->tasks, session);
	if (!err && before)
		kernel_tasks_continue(kernel->tasks, before->tasks);
	if (!err)
		err = scope_find(session, kernel, &claimants);
	if (!err)
		err = counters_claim(session, kernel->pids, claimants);
	if (!err)
		err = sampler_start_best(session, kernel);
	if (!err)
		err = memory_claim(session, kernel);
	if (!err)
		err = counts_start(session, kernel);
	if (!err)
		err = process_make(session, kernel);
	if (!err)
		err = events_declare(session, kernel);
	if (err) {
		kernel_end(session);
		return err;
	}
	if (kernel->ended_ticks) /* no record said which have ended since */
		known_release(&kernel->known);
	kernel->ended_ticks = 0;
	begin(session);
	return 0;
}

static int open_all(struct wm_session *session)
{
	if (!is_wanted(session))
		return 0;
	release(session);
	return open_behind(session, NULL, 0);
}

/* ---- a process that enters while the session runs ---- */

/*
 * Whether the process that started it had the events already: then it has them, too. The sampler
 * has a record of its start. Counts have none, so its ancestors are asked.
 */
static int has_inherited(struct kernel *kernel, pid_t pid)
{
	uint64_t until_ns = ticks_monotonic_ns() + FORKS_NS;

	if (is_in_scope(kernel, pid))
		return 1;
	/* a launched program waits for the session's next step, so the list may be empty */
	if (target_start_time(pid) < kernel->begun_ticks || target_parent(pid) == getpid())
		return 0;
	while (kernel->sampler && ticks_monotonic_ns() < until_ns) {
		if (known_pid(&kernel->known, pid))
			return 1;
		session_step(kernel->session, STEP_MS);
	}
	while (!kernel->sampler && pid > 1 && target_start_time(pid) >= kernel->begun_ticks) {
		pid = target_parent(pid);
		if (is_in_scope(kernel, pid))
			return 1;
	}
	return 0;
}

static int open_on(struct kernel *kernel, const pid_t *pid, int is_covered, struct detail detail)
{
	int err = 0;

	kernel->has_joined_sampler = kernel->has_joined_counts = 0;
	if (kernel->sampler && !is_covered) {
		err = sampler_join(kernel->sampler, pid, detail);
		kernel->has_joined_sampler = !err;
	}
	if (!err && kernel->counts && (!is_covered || kernel->counts_request.no_children)) {
		err = counts_join(kernel->counts, pid, detail);
		kernel->has_joined_counts = !err;
	}
	return err;
}

int kernel_join(struct wm_session *session, pid_t pid)
{
	struct kernel *kernel = session->kernel;
	char words[512] = "";
	int is_covered, err;
	pid_t *pids;

	if (!kernel)
		return 0;
	kernel->has_joined = 0;
	if (!kernel->process || !kernel->is_begun || kernel->is_of_cpus)
		return 0;
	is_covered = has_inherited(kernel, pid);
	pids = reallocarray(kernel->pids, kernel->pid_count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	kernel->pids = pids;
	kernel->request.pids = kernel->counts_request.ids = pids;
	kernel->claimed_before = kernel->claimed_count;
	err = is_covered ? 0 : counters_claim(session, &pid, 1);
	if (err)
		return err;
	kernel->pids[kernel->pid_count] = pid;
	kernel->has_joined = 1;
	err = open_on(kernel, &kernel->pids[kernel->pid_count++], is_covered,
		      (struct detail){ words, sizeof(words) });
	if (err) {
		kernel_part(session);
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	}
	if (kernel->has_joined_sampler)
		sampler_enable(kernel->sampler);
	if (kernel->has_joined_counts)
		counts_enable(kernel->counts);
	if (kernel->has_joined_sampler)
		kernel_write_joined(kernel, pid);
	return 0;
}

void kernel_part(struct wm_session *session)
{
	struct kernel *kernel = session->kernel;

	if (!kernel || !kernel->has_joined)
		return;
	if (kernel->has_joined_sampler)
		sampler_part(kernel->sampler);
	if (kernel->has_joined_counts)
		counts_part(kernel->counts);
	while (kernel->claimed_count > kernel->claimed_before)
		counter_claims_give(&kernel->claimed[--kernel->claimed_count]);
	kernel->has_joined = 0;
	kernel->pid_count--;
}

/* ---- as a source ---- */

static int owns(const struct spec *spec)
{
	return spec->kernel != NULL;
}

/* All begin again: what was recorded by then is that of one more process. */
static int change(struct wm_session *session, const struct source_change *change)
{
	struct process *process = session->kernel ? session->kernel->process : NULL;
	int err = 0;

	(void)change;
	kernel_end(session);
	if (process && session->writer)
		err = drain_session_finish(session, process);
	if (err)
		return err;
	if (!is_wanted(session)) {
		if (session->kernel)
			session->kernel->ended_ticks = start_ticks();
		return 0;
	}
	/* a child may end at any moment */
	for (int left = OPENS_MAX; left; left--) {
		struct kernel *before = session->kernel;

		err = open_behind(session, before, 1);
		kernel_free(before);
		if (err != -WM_E_GONE)
			break;
	}
	return err;
}

const struct source kernel_source = {
	.owns = owns,
	.has_cpus = 1,
	.change = change,
	.open = open_all,
	.drop = drop,
	.pump = pump,
	.alive = kernel_is_of_cpus,
	.enter = kernel_join,
	.part = kernel_part,
	.answered = answered,
	.end = end,
	.folder = folder,
	.results = results,
	.findings = kernel_findings,
	.release = release,
};
