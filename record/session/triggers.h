/* SPDX-License-Identifier: MIT */
/*
 * Triggers: specs whose events ask the recorder to write what it keeps in memory. A
 * trigger is recorded like any other spec. Its events are found as their packets are taken, so that
 * the program's own work is what it is without.
 */
#ifndef RECORD_SESSION_TRIGGERS_H
#define RECORD_SESSION_TRIGGERS_H

#include <stddef.h>
#include <stdint.h>

struct wm_session;

#define TRIGGERS_MAX 32

struct triggers {
	unsigned int count; /* specs; each has its number, 1 and up, in struct spec */
	uint64_t hits;	    /* events, so far */
	unsigned int last;  /* the number of the spec that the last one is of */
	uint64_t misfits;   /* events of a marker that lack a field of the condition */
};

/*
 * Add a spec of a marker or of probes as wm_session_add() does, or take one that is there, and make
 * it a trigger. The same errors, and -WM_E_SPEC for another kind, and for a marker's condition on
 * what is no field of its own; -E2BIG: there are TRIGGERS_MAX.
 */
int session_trigger_add(struct wm_session *session, const char *spec);

/* The triggers that an event with this text (abi/site.h) is of: a bit for each. */
uint32_t triggers_of(const struct wm_session *session, const char *text);

/* Count the triggers' hits in a packet that was taken of a process, by its number in the trace. */
void triggers_look(struct wm_session *session, int process, const void *content, size_t bytes);

#endif
