/* SPDX-License-Identifier: MIT */
#include "read/history/rejoin.h"

#include <string.h>

#define PATTERN_MAX 32u /* blocks that are the same after a loss */
#define PATTERN_MIN 4u	/* at a trail's end there may be no more */

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
static int to_caller(struct course *course, const struct rejoin_rule *rule)
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
		if (!rule->may_call &&
		    !rule->is_harmless(rule, point.table->places[point.id].module))
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

int rejoin_caller(struct course courses[2], const struct rejoin_rule *rule)
{
	struct course kept[2] = { courses[0], courses[1] };

	for (int i = 0; i < 2; i++) {
		if (!to_caller(&courses[i], rule))
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

int rejoin_after_loss(struct course *gap, struct course *other, uint64_t lost)
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
