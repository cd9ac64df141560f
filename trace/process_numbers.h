/* SPDX-License-Identifier: MIT */
/*
 * Which of the metadata's processes a pid was at a time: one that executes another program is
 * another, and a forked child may have its streams in its parent's.
 */
#ifndef TRACE_PROCESS_NUMBERS_H
#define TRACE_PROCESS_NUMBERS_H

#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

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
