/* SPDX-License-Identifier: MIT */
#ifndef AGENT_MARKER_HIT_H
#define AGENT_MARKER_HIT_H

#include <stdint.h>

/*
 * What goes into the wm_record.enter of a marker with these field types: one of the stubs
 * below, by the payload's shape (plan.h). See abi/site.h.
 */
uint64_t hit_entry(const uint8_t types[16]);

/* What detours enter by, whatever their fields. */
uint64_t hit_entry_detour(void);

/*
 * While a program's thread runs code of the agent's that may call libc, detours see nothing; but what a
 * signal handler of the program's does in between is the program's own. So this is where the stretch
 * began on the stack; 0: there is none. In the agent's own threads it lasts for good.
 */
extern __thread uintptr_t hit_shut_at
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
#define HIT_SHUT_FOR_GOOD UINTPTR_MAX

/* Begin such a stretch in the calling function; returns what hit_open() is to be given at its end. */
static inline __attribute__((always_inline)) uintptr_t hit_shut(void)
{
	uintptr_t before = hit_shut_at;

	if (before != HIT_SHUT_FOR_GOOD)
		hit_shut_at = (uintptr_t)__builtin_frame_address(0);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return before;
}

static inline void hit_open(uintptr_t before)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	hit_shut_at = before;
}

/* Whether a hit at this stack pointer is none. Hit path. */
int hit_is_shut(uintptr_t sp);

struct marker;

/* A hit that no stub stands for, with its payload's fields; `sp` is the caller's own. Hit path. */
void hit_now(const struct marker *marker, const uint64_t *payload, uintptr_t sp);

/* One that could not be taken: counted as lost with each session that has the event. Hit path. */
void hit_discard(const struct marker *marker);

/* arch/: the stubs. */
void hit_enter_fixed(void);
void hit_enter_text(void);
void hit_enter_refs(void);
void hit_enter_detour(void);

#endif
