/* SPDX-License-Identifier: MIT */
#include "read/history/divergence.h"

#include "base/name_match.h"
#include "read/history/course.h"
#include "read/history/rejoin.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Libraries whose way depends on more than what the program asks of them. */
static const char *const libraries[] = {
	"ld-linux*.so*", "ld-2.*.so",	  "ld-musl-*.so*", "libc.so.*",
	"libc-2.*.so",	 "libm.so.*",	  "libm-2.*.so",   "libpthread*",
	"libdl*.so*",	 "libstdc++.so*", "libgcc_s.so*",  "[vdso]",
};

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

/* What a comparison's detours are held to. */
struct library_rule {
	struct rejoin_rule rule;
	struct comparison *comparison;
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
	size_t room = comparison->harmless_room;
	int is;

	if (!module)
		return 0;
	if (array_grow(&comparison->harmless, &comparison->harmless_room, number + 1, 1)) {
		comparison->err = -ENOMEM;
		return 0;
	}
	memset(comparison->harmless + room, 0, comparison->harmless_room - room);
	if (comparison->harmless[number])
		return comparison->harmless[number] - 1;
	is = is_listed(libraries, sizeof(libraries) / sizeof(libraries[0]), module->name) ||
	     is_listed(options->harmless, options->harmless_count, module->name);
	comparison->harmless[number] = (uint8_t)(1 + is);
	return is;
}

static int rule_allows(const void *rule, uint32_t module)
{
	return is_library(((const struct library_rule *)rule)->comparison, module);
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
	struct library_rule rule = { { rule_allows, 0 }, comparison };
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
	rule.rule.may_call = is_function_listed(options, place->function);
	if (!rejoin_caller(courses, &rule.rule))
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
