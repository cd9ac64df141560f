/* SPDX-License-Identifier: MIT */
#include "record/session/life.h"

#include "record/session/process.h"
#include "target/process/target.h"
#include "target/process/ticks.h"
#include "trace/process_records.h"
#include "trace/writer.h"

#include <time.h>
#include <unistd.h>

static int is_same(const struct process *a, const struct process *b)
{
	return a != b && a->pid == b->pid &&
	       (a->life.start_time == b->life.start_time || !a->life.start_time ||
		!b->life.start_time);
}

/* Find another entry with the same pid: an earlier program, or one from outside beside an agent. */
static const struct process *life_other(const struct wm_session *session,
					const struct process *process)
{
	for (const struct process *p = session->processes; p; p = p->next)
		if (is_same(p, process))
			return p;
	return NULL;
}

static enum life_kind life_way(const struct wm_session *session, const struct process *process)
{
	const struct process *other = life_other(session, process);

	if (process->outside) /* an entry beside an agent is no process of its own */
		return other ? LIFE_UNKNOWN : LIFE_START;
	if (process->hello.forked)
		return LIFE_FORK;
	/* a program that a recorded one executes connects by itself */
	return other || !process->invited ? LIFE_EXEC : LIFE_START;
}

/* When the kernel created the process, CLOCK_MONOTONIC, rounded down to a clock tick of 10 ms. */
static uint64_t forked_ns(const struct process *process)
{
	uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start_ns = process->life.start_time * tick_ns; /* CLOCK_BOOTTIME */
	/* in this order: else the difference may be negative on a machine that never slept */
	uint64_t monotonic_ns = ticks_clock_ns(CLOCK_MONOTONIC),
		 boot_ns = ticks_clock_ns(CLOCK_BOOTTIME);
	uint64_t suspended_ns = boot_ns > monotonic_ns ? boot_ns - monotonic_ns : 0;

	return start_ns > suspended_ns ? start_ns - suspended_ns : 0;
}

void life_begin(const struct wm_session *session, struct process *process)
{
	uint64_t told_ns = process->hello_ns ? process->hello_ns : process->since_ns, fork_ns;

	if (process->life.begin_ns || !process->drain || process->is_kernel)
		return;
	process->life.start_time = target_start_time(process->pid);
	if (!process_has_number(process))
		process->life.start_time = 0;
	process->life.way = (char)life_way(session, process);
	/* a child writes to its parent's store before it reaches us */
	if (process->life.way == LIFE_FORK && process->life.start_time) {
		fork_ns = forked_ns(process);
		told_ns = fork_ns < told_ns ? fork_ns : told_ns;
	}
	process->life.begin_ns = session_wall_ns(session, told_ns);
	/* rounding must not put its begin before that of its parent */
	for (const struct process *p = session->processes; p; p = p->next)
		if (process->life.way == LIFE_FORK && p->pid == (pid_t)process->hello.ppid &&
		    p->life.begin_ns > process->life.begin_ns && p->number < process->number)
			process->life.begin_ns = p->life.begin_ns;
}

/*
 * The kernel frees a process's memory before the process is a zombie, but execve(2) frees it, too.
 */
static int is_ending(const struct process *process)
{
	return process_is_dead(process) || (process->unmapped && target_is_exiting(process->pid));
}

void life_end(struct wm_session *session, struct process *process)
{
	const struct process *other = life_other(session, process);
	/* the session may end before it has read that the connection is closed */
	uint64_t ended_ns = process->hung_up_ns ? process->hung_up_ns : ticks_monotonic_ns();

	if (!process->life.way || process->life.end_ns || process->pidfd < 0 || !is_ending(process))
		return;
	/* it executed another program, and that entry has the end */
	if (other && other->number > process->number && !other->outside)
		return;
	process->life.end_ns = session_wall_ns(session, ended_ns);
	if (session->writer && process->trace >= 0)
		trace_process_end(session->writer, process->trace, process->life.end_ns);
}

static int hand_out(struct wm_session *session, const struct process *process, enum life_kind kind,
		    uint64_t ns, int (*event)(const struct wm_event *event, void *data), void *data)
{
	const struct fact_process about = { .pid = (uint32_t)process->pid,
					    .ppid = process->hello.ppid,
					    .exe = process->exe };
	struct wm_event_field fields[LIFE_FIELDS];
	struct wm_event record;

	process_life_event(&record, fields, kind, &about, ns, &session->numbers);
	session->told_process = process->number;
	return event(&record, data);
}

int life_read(struct wm_session *session, struct process *process,
	      int (*event)(const struct wm_event *event, void *data), void *data)
{
	int result = 0;

	if (!session->options.process_events)
		return 0;
	if (process->life.way && !process->life.is_begin_read) {
		process->life.is_begin_read = 1;
		result = hand_out(session, process, (enum life_kind)process->life.way,
				  process->life.begin_ns, event, data);
	}
	if (!result && process->life.end_ns && !process->life.is_end_read) {
		process->life.is_end_read = 1;
		result = hand_out(session, process, LIFE_END, process->life.end_ns, event, data);
	}
	return result;
}

int life_read_begins(struct wm_session *session,
		     int (*event)(const struct wm_event *event, void *data), void *data)
{
	int result = 0;

	while (session->options.process_events && !result) {
		struct process *first = NULL;

		/* the list has the newest first: find the oldest */
		for (struct process *p = session->processes; p; p = p->next)
			if ((p->life.way == LIFE_START || p->life.way == LIFE_FORK) &&
			    !p->life.is_begin_read)
				first = p;
		if (!first)
			break;
		result = life_read(session, first, event, data);
	}
	return result;
}

struct process *life_older(const struct process *process)
{
	struct process *older = process->next;

	if (process->life.way != LIFE_EXEC || process->life.is_begin_read)
		return NULL;
	while (older && !(is_same(older, process) && older->drain && !older->outside))
		older = older->next;
	return older;
}

int life_is_due(const struct wm_session *session, struct process *process)
{
	if (!session->options.process_events || !process->life.way)
		return 0;
	return !process->life.is_begin_read ||
	       (process->drain && process->state == PROCESS_HUNG_UP &&
		session_reach(session, process) == DRAIN_ALL);
}
