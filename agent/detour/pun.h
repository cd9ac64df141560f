/* SPDX-License-Identifier: MIT */
/*
 * Punned jumps (abi/detour.h): the 5 bytes that one leads to, its landing, from which a jump leads on to
 * the trampoline. Pages for landings are mapped where the distance wants them, are shared by all landings
 * that lie in them, and stay, like all of the agent's code: PUN_PAGES_MAX at most.
 *
 * A page is mapped only where nothing is, and where nothing may grow into: not within 1 GiB above the end
 * of the heap (brk(2), looked at each time, whether there is a heap yet or not), not within 1 GiB below
 * the main stack, and not within 64 MiB below private anonymous memory that can be written, which may be a
 * stack that grows (MAP_GROWSDOWN) though nothing says so; not below 1 MiB, nor where the kernel allows
 * none. Under the agent's lock.
 */
#ifndef AGENT_DETOUR_PUN_H
#define AGENT_DETOUR_PUN_H

#include "abi/detour.h"

#include <stddef.h>
#include <stdint.h>

#define PUN_PAGES_MAX 512u
#define PUN_DATA_ROOM ((uintptr_t)64 << 20)

/*
 * Choose where a punned jump of this record leads, by its free bytes, and have a page there. Fills in the
 * span_bytes first bytes of the jump and *landing. Returns 0; -WM_E_PUN_TAKEN, something else is there;
 * -WM_E_PUN_GROWTH, the heap or a stack may grow there; -WM_E_PUN_OUTSIDE; -WM_E_DETOUR_MEMORY, too many
 * pages; -WM_E_NO_TEXT_WRITE, -errno.
 */
int pun_take(const struct control_detour *record, uint8_t *jump, uintptr_t *landing);

/* A landing that is not used after all. Its page stays for others. */
void pun_untake(uintptr_t landing);

/* Bytes of pages mapped so far. */
size_t pun_mapped(void);

#endif
