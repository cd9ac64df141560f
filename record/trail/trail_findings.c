/* SPDX-License-Identifier: MIT */
/* How a session's trails were recorded, and what of them was not, in words. */
#include "record/session/findings.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/trail_request.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static void origin_findings(const struct wm_session *session, struct findings *list)
{
	const struct trail_request *request = spec_trail(session->specs);
	const struct live *live = session->live;

	if (!request || !request->is_auto || !live->has_origin)
		return;
	finding_add(list, "origin", FINDING_NOTE, "the trail's origin is %s%s",
		    origin_name(live->origin),
		    live->origin == ORIGIN_SOFT ? ", a translation of the program" : "");
	for (int i = 0; i < ORIGINS; i++) {
		const struct origin_state *state = &live->origins[i];
		char subject[32];

		if (!state->error)
			continue;
		snprintf(subject, sizeof(subject), "not %s", origin_name((enum origin)i));
		finding_part(list, "not-origin", subject, state->error, state->detail)
			->severity = FINDING_DETAIL;
	}
}

/* In words, for use in parentheses. */
static const char *native_words(enum engine_native why)
{
	static const char *const words[ENGINE_NATIVES] = {
		[ENGINE_NATIVE_NOT] = "",
		[ENGINE_NATIVE_FILTER] = "a seccomp filter",
		[ENGINE_NATIVE_DISPATCH] = "syscall user dispatch",
		[ENGINE_NATIVE_CLOCK] = "no time stamp counter: PR_SET_TSC",
		[ENGINE_NATIVE_GS] = "the gs segment, which it set",
		[ENGINE_NATIVE_MEMORY] = "memory that it maps where the engine's is",
		[ENGINE_NATIVE_ROOM] = "no memory for translated code",
		[ENGINE_NATIVE_CODE] = "code that the engine does not translate",
		[ENGINE_NATIVE_REACH] = "no memory for code can be mapped in reach of its code",
		[ENGINE_NATIVE_STUCK] = "a thread that stayed in discarded translations",
		[ENGINE_NATIVE_THREAD] = "no memory for a thread",
		[ENGINE_NATIVE_TRACED] = "another process that traces it",
		[ENGINE_NATIVE_FORBIDDEN] = "new code is forbidden: PR_SET_MDWE, or a security module",
		[ENGINE_NATIVE_UNREAD] = "code that it can run and not read",
		[ENGINE_NATIVE_LIMIT] = "a limit of its memory: RLIMIT_AS, RLIMIT_DATA",
		[ENGINE_NATIVE_LOCKED] = "all its memory is locked: mlockall(2)",
	};

	return words[why < ENGINE_NATIVES ? why : ENGINE_NATIVE_NOT];
}

/* What the user can do about it. */
static const char *native_hint(enum engine_native why)
{
	switch (why) {
	case ENGINE_NATIVE_ROOM:
	case ENGINE_NATIVE_THREAD:
		return "raise its memory limits (ulimit -v, cgroup), or free memory";
	case ENGINE_NATIVE_STUCK:
		return "record on a machine with less load";
	case ENGINE_NATIVE_TRACED:
		return "record it without the process that traces it";
	default:
		return "on a processor with Intel PT, trail/pt/ records it";
	}
}

/* The same of children that were never recorded, the hint behind "; ". */
static const char *unfollowed_words(enum engine_unfollowed why)
{
	static const char *const words[ENGINE_UNFOLLOWEDS] = {
		[ENGINE_UNFOLLOWED_SHARES] = "it shares its parent's memory or descriptors (clone(2)); "
					     "record it by itself: trail/pt/, -p PID",
		[ENGINE_UNFOLLOWED_NAMESPACE] =
			"it is in a PID namespace of its own; record it by itself: -p PID",
		[ENGINE_UNFOLLOWED_ATTACHED] =
			"trail/soft/ follows no children of a program that was running before; "
			"launch it",
		[ENGINE_UNFOLLOWED_MANY] =
			"more processes than are followed at a time (4,096), or no answer in time; "
			"run fewer at once",
		[ENGINE_UNFOLLOWED_ROOM] = "its limit of memory has no room for the engine; "
					   "raise RLIMIT_AS (ulimit -v)",
		[ENGINE_UNFOLLOWED_DESCRIPTORS] =
			"it can have no descriptor more; raise RLIMIT_NOFILE (ulimit -n)",
		[ENGINE_UNFOLLOWED_FILTER] =
			"it has a seccomp filter; record it by itself: trail/pt/, -p PID",
		[ENGINE_UNFOLLOWED_CLOSED] =
			"it may not be traced (PR_SET_DUMPABLE, another tracer); record as root",
		[ENGINE_UNFOLLOWED_VFORKED] = "a child of vfork(2) made it; record it by itself: -p PID",
		[ENGINE_UNFOLLOWED_LATE] = "it or its parent ended first, or no answer came in time; "
					   "record with less load",
	};

	return words[why < ENGINE_UNFOLLOWEDS ? why : ENGINE_UNFOLLOWED_LATE];
}

static void native_findings(const struct natives *natives, struct findings *list)
{
	for (int why = 1; why < ENGINE_NATIVES; why++) {
		const char *words = native_words((enum engine_native)why);
		uint32_t count = natives->counts[why];
		double after = (double)natives->after_ns[why] / 1e9;
		char who[64];
		struct finding *finding;

		if (!count)
			continue;
		snprintf(who, sizeof(who), count == 1 ? "process %d" : "%d processes",
			 count == 1 ? (int)natives->pids[why] : (int)count);
		finding = finding_add(
			list, "native", FINDING_LOSS,
			"%s went on natively (%s)%s after %.2f s: nothing is recorded from then on",
			who, words, count == 1 ? "" : ", the first", after);
		finding->count = count;
		finding->pid = (pid_t)natives->pids[why];
		finding->remedy = native_hint((enum engine_native)why);
	}
}

static void unfollowed_findings(const struct wm_session *session, struct findings *list)
{
	const struct live *live = session->live;
	struct wm_session_status status = { 0 };
	uint64_t rest;

	trail_source.status(session, &status);
	rest = status.trail_unfollowed;
	if (!rest)
		return;

	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++) {
		uint32_t count = live->natives.unfollowed[why];

		finding_counted(list, "unfollowed", count, "child process",
				"went on unrecorded: %s",
				unfollowed_words((enum engine_unfollowed)why));
		rest -= count < rest ? count : rest;
	}
	finding_counted(
		list, "unfollowed", rest, "child process", "went on unrecorded: %s",
		status.trail_processes >= SOFT_PROCESSES_MAX
			? "at most 4,096 processes are followed at a time; run fewer at once, "
			  "or see \"CHILDREN\" in waymark-trail(7) for other causes"
			: "\"CHILDREN\" in waymark-trail(7) has the causes");
}

void trail_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	const struct live *live = session->live;

	if (!is_over) {
		origin_findings(session, list);
		return;
	}
	native_findings(&live->natives, list);
	if (live->losses[0])
		finding_add(list, "trail-losses", FINDING_LOSS,
			    "the trail is not all that was asked for: %s", live->losses);
	finding_counted(list, "trail-foreign", live->foreign, "process",
			"executed a program that is not x86-64; the trail ends there");
	finding_counted(list, "trail-privileged", live->privileged, "process",
			"executed a program that gains rights; the trail ends there");
	unfollowed_findings(session, list);
}
