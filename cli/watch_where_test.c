/* SPDX-License-Identifier: MIT */
/* Places of hits: of addresses and names that a process claims. */
#include "cli/watch_where.h"

#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker.h>

static struct wm_session session;
static struct watch_wheres *wheres;
static struct where_backtrace backtrace;

static void begin(void)
{
	cr_assert_eq(watch_wheres_new(&wheres, &session), 0);
}

static void end(void)
{
	watch_wheres_free(wheres);
}

TestSuite(watch_where, .init = begin, .fini = end);

Test(watch_where, same_place_has_the_same_pointer)
{
	const struct where *one = watch_where_at(wheres, 0, 0, 0x1234);
	char text[WATCH_WHERE_BYTES];
	uint64_t seed = 1;

	cr_expect_str_eq(watch_where_text(one, text, sizeof(text)), "0x1234");
	cr_expect_str_eq(watch_where_text(watch_where_at(wheres, 0, 0, 0), text, sizeof(text)),
			 "?");
	for (int i = 0; i < 500; i++)
		cr_assert_not_null(
			watch_where_at(wheres, (uint32_t)i % 3, 0, sample_random(&seed)));
	cr_expect_eq(watch_where_at(wheres, 0, 0, 0x1234), one);
	cr_expect_neq(watch_where_at(wheres, 1, 0, 0x1234), one, "of another process");
}

/* As many callers as are shown, up to the first 0, whatever an event has. */
Test(watch_where, event_of_any_callers_has_frames_for_some)
{
	struct wm_event_field fields[WATCH_CALLERS_SHOWN + 8];
	uint32_t count = sizeof(fields) / sizeof(fields[0]);
	struct wm_event event = { .size = sizeof(event), .fields = fields, .field_count = count };

	for (uint32_t i = 0; i < count; i++)
		fields[i] = (struct wm_event_field){ .name = "caller9",
						     .type = WM_TYPE_PTR,
						     .value.u = 0x1000 + i };
	cr_assert_eq(watch_backtrace_event(wheres, 0, &event, &backtrace), 0);
	cr_expect_eq(backtrace.count, 1 + WATCH_CALLERS_SHOWN);
	cr_expect_eq(backtrace.frames[0]->address, 0, "it has no ip");
	cr_expect_eq(backtrace.frames[1]->address, 0x1000);
	fields[3].value.u = 0;
	fields[5].type = WM_TYPE_STR; /* its value is a pointer in the test */
	fields[7].name = "ip";
	cr_assert_eq(watch_backtrace_event(wheres, 0, &event, &backtrace), 0);
	cr_expect_eq(backtrace.count, 4);
	cr_expect_eq(backtrace.frames[0]->address, 0x1007);
	event.field_count = 0;
	cr_assert_eq(watch_backtrace_event(wheres, 0, &event, &backtrace), 0);
	cr_expect_eq(backtrace.count, 1);
}

/* ---- of a trace ---- */

static char names[SCHEMA_FIELDS_MAX][SCHEMA_NAME_BYTES];
static struct trace_class class = { .name = (char *)"watch:x", .fields = names };

static void declare(unsigned int count, const char *first)
{
	class.count = (uint8_t)count;
	class.fixed_bytes = (int32_t)count * 8;
	for (unsigned int i = 0; i < count; i++) {
		class.types[i] = WM_TYPE_PTR;
		snprintf(names[i], sizeof(names[i]), "%s", i ? "caller" : first);
	}
}

Test(watch_where, class_without_an_instruction_is_no_watch)
{
	declare(2, "ip");
	cr_expect(watch_backtrace_has(&class));
	class.types[0] = WM_TYPE_U64;
	cr_expect_not(watch_backtrace_has(&class));
	declare(2, "caller");
	cr_expect_not(watch_backtrace_has(&class));
	declare(0, "ip");
	cr_expect_not(watch_backtrace_has(&class));
	declare(1, "ip");
	class.fixed_bytes = -1;
	cr_expect_not(watch_backtrace_has(&class), "where a text is, no offset is known");
	declare(1, "ip");
	class.name = (char *)"watcher:x";
	cr_expect_not(watch_backtrace_has(&class));
}

Test(watch_where, recorded_hit_has_its_addresses)
{
	uint64_t addresses[SCHEMA_FIELDS_MAX] = { 0 };
	struct trace_stream stream = { 0 };
	struct merge_event event = { .class = &class,
				     .stream = &stream,
				     .fields = (const uint8_t *)addresses,
				     .end = (const uint8_t *)(addresses + SCHEMA_FIELDS_MAX) };

	declare(SCHEMA_FIELDS_MAX, "ip");
	for (unsigned int i = 0; i < SCHEMA_FIELDS_MAX; i++)
		addresses[i] = 0x2000 + i;
	cr_assert_eq(watch_backtrace_read(wheres, &event, &backtrace), 0);
	cr_assert_eq(backtrace.count, SCHEMA_FIELDS_MAX);
	cr_expect_eq(backtrace.frames[SCHEMA_FIELDS_MAX - 1]->address,
		     0x2000 + SCHEMA_FIELDS_MAX - 1);
}

/* ---- text ---- */

static void count_line(const char *text, void *data)
{
	unsigned int *lines = data;

	cr_expect_lt(strlen(text), WATCH_WHERE_BYTES + 16);
	cr_expect_null(strchr(text, '\n'));
	++*lines;
}

/* Names in debug information have any bytes, and any length. */
Test(watch_where, text_of_any_names_is_tame_and_ends)
{
	static char function[2000], source[2000];
	struct spot_frame frames[3] = { { function, source, 7 }, { function, NULL, 0 } };
	const struct where where = { .address = 1, .spot = { .frames = frames, .count = 3 } };
	const struct where_backtrace one = { { &where }, 1 };
	char text[WATCH_WHERE_BYTES];
	uint64_t seed = 2;

	for (unsigned int i = 0; i < 500; i++) {
		size_t bytes = sample_random(&seed) % sizeof(function);
		unsigned int lines = 0;
		size_t room = 1 + sample_random(&seed) % sizeof(text);

		for (size_t j = 0; j < bytes; j++) {
			function[j] = (char)(1 + sample_random(&seed) % 255);
			source[j] = (char)(1 + sample_random(&seed) % 255);
		}
		function[bytes] = source[bytes] = 0;
		watch_where_text(&where, text, room);
		cr_assert_lt(strnlen(text, room), room);
		for (const char *at = text; *at; at++)
			cr_assert((unsigned char)*at >= ' ' && *at != 127);
		watch_backtrace_lines(&one, count_line, &lines);
		cr_assert_eq(lines, 3);
	}
}
