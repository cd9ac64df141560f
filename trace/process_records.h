/* SPDX-License-Identifier: MIT */
/*
 * Processes of a trace: their begin and end, as records among the events (of wm_trace_next(), and
 * of wm_session_read()), and which of them a pid was at a time.
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

/*
 * Which of the metadata's processes a pid was at a time: one that executes another program is
 * another, and a forked child may have its streams in its parent's.
 */
#define PROCESS_NUMBER_NONE UINT32_MAX

/* Zeroed: none. */
struct process_numbers {
	struct process_number {
		uint32_t pid, process;
		uint64_t begin_ns;
	} * all; /* by pid, then begin */
	size_t count;
};

/* 0 or -ENOMEM. */
int process_numbers_make(struct process_numbers *numbers, const struct trace_reader *reader);
void process_numbers_release(struct process_numbers *numbers);

/* The last that had begun then, or the first of all; so until *until_ns, which may be NULL. */
uint32_t process_number_at(const struct process_numbers *numbers, uint32_t pid, uint64_t ns,
			   uint64_t *until_ns);

#endif
