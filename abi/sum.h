/* SPDX-License-Identifier: MIT */
/*
 * Sums: hits of an event added up by the values of some fields, in place of one event a hit.
 *
 * A row is an event of a class of its own (kind 's' of abi/site.h): the values that it is added up
 * by, then count, then sums, least and greatest values, of 64 bits each. It is written to a page as
 * other events are. While that page is the thread's, later hits with the same values add to the
 * last fields of the row, in place. So a thread keeps the rows of one page at a time (PAGE_ROWS of
 * abi/page.h), and values come again in the next page. Whoever reads adds up rows of equal values;
 * nothing is lost by the limit.
 *
 * A row counts from its time on, until another row with its values follows in the stream.
 */
#ifndef ABI_SUM_H
#define ABI_SUM_H

#include "abi/predicate.h"

#include <stdint.h>

#define SUM_FIELDS_MAX 8
#define SUM_KEYS_MAX 3	  /* of by= */
#define SUM_TEXT_BYTES 63 /* of a string, as much as a row has */

/* In this order in a row; the count is before SUM_SUM. */
enum sum_as {
	SUM_BY,	  /* the value */
	SUM_HIST, /* its bucket, by sum_bucket() */
	SUM_SUM,
	SUM_MIN,
	SUM_MAX,
	SUM_AS_COUNT,
};

#define SUM_COUNT "count" /* what a row's field is called */
/* what is before the field's name, by enum sum_as, in the names of the others */
#define SUM_PREFIXES                                                                               \
	{                                                                                          \
		"", "hist_", "sum_", "min_", "max_"                                                \
	}

/* Where an event has no field of these names: */
#define SUM_CALLER "caller" /* where the function returns to */
/* and FIELD_CALLCHAIN, and those of PREDICATE_CONTEXTS */

/* One field of a spec, in the order of enum sum_as. */
struct sum_field {
	char name[PREDICATE_NAME_BYTES]; /* of the event's field, NUL-terminated */
	uint8_t as;			 /* enum sum_as */
	uint8_t field; /* its number + 1, where the tool knows it; 0: find it by its name */
	uint8_t reserved[6];
};

_Static_assert(sizeof(struct sum_field) == 72, "fixed");

/* The least value of a bucket: four to each power of two, so it is a quarter too low at most. */
static inline uint64_t sum_bucket(uint64_t value)
{
	unsigned int shift = value < 8 ? 0 : 61 - (unsigned int)__builtin_clzll(value);

	return value >> shift << shift;
}

/* One past its greatest value; 0: that has more bits. */
static inline uint64_t sum_bucket_end(uint64_t least)
{
	unsigned int shift = least < 8 ? 0 : 61 - (unsigned int)__builtin_clzll(least);

	return least + (UINT64_C(1) << shift);
}

#endif
