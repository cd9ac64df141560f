/* SPDX-License-Identifier: MIT */
#include "inside/watch/sound.h"

#include "inside/marker/module.h"
#include "inside/watch/condition.h"

#include <waymark/marker.h>

#include <signal.h>
#include <string.h>

#define SIGNALS 64

static int is_size_of(uint8_t type, unsigned int bytes)
{
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_U8:
	case WM_TYPE_BOOL:
	case WM_TYPE_CHAR:
		return bytes == 1;
	case WM_TYPE_I16:
	case WM_TYPE_U16:
		return bytes == 2;
	case WM_TYPE_I32:
	case WM_TYPE_U32:
	case WM_TYPE_F32:
		return bytes == 4;
	case WM_TYPE_I64:
	case WM_TYPE_U64:
	case WM_TYPE_F64:
	case WM_TYPE_PTR:
		return bytes == 8;
	default:
		return 0;
	}
}

static int is_sound_frame(const struct control_watch *about)
{
	if (about->flags & WATCH_FRAME_ENTRY &&
	    (about->on != WATCH_ON_EXECUTE || !(about->flags & WATCH_COUNT_ONLY) ||
	     about->flags & WATCH_OF_FRAME))
		return 0;
	return !(about->flags & WATCH_OF_FRAME && about->on == WATCH_ON_EXECUTE) &&
	       about->group < FRAME_GROUPS_MAX && about->frame < FRAMES_MAX;
}

static int is_sound_follow(const struct control_watch *about)
{
	if (!(about->flags & WATCH_FOLLOWS))
		return 1;
	if (about->flags & WATCH_LEADS && (about->on != WATCH_ON_WRITE || about->bytes != 8 ||
					   !(about->flags & WATCH_COUNT_ONLY)))
		return 0;
	return (about->flags & WATCH_FOLLOWS) != WATCH_FOLLOWS && about->on != WATCH_ON_EXECUTE &&
	       !(about->flags & (WATCH_OF_FRAME | WATCH_FRAME_ENTRY)) &&
	       about->group < FOLLOWS_MAX && about->frame <= FOLLOW_POINTERS_MAX && !about->address;
}

int sound_is(const struct control_watch *about, const char *text, size_t bytes)
{
	int is_part = (about->flags & WATCH_WITH_OFFSET) != 0;

	if (!about->bytes || about->bytes > WATCH_BYTES_MAX || about->bytes & (about->bytes - 1) ||
	    (about->on != WATCH_ON_EXECUTE && about->address % about->bytes))
		return 0;
	if (about->on < WATCH_ON_WRITE || about->on > WATCH_ON_EXECUTE ||
	    about->flags & ~(WATCH_COUNT_ONLY | WATCH_WITH_OFFSET | WATCH_FRAME_ENTRY |
			     WATCH_MOVES | WATCH_KEEPS_TRAIL))
		return 0;
	if (!is_sound_frame(about) || !is_sound_follow(about))
		return 0;
	if (is_part ? about->type != WM_TYPE_U64 : !is_size_of(about->type, about->bytes))
		return 0;
	if (about->bits && (is_part || about->bit + (unsigned int)about->bits > 8u * about->bytes))
		return 0;
	if (about->signal > SIGNALS || about->signal == SIGTRAP ||
	    about->callers > WATCH_CALLERS_MAX || about->number > UINT16_MAX || !about->magic)
		return 0;
	for (unsigned int i = 0; i < WATCH_CONDITIONS_MAX; i++) {
		const struct watch_condition *condition = &about->conditions[i];

		if (condition->of && !condition_is_sound(condition, about->bytes))
			return 0;
	}
	if (about->event != about->number || about->flags & WATCH_COUNT_ONLY)
		return !bytes;
	return bytes && bytes <= SITE_TEXT_MAX && !text[bytes - 1] && strlen(text) == bytes - 1;
}
