/* SPDX-License-Identifier: MIT */
#include "cli/command_line.h"

#include "base/array.h"
#include "cli/cli.h"
#include "cli/quantity.h"

#include <errno.h>
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

int command_line_pids(const char *name, const char *text, pid_t **pids, size_t *count, size_t *room)
{
	for (const char *at = text;; at++) {
		uint64_t pid;

		at = quantity_number_at(at, INT32_MAX, &pid);
		if (!at || !pid || (*at && *at != ','))
			return complain_usage(name, "%s is no pid", text);
		if (array_grow(pids, room, *count + 1, sizeof(**pids)))
			return complain(-ENOMEM, NULL);
		(*pids)[(*count)++] = (pid_t)pid;
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
