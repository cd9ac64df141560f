/* SPDX-License-Identifier: MIT */
#include "session/trail/native.h"

void native_note(struct natives *natives, uint32_t why, pid_t pid)
{
	if (why == ENGINE_NATIVE_NOT || why >= ENGINE_NATIVES)
		return;
	if (!natives->counts[why]++)
		natives->pids[why] = pid;
}

void native_add(struct natives *natives, const struct natives *more)
{
	for (int why = 0; why < ENGINE_NATIVES; why++) {
		if (!natives->counts[why])
			natives->pids[why] = more->pids[why];
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
		[ENGINE_NATIVE_ROOM] = "no room for translated code or for a thread",
		[ENGINE_NATIVE_CODE] = "an instruction that the engine does not translate",
		[ENGINE_NATIVE_TRACED] = "another process that traces it",
	};

	return words[why < ENGINE_NATIVES ? why : ENGINE_NATIVE_NOT];
}
