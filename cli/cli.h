/* SPDX-License-Identifier: MIT */
/*
 * The command line: one file a command, each with options of its own. main.c lists them.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stddef.h>
#include <stdio.h>

/* Exit statuses. `record` passes the status of the program that it ran through. */
enum cli_status { CLI_FINE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/*
 * A command: argv[0] is its name. Each prints its own --help to stdout and returns an exit status.
 */
int cmd_record(int argc, char **argv);
int cmd_control(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_compress(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_trail(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_coverage(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_claims(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

/* Print the kinds and options of event specs; is_manual: as Markdown. CLI_FINE. */
int spec_help(int is_manual);

/*
 * Print what the last of a command's words may become, a line each; words[0] is its name, and
 * count is 2 at least. CLI_FINE.
 */
int complete_word(int (*run)(int argc, char **argv), char **words, int count);

/* Print the tables that commands print, as waymark-tables(7) has them. Returns an exit status. */
int tables_print(void);

/*
 * Say on stderr what went wrong, and what to do about it where there is something to say:
 *
 *	waymark: WHAT: detail
 *	  hint
 *
 * WHAT and the hint are those of a negative error (waymark/error.h). The detail names what it was
 * about; NULL or "" leaves it out. Returns CLI_FAILED, to be returned on.
 */
int complain(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Print on stderr. Names that programs and files gave themselves may be among the words: what a
 * terminal would obey, line ends too, is shown as \xNN; but the format's own last line end is one.
 */
void complain_words(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same on any file. */
void complain_words_put(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As complain(), for a name that was not found; also lists the names near to it, of all[count]. */
int complain_near(int error, const char *name, const char *const *all, size_t count);

/*
 * The command line itself is wrong: say so, and name the help. `command` is a command's
 * name, or NULL. Returns CLI_USAGE.
 */
int complain_usage(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "did you mean ...?" on a line of its own, for up to three names near `word`; or nothing. */
void complain_meant(const char *word, const char *const *all, size_t count);

#endif
