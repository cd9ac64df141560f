/* SPDX-License-Identifier: MIT */
#include "cli/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

static int parse(const char *text, const struct unit *units, size_t count, uint64_t *value)
{
	double number;
	char *end;

	/* strtod takes more than is meant here: signs, spaces, hexadecimal, exponents, infinity */
	if (!text[0] || !strchr("0123456789.", text[0]) || strpbrk(text, "xXeE"))
		return -EINVAL;
	number = strtod(text, &end);
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(end, units[i].name))
			continue;
		number *= units[i].factor;
		if (!(number < 9.2e18))
			return -ERANGE;
		*value = (uint64_t)number;
		return *value ? 0 : -EINVAL;
	}
	return -EINVAL;
}

int quantity_bytes(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", 1024 },
		{ "KB", 1024 },
		{ "KiB", 1024 },
		{ "M", 1048576 },
		{ "MB", 1048576 },
		{ "MiB", 1048576 },
		{ "G", 1073741824 },
		{ "GB", 1073741824 },
		{ "GiB", 1073741824 },
	};

	return parse(text, units, sizeof(units) / sizeof(units[0]), bytes);
}

int quantity_time_ns(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "", 1e9 },   { "s", 1e9 },	{ "sec", 1e9 },	 { "ms", 1e6 },	   { "us", 1e3 },
		{ "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 },
	};

	return parse(text, units, sizeof(units) / sizeof(units[0]), ns);
}

int quantity_seconds_ns(const char *text, uint64_t *ns)
{
	uint64_t whole = 0, unit = 1000000000, part = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9' && whole < UINT64_MAX / 100000000000u; at++)
		whole = whole * 10 + (uint64_t)(*at - '0');
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++) {
			unit /= 10;
			part += (uint64_t)(*at - '0') * unit;
		}
	*ns = whole * 1000000000 + part;
	return strpbrk(text, "0123456789") && !*at ? 0 : -EINVAL;
}

const char *quantity_number_at(const char *text, uint64_t max, uint64_t *number)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoull takes signs and spaces */
		return NULL;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return errno || *number > max ? NULL : end;
}

int quantity_number(const char *text, uint64_t max, uint64_t *number)
{
	const char *end = quantity_number_at(text, max, number);

	return end && !*end ? 0 : -EINVAL;
}

int quantity_id(const char *text, uint32_t *id)
{
	uint64_t number;

	if (quantity_number(text, UINT32_MAX, &number) || !number)
		return -EINVAL;
	*id = (uint32_t)number;
	return 0;
}

char *quantity_show_bytes(uint64_t bytes, char *text, size_t room)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1000;
		unit++;
	}
	snprintf(text, room, "%.*f %s", unit && value < 100 ? 1 : 0, value, units[unit]);
	return text;
}

char *quantity_show_count(uint64_t count, char *text, size_t room)
{
	char digits[32];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
	size_t at = 0;

	for (size_t i = 0; i < length && at + 2 < room; i++) {
		if (i && (length - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}
