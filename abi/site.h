/* SPDX-License-Identifier: MIT */
/*
 * What waymark/marker.h leaves in a module: the site table, the markers' records, the note.
 *
 *   .note.waymark       found through PT_NOTE, so a stripped module has it too. Owner "Waymark",
 *                       type 1. The description is four self-relative int32: the bounds of the two
 *                       sections below. A module may hold several equal notes. patchelf moves the
 *                       note alone: then the table is found by its entries (base/site_table.h).
 *   waymark_sites       read-only, an array of struct wm_site; one entry for each copy of a site
 *                       that the compiler made by inlining, unrolling or cloning.
 *   waymark_markers     writable, an array of struct wm_record; one for each marker in the source:
 *                       sites that share one have the same name, kind and fields. Zero in the
 *                       file; only the agent writes it.
 *
 * Every reference is relative to the field that holds it: no relocation is needed, and a file can
 * be read without loading it.
 *
 * A dormant site is CMP imm32,%eax (3D), an armed one JMP rel32 (E9). The linker made the immediate
 * the jump's displacement, so one byte arms a site. A site built with -DWAYMARK_PORTABLE is CMPL
 * $0,armed(%rip); JNE, and arming is a store to wm_record.armed.
 *
 * The armed way enters the agent like this (marker.h, WM__ENTER):
 *
 *	lea   -128(%rsp), %rsp      over the red zone
 *	pushq payload               address of the fields, packed in order, rounded up to 8 bytes
 *	pushq record.agent_word
 *	call  *record.enter
 *	lea   144(%rsp), %rsp
 *
 * They are 32 aligned bytes of their own, with an FDE of their own. The site jumps there, and bytes
 * 26 to 30 are a jump back. The first and last instruction are ADD. Sites of earlier headers have
 * all in line.
 *
 * The callee keeps every register but the flags. Fields in the payload are packed without gaps:
 * integers and floats as themselves, bool and char one byte, a pointer 8, a string its 8-byte
 * pointer, a byte run {pointer, uint64 length}, an array {pointer, uint64 count of its elements}.
 */
#ifndef ABI_SITE_H
#define ABI_SITE_H

#include <stdint.h>
#include <waymark/marker/field.h>

#define SITE_DORMANT 0x3d
#define SITE_ARMED 0xe9
#define SITE_BYTES 5

#define SITE_ENTRY_BYTES 32
#define SITE_ENTRY_FIRST 0x48, 0x83, 0xc4, 0x80 /* add $-128, %rsp */
#define SITE_ENTRY_JUMP 26			/* JMP rel32 */

#define SITE_NOTE_OWNER "Waymark"
#define SITE_NOTE_TYPE 1

struct wm_site_note {
	int32_t sites_start, sites_stop;
	int32_t markers_start, markers_stop;
};

struct wm_site {
	int32_t site;	   /* to the instruction; 0 in the end of a scope, which has none */
	int32_t cold;	   /* to where it jumps while armed; 0 likewise */
	int32_t record;	   /* to its struct wm_record */
	int32_t text;	   /* to its text, below */
	uint8_t types[16]; /* WM_TYPE_*, 0 past the last field; of an array also WM_TYPE_ARRAY */
};

/*
 * The text is NUL-terminated, six parts divided by newlines:
 *
 *	KIND WAY     'm' event, 'i' inline block, 'b' 'e' begin and end of a span,
 *	             's' a row of sums (abi/sum.h), 'B' 'E' one of a span's begin and end;
 *	             'j' one-byte jump, 'p' portable flag; 'd' a detour (abi/detour.h),
 *	             which is in no site table. Of an event that was given an id, a digit may
 *	             follow: so many of its last fields are counts (abi/cost.h)
 *	SUBSYSTEM
 *	EVENT
 *	FILE         as given to the compiler
 *	LINE         and, behind a space, the level (base/level.h) of a marker that has one, or
 *	             of a probe that is a trigger (record/session/triggers.h) its number
 *	FIELDS       the arguments as written, divided by commas outside (), "" and ''
 */

#define SITE_TRIGGER "on" /* and the trigger's number: the word behind the LINE */

/* Bytes of a number or a pointer, of an array's element. 0: the type has no fixed size, or none. */
static inline uint8_t site_type_bytes(uint8_t type)
{
	static const uint8_t bytes[WM_TYPE_MASK + 1] = {
		[WM_TYPE_I8] = 1,   [WM_TYPE_U8] = 1,  [WM_TYPE_I16] = 2, [WM_TYPE_U16] = 2,
		[WM_TYPE_I32] = 4,  [WM_TYPE_U32] = 4, [WM_TYPE_I64] = 8, [WM_TYPE_U64] = 8,
		[WM_TYPE_BOOL] = 1, [WM_TYPE_F32] = 4, [WM_TYPE_F64] = 8, [WM_TYPE_PTR] = 8,
		[WM_TYPE_CHAR] = 1,
	};

	return bytes[type & WM_TYPE_MASK];
}

struct wm_record {
	uint64_t enter;	     /* the agent's stub; set before any site is armed, never changed */
	uint64_t agent_word; /* what the stub is given; likewise */
	uint32_t armed;	     /* portable sites only: not 0 while armed */
	uint32_t reserved;
	uint64_t reserved2;
};

_Static_assert(sizeof(struct wm_site_note) == 16, "as marker.h writes it");
_Static_assert(sizeof(struct wm_site) == 32, "as marker.h writes it");
_Static_assert(sizeof(struct wm_record) == 32, "as marker.h writes it");

#endif
