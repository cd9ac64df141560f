/* SPDX-License-Identifier: MIT */
/*
 * Numbers, sizes and times as people write them. The whole text has to be one: there are no signs,
 * spaces or anything behind it. Each returns 0, -EINVAL for another text, or -ERANGE for what is
 * outside of the bounds, which are allowed themselves; then the result stays as it was.
 */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

/* Decimal, or hexadecimal behind 0x. A leading zero is padding: no octal. */
int quantity_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* One at the begin of a text, up to `max`. Returns the text behind it, or NULL without one. */
const char *quantity_number_at(const char *text, uint64_t max, uint64_t *number);

/*
 * "64K", "64KB", "64KiB", "1.5G", or bytes: a K is 1024 bytes, in each spelling and letter case, up
 * to T. Fractions of a byte are cut.
 */
int quantity_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes);

/* "500ms", "1.5s", "10sec", "2min", "1h", or seconds; up to 292 years. Parts of a ns are cut. */
int quantity_time(const char *text, uint64_t min_ns, uint64_t *ns);

/* What it takes, for messages. */
#define QUANTITY_TIMES "seconds, or a number with ns, us, ms, s, min, h or d"

/* As "45.6 MB", decimal units; into text[]. Returns text. */
char *quantity_show_bytes(uint64_t bytes, char *text, size_t room);

/* With commas between thousands. Returns text. */
char *quantity_show_count(uint64_t count, char *text, size_t room);

#endif
