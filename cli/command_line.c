/* SPDX-License-Identifier: MIT */
#include "cli/command_line.h"

#include "base/array.h"
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/folders.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OPTIONS_MAX 40
#define ID_FIRST 256 /* behind all letters */

/* As getopt_long(3) has them; the number of an option is ID_FIRST and its place. */
static void table_write(const struct command_line *line, struct option longs[OPTIONS_MAX + 2],
			char letters[3 * OPTIONS_MAX + 5])
{
	size_t count = 0, used = 0;

	if (line->stops)
		letters[used++] = '+';
	letters[used++] = ':';
	for (const struct command_option *row = line->table; row->name; row++) {
		int has_value = row->type == COMMAND_FLAG || row->has_no_value ? no_argument
				: row->may_lack_value			       ? optional_argument
									       : required_argument;

		longs[count] = (struct option){ row->name, has_value, NULL, ID_FIRST + (int)count };
		count++;
		if (row->letter)
			letters[used++] = row->letter;
		for (int i = 0; row->letter && i < has_value; i++)
			letters[used++] = ':';
	}
	longs[count++] = (struct option){ "help", no_argument, NULL, 'h' };
	longs[count] = (struct option){ 0 };
	strcpy(letters + used, "h");
}

static int word_take(const struct command_line *line, const struct command_option *row,
		     const char *text, void *to)
{
	char all[128] = "";
	uint32_t count = 0;

	for (; row->words[count]; count++) {
		uint32_t number = (uint32_t)row->min + count;

		if (!strcmp(text, row->words[count])) {
			memcpy(to,
			       row->bytes == sizeof(number) ? (const void *)&number
							    : &row->words[count],
			       row->bytes);
			return CLI_FINE;
		}
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
			 !count			 ? ""
			 : row->words[count + 1] ? ", "
						 : " or ",
			 row->words[count]);
	}
	complain_usage(line->name, "--%s takes %s, not %s", row->name, all, text);
	complain_meant(text, row->words, count);
	return CLI_USAGE;
}

static int option_take(const struct command_line *line, const struct command_option *row,
		       const char *text, void *options)
{
	void *to = (char *)options + row->at;
	char option[64];
	uint64_t number = row->min;
	int status = CLI_FINE;

	snprintf(option, sizeof(option), "--%s", row->name);
	if (row->type == COMMAND_CALL)
		return row->take(options, row, text, line->name);
	if (row->type == COMMAND_WORD)
		return word_take(line, row, text, to);
	if (row->type == COMMAND_TEXTS)
		return command_line_text(text, to);
	if (row->type == COMMAND_IDS)
		return command_line_ids(line->name, option, text, to);
	if (row->type == COMMAND_NUMBER)
		status = command_line_number(line->name, option, text, row->min, row->max, &number);
	else if (row->type == COMMAND_ID)
		status = command_line_number(line->name, option, text, 1, INT32_MAX, &number);
	else if (row->type == COMMAND_TIME)
		status = command_line_time(line->name, option, text, row->min, &number);
	else if (row->type == COMMAND_SIZE)
		status = command_line_size(line->name, option, text, &number);
	if (!status && (row->type == COMMAND_TEXT || row->words))
		*(const char **)to = row->words ? row->words[0] : text;
	else if (!status && row->bytes == sizeof(uint64_t))
		*(uint64_t *)to = number;
	else if (!status)
		*(uint32_t *)to = (uint32_t)number;
	return status;
}

/* What getopt_long(3) said no to: '?' or ':', and the word that it was about. */
static int option_complain(const char *name, const struct option *table, int letter,
			   const char *word)
{
	const char *names[OPTIONS_MAX + 1];
	size_t count = 0;

	if (letter == ':')
		return complain_usage(name, "%s needs a value", word);
	complain_usage(name, "there is no option %s", word);
	for (; table[count].name; count++)
		names[count] = table[count].name;
	if (!strncmp(word, "--", 2))
		complain_meant(word + 2, names, count);
	return CLI_USAGE;
}

static const struct command_line **asked; /* command_line_of() runs */

const struct command_line *command_line_of(int (*run)(int argc, char **argv))
{
	const struct command_line *line = NULL;
	char nothing[] = "";

	asked = &line;
	(void)run(1, (char *[]){ nothing, NULL });
	asked = NULL;
	return line;
}

int command_line_read(const struct command_line *line, int argc, char **argv, void *options)
{
	struct option longs[OPTIONS_MAX + 2];
	char letters[3 * OPTIONS_MAX + 5];
	int id, status;

	if (asked) {
		*asked = line;
		return CLI_FINE;
	}
	table_write(line, longs, letters);
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct command_option *row = line->table;

		if (id == 'h') {
			fputs(line->usage, stdout);
			return CLI_FINE;
		}
		if (id == '?' || id == ':')
			return option_complain(line->name, longs, id, argv[optind - 1]);
		while (id < ID_FIRST && row->letter != id)
			row++;
		status = option_take(line, id < ID_FIRST ? row : row + id - ID_FIRST, optarg,
				     options);
		if (status)
			return status;
	}
	return -1;
}

int command_line_folder(const struct command_line *line, int argc, char **argv, const char **dir)
{
	char newest[PATH_MAX + 16], metadata[PATH_MAX + 16];

	if (optind != argc - 1)
		return complain_usage(line->name, optind == argc ? "name the trace's folder"
								 : "only one folder at a time");
	*dir = argv[optind];
	folders_newest(*dir, newest);
	snprintf(metadata, sizeof(metadata), "%s/metadata", *dir);
	if (!strcmp(newest, *dir) || !access(metadata, F_OK))
		return -1;
	complain_words("waymark: %s has several traces: give one of them, such as the newest, %s\n",
		       *dir, newest);
	return CLI_FAILED;
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

int command_line_ids(const char *name, const char *option, const char *text,
		     struct command_ids *ids)
{
	for (const char *at = text;; at++) {
		uint64_t id;

		at = quantity_number_at(at, INT32_MAX, &id);
		if (!at || !id || (*at && *at != ','))
			return complain_usage(name, "%s takes numbers, such as 12 or 12,34, not %s",
					      option, text);
		if (array_grow(&ids->all, &ids->room, ids->count + 1, sizeof(*ids->all)))
			return complain(-ENOMEM, NULL);
		ids->all[ids->count++] = (pid_t)id;
		if (!*at)
			return CLI_FINE;
	}
}

int command_line_text(const char *text, struct command_texts *texts)
{
	if (array_grow(&texts->all, &texts->room, texts->count + 1, sizeof(*texts->all)))
		return complain(-ENOMEM, NULL);
	texts->all[texts->count++] = text;
	return CLI_FINE;
}
