/* SPDX-License-Identifier: MIT */
#include "read/history/divergence.h"

#include "base/array.h"
#include "base/name_match.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define PATTERN_MAX 32u /* blocks that are the same after a loss */
#define PATTERN_MIN 4u	/* at a trail's end there may be no more */

/* Libraries whose way depends on more than what the program asks of them. */
static const char *const libraries[] = {
	"ld-linux*.so*", "ld-2.*.so",	  "ld-musl-*.so*", "libc.so.*",
	"libc-2.*.so",	 "libm.so.*",	  "libm-2.*.so",   "libpthread*",
	"libdl*.so*",	 "libstdc++.so*", "libgcc_s.so*",  "[vdso]",
};

/*
 * A trail that is walked to compare it with another. The position is before an event, or at a byte
 * of a block, since one trail's blocks may be cut where the other's are not.
 */
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

static int course_is_over(const struct course *course)
{
	return course->at.part >= course->path->count;
}

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

/* Stand before the first item. 0 or -ENOMEM; after 0 nothing below can fail for want of memory. */
static int course_begin(struct course *course, struct alike *alike, int side,
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

/* The event behind the position; NULL: a block, or the end. */
static const struct trail_between *course_event(const struct course *course)
{
	const struct trail_part *part = &course->path->parts[course->at.part];

	return course_is_over(course) || part->count ? NULL : &part->between;
}

/* The block at the position; returns its bytes that are left to run; 0: at an event or the end. */
static uint32_t course_point(const struct course *course, struct alike_point *point)
{
	const struct trail_block *block = block_at(course, &point->id);

	if (!block)
		return 0;
	point->table = course->table;
	point->from = course->from;
	return end_of(course->path, course->at.part, course->at.id, block) - course->from;
}

/* Whether both are in the same code: compares the rest of the shorter block. */
static int course_is_same(const struct course *a, const struct course *b)
{
	struct alike_point pa, pb;
	uint32_t left_a = course_point(a, &pa), left_b = course_point(b, &pb);

	return left_a && left_b && alike_range(&pa, &pb, left_a < left_b ? left_a : left_b);
}

/* Blocks of the path before this place. */
static uint64_t course_index(const struct course *course)
{
	return course_is_over(course) ? course->path->blocks
				      : course->path->parts[course->at.part].before + course->at.id;
}

/* Go over the event. */
static void course_pass_event(struct course *course)
{
	course->at.part++;
	course->at.id = 0;
	settle(course);
}

/*
 * Go over so many bytes, no more than course_point() said. 1 when the block's last instruction was
 * among them.
 */
static int course_pass_bytes(struct course *course, uint32_t bytes)
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

/* Pass `count` whole blocks of the current part, from its begin. */
static void course_pass_blocks(struct course *course, uint32_t count)
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

/* Go to before the block of that index. */
static void course_seek(struct course *course, uint64_t index)
{
	trail_seek(&course->at, index);
	course->from = 0;
	course->before = (struct alike_point){ 0 };
	settle(course);
}

/*
 * The block gone through last ended in an instruction of this kind; -1: none did, or not all of it
 * ran.
 */
static int course_kind(const struct course *course)
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

/*
 * Pass the signal behind the position, and its handler. 1; or 0, and nothing has changed, if the
 * handler is not seen to return.
 */
static int course_pass_signal(struct course *course)
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

/* ---- the comparison ---- */

enum found { FOUND_SAME, FOUND_DIFFERENT, FOUND_END };

struct comparison {
	struct course courses[2];
	struct alike *alike;
	const struct divergence_options *options;
	struct divergence *result;
	uint8_t *harmless; /* by module's number: 0 not asked, 1 no, 2 yes */
	size_t harmless_room;
	int err;
};

/* ---- what is harmless ---- */

static int is_listed(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (name && name_match(list[i], name))
			return 1;
	return 0;
}

/* A part or a copy of a function is the function's. */
static int is_function_listed(const struct divergence_options *options, const char *function)
{
	char name[IMAGE_NAME_MAX + 1];
	char *clone;

	if (!function)
		return 0;
	snprintf(name, sizeof(name), "%s", function);
	clone = strstr(name, " [clone ");
	if (clone)
		*clone = 0;
	return is_listed(options->harmless, options->harmless_count, name);
}

static int is_library(struct comparison *comparison, uint32_t number)
{
	const struct alike_module *module = alike_module(comparison->alike, number);
	const struct divergence_options *options = comparison->options;
	int is;

	if (!module)
		return 0;
	if (array_grow_zeroed(&comparison->harmless, &comparison->harmless_room, number + 1, 1)) {
		comparison->err = -ENOMEM;
		return 0;
	}
	if (comparison->harmless[number])
		return comparison->harmless[number] - 1;
	is = is_listed(libraries, sizeof(libraries) / sizeof(libraries[0]), module->name) ||
	     is_listed(options->harmless, options->harmless_count, module->name);
	comparison->harmless[number] = (uint8_t)(1 + is);
	return is;
}

static int is_same_harmless(const struct divergence_harmless *a,
			    const struct divergence_harmless *b)
{
	return a->kind == b->kind && a->number == b->number && a->function == b->function &&
	       a->module == b->module;
}

static void count_harmless(struct comparison *comparison, const struct divergence_harmless *what)
{
	struct divergence *result = comparison->result;
	struct divergence_harmless *known = NULL;

	result->harmless_total++;
	for (size_t i = 0; i < result->harmless_count && !known; i++)
		if (is_same_harmless(&result->harmless[i], what))
			known = &result->harmless[i];
	if (!known && result->harmless_count < DIVERGENCE_HARMLESS_MAX) {
		known = &result->harmless[result->harmless_count++];
		*known = *what;
		known->count = known->blocks[0] = known->blocks[1] = 0;
	}
	if (!known)
		known = &result->harmless[DIVERGENCE_HARMLESS_MAX - 1];
	known->count++;
	for (int i = 0; i < 2; i++)
		known->blocks[i] += what->blocks[i];
}

/* ---- the same caller ---- */

/* Over an event. 0: unknown what is behind it. */
static int detour_event(struct course *course, const struct trail_between *event)
{
	switch ((enum trail_event)event->event) {
	case TRAIL_SIGNAL:
		return course_pass_signal(course);
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
	case TRAIL_SYSCALLED:
		course_pass_event(course);
		return 1;
	default:
		return 0;
	}
}

/* To behind the return of the function that it is in. */
static int to_caller(struct comparison *comparison, struct course *course, int may_call)
{
	int64_t depth = 0;

	while (!course_is_over(course)) {
		const struct trail_between *event = course_event(course);
		struct alike_point point;
		uint32_t left;

		if (event) {
			if (!detour_event(course, event))
				return 0;
			continue;
		}
		left = course_point(course, &point);
		if (!may_call && !is_library(comparison, point.table->places[point.id].module))
			return 0;
		if (!course_pass_bytes(course, left))
			continue;
		switch (course_kind(course)) {
		case TRAIL_CALL:
		case TRAIL_CALL_INDIRECT:
			depth++;
			break;
		case TRAIL_RETURN:
			if (--depth < 0)
				return 1;
			break;
		default:
			break;
		}
	}
	return 0;
}

/* Over what may come between the same places. */
static void to_block(struct course *course)
{
	const struct trail_between *event;

	while ((event = course_event(course)) && detour_event(course, event))
		;
}

/*
 * Go on on both to where the function in which they parted returns, to the same caller on both;
 * `may_call`: code of any module may be run meanwhile. 1; or 0, and nothing has changed: that never
 * happens, or code is run that may not be on a detour, or what can't be seen through comes before.
 */
static int rejoin_caller(struct comparison *comparison, int may_call)
{
	struct course *courses = comparison->courses;
	struct course kept[2] = { courses[0], courses[1] };

	for (int i = 0; i < 2; i++) {
		if (!to_caller(comparison, &courses[i], may_call))
			goto never;
		to_block(&courses[i]);
	}
	if (course_is_same(&courses[0], &courses[1]))
		return 1;
never:
	memcpy(courses, kept, sizeof(kept));
	return 0;
}

/* ---- after a loss ---- */

static uint32_t number_at(const struct alike_point *point)
{
	return point->table->codes[point->id].number;
}

/*
 * The block at the position, or the next, and pass it; 0: the end, or blocks are missing here too.
 */
static uint32_t next_number(struct course *course, uint64_t *index)
{
	const struct trail_between *event;
	struct alike_point point;
	uint32_t left;

	while ((event = course_event(course))) {
		if (event->event >= TRAIL_LOST && event->event != TRAIL_FORK)
			return 0;
		course_pass_event(course);
	}
	left = course_point(course, &point);
	if (!left)
		return 0;
	*index = course_index(course);
	course_pass_bytes(course, left);
	return number_at(&point);
}

struct pattern {
	uint32_t numbers[PATTERN_MAX];
	/* how much of it is matched still where the next does not match */
	uint32_t back[PATTERN_MAX];
	uint32_t count;
};

static void pattern_take(struct pattern *pattern, struct course course)
{
	uint64_t index;
	uint32_t number;

	*pattern = (struct pattern){ 0 };
	while (pattern->count < PATTERN_MAX && (number = next_number(&course, &index)))
		pattern->numbers[pattern->count++] = number;
	for (uint32_t i = 1, matched = 0; i < pattern->count; i++) {
		while (matched && pattern->numbers[i] != pattern->numbers[matched])
			matched = pattern->back[matched - 1];
		matched += pattern->numbers[i] == pattern->numbers[matched];
		pattern->back[i] = matched;
	}
}

/* The first match of the pattern: *index the first of its blocks. */
static int pattern_find(const struct pattern *pattern, struct course course, uint64_t *index)
{
	uint64_t ring[PATTERN_MAX];
	uint32_t number, matched = 0;

	for (uint64_t i = 0; (number = next_number(&course, &ring[i % PATTERN_MAX])); i++) {
		while (matched && number != pattern->numbers[matched])
			matched = pattern->back[matched - 1];
		matched += number == pattern->numbers[matched];
		if (matched == pattern->count) {
			*index = ring[(i + 1 - matched) % PATTERN_MAX];
			return 1;
		}
	}
	return 0;
}

/* Whether it matches at this place, as the loss says. */
static int pattern_is_at(const struct pattern *pattern, struct course course)
{
	uint64_t index;

	for (uint32_t i = 0; i < pattern->count; i++)
		if (next_number(&course, &index) != pattern->numbers[i])
			return 0;
	return 1;
}

/*
 * Behind something missing in `gap`'s trail: move the other to the place where both do the same
 * again, for some blocks. `lost`: so many are known to be missing there; 0: unknown. 1; 0, and
 * nothing has changed: not found.
 */
static int rejoin_after_loss(struct course *gap, struct course *other, uint64_t lost)
{
	struct course there = *other;
	struct pattern pattern;
	uint64_t index;

	pattern_take(&pattern, *gap);
	if (pattern.count < PATTERN_MIN)
		return 0;
	if (lost && lost < other->path->blocks - course_index(other)) {
		course_seek(&there, course_index(other) + lost);
		if (pattern_is_at(&pattern, there)) {
			*other = there;
			return 1;
		}
	}
	if (!pattern_find(&pattern, *other, &index))
		return 0;
	course_seek(other, index);
	return 1;
}

/* ---- blocks ---- */

/* The same of two runs, `count` blocks of each. */
static uint32_t same_of_runs(struct comparison *comparison, const uint8_t *ids_a,
			     const uint8_t *ids_b, uint32_t count)
{
	const struct alike_code *ca = comparison->courses[0].table->codes,
				*cb = comparison->courses[1].table->codes;
	uint64_t instructions = 0;
	uint32_t i;

	for (i = 0; i < count; i++) {
		struct alike_code code = ca[load_u32(ids_a + 4 * (size_t)i)];

		if (code.number != cb[load_u32(ids_b + 4 * (size_t)i)].number)
			break;
		instructions += code.instructions;
	}
	comparison->result->instructions += instructions;
	comparison->result->blocks += i;
	return i;
}

/* The ids of consecutive blocks from the cursor on, `count` of them at most. */
static const uint8_t *run_ids(struct trail_cursor *at, uint32_t *count)
{
	const struct trail_run *run = trail_cursor_run(at);
	uint32_t from = at->id - run->first;

	if (*count > run->count - from)
		*count = run->count - from;
	return run->ids + 4 * (size_t)from;
}

/* As many whole blocks as are the same, in the two parts where both are at a block's begin. */
static uint32_t run_of_same(struct comparison *comparison)
{
	struct trail_cursor a = comparison->courses[0].at, b = comparison->courses[1].at;
	const struct trail_part *pa = &a.path->parts[a.part], *pb = &b.path->parts[b.part];
	/* of the last of a part not all may have run */
	uint32_t left_a = pa->count - a.id - 1, left_b = pb->count - b.id - 1;
	uint32_t count = left_a < left_b ? left_a : left_b, done = 0;

	while (done < count) {
		uint32_t both = count - done, same;
		const uint8_t *ids_a = run_ids(&a, &both), *ids_b = run_ids(&b, &both);

		same = same_of_runs(comparison, ids_a, ids_b, both);
		done += same;
		if (same < both)
			break;
		a.id += both;
		b.id += both;
	}
	return done;
}

/* A block begun again: the system call that the one before it ended with, made once more. */
static int pass_again(struct comparison *comparison, int side)
{
	struct course *course = &comparison->courses[side];
	const struct trail_block *before, *block;
	struct divergence_harmless again = { .kind = HARMLESS_AGAIN };
	struct alike_point point;

	if (course_kind(course) != TRAIL_SYSCALL || !course_point(course, &point) || point.from)
		return 0;
	before = &course->before.table->table->blocks[course->before.id];
	block = &point.table->table->blocks[point.id];
	if (block->start != before->start + before->last || block->kind != TRAIL_SYSCALL ||
	    block->last)
		return 0;
	again.blocks[side] = 1;
	course_pass_bytes(course, block->bytes);
	count_harmless(comparison, &again);
	return 1;
}

/* They part: another way through a library, or really. */
static enum found parted(struct comparison *comparison)
{
	struct course *courses = comparison->courses;
	const struct alike_point *before = &courses[0].before;
	const struct divergence_options *options = comparison->options;
	struct divergence_harmless what = { .kind = HARMLESS_LIBRARY };
	uint64_t from[2] = { course_index(&courses[0]), course_index(&courses[1]) };
	const struct image_place *place;
	struct image *image;

	if (options->strict || options->all || !before->table)
		return FOUND_DIFFERENT;
	image = image_in(courses[0].image, before->table->table);
	place = image ? image_place(image, before->table->table->blocks[before->id].start) : NULL;
	if (!place) {
		comparison->err = -ENOMEM;
		return FOUND_DIFFERENT;
	}
	if (!rejoin_caller(comparison, is_function_listed(options, place->function)))
		return FOUND_DIFFERENT;
	what.function = place->function;
	what.module = place->module ? place->module->name : NULL;
	for (int i = 0; i < 2; i++)
		what.blocks[i] = course_index(&courses[i]) - from[i];
	count_harmless(comparison, &what);
	return FOUND_SAME;
}

static enum found compare_blocks(struct comparison *comparison)
{
	struct course *a = &comparison->courses[0], *b = &comparison->courses[1];
	struct alike_point pa, pb;
	uint32_t left_a, left_b, both;

	if (!a->from && !b->from) {
		uint32_t count = run_of_same(comparison);

		course_pass_blocks(a, count);
		course_pass_blocks(b, count);
	}
	left_a = course_point(a, &pa);
	left_b = course_point(b, &pb);
	both = left_a < left_b ? left_a : left_b;
	if (!both) /* behind those that are the same comes an event */
		return FOUND_SAME;
	if (!alike_range(&pa, &pb, both)) {
		if (!comparison->options->strict &&
		    (pass_again(comparison, 0) || pass_again(comparison, 1)))
			return FOUND_SAME;
		return parted(comparison);
	}
	if (course_pass_bytes(a, both)) {
		comparison->result->blocks++;
		comparison->result->instructions += pa.table->codes[pa.id].instructions;
	}
	course_pass_bytes(b, both);
	return FOUND_SAME;
}

/* ---- events ---- */

static int is_switch(const struct trail_between *event)
{
	return event->event == TRAIL_DEPART || event->event == TRAIL_ARRIVE;
}

static int is_missing(const struct trail_between *event)
{
	return event->event == TRAIL_LOST || trail_is_gap(event);
}

/* Blocks are missing on one side at least: on to where both do the same. */
static enum found pass_missing(struct comparison *comparison, int side)
{
	struct course *courses = comparison->courses;
	struct divergence *result = comparison->result;
	const struct trail_between *event = course_event(&courses[side]);
	const struct trail_between *other = course_event(&courses[!side]);
	uint64_t lost = event->event == TRAIL_LOST ? event->values[0] : 0;

	if (!result->is_unsure)
		for (int i = 0; i < 2; i++)
			result->unsure_at[i] = course_index(&courses[i]);
	result->is_unsure = 1;
	course_pass_event(&courses[side]);
	if (other && is_missing(other)) {
		course_pass_event(&courses[!side]);
		lost = 0; /* how many of them are the other's too? */
		if (rejoin_after_loss(&courses[!side], &courses[side], 0))
			return FOUND_SAME;
	}
	if (rejoin_after_loss(&courses[side], &courses[!side], lost))
		return FOUND_SAME;
	return FOUND_DIFFERENT;
}

/* An event on one side, which the other has not now. */
static enum found pass_event(struct comparison *comparison, int side)
{
	struct course *course = &comparison->courses[side];
	const struct trail_between *event = course_event(course);
	struct divergence_harmless what = { .number = (int64_t)event->values[0] };
	uint64_t from = course_index(course);

	if (is_switch(event) || event->event == TRAIL_SYSCALLED) {
		course_pass_event(course);
		return FOUND_SAME;
	}
	if (is_missing(event))
		return pass_missing(comparison, side);
	if (event->event != TRAIL_SIGNAL || !course_pass_signal(course))
		return FOUND_DIFFERENT;
	what.kind = HARMLESS_SIGNAL;
	what.blocks[side] = course_index(course) - from;
	count_harmless(comparison, &what);
	return FOUND_SAME;
}

static void pass_both(struct comparison *comparison)
{
	course_pass_event(&comparison->courses[0]);
	course_pass_event(&comparison->courses[1]);
}

/* Whether a signal leads both into the same handler. */
static int is_same_signal(struct comparison *comparison, const struct trail_between *a,
			  const struct trail_between *b)
{
	struct course into[2] = { comparison->courses[0], comparison->courses[1] };

	if (a->values[0] != b->values[0] || !a->values[1] != !b->values[1])
		return 0;
	if (!a->values[1])
		return 1;
	course_pass_event(&into[0]);
	course_pass_event(&into[1]);
	return course_is_same(&into[0], &into[1]);
}

static int is_detached(const struct trail_between *event)
{
	return event->event == TRAIL_END && event->values[0] == TRAIL_DETACHED;
}

/* Both are before an event of the same kind. */
static enum found compare_like(struct comparison *comparison, const struct trail_between *a,
			       const struct trail_between *b)
{
	struct divergence_harmless what = { .kind = HARMLESS_RESULT,
					    .number = (int64_t)a->values[0] };

	switch ((enum trail_event)a->event) {
	case TRAIL_SYSCALLED:
		if (a->values[0] != b->values[0])
			return FOUND_DIFFERENT;
		if (a->values[1] == b->values[1])
			break;
		if (comparison->options->strict)
			return FOUND_DIFFERENT;
		count_harmless(comparison, &what);
		break;
	case TRAIL_SIGNAL:
		if (is_same_signal(comparison, a, b))
			break;
		return comparison->options->strict ? FOUND_DIFFERENT : pass_event(comparison, 0);
	case TRAIL_LOST:
		return pass_missing(comparison, 0);
	case TRAIL_GAP:
		if (a->values[0] != b->values[0])
			return pass_missing(comparison, 0);
		break;
	case TRAIL_END:
		if (a->values[0] != b->values[0] || a->values[1] != b->values[1])
			return FOUND_DIFFERENT;
		break;
	default:
		break;
	}
	pass_both(comparison);
	return FOUND_SAME;
}

/* Which of two events that are not of a kind is dealt with first: what may come at any time. */
static int is_passing(const struct trail_between *event)
{
	return event && (is_switch(event) || is_missing(event) || event->event == TRAIL_SIGNAL ||
			 event->event == TRAIL_SYSCALLED);
}

static enum found compare_events(struct comparison *comparison, const struct trail_between *a,
				 const struct trail_between *b)
{
	struct divergence *result = comparison->result;

	result->is_over[0] = a ? is_detached(a) : course_is_over(&comparison->courses[0]);
	result->is_over[1] = b ? is_detached(b) : course_is_over(&comparison->courses[1]);
	if (result->is_over[0] || result->is_over[1])
		return FOUND_END;
	for (int side = 0; side < 2; side++) {
		const struct trail_between *event = side ? b : a;

		if (!event || event->event != TRAIL_GAP || is_missing(event))
			continue;
		course_pass_event(&comparison->courses[side]); /* another tool's breakpoint */
		return FOUND_SAME;
	}
	if (a && b && a->event == b->event)
		return compare_like(comparison, a, b);
	if (comparison->options->strict && !(a && is_missing(a)) && !(b && is_missing(b)))
		return FOUND_DIFFERENT;
	/* a block not wholly run on the other side stays as it is: its rest is compared behind */
	if (is_passing(a) && (!is_passing(b) || a->event != TRAIL_SYSCALLED))
		return pass_event(comparison, 0);
	return is_passing(b) ? pass_event(comparison, 1) : FOUND_DIFFERENT;
}

/* ---- all ---- */

static enum found compare_next(struct comparison *comparison)
{
	struct course *courses = comparison->courses;
	const struct trail_between *a = course_event(&courses[0]), *b = course_event(&courses[1]);

	if (course_is_over(&courses[0]) && course_is_over(&courses[1]))
		return FOUND_END;
	if (a || b || course_is_over(&courses[0]) || course_is_over(&courses[1]))
		return compare_events(comparison, a, b);
	return compare_blocks(comparison);
}

static void put_down(struct comparison *comparison, enum found found)
{
	struct divergence *result = comparison->result;

	for (int i = 0; i < 2; i++) {
		const struct course *course = &comparison->courses[i];
		const struct alike_point *before = &course->before;

		result->at[i] = course->at;
		result->from[i] = course->from;
		if (before->table) {
			const struct trail_block *block = &before->table->table->blocks[before->id];

			result->parted_in[i] = before->table->table;
			result->parted[i] = block->start +
					    (before->from == block->bytes ? block->last : 0);
		}
	}
	if (found == FOUND_END)
		return;
	result->kind = course_event(&comparison->courses[0]) ||
				       course_event(&comparison->courses[1])
			       ? DIVERGENCE_EVENT
			       : DIVERGENCE_WAY;
}

int divergence_find(struct divergence *divergence, struct alike *alike,
		    const struct trail_path *const paths[2], struct image *const images[2],
		    const struct divergence_options *options)
{
	struct comparison comparison = { .alike = alike, .options = options, .result = divergence };
	enum found found;

	*divergence = (struct divergence){ 0 };
	divergence->harmless = calloc(DIVERGENCE_HARMLESS_MAX, sizeof(*divergence->harmless));
	if (!divergence->harmless)
		return -ENOMEM;
	for (int i = 0; i < 2 && !comparison.err; i++)
		comparison.err = course_begin(&comparison.courses[i], alike, i, paths[i],
					      images[i]);
	do {
		if (options->pulse && !comparison.err)
			options->pulse(course_index(&comparison.courses[0]), paths[0]->blocks);
		found = comparison.err ? FOUND_END : compare_next(&comparison);
	} while (found == FOUND_SAME);
	if (!comparison.err)
		put_down(&comparison, found);
	free(comparison.harmless);
	return comparison.err;
}

void divergence_release(struct divergence *divergence)
{
	free(divergence->harmless);
	*divergence = (struct divergence){ 0 };
}
