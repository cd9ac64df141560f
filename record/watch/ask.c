/* SPDX-License-Identifier: MIT */
#include "record/watch/ask.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static const uint8_t unsigned_types[] = {
	[1] = WM_TYPE_U8, [2] = WM_TYPE_U16, [4] = WM_TYPE_U32, [8] = WM_TYPE_U64
};

/* Get the position of a bit-field, unless the value is in several registers. */
static void bits_of(const struct watch_type *type, int is_split, uint8_t *bit, uint8_t *bits)
{
	if (is_split || !type->node_count || !type->nodes[0].bits)
		return;
	*bit = (uint8_t)type->nodes[0].bit;
	*bits = (uint8_t)type->nodes[0].bits;
}

static int make_conditions(struct control_watch *about, const struct watch_expr *expr,
			   const struct watch_place *place, int is_split,
			   struct watch_trouble *trouble)
{
	for (unsigned int i = 0; i < expr->options.test_count; i++) {
		const struct watch_test *test = &expr->options.tests[i];
		struct watch_condition *condition = &about->conditions[i];
		int err = expression_test_bind(test, &place->type, condition, trouble);

		if (err)
			return err;
		if (condition->of != WATCH_OF_TID)
			bits_of(&place->type, is_split, &condition->bit, &condition->bits);
		if (is_split && condition->as)
			return expression_trouble_set(
				trouble, -WM_E_WATCH_OPTION, test->at, test->bytes,
				"the condition can't be tested: the value is spread over more than one debug register, and each sees its own bytes only");
	}
	return 0;
}

/*
 * An event's name and its source file take one line each in the text. Debug information may claim
 * any path.
 */
static void make_text(struct asked_watch *asked, const struct watch_expr *expr,
		      const struct watch_place *place, unsigned int callers)
{
	const struct control_watch *about = &asked->about[0];
	int has_source = place->source && *place->source && !strchr(place->source, '\n');
	size_t at = (size_t)snprintf(asked->text, sizeof(asked->text),
				     "md\nwatch\n%.1024s\n%.1024s\n%u\nip", expr->words,
				     has_source ? place->source : "?", place->line);

	if (about->on != WATCH_ON_EXECUTE)
		at += (size_t)snprintf(asked->text + at, sizeof(asked->text) - at, ",old,new,how");
	if (about->flags & WATCH_WITH_OFFSET)
		at += (size_t)snprintf(asked->text + at, sizeof(asked->text) - at, ",offset");
	for (unsigned int i = 1; i <= callers; i++)
		at += (size_t)snprintf(asked->text + at, sizeof(asked->text) - at, ",caller%u", i);
}

/* The field type of the value. If it is not a number, it is recorded as an unsigned number. */
static uint8_t type_of(const struct watch_place *place, unsigned int bytes)
{
	uint8_t type = place->type.node_count ? place->type.nodes[0].type : WM_TYPE_BYTES;

	return type == WM_TYPE_BYTES || type == WM_TYPE_STR || !type ? unsigned_types[bytes] : type;
}

_Static_assert(WATCH_FRAMES_MAX == WATCH_CALLERS_MAX, "what may be asked for can be recorded");

int ask_make(struct asked_watch *asked, const struct watch_expr *expr,
	     const struct watch_place *place, uint64_t address, struct watch_trouble *trouble)
{
	struct watch_piece pieces[WATCH_REGISTERS] = { { address, 1 } };
	struct control_watch about = { .on = (uint8_t)place->kind };
	int is_code = place->kind == WATCH_EXECUTE, err;
	size_t count = is_code ? 1 : expression_pieces(address, place->bytes, pieces);

	*asked = (struct asked_watch){ 0 };
	err = is_code ? 0 : expression_pieces_check(address, place->bytes, trouble);
	if (err)
		return err;
	if (!count)
		return expression_trouble_set(trouble, -WM_E_WATCH_SYNTAX, 0, 0, "it has no bytes");
	if (expr->options.signal == 5) /* SIGTRAP */
		return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, 0, 0,
					      "SIGTRAP is what watches themselves come by");
	err = make_conditions(&about, expr, place, count > 1, trouble);
	if (err)
		return err;
	bits_of(&place->type, count > 1, &about.bit, &about.bits);
	about.signal = (uint8_t)expr->options.signal;
	about.callers = (uint8_t)expr->options.frames;
	if (expr->options.counts)
		about.flags |= WATCH_COUNT_ONLY;
	if (expr->options.trail)
		about.flags |= WATCH_KEEPS_TRAIL;
	if (count > 1)
		about.flags |= WATCH_WITH_OFFSET;
	for (size_t i = 0; i < count; i++) {
		about.address = pieces[i].address;
		about.bytes = pieces[i].bytes;
		about.offset = (uint32_t)(pieces[i].address - address);
		about.type = count > 1 ? WM_TYPE_U64 : type_of(place, pieces[i].bytes);
		asked->about[asked->count++] = about;
	}
	if (!expr->options.counts)
		make_text(asked, expr, place, about.callers);
	return 0;
}

/* ---- pointers that are followed ---- */

#define PLACE_FOR_PIECES (UINT64_C(1) << 40) /* aligned like memory of an allocator */

static void ask_pointers(struct asked_watch *asked, unsigned int pointers)
{
	for (unsigned int i = 0; i < asked->count; i++) {
		asked->about[i].address = 0;
		asked->about[i].flags |= WATCH_FOLLOWED;
		asked->about[i].frame = (uint8_t)pointers;
	}
	for (unsigned int i = 0; i < pointers; i++)
		asked->about[asked->count++] = (struct control_watch){
			.bytes = 8,
			.type = WM_TYPE_U64,
			.on = WATCH_ON_WRITE,
			.flags = WATCH_LEADS | WATCH_COUNT_ONLY,
			.frame = (uint8_t)i,
		};
}

int ask_make_follow(struct follow_plan *plan, struct asked_watch *asked,
		    const struct watch_expr *expr, const struct watch_place *place,
		    struct watch_trouble *trouble)
{
	uint64_t offset = (uint64_t)place->follows[place->follow_count - 1].offset;
	int err = ask_make(asked, expr, place, PLACE_FOR_PIECES + offset % 8, trouble);

	if (err)
		return err;
	*plan = (struct follow_plan){
		.pointers = place->follow_count,
		.pieces = asked->count,
		.start = place->start,
		.bytes = place->bytes,
	};
	if (place->base == WATCH_IN_MODULE)
		plan->start += place->module->base;
	if (plan->start % 8)
		return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, 0, 0,
					      "follow: %.*s is not aligned",
					      (int)place->follows[0].bytes,
					      place->text + place->follows[0].at);
	for (unsigned int i = 0; i < place->follow_count; i++) {
		const struct watch_follow *follow = &place->follows[i];

		plan->offsets[i] = follow->offset;
		snprintf(plan->texts[i], sizeof(plan->texts[i]), "%.*s", (int)follow->bytes,
			 place->text + follow->at);
	}
	ask_pointers(asked, plan->pointers);
	return 0;
}
