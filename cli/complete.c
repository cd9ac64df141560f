/* SPDX-License-Identifier: MIT */
/*
 * `waymark complete WORD...` prints what the last word may become, a line each: what bash, zsh and
 * fish offer. It knows specs and a command's options by the tables that read them.
 */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "record/perf/count_event.h"
#include "record/spec/syntax.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* PREFIX and NAME, if they begin with the word. */
static void offer(const char *word, const char *prefix, const char *name, size_t bytes)
{
	size_t begin = strlen(prefix), length = strlen(word);

	if (!strncmp(word, prefix, length < begin ? length : begin) &&
	    (length <= begin ||
	     (length - begin <= bytes && !memcmp(word + begin, name, length - begin))))
		printf("%s%.*s\n", prefix, (int)bytes, name);
}

/* What a command prints; to be freed. */
static char *output_of(int (*run)(int argc, char **argv), int argc, char **argv)
{
	int to = memfd_create("complete", MFD_CLOEXEC), out = dup(STDOUT_FILENO), none;
	char *text = NULL;
	off_t bytes;

	fflush(stdout);
	none = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(to, STDOUT_FILENO);
	dup2(none, STDERR_FILENO);
	(void)run(argc, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	bytes = lseek(to, 0, SEEK_END);
	text = calloc(1, bytes > 0 ? (size_t)bytes + 1 : 1);
	if (text && pread(to, text, bytes > 0 ? (size_t)bytes : 0, 0) != bytes)
		text[0] = '\0';
	close(to);
	close(out);
	close(none);
	return text;
}

struct offered {
	const char *word, *prefix;
};

static int event_offer(void *data, const struct count_listed *listed)
{
	const struct offered *offered = data;

	offer(offered->word, offered->prefix, listed->name, strlen(listed->name));
	return 0;
}

/* Events to count. */
static void offer_events(const char *word, const char *prefix)
{
	(void)count_events_list(NULL, 0, event_offer, &(struct offered){ word, prefix });
}

/* The names that `waymark list OPTION` prints of the target in words[], first in their lines. */
static void offer_listed(const char *word, const char *prefix, const char *option, char **words,
			 int count)
{
	int is_function = option && !strncmp(option, "--func", 6), target = 1;
	char *argv[5] = { "list" }, *text, *save = NULL;
	int argc = 1;

	while (target + 1 < count && strcmp(words[target], "-p") &&
	       strcmp(words[target], "--pid") && strcmp(words[target], "--"))
		target++;
	if (target + 1 >= count)
		return;
	if (option)
		argv[argc++] = (char *)option;
	if (strcmp(words[target], "--") != 0)
		argv[argc++] = "-p";
	argv[argc++] = words[target + 1];
	text = output_of(cmd_list, argc, argv);
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		size_t bytes = strcspn(line, " ");
		char *colon = memchr(line, ':', bytes), *name = line;

		if (!colon || (!isalnum((unsigned char)*line) && *line != '_'))
			continue;
		if (is_function) /* MODULE:FUNCTION */
			name = colon + 1;
		offer(word, prefix, name, bytes - (size_t)(name - line));
	}
	free(text);
}

/* Options of the spec's kind: behind the slash that opens them, or a comma. */
static void offer_spec_options(const struct spec_kind *kind, const char *word)
{
	size_t bytes = strlen(word);
	char prefix[SPEC_BYTES_MAX + 1], name[64];

	while (bytes && !strchr("/,", word[bytes - 1]))
		bytes--;
	snprintf(prefix, sizeof(prefix), "%.*s", (int)bytes, word);
	for (unsigned int i = 0; i < kind->option_count; i++) {
		snprintf(name, sizeof(name), "%s%s", kind->options[i].name,
			 kind->options[i].value ? "=" : "");
		offer(word, prefix, name, strlen(name));
	}
}

static void offer_spec(const char *word, char **words, int count)
{
	const struct spec_kind *kind = spec_kinds;
	size_t bytes = strcspn(word, ":/");
	char prefix[64], function[SPEC_BYTES_MAX];

	for (; kind->name; kind++) {
		snprintf(prefix, sizeof(prefix), "%s%s", kind->name, *kind->form ? ":" : "");
		if (word[bytes] && strlen(kind->name) == bytes && !memcmp(kind->name, word, bytes))
			break;
		/* a kind may have two forms */
		if (!word[bytes] && (kind == spec_kinds || strcmp(kind->name, kind[-1].name) != 0))
			offer(word, "", prefix, strlen(prefix));
	}
	if (kind->name && strchr(word + bytes, '/')) {
		offer_spec_options(kind, word);
	} else if (!kind->name || kind == spec_kinds) {
		offer_listed(word, "marker:", NULL, words, count);
	} else if (!strcmp(kind->name, "func")) {
		snprintf(function, sizeof(function), "--func=%s*", word + bytes + 1);
		offer_listed(word, prefix, function, words, count);
	} else if (!strcmp(kind->name, "usdt")) {
		offer_listed(word, prefix, "--usdt", words, count);
	} else if (!strcmp(kind->name, "sample") || !strcmp(kind->name, "count")) {
		offer_events(word, prefix);
	}
}

static void offer_pids(const char *word)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    !fstatat(dirfd(dir), entry->d_name, &st, 0) && st.st_uid == getuid())
			offer(word, "", entry->d_name, strlen(entry->d_name));
	if (dir)
		closedir(dir);
}

/* --OPTION and -O. */
static void offer_options(const char *word, const struct command_line *line)
{
	for (const struct command_option *row = line->table; row->name; row++) {
		offer(word, "--", row->name, strlen(row->name));
		if (row->letter)
			offer(word, "-", &row->letter, 1);
	}
	offer(word, "--", "help", 4);
}

/* The option whose value comes behind that word, or NULL. */
static const struct command_option *option_of(const struct command_line *line, const char *word)
{
	for (const struct command_option *row = line->table; row->name; row++)
		if (row->type != COMMAND_FLAG && *word == '-' &&
		    ((word[1] == '-' && !strcmp(word + 2, row->name)) ||
		     (row->letter && word[1] == row->letter && !word[2])))
			return row;
	return NULL;
}

int complete_word(int (*run)(int argc, char **argv), char **words, int count)
{
	const struct command_line *line = command_line_of(run);
	const struct command_option *option = line ? option_of(line, words[count - 2]) : NULL;
	const char *word = words[count - 1], *part = word + strlen(word);

	for (int i = 0; option && option->words && option->words[i]; i++)
		offer(word, "", option->words[i], strlen(option->words[i]));
	if (line && *word == '-') {
		offer_options(word, line);
	} else if (option && option->letter == 'e' && run == cmd_stat) {
		while (part > word && !strchr(",{", part[-1]))
			part--;
		offer_events(word, strndupa(word, (size_t)(part - word)));
	} else if (option && option->letter == 'e') {
		offer_spec(word, words, count);
	} else if (option && option->letter == 'p') {
		offer_pids(word);
	}
	return CLI_FINE;
}
