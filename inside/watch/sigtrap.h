/* SPDX-License-Identifier: MIT */
/*
 * The target's SIGTRAP, which reports hits to watches, control side: the handler is installed for
 * the first watch and removed after the last one. Under the agent's lock.
 *
 *	off        no watch
 *	guarded    before the guards (guard.h) are stored, so that no thread runs a guard that
 *		   guards nothing; until they are gone
 *	on         the handler is in; the kernel's events may be enabled
 *	leaving    no watch any more, but a thread may still be about to receive the signal of a hit
 */
#ifndef INSIDE_WATCH_SIGTRAP_H
#define INSIDE_WATCH_SIGTRAP_H

/*
 * Once: from here on guards can be placed (struct detour_guards). begin() is off -> guarded, end()
 * is guarded -> off, may_end() is leaving -> guarded: it puts the target's own handler and masks
 * back; -EAGAIN where a watch needs the handler, or a thread is about to receive a hit's signal.
 */
void sigtrap_init(void);

/*
 * A watch needs the handler. guarded, on, leaving -> on. A thread or handler that blocks SIGTRAP
 * has it removed from its mask, and the guards report it as blocked. 0, or why not:
 * -WM_E_TRAP_GUARDS, -WM_E_TRAP_IGNORED, -WM_E_TRAP_FILTER, -WM_E_TRAP_REPLACED, -errno.
 */
int sigtrap_take(void);

/* No watch's signal can come any more. on -> leaving. */
void sigtrap_restore(void);

/* Whether watches may stay: 0, -WM_E_TRACED, -WM_E_TRAP_REPLACED, -WM_E_TRAP_FILTER. */
int sigtrap_look(void);

/* The child of a fork. */
void sigtrap_forked(void);

#endif
