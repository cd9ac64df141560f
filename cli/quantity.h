/* SPDX-License-Identifier: MIT */
/* Sizes and times as people write them. */
#ifndef CLI_QUANTITY_H
#define CLI_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

/* "64K", "16M", "1.5G", or bytes: 1024 to the K. 0, or -EINVAL for nonsense, -ERANGE past 2^63. */
int quantity_bytes(const char *text, uint64_t *bytes);

/*
 * "500ms", "1.5s", "10sec", "2min", "1h", or seconds: exactly, what is less than 1 ns is cut. 0, or
 * -EINVAL, -ERANGE past 2^63. quantity_time_ns(): zero is no time.
 */
int quantity_time_ns(const char *text, uint64_t *ns);
int quantity_since_ns(const char *text, uint64_t *ns);

/* What these take, for messages. */
#define QUANTITY_TIMES                                                                             \
	"seconds, or a number with ns, us, ms, s, min, h or d, up to 292 years: 10, 1.5s, "        \
	"500ms, 2min"

/* A whole number up to `max`, and nothing else. 0, or -EINVAL. */
int quantity_number(const char *text, uint64_t max, uint64_t *number);

/* The same at the begin of a text: returns the text behind it, or NULL if it is no number. */
const char *quantity_number_at(const char *text, uint64_t max, uint64_t *number);

/* A process's or thread's id. 0, or -EINVAL, for 0 too. */
int quantity_id(const char *text, uint32_t *id);

/* As "45.6 MB", decimal units; into text[]. Returns text. */
char *quantity_show_bytes(uint64_t bytes, char *text, size_t room);

/* With commas between thousands. Returns text. */
char *quantity_show_count(uint64_t count, char *text, size_t room);

#endif
