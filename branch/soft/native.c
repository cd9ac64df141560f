/* SPDX-License-Identifier: MIT */
#include "branch/soft/native.h"

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
	};

	return words[why < ENGINE_NATIVES ? why : ENGINE_NATIVE_NOT];
}

const char *native_hint(enum engine_native why)
{
	static const char step[] = "trail/step/ records it, slowly";

	switch (why) {
	case ENGINE_NATIVE_ROOM:
	case ENGINE_NATIVE_THREAD:
		return "raise its memory limits (ulimit -v, cgroup), or free memory";
	case ENGINE_NATIVE_STUCK:
		return "record on a machine with less load";
	case ENGINE_NATIVE_TRACED:
		return "record it without the process that traces it";
	default:
		return step;
	}
}
