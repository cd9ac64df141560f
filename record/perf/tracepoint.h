/* SPDX-License-Identifier: MIT */
/* What a tracepoint of the kernel records: its fields, by tracefs's file "format". */
#ifndef RECORD_PERF_TRACEPOINT_H
#define RECORD_PERF_TRACEPOINT_H

#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>

#define TRACEPOINT_FIELDS_MAX 14
#define TRACEPOINT_NAME_BYTES 48

struct tracepoint_field {
	char name[TRACEPOINT_NAME_BYTES];
	uint8_t type; /* WM_TYPE_* of waymark/marker/field.h */
	/* a place in the record: of the value; or of a word that says where the bytes are */
	uint32_t offset, bytes;
	int is_dynamic;
	int is_narrowed; /* of a system call: the low bytes of 8 */
};

struct tracepoint {
	struct tracepoint_field fields[TRACEPOINT_FIELDS_MAX];
	unsigned int count;
	unsigned int left_out; /* fields past TRACEPOINT_FIELDS_MAX */
};

/*
 * Of "SUBSYSTEM:NAME". 0; -WM_E_COUNT_EVENT: not found; -EACCES: tracefs can't be read;
 * with words.
 */
int tracepoint_read(struct tracepoint *tracepoint, const char *name, struct detail detail);

/* Of the text of such a file. 0, or -EBADMSG. */
int tracepoint_parse(struct tracepoint *tracepoint, const char *text);

/* Whether they name threads as we do: as the first PID namespace does. */
int tracepoint_has_our_pids(void);

const struct tracepoint_field *tracepoint_find(const struct tracepoint *tracepoint,
					       const char *name);

/* Where a field's bytes are in a record: NULL if they are not within it. */
const void *tracepoint_bytes(const struct tracepoint_field *field, const void *raw,
			     size_t raw_bytes, size_t *bytes);

/* A number of up to 8 bytes, with its sign; 0 if it is not within the record. */
int64_t tracepoint_number(const struct tracepoint_field *field, const void *raw, size_t raw_bytes);

#endif
