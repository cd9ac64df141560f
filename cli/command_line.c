/* SPDX-License-Identifier: MIT */
#include "cli/command_line.h"

#include "base/array.h"
#include "base/quantity.h"
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMES_MAX 64

int command_line_read(const struct command_line *line, int argc, char **argv, void *options)
{
	int id, status;

	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, line->letters, line->table, NULL)) != -1) {
		if (id == 'h') {
			fputs(line->usage, stdout);
			return CLI_FINE;
		}
		if (id == '?')
			return complain_usage(line->name,
					      "this option is not known or lacks its value: %s",
					      argv[optind - 1]);
		status = line->take(options, id, optarg);
		if (status)
			return status;
	}
	return -1;
}

int command_line_folder(const struct command_line *line, int argc, char **argv, const char **dir)
{
	if (optind != argc - 1)
		return complain_usage(line->name, optind == argc ? "name the trace's folder"
								 : "only one folder at a time");
	*dir = argv[optind];
	return -1;
}

int command_line_number(const char *name, const char *option, const char *text, uint64_t min,
			uint64_t max, uint64_t *number)
{
	char most[32] = "on";

	if (!quantity_number(text, min, max, number))
		return CLI_FINE;
	if (max <= UINT32_MAX)
		snprintf(most, sizeof(most), "to %" PRIu64, max);
	return complain_usage(name, "%s takes a number from %" PRIu64 " %s, not %s", option, min,
			      most, text);
}

int command_line_time(const char *name, const char *option, const char *text, uint64_t min_ns,
		      uint64_t *ns)
{
	char least[32] = "";

	if (!quantity_time(text, min_ns, ns))
		return CLI_FINE;
	if (min_ns > 1)
		snprintf(least, sizeof(least), ", at least %" PRIu64 "ms", min_ns / 1000000);
	return complain_usage(name, "%s takes " QUANTITY_TIMES "%s, not %s", option, least, text);
}

int command_line_size(const char *name, const char *option, const char *text, uint64_t *bytes)
{
	if (!quantity_size(text, 1, INT64_MAX, bytes))
		return CLI_FINE;
	return complain_usage(name, "%s takes a size, such as 64M or 1.5GiB, not %s", option, text);
}

int command_line_id(const char *name, const char *option, const char *text, uint32_t *id)
{
	uint64_t number = 0;
	int status = command_line_number(name, option, text, 1, INT32_MAX, &number);

	*id = (uint32_t)number;
	return status;
}

int command_line_ids(const char *name, const char *option, const char *text, pid_t **ids,
		     size_t *count, size_t *room)
{
	for (const char *at = text;; at++) {
		uint64_t id;

		at = quantity_number_at(at, INT32_MAX, &id);
		if (!at || !id || (*at && *at != ','))
			return complain_usage(name, "%s takes numbers, such as 12 or 12,34, not %s",
					      option, text);
		if (array_grow(ids, room, *count + 1, sizeof(**ids)))
			return complain(-ENOMEM, NULL);
		(*ids)[(*count)++] = (pid_t)id;
		if (!*at)
			return CLI_FINE;
	}
}

int command_line_complain(const char *name, const struct option *table, int letter,
			  const char *word)
{
	const char *names[NAMES_MAX];
	size_t count = 0;

	if (letter == ':')
		return complain_usage(name, "%s needs a value", word);
	complain_usage(name, "there is no option %s", word);
	for (; count < NAMES_MAX && table[count].name; count++)
		names[count] = table[count].name;
	if (!strncmp(word, "--", 2))
		complain_meant(word + 2, names, count);
	return CLI_USAGE;
}
