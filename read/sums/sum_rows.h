/* SPDX-License-Identifier: MIT */
/*
 * The rows of sums of a trace (abi/sum.h), those with equal values added up: over pages, threads
 * and times. Values that are addresses are of one process each. One thread.
 */
#ifndef READ_SUMS_SUM_ROWS_H
#define READ_SUMS_SUM_ROWS_H

#include "abi/sum.h"
#include "base/slots.h"
#include "read/pass/merge.h"

#include <stddef.h>
#include <stdint.h>

/* Of different values; further ones are one row for each class, interval and bucket. */
#define SUMS_ROWS_MAX (1u << 20)

/* Classes of the same name and fields, of all processes. */
struct sums_class {
	const struct trace_class *class;
	unsigned int keys; /* its first fields: what it is added up by */
	int has_addresses; /* among them */
};

/* Which rows are wanted. Zeroed: all, each of the whole trace. */
struct sums_wish {
	const char *event; /* glob of names without ":sum"; NULL: all */
	uint32_t pid, tid; /* 0: all */
	uint64_t every_ns; /* apart for each of these intervals; 0: there is one */
};

struct sums_row {
	uint64_t interval; /* number, from the trace's begin */
	uint32_t class;	   /* of classes[] */
	uint32_t process;  /* of the trace's facts: whose addresses the values are */
	uint64_t last_ns;  /* the wall clock at the last of its events */
	size_t key;	   /* in keys[]: its values, as an event has them */
	uint32_t key_bytes;
	int is_other;
	uint64_t count;
	uint64_t values[SUM_FIELDS_MAX]; /* of the fields behind the count */
};

struct sums {
	struct pass_observer observer;
	const struct trace_reader *reader;
	struct sums_wish wish;
	uint64_t begin_ns; /* of the trace, by the wall clock */
	struct sums_class *classes;
	size_t class_count, class_room;
	struct sums_row *rows;
	size_t count, room;
	unsigned char *keys;
	size_t key_bytes, key_room;
	struct slots slots;
	uint32_t **class_of; /* by process and index of its classes: number + 1; 0: no sums */
};

/* Whether a class is of rows of sums. */
static inline int sums_has(const struct trace_class *class)
{
	return class->kind == 's';
}

/* What a field is of: enum sum_as, SUM_AS_COUNT for the count. *name: of the event's field. */
enum sum_as sums_field(const struct sums_class *of, unsigned int field, const char **name);

/* A class's name without ":sum". In text[], which is returned. */
#define SUMS_NAME_BYTES 512
const char *sums_name(const struct trace_class *class, char text[SUMS_NAME_BYTES]);

/*
 * The number of fields before the count, in a class that has the fields of rows; -1: it has not, so
 * none of its events is a row.
 */
int sums_keys(const struct trace_class *class);

/* Add a row's values, in the order of its class's fields behind the count. */
void sums_values_add(const struct sums_class *of, uint64_t *to, const uint64_t *values);

/* Whether the last of the values that a class is added up by is a bucket (hist=). */
int sums_has_buckets(const struct sums_class *class);

/*
 * Begin to observe a pass; wish NULL: all. 0 or -ENOMEM; release in any case. Of a trace without
 * sums: no rows.
 */
int sums_open(struct sums *sums, const struct trace_reader *reader, const struct sums_wish *wish);
void sums_release(struct sums *sums);

#endif
