/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/native.h"

void native_note(struct natives *natives, uint32_t why, pid_t pid, uint64_t after_ns)
{
	if (why == ENGINE_NATIVE_NOT || why >= ENGINE_NATIVES)
		return;
	if (natives->counts[why]++)
		return;
	natives->pids[why] = pid;
	natives->after_ns[why] = after_ns;
}

void native_add(struct natives *natives, const struct natives *more)
{
	for (int why = 0; why < ENGINE_NATIVES; why++) {
		if (!natives->counts[why]) {
			natives->pids[why] = more->pids[why];
			natives->after_ns[why] = more->after_ns[why];
		}
		natives->counts[why] += more->counts[why];
	}
	for (int why = 0; why < ENGINE_UNFOLLOWEDS; why++)
		natives->unfollowed[why] += more->unfollowed[why];
}

const char *native_words(enum engine_native why)
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

const char *native_hint(enum engine_native why)
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

const char *native_unfollowed_words(enum engine_unfollowed why)
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
