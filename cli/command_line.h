/* SPDX-License-Identifier: MIT */
/* A command's options, taken from its arguments one by one. */
#ifndef CLI_COMMAND_LINE_H
#define CLI_COMMAND_LINE_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum command_type {
	COMMAND_FLAG, /* has no value: stores `min`, or the text words[0] */
	COMMAND_TEXT,
	COMMAND_WORD,	/* one of `words`: its text, or where that has 4 bytes its place + `min` */
	COMMAND_NUMBER, /* from `min` to `max` */
	COMMAND_ID,	/* of a process or thread */
	COMMAND_TIME,	/* in ns, `min` at least */
	COMMAND_SIZE,
	COMMAND_TEXTS, /* may be given again: struct command_texts */
	COMMAND_IDS,   /* likewise, each several with commas between: struct command_ids */
	COMMAND_CALL,  /* `take` reads the value */
};

/* The caller frees `all`. */
struct command_texts {
	const char **all;
	size_t count, room;
};

struct command_ids {
	pid_t *all;
	size_t count, room;
};

/* One option of a command, and where its value goes. */
struct command_option {
	const char *name;
	char letter; /* 0: none */
	enum command_type type;
	size_t at, bytes; /* in the command's options */
	uint64_t min, max;
	const char *const *words; /* NULL ends them; of COMMAND_CALL, what completion offers */
	/* CLI_FINE to continue; `text` is NULL where there is no value, `name` the command's */
	int (*take)(void *options, const struct command_option *option, const char *text,
		    const char *name);
	int has_no_value, may_lack_value; /* of COMMAND_CALL */
};

#define COMMAND_TO(options, member)                                                                \
	.at = offsetof(struct options, member), .bytes = sizeof(((struct options *)NULL)->member)

struct command_line {
	const char *name, *usage;
	const struct command_option *table; /* without --help; one without a name ends it */
	int stops;			    /* at the first word that is no option */
};

/*
 * Take all options: -1, with what is no option at argv[optind]; or the exit status, with all said
 * that there is to say.
 */
int command_line_read(const struct command_line *line, int argc, char **argv, void *options);

/* The options of a command, by a call that ends in command_line_read(). */
const struct command_line *command_line_of(int (*run)(int argc, char **argv));

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

/* One number of a process or thread, or several with commas between: added to ids[]. */
int command_line_ids(const char *name, const char *option, const char *text,
		     struct command_ids *ids);

/* The same of any text. */
int command_line_text(const char *text, struct command_texts *texts);

#endif
