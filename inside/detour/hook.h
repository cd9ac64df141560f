/* SPDX-License-Identifier: MIT */
/*
 * Knowing at once when modules come and go: the loader calls an empty function, for debuggers, each
 * time its list of modules changes (r_brk, _dl_debug_state in glibc), in the thread that loads or
 * unloads, under the loader's lock. We divert that function while somebody needs to know.
 *
 * At RT_ADD and RT_DELETE the list is about to change; at RT_CONSISTENT it has. A new module is
 * mapped by then, but none of its own code has run: what is armed there catches even its
 * constructors.
 */
#ifndef INSIDE_DETOUR_HOOK_H
#define INSIDE_DETOUR_HOOK_H

#include "inside/patch/text.h"

/*
 * Divert. `changed` is called with RT_CONSISTENT, RT_ADD or RT_DELETE, in a program thread that
 * holds the loader's lock. Returns 0; -ENOSYS if the function isn't there or is not as we know it
 * (a debugger's breakpoint is on it, say): then look at the list now and then instead. Under the
 * agent's lock.
 */
int hook_place(const struct text *text, void (*changed)(int state));

/* Undo it, unless somebody has changed the place since. Under the agent's lock. */
void hook_remove(const struct text *text);

int hook_is_placed(void);

/* Whether the code that is diverted, now or the next time, has bytes in [start, end). */
int hook_stands_in(uintptr_t start, uintptr_t end);

#endif
