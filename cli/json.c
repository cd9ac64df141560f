/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>

/* What precedes a value: the comma behind the one before, and its key. */
static void begin(struct json *json, const char *key)
{
	if (json->follows)
		out_char(json->out, ',');
	json->follows = 1;
	if (!key)
		return;
	out_char(json->out, '"');
	out_text(json->out, key, strlen(key));
	out_literal(json->out, "\":");
}

void json_open(struct json *json, const char *key, char bracket)
{
	begin(json, key);
	out_char(json->out, bracket);
	json->follows = 0;
}

void json_close(struct json *json, char bracket)
{
	out_char(json->out, bracket);
	json->follows = 1;
}

void json_line(struct json *json)
{
	if (json->follows)
		out_char(json->out, ',');
	out_char(json->out, '\n');
	json->follows = 0;
}

void json_string(struct json *json, const char *key, const char *value)
{
	begin(json, key);
	out_char(json->out, '"');
	out_json(json->out, value ? value : "", value ? strlen(value) : 0);
	out_char(json->out, '"');
}

void json_words(struct json *json, const char *key, const char *value)
{
	if (value && value[0])
		json_string(json, key, value);
	else
		json_null(json, key);
}

void json_number(struct json *json, const char *key, uint64_t value)
{
	begin(json, key);
	out_u64(json->out, value);
}

void json_decimal(struct json *json, const char *key, double value, int digits)
{
	char text[400];

	if (!isfinite(value)) {
		json_null(json, key);
		return;
	}
	snprintf(text, sizeof(text), "%.*f", digits, value);
	begin(json, key);
	out_text(json->out, text, strlen(text));
}

void json_bool(struct json *json, const char *key, int value)
{
	begin(json, key);
	out_text(json->out, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json *json, const char *key)
{
	begin(json, key);
	out_literal(json->out, "null");
}
