/* SPDX-License-Identifier: MIT */
#include "read/history/course.h"

#include <errno.h>
#include <sys/syscall.h>

/*
 * Where the block's bytes that ran end: all of them, if the event behind it does not say otherwise.
 */
static uint32_t end_of(const struct trail_path *path, size_t part, uint32_t id,
		       const struct trail_block *block)
{
	const struct trail_part *next = part + 1 < path->count ? &path->parts[part + 1] : NULL;

	if (id + 1 < path->parts[part].count || !next || next->count || !next->between.left)
		return block->bytes;
	return (uint32_t)(next->between.at - block->start);
}

/* Its run has been looked at. */
static const struct trail_block *block_at(const struct course *course, uint32_t *id)
{
	const struct trail_part *part;

	if (course_is_over(course))
		return NULL;
	part = &course->path->parts[course->at.part];
	if (!part->count)
		return NULL;
	*id = trail_run_id(&course->at.run, course->at.id);
	return &part->table->blocks[*id];
}

/* After a move: skip blocks that did not run, and select the right table. */
static void settle(struct course *course)
{
	const struct trail_block *block;
	uint32_t id;

	for (;;) {
		const struct trail_part *part = &course->path->parts[course->at.part];

		if (course_is_over(course) || !part->count)
			return;
		trail_cursor_run(&course->at);
		block = block_at(course, &id);
		if (course->from < end_of(course->path, course->at.part, course->at.id, block)) {
			if (!course->table || course->table->table != part->table)
				course->table = alike_table(course->alike, course->side,
							    part->table, course->image);
			return;
		}
		course->from = 0;
		if (++course->at.id >= part->count) {
			course->at.part++;
			course->at.id = 0;
		}
	}
}

int course_begin(struct course *course, struct alike *alike, int side,
		 const struct trail_path *path, struct image *image)
{
	const struct trail_table *last = NULL;

	*course = (struct course){
		.path = path, .alike = alike, .image = image, .side = side, .at = { .path = path }
	};
	for (size_t i = 0; i < path->count; i++) {
		const struct trail_table *table = path->parts[i].table;

		if (!table || table == last)
			continue;
		if (!alike_table(alike, side, table, image))
			return -ENOMEM;
		last = table;
	}
	settle(course);
	return 0;
}

const struct trail_between *course_event(const struct course *course)
{
	const struct trail_part *part = &course->path->parts[course->at.part];

	return course_is_over(course) || part->count ? NULL : &part->between;
}

uint32_t course_point(const struct course *course, struct alike_point *point)
{
	const struct trail_block *block = block_at(course, &point->id);

	if (!block)
		return 0;
	point->table = course->table;
	point->from = course->from;
	return end_of(course->path, course->at.part, course->at.id, block) - course->from;
}

int course_is_same(const struct course *a, const struct course *b)
{
	struct alike_point pa, pb;
	uint32_t left_a = course_point(a, &pa), left_b = course_point(b, &pb);

	return left_a && left_b && alike_range(&pa, &pb, left_a < left_b ? left_a : left_b);
}

uint64_t course_index(const struct course *course)
{
	return course_is_over(course) ? course->path->blocks
				      : course->path->parts[course->at.part].before + course->at.id;
}

void course_pass_event(struct course *course)
{
	course->at.part++;
	course->at.id = 0;
	settle(course);
}

int course_pass_bytes(struct course *course, uint32_t bytes)
{
	struct alike_point point;
	uint32_t left = course_point(course, &point), to = course->from + bytes;
	int is_whole = to == course->table->table->blocks[point.id].bytes;

	course->before = (struct alike_point){ point.table, point.id, to };
	course->from = to;
	if (bytes == left)
		settle(course);
	return is_whole;
}

void course_pass_blocks(struct course *course, uint32_t count)
{
	const struct trail_part *part = &course->path->parts[course->at.part];

	if (!count)
		return;
	course->at.id += count - 1;
	course->before.table = course->table;
	course->before.id = trail_run_id(trail_cursor_run(&course->at), course->at.id);
	course->at.id++;
	course->before.from = part->table->blocks[course->before.id].bytes;
	if (course->at.id >= part->count) {
		course->at.part++;
		course->at.id = 0;
	}
	settle(course);
}

void course_seek(struct course *course, uint64_t index)
{
	trail_seek(&course->at, index);
	course->from = 0;
	course->before = (struct alike_point){ 0 };
	settle(course);
}

int course_kind(const struct course *course)
{
	const struct trail_block *block;

	if (!course->before.table)
		return -1;
	block = &course->before.table->table->blocks[course->before.id];
	return course->before.from == block->bytes ? block->kind : -1;
}

static int is_return(const struct trail_between *event, uint64_t interrupted)
{
	return event->event == TRAIL_SYSCALLED &&
	       (event->values[0] == SYS_rt_sigreturn || (interrupted && event->at == interrupted));
}

int course_pass_signal(struct course *course)
{
	const struct trail_between *event = course_event(course);
	uint64_t interrupted = event->at;
	struct course kept = *course;
	unsigned int depth = 0;

	do {
		if (!event) {
			course_pass_blocks(course, course->path->parts[course->at.part].count -
							   course->at.id);
			event = course_event(course);
			continue;
		}
		if (event->event == TRAIL_SIGNAL && event->values[1])
			depth++;
		else if (depth && is_return(event, depth == 1 ? interrupted : 0))
			depth--;
		else if (event->event >= TRAIL_LOST && event->event != TRAIL_FORK)
			break;
		course_pass_event(course);
		event = course_event(course);
	} while (depth && !course_is_over(course));
	if (!depth) {
		course->before = kept.before;
		return 1;
	}
	*course = kept;
	return 0;
}
