/* SPDX-License-Identifier: MIT */
#include "inside/detour/record.h"

#include "inside/detour/detour.h"
#include "inside/marker/field.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <string.h>

#define SITE_TEXT_PARTS 6

static size_t round_up8(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/*
 * A NUL-terminated text of six lines, as abi/site.h has it. Its bytes with the NUL; 0 if it is
 * none.
 */
static size_t text_length(const char *text, size_t room)
{
	const char *end = memchr(text, 0, room);
	unsigned int lines = 1;

	if (!end || end - text >= SITE_TEXT_MAX || end - text < 3 || text[1] != 'd' ||
	    text[2] != '\n')
		return 0;
	for (const char *at = text; at < end; at++)
		lines += *at == '\n';
	return lines == SITE_TEXT_PARTS ? (size_t)(end - text) + 1 : 0;
}

static int lay_out(const struct control_detour *record, size_t bytes, struct record_layout *layout)
{
	const char *start = (const char *)record;
	size_t texts = record->flags & DETOUR_RETURN ? 2 : 1;

	layout->code = sizeof *record;
	layout->fixups = layout->code + round_up8(record->code_bytes);
	layout->texts = layout->fixups + record->fixup_count * sizeof(struct detour_fixup);
	if (layout->texts > bytes)
		return -WM_E_PROTOCOL;
	layout->end = layout->texts;
	for (size_t i = 0; i < texts; i++) {
		layout->text[i] = start + layout->end;
		layout->text_bytes[i] = text_length(start + layout->end, bytes - layout->end);
		if (!layout->text_bytes[i])
			return -WM_E_PROTOCOL;
		layout->end += layout->text_bytes[i];
	}
	return round_up8(layout->end) == bytes ? 0 : -WM_E_PROTOCOL;
}

static int check_types(const uint8_t types[16])
{
	unsigned int i = 0;

	for (; i < 16 && types[i]; i++) {
		/* a run of bytes can't be read with care */
		if (types[i] > FIELD_TYPE_MASK || !field_payload_bytes[types[i]] ||
		    types[i] == WM_TYPE_BYTES)
			return -WM_E_PROTOCOL;
	}
	for (; i < 16; i++) {
		if (types[i])
			return -WM_E_PROTOCOL;
	}
	return 0;
}

/* Strings have a pointer's bytes here. */
static int check_returns(const struct control_detour *record)
{
	for (unsigned int i = 0; i < 16 && record->types[1][i]; i++) {
		if (record->return_at[i] + field_payload_bytes[record->types[1][i]] >
		    DETOUR_RETURN_BYTES)
			return -WM_E_PROTOCOL;
	}
	return 0;
}

static int check_head(const struct control_detour *record)
{
	uint64_t end = record->address + detour_owned(record);
	uint32_t guard = record->flags & DETOUR_GUARDS;

	if (record->bytes % 8 || record->code_bytes < DETOUR_JUMP_BYTES ||
	    record->code_bytes > DETOUR_CODE_MAX || record->fixup_count > DETOUR_FIXUPS_MAX ||
	    !record->insn_bytes || record->insn_bytes > DETOUR_INSN_MAX ||
	    record->kept_bytes > DETOUR_KEPT_MAX ||
	    record->flags & ~(DETOUR_RETURN | DETOUR_SECRETIVE | DETOUR_RETURN_FLOAT | DETOUR_CALL |
			      DETOUR_GUARDS | DETOUR_ELSE | DETOUR_SAFE | DETOUR_RETURN_PARTS))
		return -WM_E_PROTOCOL;
	if (guard & (guard - 1) || (guard && record->flags & (DETOUR_RETURN | DETOUR_SECRETIVE)))
		return -WM_E_PROTOCOL;
	if (end < record->address || record->point > record->address)
		return -WM_E_PROTOCOL;
	if (record->flags & DETOUR_SECRETIVE && !(record->flags & DETOUR_RETURN))
		return -WM_E_PROTOCOL;
	if (check_types(record->types[0]) || check_types(record->types[1]))
		return -WM_E_PROTOCOL;
	return check_returns(record);
}

static size_t fixup_bytes(const struct detour_fixup *fixup)
{
	return fixup->kind == FIXUP_REL32 ? 4 : 8;
}

static int check_parts(const struct control_detour *record, const struct detour_fixup *fixups)
{
	static const uint8_t link[] = DETOUR_LINK;
	const uint8_t *code = (const uint8_t *)(record + 1);

	if (!record->link_at != !!(record->flags & DETOUR_GUARDS) ||
	    record->moved_at > record->code_bytes)
		return -WM_E_PROTOCOL;
	if (record->link_at && (record->link_at + sizeof link > record->code_bytes ||
				memcmp(code + record->link_at, link, sizeof link) != 0))
		return -WM_E_PROTOCOL;
	for (unsigned int i = 0; i < record->fixup_count; i++) {
		const struct detour_fixup *fixup = &fixups[i];
		int is_return = fixup->kind == FIXUP_RETURN_WORD ||
				fixup->kind == FIXUP_RETURN_ENTER;

		if (fixup->kind < FIXUP_REL32 || fixup->kind > FIXUP_RETURN_ENTER ||
		    fixup->offset + fixup_bytes(fixup) > record->code_bytes ||
		    (is_return && !(record->flags & DETOUR_RETURN)))
			return -WM_E_PROTOCOL;
	}
	return 0;
}

int record_check(const struct control_detour *record, size_t bytes, struct record_layout *layout)
{
	int error = record->bytes <= bytes && record->bytes >= sizeof *record ? check_head(record)
									      : -WM_E_PROTOCOL;

	if (!error)
		error = lay_out(record, record->bytes, layout);
	if (!error)
		error = check_parts(record, (const struct detour_fixup *)((const char *)record +
									  layout->fixups));
	return error;
}
