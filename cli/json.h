/* SPDX-License-Identifier: MIT */
/*
 * JSON, written by hand into base/out.h's buffer. Commas are put where they belong. A key is NULL
 * for an element of an array, and is taken as it is: it holds nothing that wants escaping.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "base/out.h"

#include <stdint.h>

struct json {
	struct out *out; /* whose errors are the writer's */
	int follows;	 /* the next member has one before it */
};

/* Begin an object or an array, '{' or '['; end it with '}' or ']'. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

/* The next value begins on a line of its own. */
void json_line(struct json *json);

/* A string; what isn't UTF-8 in it becomes U+FFFD. NULL is written as "". */
void json_string(struct json *json, const char *key, const char *value);
/* The same, but null where there is nothing to say. */
void json_words(struct json *json, const char *key, const char *value);
void json_number(struct json *json, const char *key, uint64_t value);
/* With so many digits behind the point; null if it is not a number. */
void json_decimal(struct json *json, const char *key, double value, int digits);
void json_bool(struct json *json, const char *key, int value);
void json_null(struct json *json, const char *key);

#endif
