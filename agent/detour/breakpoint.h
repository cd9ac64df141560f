/* SPDX-License-Identifier: MIT */
/*
 * Breakpoints, control side: whether they can be had in this process, the signal's handler brought in and
 * out, and a look now and then whether all is still as it must be. Under the agent's lock.
 *
 *	off        no breakpoint stands
 *	guarded    before the guards are stored, so that no thread finds one that guards nothing
 *	on         the handler is in; breakpoints may be stored
 *	leaving    none stands any more, but a thread may still be about to be given the signal of one
 */
#ifndef AGENT_DETOUR_BREAKPOINT_H
#define AGENT_DETOUR_BREAKPOINT_H

#include "agent/detour/detour.h"
#include "agent/patch/text.h"

int detour_is_breakpoint(const struct detour *detour);
int detour_is_guard(const struct detour *detour);

/* Guards are about to be stored. off -> guarded. */
void breakpoint_guard(void);

/*
 * The guards stand, breakpoints in the batch are about to be stored. guarded -> on. 0, or why none may be:
 * -WM_E_TRAP_GUARDS, -WM_E_TRAP_IGNORED, -WM_E_TRAP_MASKED, -WM_E_TRAP_FILTER, -errno.
 */
int breakpoint_begin(void);

/* A detour is made. 0 or -WM_E_DETOUR_MEMORY. */
int breakpoint_make(const struct detour *detour);

/* Its breakpoint is about to be stored. 0 or -WM_E_DETOUR_MEMORY. */
int breakpoint_place(const struct detour *detour);

int breakpoint_any_stands(void);

/* What became of it is known. */
void breakpoint_settle(const struct detour *detour);

/* on, leaving -> guarded, if no breakpoint stands and no thread is about to be given its signal; else an error. */
int breakpoint_end(const struct text *text);

/* The guards are gone. guarded -> off. */
void breakpoint_unguard(void);

/*
 * Whether the breakpoints that stand may stay: 0, or why not: -WM_E_TRACED, -WM_E_TRAP_BLOCKED,
 * -WM_E_TRAP_REPLACED, -WM_E_TRAP_FILTER. They may be taken away without stopping anybody.
 */
int breakpoint_watch(void);

/*
 * Watches want the handler, too, whether breakpoints stand or not (agent/watch/watch.h). One that masks SIGTRAP does not
 * kill there: it has SIGTRAP taken out of its mask, as those that are set later, and counts as masking it. The guards
 * stand. guarded, on, leaving -> on, until it is given back. 0, or why it can't be had: as breakpoint_begin().
 */
int breakpoint_lend(void);

/* No watch's signal can come any more. */
void breakpoint_give_back(void);

/* Whether what watches rely on is as it was: 0, -WM_E_TRACED, -WM_E_TRAP_REPLACED, -WM_E_TRAP_FILTER. */
int breakpoint_watch_lent(void);

/* The child of a fork. */
void breakpoint_forked(void);

#endif
