/* SPDX-License-Identifier: MIT */
/*
 * Landings (abi/detour.h): 5 bytes each, with a jump to a trampoline, in pages that are mapped
 * where the distances lead. New ones are mapped in one call. Their contents come from a memfd that
 * is sealed first, so that it can't be changed, and then closed. One page of it serves many
 * mappings: each landing has its own place in the page, and no code jumps to the other bytes of it.
 * Pages stay for ever. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_LANDING_H
#define INSIDE_DETOUR_LANDING_H

#include "base/pun.h"
#include "inside/patch/text.h"

#include <stddef.h>
#include <stdint.h>

/* The jump of a detour. */
struct jump {
	uint8_t form;  /* enum detour_form */
	uint8_t count; /* of landings; 0: it leads to the trampoline itself */
	uint8_t kept;  /* bytes behind the instruction that the distance ends in */
	struct pun_bytes bytes;
	uintptr_t landings[PUN_LANDINGS_MAX];
};

/*
 * Choose where a jump leads that is written in this way, and reserve its landings; the bytes of a
 * whole jump come with landing_aim(). Returns 0; -WM_E_PUN_TAKEN: something is there, or may grow
 * there; -WM_E_DETOUR_MEMORY; -ENOMEM, -errno.
 */
int landing_take(const struct control_detour *record, const struct pun_window *window,
		 struct jump *jump);

/*
 * All of the jump's landings lead to the trampoline. Returns 0, -WM_E_DETOUR_REACH, or
 * text_write_code()'s errors.
 */
int landing_aim(const struct text *text, const struct control_detour *record,
		const struct pun_window *window, struct jump *jump, uintptr_t code);

/* They are not used after all. */
void landing_untake(const struct jump *jump);

/*
 * Map what is new. A page that can't be had is refused to each jump that needs it: landing_error().
 * Without memory or a descriptor for the file all pages stay new, and the next call tries again.
 */
void landing_map(void);

/*
 * 0: all of the jump's landings are there; -EAGAIN: they are still to be mapped; else why one can't
 * be had.
 */
int landing_error(const struct jump *jump);

/* The jump that a landing holds. */
void landing_bytes(uintptr_t landing, uint8_t bytes[DETOUR_JUMP_BYTES]);

/* The program has mapped something else there, or nothing: no jump may lead there any more. */
void landing_lose(uintptr_t landing);

/* Whether a page of landings is in [start, end), or is about to be. */
int landing_is_in(uintptr_t start, uintptr_t end);

/* Pages mapped so far. */
size_t landing_pages(void);

#endif
