/* SPDX-License-Identifier: MIT */
#include "trace/testing/babeltrace.h"

#include "base/text_buffer.h"

#include <babeltrace2/babeltrace.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void put_integer(struct text *line, const bt_field *field, bt_field_class_type type)
{
	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
		text_format(line, "%llu",
			    (unsigned long long)bt_field_integer_unsigned_get_value(field));
	else
		text_format(line, "%lld", (long long)bt_field_integer_signed_get_value(field));
}

static void put_real(struct text *line, const bt_field *field, bt_field_class_type type)
{
	double value = type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL
			       ? (double)bt_field_real_single_precision_get_value(field)
			       : bt_field_real_double_precision_get_value(field);

	text_format(line, "%a", value);
}

static void put_field(struct text *line, const bt_field *field);

static void put_array(struct text *line, const bt_field *field)
{
	uint64_t count = bt_field_array_get_length(field);

	for (uint64_t i = 0; i < count; i++) {
		put_field(line, bt_field_array_borrow_element_field_by_index_const(field, i));
		text_format(line, ",");
	}
}

static void put_field(struct text *line, const bt_field *field)
{
	bt_field_class_type type = bt_field_get_class_type(field);

	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_INTEGER)) {
		put_integer(line, field, type);
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_REAL)) {
		put_real(line, field, type);
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_ARRAY)) {
		put_array(line, field);
	} else if (type == BT_FIELD_CLASS_TYPE_STRING) {
		/*
		 * Not strlen(): 2.0.4 leaves the last value's bytes behind an empty string's
		 * length.
		 */
		text_hex(line, (const unsigned char *)bt_field_string_get_value(field),
			 bt_field_string_get_length(field));
	} else {
		text_format(line, "?");
	}
}

static void put_event(struct babeltrace *read, const bt_message *message)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const bt_clock_snapshot *clock = bt_message_event_borrow_default_clock_snapshot_const(
		message);
	const bt_field *payload = bt_event_borrow_payload_field_const(event);
	struct text line = { 0 };
	int64_t ns = 0;
	uint64_t count = 0;

	bt_clock_snapshot_get_ns_from_origin(clock, &ns);
	text_format(&line, "%020lld %s", (long long)ns,
		    bt_event_class_get_name(bt_event_borrow_class_const(event)));
	if (payload)
		count = bt_field_class_structure_get_member_count(
			bt_field_borrow_class_const(payload));
	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member
			*member = bt_field_class_structure_borrow_member_by_index_const(
				bt_field_borrow_class_const(payload), i);

		text_format(&line, " %s=", bt_field_class_structure_member_get_name(member));
		put_field(&line, bt_field_structure_borrow_member_field_by_index_const(payload, i));
	}
	if (read->count == read->room) {
		read->room = read->room ? read->room * 2 : 256;
		read->lines = reallocarray(read->lines, read->room, sizeof(char *));
		if (!read->lines)
			abort();
	}
	read->lines[read->count++] = line.at;
}

/* The trace's facts are among the events. */
static int is_fact(const bt_message *message)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);

	return !strncmp(bt_event_class_get_name(bt_event_borrow_class_const(event)), "waymark:", 8);
}

static void put_message(struct babeltrace *read, const bt_message *message)
{
	uint64_t count = 0;

	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		if (is_fact(message))
			read->facts++;
		else
			put_event(read, message);
		break;
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		bt_message_discarded_events_get_count(message, &count);
		read->discarded += count;
		break;
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		bt_message_discarded_packets_get_count(message, &count);
		read->missing_packets += count;
		break;
	default:
		break;
	}
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *data)
{
	bt_message_array_const messages;
	uint64_t count;

	switch (bt_message_iterator_next(iterator, &messages, &count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	default:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
	for (uint64_t i = 0; i < count; i++) {
		put_message(data, messages[i]);
		bt_message_put_ref(messages[i]);
	}
	return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

/* ctf.fs -> utils.muxer -> consume(); every output of the source goes to an input of the muxer. */
static int connect_all(bt_graph *graph, const bt_component_source *source,
		       const bt_component_filter *muxer, const bt_component_sink *sink)
{
	uint64_t count = bt_component_source_get_output_port_count(source);

	for (uint64_t i = 0; i < count; i++)
		if (bt_graph_connect_ports(
			    graph, bt_component_source_borrow_output_port_by_index_const(source, i),
			    bt_component_filter_borrow_input_port_by_index_const(muxer, i), NULL))
			return -1;
	return bt_graph_connect_ports(
		graph, bt_component_filter_borrow_output_port_by_index_const(muxer, 0),
		bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL);
}

static const bt_plugin *plugin(const char *name)
{
	const bt_plugin *found = NULL;

	bt_plugin_find(name, BT_TRUE, BT_FALSE, BT_TRUE, BT_FALSE, BT_FALSE, &found);
	return found;
}

static int graph_make(bt_graph *graph, const char *dir, struct babeltrace *read)
{
	const bt_plugin *ctf = plugin("ctf"), *utils = plugin("utils");
	const bt_component_source *source;
	const bt_component_filter *muxer;
	const bt_component_sink *sink;
	bt_value *params = bt_value_map_create(), *inputs;
	int err = -1;

	if (ctf && utils && !bt_value_map_insert_empty_array_entry(params, "inputs", &inputs) &&
	    !bt_value_array_append_string_element(inputs, dir) &&
	    !bt_graph_add_source_component(
		    graph, bt_plugin_borrow_source_component_class_by_name_const(ctf, "fs"), "in",
		    params, BT_LOGGING_LEVEL_NONE, &source) &&
	    !bt_graph_add_filter_component(
		    graph, bt_plugin_borrow_filter_component_class_by_name_const(utils, "muxer"),
		    "mux", NULL, BT_LOGGING_LEVEL_NONE, &muxer) &&
	    !bt_graph_add_simple_sink_component(graph, "out", NULL, consume, NULL, read, &sink))
		err = connect_all(graph, source, muxer, sink);
	bt_value_put_ref(params);
	bt_plugin_put_ref(ctf);
	bt_plugin_put_ref(utils);
	return err;
}

int babeltrace_read(struct babeltrace *read, const char *dir)
{
	bt_graph *graph = bt_graph_create(0);

	*read = (struct babeltrace){ 0 };
	if (graph_make(graph, dir, read) || bt_graph_run(graph) != BT_GRAPH_RUN_STATUS_OK) {
		read->failed = 1;
		bt_current_thread_clear_error();
	}
	bt_graph_put_ref(graph);
	return 0;
}

void babeltrace_release(struct babeltrace *read)
{
	for (uint32_t i = 0; i < read->count; i++)
		free(read->lines[i]);
	free(read->lines);
}
