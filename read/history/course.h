/* SPDX-License-Identifier: MIT */
/*
 * A trail that is walked to compare it with another. The position is before an event, or at a byte
 * of a block, since one trail's blocks may be cut where the other's are not.
 */
#ifndef READ_HISTORY_COURSE_H
#define READ_HISTORY_COURSE_H

#include "read/history/alike.h"
#include "trace/trail/path.h"

struct course {
	const struct trail_path *path;
	struct alike *alike;
	struct image *image;
	int side;
	struct trail_cursor at;
	uint32_t from; /* bytes of the block at the cursor that it has behind it */
	const struct alike_table *table; /* of the block at the cursor */
	struct alike_point before;	 /* the last block that it went through; table NULL: none */
};

/* Stand before the first item. 0 or -ENOMEM; after 0 nothing below can fail for want of memory. */
int course_begin(struct course *course, struct alike *alike, int side,
		 const struct trail_path *path, struct image *image);

/* The event behind the position; NULL: a block, or the end. */
const struct trail_between *course_event(const struct course *course);

static inline int course_is_over(const struct course *course)
{
	return course->at.part >= course->path->count;
}

/* The block at the position; returns its bytes that are left to run; 0: at an event or the end. */
uint32_t course_point(const struct course *course, struct alike_point *point);

/* Whether both are in the same code: compares the rest of the shorter block. */
int course_is_same(const struct course *a, const struct course *b);

/* Blocks of the path before this place. */
uint64_t course_index(const struct course *course);

/* Go over the event. */
void course_pass_event(struct course *course);

/*
 * Go over so many bytes, no more than course_point() said. 1 when the block's last instruction was
 * among them.
 */
int course_pass_bytes(struct course *course, uint32_t bytes);

/* Pass `count` whole blocks of the current part, from its begin. */
void course_pass_blocks(struct course *course, uint32_t count);

/* Go to before the block of that index. */
void course_seek(struct course *course, uint64_t index);

/*
 * Pass the signal behind the position, and its handler. 1; or 0, and nothing has changed, if the
 * handler is not seen to return.
 */
int course_pass_signal(struct course *course);

/*
 * The block gone through last ended in an instruction of this kind; -1: none did, or not all of it
 * ran.
 */
int course_kind(const struct course *course);

#endif
