/* SPDX-License-Identifier: MIT */
#include "trace/decode.h"
#include "trace/schema.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct trace_schema *schema;
static struct sample sample;

static void begin(void)
{
	cr_assert_eq(trace_schema_new(&schema), 0);
	cr_assert_eq(trace_schema_add(schema, 3,
				      SAMPLE_TYPES(WM_TYPE_I16, WM_TYPE_STR, WM_TYPE_BYTES,
						   WM_TYPE_F32, WM_TYPE_STR),
				      "bj\ndb\nquery\na.c\n1\nlen, sql, WM_FIELD(blob, x), f, sql"),
		     0);
	cr_assert_eq(trace_schema_add(schema, 4000000000u, SAMPLE_TYPES(0),
				      "mp\ndb\nbusy\na.c\n2\n"),
		     0);
	sample = (struct sample){ .head = { .pid = 10, .tid = 11 } };
	sample_begin(&sample, 1000);
}

static void put_query(uint64_t ticks)
{
	float real = 2.5f;

	sample_event(&sample, 3, ticks, 0);
	sample_put(&sample, "\xfe\xff", 2);
	sample_string(&sample, "select");
	sample_run(&sample, "\0x", 2);
	sample_put(&sample, &real, sizeof(real));
	sample_string(&sample, NULL);
}

static int decode(size_t bytes, int (*event)(const struct wm_event *event, void *data), void *data)
{
	void *content = malloc(bytes ? bytes : 1); /* of just that size, for the sanitizer */
	int err;

	memcpy(content, sample.content, bytes);
	err = trace_decode(schema, &sample.head, content, bytes, 2000000000, 900, 5000, event,
			   data);
	free(content);
	return err;
}

static int check_query(const struct wm_event *event, void *data)
{
	int *seen = data;

	if ((*seen)++) {
		cr_assert_str_eq(event->name, "db:busy");
		cr_assert_eq(event->kind, 'm');
		cr_assert_eq(event->field_count, 0);
		cr_assert_eq(event->realtime_ns, 5000 + 60);
		return 0;
	}
	cr_assert_eq(event->size, sizeof(*event));
	cr_assert_str_eq(event->name, "db:query:begin");
	cr_assert_eq(event->kind, 'b');
	cr_assert_eq(event->pid, 10);
	cr_assert_eq(event->tid, 11);
	cr_assert_eq(event->realtime_ns, 5000 + 50);
	cr_assert_eq(event->field_count, 5);
	cr_assert_str_eq(event->fields[0].name, "len");
	cr_assert_eq(event->fields[0].value.i, -2);
	cr_assert_str_eq(event->fields[1].value.run.start, "select");
	cr_assert_eq(event->fields[1].value.run.bytes, 6);
	cr_assert_eq(event->fields[1].state, 0);
	cr_assert_str_eq(event->fields[2].name, "blob");
	cr_assert_eq(event->fields[2].value.run.bytes, 2);
	cr_assert_arr_eq(event->fields[2].value.run.start, "\0x", 2);
	cr_assert_eq(event->fields[3].value.f, 2.5);
	cr_assert_str_eq(event->fields[4].name, "sql_2");
	cr_assert_eq(event->fields[4].state, 1);
	cr_assert_null(event->fields[4].value.run.start);
	return 0;
}

static int check_forged(const struct wm_event *event, void *data)
{
	(void)data;
	for (int i = 1; i <= 4; i += 3) {
		cr_assert_null(event->fields[i].value.run.start);
		cr_assert_eq(event->fields[i].value.run.bytes, 0);
	}
	return 0;
}

Test(decode, string_without_content_has_no_length)
{
	uint8_t *state;

	begin();
	put_query(1000);
	for (uint8_t forged = FIELD_NULL; forged <= FIELD_UNREADABLE; forged += 2) {
		state = memmem(sample.content, sample.bytes, "select", 6);
		state[-1] = forged;
		cr_assert_eq(decode(sample.bytes, check_forged, NULL), 0);
	}
	sample_release(&sample);
	trace_schema_free(schema);
}

static int count_events(const struct wm_event *event, void *data)
{
	(void)event;
	return ++*(int *)data == 100 ? 77 : 0;
}

Test(decode, events_are_handed_over_with_their_fields)
{
	int seen = 0;

	begin();
	put_query(1000);
	sample_event(&sample, 4000000000u, 1020, 0);
	cr_assert_eq(decode(sample.bytes, check_query, &seen), 0);
	cr_assert_eq(seen, 2);
	sample_release(&sample);
	trace_schema_free(schema);
}

static int take_id(const struct wm_event *event, void *data)
{
	uint32_t *ids = data;

	ids[ids[0] == 0 ? 0 : ids[1] == 0 ? 1 : 2] = event->id;
	return 0;
}

Test(decode, schemas_share_the_numbers_of_names)
{
	struct number_list numbers = { 0 };
	uint32_t ids[3] = { 0 }, again[3] = { 0 }, none[3] = { 0 };

	for (int i = 0; i < 3; i++) {
		begin();
		schema->numbers = i < 2 ? &numbers : NULL;
		if (i == 1)
			sample_event(&sample, 4000000000u, 1000, 0);
		put_query(1000);
		put_query(1001);
		cr_assert_eq(decode(sample.bytes, take_id,
				    i == 0   ? ids
				    : i == 1 ? again
					     : none),
			     0);
		sample_release(&sample);
		trace_schema_free(schema);
	}
	cr_assert(ids[0] == 1 && ids[1] == 1);
	cr_assert(again[0] == 2 && again[1] == 1 && again[2] == 1);
	cr_assert(!none[0] && !none[2]);
	number_list_release(&numbers);
}

Test(decode, the_callback_may_end_it)
{
	int seen = 98;

	begin();
	for (int i = 0; i < 5; i++)
		put_query(1000);
	cr_assert_eq(decode(sample.bytes, count_events, &seen), 77);
	cr_assert_eq(seen, 100);
	sample_release(&sample);
	trace_schema_free(schema);
}

Test(decode, a_packet_cut_anywhere_gives_its_whole_events)
{
	size_t first;

	begin();
	put_query(1000);
	first = sample.bytes;
	put_query(1001);
	for (size_t bytes = 0; bytes <= sample.bytes; bytes++) {
		int whole = bytes == 0 || bytes == first || bytes == sample.bytes, seen = 0;

		cr_assert_eq(decode(bytes, count_events, &seen), whole ? 0 : -WM_E_TRACE_DAMAGED);
		cr_assert_eq(seen, (bytes >= first) + (bytes == sample.bytes));
	}
	sample_release(&sample);
	trace_schema_free(schema);
}

Test(decode, ids_far_apart_are_told_apart)
{
	begin();
	for (uint32_t id = 5; id < 200; id++)
		cr_assert_eq(trace_schema_add(schema, id * 21000000u, SAMPLE_TYPES(0),
					      "mp\na\nb\nc\n1\n"),
			     0);
	for (uint32_t id = 5; id < 200; id++)
		cr_assert_eq(trace_schema_add(schema, id * 21000000u, SAMPLE_TYPES(WM_TYPE_U8),
					      "mp\na\nb\nc\n1\nx"),
			     -EEXIST);
	trace_schema_free(schema);
	trace_schema_free(NULL);
}
