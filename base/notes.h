/* SPDX-License-Identifier: MIT */
/*
 * Walk the notes of an ELF segment, or of the kernel, in memory. They may be hostile: what is cut
 * off ends them.
 */
#ifndef BASE_NOTES_H
#define BASE_NOTES_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct note {
	uint32_t type;
	uint32_t owner_bytes, body_bytes;
	const char *owner;
	const uint8_t *body;
};

/* How they are padded: to 4 bytes, or to 8 in a segment that says so (gABI; .note.gnu.property). */
static inline size_t notes_padding(const Elf64_Phdr *segment)
{
	return segment->p_align == 8 ? 8 : 4;
}

/* The note at *at, which begins as 0 and becomes the next one's place. 1, or 0: no more. */
static inline int notes_next(const uint8_t *notes, size_t bytes, size_t padding, size_t *at,
			     struct note *note)
{
	Elf64_Nhdr head;
	size_t body;

	if (*at > bytes || bytes - *at < sizeof(head))
		return 0;
	memcpy(&head, notes + *at, sizeof(head));
	body = (*at + sizeof(head) + head.n_namesz + padding - 1) & ~(padding - 1);
	if (body > bytes || head.n_descsz > bytes - body)
		return 0;
	*note = (struct note){ .type = head.n_type,
			       .owner_bytes = head.n_namesz,
			       .body_bytes = head.n_descsz,
			       .owner = (const char *)notes + *at + sizeof(head),
			       .body = notes + body };
	*at = (body + head.n_descsz + padding - 1) & ~(padding - 1);
	return 1;
}

static inline int notes_is(const struct note *note, const char *owner, uint32_t type)
{
	return note->type == type && note->owner_bytes == strlen(owner) + 1 &&
	       !memcmp(note->owner, owner, note->owner_bytes);
}

#endif
