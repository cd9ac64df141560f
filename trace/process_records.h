/* SPDX-License-Identifier: MIT */
/*
 * The begin and the end of processes, as records among the events: of wm_trace_next(), and of
 * wm_session_read().
 */
#ifndef TRACE_PROCESS_RECORDS_H
#define TRACE_PROCESS_RECORDS_H

#include "trace/number.h"
#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

#define LIFE_FIELDS 2

/* Fill in *event, and fields[] for all but LIFE_END. `program` is borrowed. */
void process_life_event(struct wm_event *event, struct wm_event_field fields[LIFE_FIELDS],
			enum life_kind kind, const struct fact_process *process,
			uint64_t realtime_ns, struct number_list *numbers);

struct life_record {
	uint64_t realtime_ns;
	uint32_t process;
	enum life_kind kind;
};

/* A trace's records, in order of time. Zeroed: none. */
struct life_list {
	struct life_record *all;
	size_t count, next;
};

/*
 * Make the records from `from_ns` on. A begin is no later than the process's first packet, and an
 * end no earlier than its last: the clocks may differ by microseconds. 0 or -ENOMEM.
 */
int process_life_list_make(struct life_list *list, const struct trace_reader *reader,
			   uint64_t from_ns);
void process_life_list_release(struct life_list *list);

#endif
