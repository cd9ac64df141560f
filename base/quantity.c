/* SPDX-License-Identifier: MIT */
#include "base/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *names; /* with a space between them; letter case is set aside */
	uint64_t factor;
};

static int is_unit(const char *names, const char *text)
{
	size_t bytes = strlen(text);

	for (;; names++) {
		size_t name = strcspn(names, " ");

		if (name == bytes && !strncasecmp(names, text, bytes))
			return 1;
		names += name;
		if (!*names)
			return 0;
	}
}

/* A decimal number and its unit, exactly; what is less than 1 is cut. */
static int parse(const char *text, const struct unit *units, size_t count, uint64_t min,
		 uint64_t max, uint64_t *value)
{
	unsigned __int128 whole = 0, part = 0, one = 1;
	const char *at = text;
	int digits = 0;

	for (; *at >= '0' && *at <= '9'; at++, digits++)
		whole = whole > UINT64_MAX ? whole : whole * 10 + (unsigned int)(*at - '0');
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++) {
			if (one < 1000000000000000000) {
				part = part * 10 + (unsigned int)(*at - '0');
				one *= 10;
			}
			digits++;
		}
	for (size_t i = 0; digits && i < count; i++) {
		if (!is_unit(units[i].names, at))
			continue;
		whole = whole * units[i].factor + part * units[i].factor / one;
		if (whole < min || whole > max)
			return -ERANGE;
		*value = (uint64_t)whole;
		return 0;
	}
	return -EINVAL;
}

int quantity_size(const char *text, uint64_t min, uint64_t max, uint64_t *bytes)
{
	static const struct unit units[] = { { " B", 1 },
					     { "K KB KiB", 1024 },
					     { "M MB MiB", 1048576 },
					     { "G GB GiB", 1073741824 },
					     { "T TB TiB", UINT64_C(1099511627776) } };

	return parse(text, units, sizeof(units) / sizeof(units[0]), min, max, bytes);
}

int quantity_time(const char *text, uint64_t min_ns, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "ns nsec", 1 },
		{ "us \u00b5s usec", 1000 },
		{ "ms msec", 1000000 },
		{ " s sec secs second seconds", 1000000000 },
		{ "m min mins minute minutes", UINT64_C(60000000000) },
		{ "h hr hour hours", UINT64_C(3600000000000) },
		{ "d day days", UINT64_C(86400000000000) },
	};

	return parse(text, units, sizeof(units) / sizeof(units[0]), min_ns, INT64_MAX, ns);
}

const char *quantity_number_at(const char *text, uint64_t max, uint64_t *number)
{
	int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
	char *end;

	if (*text < '0' || *text > '9') /* strtoull takes signs and spaces */
		return NULL;
	errno = 0;
	*number = strtoull(text, &end, base);
	return errno || *number > max ? NULL : end;
}

int quantity_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	uint64_t value;
	const char *end = quantity_number_at(text, UINT64_MAX, &value);

	if (end ? *end : *text < '0' || *text > '9')
		return -EINVAL;
	if (!end || value < min || value > max)
		return -ERANGE;
	*number = value;
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
