/* SPDX-License-Identifier: MIT */
/* A command's options, taken from its arguments one by one. */
#ifndef CLI_COMMAND_LINE_H
#define CLI_COMMAND_LINE_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct command_line {
	const char *name, *usage;
	const char *letters; /* as getopt(3) has them; -h is the usage */
	const struct option *table;
	/* Take an option. 0 to continue, else the exit status. */
	int (*take)(void *options, int id, const char *text);
};

/*
 * Take all options: -1, with what is no option at argv[optind]; or the exit status, with all said
 * that there is to say.
 */
int command_line_read(const struct command_line *line, int argc, char **argv, void *options);

/*
 * After that, for a command of one folder: -1 and *dir, or the exit status where it is not one that
 * is left.
 */
int command_line_folder(const struct command_line *line, int argc, char **argv, const char **dir);

/*
 * Read the value of an option as base/quantity.h does. `option` is "--rows", `name` the command's.
 * CLI_FINE, or CLI_USAGE after a message with the option, the text and what the option takes.
 */
int command_line_number(const char *name, const char *option, const char *text, uint64_t min,
			uint64_t max, uint64_t *number);
int command_line_time(const char *name, const char *option, const char *text, uint64_t min_ns,
		      uint64_t *ns);
int command_line_size(const char *name, const char *option, const char *text, uint64_t *bytes);

/* The number of a process or thread. */
int command_line_id(const char *name, const char *option, const char *text, uint32_t *id);

/* One such number, or several with commas between: added to ids[], which the caller frees. */
int command_line_ids(const char *name, const char *option, const char *text, pid_t **ids,
		     size_t *count, size_t *room);

/*
 * What getopt_long(3) said no to: '?', or ':' where its letters begin with that, and the word that
 * it was about. Returns CLI_USAGE.
 */
int command_line_complain(const char *name, const struct option *table, int letter,
			  const char *word);

#endif
