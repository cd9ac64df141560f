/* SPDX-License-Identifier: MIT */
/* Markers as a source: the agent arms what globs match, and each module that comes. */
#include "abi/page.h"
#include "abi/sum.h"
#include "base/fieldname.h"
#include "base/level.h"
#include "base/predicate.h"
#include "base/similar_names.h"
#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "target/process/stop_threads.h"
#include "target/process/target.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define REQUEST_WAIT_MS 5000
#define STOPPED_WAIT_MS 500 /* how long to keep a program stopped */
#define STRICT_TRY_NS 5000000000u
#define RULES_BYTES_MAX (CONTROL_BYTES_MAX - 1024)
#define NAME_BYTES 512

static int owns(const struct spec *spec)
{
	return spec->glob != NULL;
}

/* ---- arming ---- */

/*
 * Make the system calls that the agent will make for counts. Returns how many seccomp filters let
 * the calling thread do so: one that does not may end us, and no target.
 */
static long calls_try(void)
{
	struct timespec now;
	struct rusage usage;
	long filters = target_filters(gettid());
	uint32_t word = 0;

	(void)!syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
	(void)!syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
	(void)!syscall(SYS_tgkill, getpid(), gettid(), 0);
	(void)!syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
	return filters > 0 ? filters : 0;
}

/* Before the markers are armed: each spec's glob with its mask and number of callers. */
static int send_costs(struct wm_session *session, struct process *process)
{
	long filters = spec_costs(session->specs) ? calls_try() : 0;
	int err = 0;

	for (size_t i = 0; i < session->specs->count && !err; i++) {
		const struct spec *spec = &session->specs->all[i];
		struct control_cost cost = { .count = 1,
					     .kinds = spec->costs,
					     .filters = (uint32_t)filters,
					     .callers = spec->callers };
		struct iovec parts[] = { { &cost, sizeof(cost) },
					 { spec->glob, spec->glob ? strlen(spec->glob) + 1 : 0 } };

		if (spec->costs || spec->callers)
			err = process_request(process, CONTROL_COST, parts, 2);
	}
	return err;
}

/* Before the markers are armed: each spec's glob with its predicates and sums, also one without. */
static int send_predicates(struct wm_session *session, struct process *process)
{
	int err = 0;

	if (!spec_marker_predicates(session->specs))
		return 0;
	for (size_t i = 0; i < session->specs->count && !err; i++) {
		const struct spec *spec = &session->specs->all[i];
		struct control_predicates head = { .count = spec->predicate_count,
						   .is_summed = spec->sums.is_wanted != 0,
						   .sums = (uint16_t)spec->sums.count };
		struct iovec parts[] = {
			{ &head, sizeof(head) },
			{ (void *)spec->predicates,
			  spec->predicate_count * sizeof(spec->predicates[0]) },
			{ (void *)spec->sums.fields,
			  spec->sums.count * sizeof(spec->sums.fields[0]) },
			{ spec->glob, spec->glob ? strlen(spec->glob) + 1 : 0 },
		};

		if (spec->glob)
			err = process_request(process, CONTROL_PREDICATES, parts, 4);
	}
	return err;
}

/* Rules that are to be sent with all other threads stopped, so that none runs code meanwhile. */
struct rules {
	const struct spec *specs;
	size_t count;
	uint16_t type;
};

static int send_rules(struct process *process, const struct rules *list, int strict)
{
	struct control_rules rules = { .strict = (uint32_t)strict };
	struct iovec parts[2] = { { &rules, sizeof(rules) } };
	size_t bytes = 0;
	char *globs;
	int err;

	for (size_t i = 0; i < list->count; i++)
		if (list->specs[i].glob)
			bytes += strlen(list->specs[i].glob) + 1;
	if (bytes > RULES_BYTES_MAX)
		return -E2BIG;
	globs = malloc(bytes + 1);
	if (!globs)
		return -ENOMEM;
	parts[1] = (struct iovec){ globs, bytes };
	bytes = 0;
	for (size_t i = 0; i < list->count; i++) {
		if (!list->specs[i].glob)
			continue;
		rules.count++;
		strcpy(globs + bytes, list->specs[i].glob);
		bytes += strlen(list->specs[i].glob) + 1;
	}
	err = process_request(process, list->type, parts, 2);
	free(globs);
	return err;
}

static int send_stopped_once(struct wm_session *session, struct process *process,
			     const struct rules *rules)
{
	struct stop *stop = NULL;
	int err = stop_threads(process->pid, (pid_t)process->hello.agent_tid, &stop);

	if (err)
		return err;
	session->stops++;
	err = send_rules(process, rules, 1);
	if (!err)
		err = session_wait(session, process, STOPPED_WAIT_MS);
	stop_resume(stop);
	session->stops--;
	return err;
}

/*
 * A thread may have been stopped while it held the agent's lock, or while the loader unloaded a
 * module. Then the agent answers -EBUSY, or waits for that thread and does not answer. So let all
 * threads run for a while, longer each time, and try again.
 */
static int send_stopped(struct wm_session *session, struct process *process,
			const struct rules *rules)
{
	uint64_t until = ticks_monotonic_ns() + STRICT_TRY_NS;
	unsigned int pause_us = 1000;
	int err;

	for (;;) {
		err = send_stopped_once(session, process, rules);
		if ((err != -EBUSY && err != -WM_E_AGENT_SILENT && err != -WM_E_STRICT) ||
		    ticks_monotonic_ns() > until)
			return err;
		if (err == -WM_E_AGENT_SILENT)
			session_wait(session, process, REQUEST_WAIT_MS);
		process->error = 0;
		usleep(pause_us);
		if (pause_us < 50000)
			pause_us *= 2;
	}
}

static int send(struct wm_session *session, struct process *process, const struct spec *specs,
		size_t count, uint16_t type)
{
	struct rules rules = { specs, count, type };

	return session->options.strict ? send_stopped(session, process, &rules)
				       : send_rules(process, &rules, 0);
}

static int ask(struct wm_session *session, struct process *process)
{
	const struct spec_list *specs = session->specs;
	int err = send_costs(session, process);

	if (!err)
		err = send_predicates(session, process);
	return err || !spec_count(specs, SPEC_OF(glob))
		       ? err
		       : send(session, process, specs->all, specs->count, CONTROL_ARM);
}

/* If a spec has matched nothing, ask which markers exist, for "did you mean" hints. */
static int arm(struct wm_session *session, struct process *process)
{
	for (size_t i = 0; i < session->specs->count; i++) {
		if (!session->specs->all[i].glob || session->specs->all[i].matches)
			continue;
		if (!process->named && !process_request(process, CONTROL_LIST, NULL, 0)) {
			process->named = 1;
			session_wait(session, process, ANSWER_WAIT_MS);
		}
		break;
	}
	process->error = 0;
	return 0;
}

static int quiet(struct wm_session *session, struct process *process)
{
	if (process->outside || !process_is_usable(process) || !session->options.strict ||
	    process->arming != PROCESS_ARMED || !spec_count(session->specs, SPEC_OF(glob)))
		return 0;
	return send(session, process, NULL, 0, CONTROL_DISARM);
}

/* ---- changing ---- */

/* Its markers may be armed for another spec: then no event is declared again. */
static void count_known(struct wm_session *session, const struct process *process, size_t first)
{
	const struct event_list *events = process->events;
	char name[NAME_BYTES];

	for (size_t i = 0; i < events->count; i++) {
		if (spec_name_of(events->all[i].text, name, sizeof(name)))
			continue;
		for (size_t j = first; j < session->specs->count; j++)
			if (spec_matches(&session->specs->all[j], name))
				session->specs->all[j].placed = ++session->specs->all[j].matches;
	}
}

static int change_one(struct wm_session *session, struct process *process,
		      const struct source_change *change)
{
	const struct spec_list *specs = session->specs;
	int err = 0, was_any = 0;

	process->error = 0;
	for (size_t i = 0; i < change->gone_count; i++)
		was_any |= owns(&change->gone[i]);
	if (was_any)
		err = send(session, process, change->gone, change->gone_count, CONTROL_DISARM);
	/* those that another spec names, too, were disarmed with them */
	if (!err && spec_count(specs, SPEC_OF(glob)))
		err = send(session, process, specs->all, specs->count, CONTROL_ARM);
	if (!err || err == -WM_E_NO_MARKER)
		err = session_wait_armed(session, process);
	if (!err)
		count_known(session, process, change->first);
	return err == -WM_E_GONE ? 0 : err;
}

/* The agent adds what a marker counts, its callers and predicates to what it had before. */
static int check_fixed(struct wm_session *session, const struct spec *specs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (specs[i].costs || specs[i].callers || specs[i].predicate_count ||
		    specs[i].sums.is_wanted)
			return session_fail(session, -WM_E_SPEC_FIXED, "%s", specs[i].text);
	return 0;
}

static int change(struct wm_session *session, const struct source_change *change)
{
	int err = check_fixed(session, change->gone, change->gone_count);

	/* a spec that comes would not undo the predicates of one that is there */
	if (!err)
		err = check_fixed(session, session->specs->all,
				  spec_marker_predicates(session->specs) ? session->specs->count
									 : 0);
	if (!err)
		err = check_fixed(session, session->specs->all + change->first,
				  session->specs->count - change->first);
	for (struct process *p = session->processes; p && !err; p = p->next)
		if (process_is_armed(p))
			err = change_one(session, p, change);
	return err;
}

/* ---- messages ---- */

/* Copy "FILE:LINE" of a site's text (abi/site.h) to place[]; "" if it has none. */
static void site_place(const char *text, char *place, size_t bytes)
{
	const char *file = text, *line, *end;

	place[0] = 0;
	for (int i = 0; file && i < 3; i++) {
		file = strchr(file, '\n');
		file = file ? file + 1 : NULL;
	}
	line = file ? strchr(file, '\n') : NULL;
	end = line ? line + 1 + strcspn(line + 1, " \n") : NULL; /* a level may be behind */
	if (end && *end)
		snprintf(place, bytes, "%.*s:%.*s", (int)(line - file), file, (int)(end - line - 1),
			 line + 1);
}

/* The names of fields in a spec's predicates, then in its sums. NULL ends. */
static const char *wanted_field(const struct spec *spec, unsigned int number)
{
	if (number < spec->predicate_count)
		return spec->predicates[number].name;
	number -= spec->predicate_count;
	return number < spec->sums.count ? spec->sums.fields[number].name : NULL;
}

/*
 * Words about a marker without the field that a predicate or sum names: ": rowz; did you mean
 * rows?"; or about one whose field can't be compared or added up so.
 */
static void predicate_words(const struct spec_list *specs, const char *name, const char *text,
			    char *words, size_t room)
{
	static char names[WM_FIELDS_MAX][FIELDNAME_BYTES];
	const char *fields = strrchr(text, '\n'), *near[WM_FIELDS_MAX], *lack;
	int count = fields ? fieldname_list(fields + 1, 0, names) : 0;
	char meant[160];

	count = count < WM_FIELDS_MAX ? count : WM_FIELDS_MAX;
	if (count)
		fieldname_list(fields + 1, count, names);
	for (int i = 0; i < count; i++)
		near[i] = names[i];
	for (size_t i = 0; i < specs->count; i++) {
		const struct spec *spec = &specs->all[i];
		const char *field;

		if (!spec_matches(spec, name))
			continue;
		snprintf(words, room, ": a field can't be %s",
			 spec->sums.is_wanted ? "added up" : "compared so");
		for (unsigned int k = 0; (field = wanted_field(spec, k)) != NULL; k++) {
			uint8_t type;
			int at = 0;

			while (at < count && strcmp(names[at], field) != 0)
				at++;
			if (at < count || !strcmp(field, LEVEL_WORD) ||
			    !strcmp(field, FIELD_CALLCHAIN) ||
			    (k >= spec->predicate_count && !strcmp(field, SUM_CALLER)) ||
			    (strcmp(field, SUM_CALLER) && predicate_context(field, &type)))
				continue;
			lack = predicate_lack(field);
			similar_words(field, near, (size_t)count, meant, sizeof(meant));
			snprintf(words, room, ": it has no field %s%s", field,
				 *lack ? lack : meant);
			return;
		}
	}
}

static int refused_take(struct wm_session *session, struct process *process,
			const struct link_message *message)
{
	struct control_refused head;
	char name[NAME_BYTES], place[NAME_BYTES], other[NAME_BYTES];
	char detail[2 * NAME_BYTES + 384], words[320] = "";
	const char *text, *second, *cause;

	if (message->bytes <= sizeof(head))
		return -WM_E_PROTOCOL;
	memcpy(&head, message->body, sizeof(head));
	text = (const char *)message->body + sizeof(head);
	if (text[0] && text[1] == 'd')
		return 1; /* a probe's */
	if (spec_name_of(text, name, sizeof(name)))
		return 0;
	/* a refused marker matches its spec all the same; the session's detail has the reason */
	/* it counts as armed under another tool's breakpoint: that is no error of the spec */
	spec_count_match(session->specs, name, head.error == -WM_E_SITE_CHANGED);
	site_place(text, place, sizeof(place));
	second = text + strlen(text) + 1;
	other[0] = 0;
	if (head.error == -WM_E_FIELD_TYPES &&
	    second < (const char *)message->body + message->bytes)
		site_place(second, other, sizeof(other));
	if (head.error == -WM_E_FIELD_TYPES && !other[0])
		snprintf(words, sizeof(words), ": its handler has other types");
	else if (head.error == -EEXIST)
		snprintf(
			words, sizeof(words),
			": another spec takes it too, and one has sums in place of events, or both "
			"the duration of spans");
	else if (head.error == -ENOTSUP)
		snprintf(words, sizeof(words),
			 ": a span with its duration has no counts, 15 fields at most, and 4 texts "
			 "in its begin");
	else if (head.error == -WM_E_NO_PARAMETER || head.error == -WM_E_FIELD_TYPE)
		predicate_words(session->specs, name, text, words, sizeof(words));
	snprintf(detail, sizeof(detail), "%s%s%s%s", place, other[0] ? " and " : "", other, words);
	cause = wm_error_text(head.error);
	if (head.address)
		session_fail(session, head.error, "%s at %s (0x%llx): %s", name, detail,
			     (unsigned long long)head.address, cause);
	else
		session_fail(session, head.error, "%s at %s: %s", name, detail, cause);
	return probe_refused_marker(session, process, &head, name, detail);
}

static int marker_take(struct wm_session *session, const struct link_message *message)
{
	char name[NAME_BYTES];

	if (message->bytes <= sizeof(struct control_marker))
		return -WM_E_PROTOCOL;
	if (spec_name_of((const char *)message->body + sizeof(struct control_marker), name,
			 sizeof(name)))
		return 0;
	return name_list_add(session->names, name);
}

static int message(struct wm_session *session, struct process *process,
		   const struct link_message *message)
{
	switch (message->type) {
	case CONTROL_REFUSED:
		return refused_take(session, process, message);
	case CONTROL_MARKER:
		return marker_take(session, message);
	default:
		return 1;
	}
}

const struct source marker_source = {
	.owns = owns,
	.has_agent = 1,
	.change = change,
	.ask = ask,
	.arm = arm,
	.quiet = quiet,
	.message = message,
};
