/* SPDX-License-Identifier: MIT */
/*
 * Sums (waymark-sums(7)) as report, record and top print them: a line for each text of the values
 * that hits are added up by. The caller makes the text. Zeroed: none. One thread.
 */
#ifndef CLI_SUMS_LINES_H
#define CLI_SUMS_LINES_H

#include "base/slots.h"
#include "base/text_buffer.h"
#include "read/rows/render.h"
#include "read/sums/sum_rows.h"

#include <stddef.h>
#include <stdint.h>

#define SUMS_OTHER "(other)" /* in place of values for which there is no room */

struct sums_line {
	uint64_t interval;  /* number */
	uint32_t class;	    /* of classes[] */
	size_t by;	    /* in texts */
	uint64_t different; /* values, where these are left out; else 0 */
	uint64_t count;
	uint64_t values[SUM_FIELDS_MAX];
	uint64_t *buckets; /* NULL: there is no hist= */
};

struct sums_lines {
	const struct sums_class *classes; /* the caller's */
	uint64_t every_ns;		  /* an interval's length; 0: there is one */
	size_t most; /* lines for different values; for the rest SUMS_OTHER; 0: any */
	struct sums_line *all;
	size_t count, room;
	struct text texts;
	struct slots slots;
};

/* Hits that are added to a line. */
struct sums_part {
	uint64_t interval;
	uint32_t class;
	uint64_t count, bucket; /* its least value; of classes with hist= */
	const uint64_t *values;
};

/*
 * Add to the line of a text, which was put behind the others in lines->texts, at `by`, with its
 * NUL; it is taken away again where there is such a line. 0 or -ENOMEM.
 */
int sums_lines_add(struct sums_lines *lines, size_t by, const struct sums_part *part);

/* Sort them: by time and class, the greatest sum or count first, SUMS_OTHER last. */
void sums_lines_sort(struct sums_lines *lines);

/* Of each class and interval beyond `shown` lines one for the rest. Sorted. 0 or -ENOMEM. */
int sums_lines_cut(struct sums_lines *lines, uint64_t shown);

/* How many rows there are, and print `count` of them: one for each field of a line. */
size_t sums_lines_rows(const struct sums_lines *lines);
void sums_lines_put(const struct sums_lines *lines, struct rows *rows, size_t count);

/* Their histograms. */
void sums_lines_put_buckets(const struct sums_lines *lines, struct rows *rows);

/* Forget the lines; what the caller has set stays. */
void sums_lines_clear(struct sums_lines *lines);

#endif
