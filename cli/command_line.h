/* SPDX-License-Identifier: MIT */
/* A command's options, taken from its arguments one by one. */
#ifndef CLI_COMMAND_LINE_H
#define CLI_COMMAND_LINE_H

#include <getopt.h>
#include <stddef.h>
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
 * One pid, or several with commas between, behind those that there are; the caller frees them.
 * CLI_FINE, or what was said.
 */
int command_line_pids(const char *name, const char *text, pid_t **pids, size_t *count,
		      size_t *room);

/*
 * What getopt_long(3) said no to: '?', or ':' where its letters begin with that, and the word that
 * it was about. Returns CLI_USAGE.
 */
int command_line_complain(const char *name, const struct option *table, int letter,
			  const char *word);

#endif
