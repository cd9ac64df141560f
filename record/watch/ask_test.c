/* SPDX-License-Identifier: MIT */
/* Requests to an agent, of places of any alignment, and of any claims of a program's file. */
#include "record/watch/ask.h"

#include "record/spec/spec.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define ROUNDS 20000
#define USER_END (UINT64_C(1) << 47)

/* The bytes behind the requests show whether one was written beyond them. */
static struct {
	struct asked_watch asked;
	uint8_t behind[64];
} room;
static struct asked_watch *const asked = &room.asked;
static struct spec spec;
static struct watch_expr *expr;
static struct watch_place place;
static struct watch_trouble trouble;
static struct follow_plan plan;

static void begin(const char *text, uint64_t bytes)
{
	char words[256];

	cr_assert_eq(spec_read(&spec, text, (struct detail){ words, sizeof(words) }), 0, "%s: %s",
		     text, words);
	expr = spec.watch;
	place = (struct watch_place){ .kind = expr->kind, .bytes = bytes, .text = expr->text };
	cr_assert_eq(expression_type_plain(&place.type, bytes), 0);
}

static void end(void)
{
	expression_type_release(&place.type);
	spec_release(&spec);
}

static int make(uint64_t address)
{
	return ask_make(asked, expr, &place, address, &trouble);
}

/* The requests are of all the bytes, in order, each as a debug register can watch it. */
static void expect_pieces(uint64_t address, uint64_t bytes)
{
	uint64_t at = address;

	cr_assert_gt(asked->count, 0);
	cr_assert_leq(asked->count, WATCH_REGISTERS);
	for (unsigned int i = 0; i < asked->count; i++) {
		const struct control_watch *about = &asked->about[i];

		cr_assert_eq(about->address, at);
		cr_assert_eq(about->offset, at - address);
		cr_assert(about->bytes && about->bytes <= 8 && !(at % about->bytes));
		at += about->bytes;
	}
	cr_assert_eq(at, address + bytes);
}

/* Count the lines of the event's text: readers take them one by one (abi/site.h). */
static unsigned int lines(void)
{
	unsigned int count = 1;

	for (const char *at = asked->text; (at = strchr(at, '\n')); at++)
		count++;
	return count;
}

Test(ask, any_place_is_refused_or_covered_by_its_pieces)
{
	uint64_t seed = 35;

	begin("watch:counter/8", 8);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t bytes = sample_random(&seed) >> (sample_random(&seed) % 64);
		uint64_t address = sample_random(&seed) % USER_END;
		int err;

		place.bytes = i % 2 ? bytes : bytes % 40;
		err = make(address);
		if (err) {
			cr_assert(err == -WM_E_WATCH_LARGE || !place.bytes, "%d", err);
			cr_assert_eq(asked->count, 0);
			continue;
		}
		expect_pieces(address, place.bytes);
		cr_assert_eq(!(asked->about[0].flags & WATCH_WITH_OFFSET), asked->count == 1);
	}
	end();
}

Test(ask, value_without_bytes_is_refused)
{
	begin("watch:counter/8", 8);
	place.bytes = 0;
	cr_assert_eq(make(0x1000), -WM_E_WATCH_SYNTAX);
	place.bytes = UINT64_MAX;
	cr_assert_eq(make(0x1000), -WM_E_WATCH_LARGE);
	cr_assert_eq(make(UINT64_MAX), -WM_E_WATCH_LARGE);
	end();
}

Test(ask, text_names_as_many_fields_as_the_event_has)
{
	begin("watch:counter/8:rw/bt=3/", 8);
	place.source = (char *)"dir/main.c";
	place.line = 12;
	cr_assert_eq(make(0x1000), 0);
	cr_expect_str_eq(asked->text, "md\nwatch\ncounter/8\ndir/main.c\n12\n"
				      "ip,old,new,how,caller1,caller2,caller3");
	cr_expect_eq(asked->about[0].on, WATCH_ON_ACCESS);
	cr_expect_eq(asked->about[0].type, WM_TYPE_U64);
	cr_expect_eq(asked->about[0].callers, 3);
	place.bytes = 16;
	cr_assert_eq(make(0x1000), 0);
	cr_expect(strstr(asked->text, "ip,old,new,how,offset,caller1"));
	end();
	begin("watch:work:x", 1);
	cr_assert_eq(make(0x1003), 0);
	cr_expect_str_eq(asked->text, "md\nwatch\nwork\n?\n0\nip");
	cr_expect_eq(asked->about[0].address, 0x1003);
	cr_expect_eq(asked->about[0].bytes, 1);
	end();
	begin("watch:counter/8/count/", 8);
	cr_assert_eq(make(0x1000), 0);
	cr_expect_str_empty(asked->text);
	cr_expect_eq(asked->about[0].flags, WATCH_COUNT_ONLY);
	end();
}

/* A program's debug information has any text for a source file's path. */
Test(ask, source_of_any_text_takes_one_line)
{
	static char path[8192];

	begin("watch:counter/8/bt=10/", 8);
	place.source = path;
	memset(path, 'a', sizeof(path) - 1);
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(lines(), 6);
	cr_expect(strstr(asked->text, ",caller10"));
	strcpy(path, "a\nmd\nwatch\n\n");
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(lines(), 6, "%s", asked->text);
	end();
}

Test(ask, condition_on_a_value_in_two_registers_is_refused)
{
	begin("watch:counter/8/if=value==1,if=changed/", 8);
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(asked->about[0].conditions[0].of, WATCH_OF_NEW);
	cr_expect_eq(asked->about[0].conditions[0].operand, 1);
	cr_expect_eq(asked->about[0].conditions[1].of, WATCH_OF_CHANGE);
	cr_expect_eq(asked->about[0].conditions[2].of, 0);
	cr_expect_eq(make(0x1004), -WM_E_WATCH_OPTION);
	end();
	begin("watch:counter/8/if=tid!=7/", 8);
	cr_assert_eq(make(0x1004), 0);
	cr_expect_eq(asked->about[1].conditions[0].of, WATCH_OF_TID);
	cr_expect_eq(asked->about[1].conditions[0].by, WATCH_BY_UNEQUAL);
	end();
}

Test(ask, bits_of_a_field_are_asked_for_in_one_register_alone)
{
	begin("watch:flags/8/if=changed/", 8);
	place.type.nodes[0].bit = 3;
	place.type.nodes[0].bits = 61;
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(asked->about[0].bit, 3);
	cr_expect_eq(asked->about[0].bits, 61);
	cr_expect_eq(asked->about[0].conditions[0].bits, 61);
	cr_expect_eq(watch_field_value(&asked->about[0], UINT64_MAX), UINT64_MAX >> 3);
	place.bytes = 9;
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(asked->about[0].bits, 0);
	cr_expect_eq(asked->about[0].conditions[0].bits, 0);
	end();
}

Test(ask, sigtrap_is_refused)
{
	begin("watch:counter/8/signal=USR1/", 8);
	cr_assert_eq(make(0x1000), 0);
	cr_expect_eq(asked->about[0].signal, 10);
	expr->options.signal = 5;
	cr_expect_eq(make(0x1000), -WM_E_WATCH_OPTION);
	end();
}

/* ---- pointers that are followed ---- */

static int follow(uint64_t start, unsigned int pointers, uint64_t bytes, int64_t offset)
{
	int err;

	place.base = WATCH_IN_PROCESS;
	place.start = start;
	place.bytes = bytes;
	place.follow_count = pointers;
	for (unsigned int i = 0; i < pointers; i++)
		place.follows[i] = (struct watch_follow){ .offset = offset, .at = 6, .bytes = 4 };
	err = watch_follow_check(&place, &trouble);
	return err ? err : ask_make_follow(&plan, asked, expr, &place, &trouble);
}

Test(follow_plan, pointers_and_value_have_a_register_each)
{
	begin("watch:head->next->size/follow/", 8);
	cr_assert_eq(follow(0x1000, 2, 8, -16), 0);
	cr_assert_eq(asked->count, 3);
	cr_expect_eq(asked->about[0].flags, WATCH_FOLLOWED);
	cr_expect_eq(asked->about[0].address, 0);
	cr_expect_eq(asked->about[0].frame, 2);
	for (unsigned int i = 1; i < 3; i++) {
		cr_expect_eq(asked->about[i].flags, WATCH_LEADS | WATCH_COUNT_ONLY);
		cr_expect_eq(asked->about[i].frame, i - 1);
		cr_expect_eq(asked->about[i].bytes, 8);
	}
	cr_expect_eq(plan.pieces, 1);
	cr_expect_eq(plan.offsets[1], -16);
	cr_expect_str_eq(plan.texts[0], "head");
	cr_expect_eq(follow(0x1004, 2, 8, 0), -WM_E_WATCH_OPTION);
	end();
}

/* A packed structure's member takes more registers than its bytes say. */
Test(follow_plan, any_chain_is_refused_or_fits_the_registers)
{
	uint64_t seed = 9, made = 0;

	begin("watch:head->next->size/follow/", 8);
	memset(room.behind, 0x5a, sizeof(room.behind));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		unsigned int pointers = (unsigned int)(sample_random(&seed) % 6);
		uint64_t bytes = sample_random(&seed) % 34;
		int err = follow(0x1000, pointers, bytes, (int64_t)sample_random(&seed));

		if (err)
			continue;
		made++;
		cr_assert_leq(asked->count, WATCH_REGISTERS);
		cr_assert_eq(asked->count, plan.pieces + pointers);
		cr_assert_leq(pointers, FOLLOW_POINTERS_MAX);
	}
	cr_assert_gt(made, 100);
	for (size_t i = 0; i < sizeof(room.behind); i++)
		cr_assert_eq(room.behind[i], 0x5a);
	end();
}

Test(follow_plan, name_of_any_length_is_cut)
{
	static char text[512];

	begin("watch:head->next->size/follow/", 8);
	memset(text, 'n', sizeof(text) - 1);
	cr_assert_eq(follow(0x1000, 1, 8, 0), 0);
	place.text = text;
	place.follows[0].at = 0;
	place.follows[0].bytes = sizeof(text) - 1;
	cr_assert_eq(ask_make_follow(&plan, asked, expr, &place, &trouble), 0);
	cr_expect_eq(strlen(plan.texts[0]), WATCHES_POINTER_MAX - 1);
	end();
}
