/* SPDX-License-Identifier: MIT */
#include "base/quantity.h"
#include "cli/cli.h"
#include "target/code/fetch.h"
#include "target/trial/simulate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
	int reads; /* debug files may be fetched for it: no program waits */
} commands[] = {
	{ "record", "arm markers in a program and record what passes", cmd_record, 0 },
	{ "control", "change what a running recording records", cmd_control, 0 },
	{ "list", "show the markers of a file or a process", cmd_list, 1 },
	{ "report", "sum up a trace: counts, rates, losses, times of spans", cmd_report, 1 },
	{ "dump", "print a trace's events in order of time", cmd_dump, 1 },
	{ "trail", "show which way threads took, and where they spent it", cmd_trail, 1 },
	{ "watch", "show who writes a variable, as it happens", cmd_watch, 0 },
	{ "stat", "count what a program, threads or CPUs do: time, faults, cycles", cmd_stat, 0 },
	{ "top", "show live what programs do: markers, spans, functions, threads", cmd_top, 0 },
	{ "export", "write a trace's trails in a form that other tools read", cmd_export, 1 },
	{ "diff", "show the first place where the trails of two runs part", cmd_diff, 1 },
	{ "compress", "make a trace smaller, or as it was", cmd_compress, 0 },
	{ "coverage", "report which lines and branches ran, as lcov does", cmd_coverage, 1 },
	{ "claims", "show who holds debug registers and what else is scarce", cmd_claims, 0 },
	{ "doctor", "show what works on this machine, and what would make the rest work",
	  cmd_doctor, 0 },
	{ "help", "this list, or the help of one command", cmd_help, 0 },
	{ "version", "the version", cmd_version, 0 },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		return find("help");
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		return find("version");
	return NULL;
}

static int unknown(const char *name)
{
	const char *names[COMMAND_COUNT];

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		names[i] = commands[i].name;
	complain_words("waymark: there is no command %s\n", name);
	complain_meant(name, names, COMMAND_COUNT);
	fputs("  see waymark help\n", stderr);
	return CLI_USAGE;
}

static void print_usage(FILE *to)
{
	fputs("Usage: waymark COMMAND [OPTION]...\n\n", to);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-10s%s\n", commands[i].name, commands[i].summary);
	fputs("\nwaymark COMMAND --help lists a command's options, waymark help spec what can be\n"
	      "recorded. Manual pages: waymark(1) for the commands, waymark(7) for the concepts.\n",
	      to);
}

static int cmd_help(int argc, char **argv)
{
	const struct command *command;
	char help[] = "--help";

	if (argc == 2 && !strcmp(argv[1], "--tables"))
		return tables_print();
	if (argc < 2 || argv[1][0] == '-') {
		print_usage(stdout);
		return CLI_FINE;
	}
	if (!strcmp(argv[1], "spec"))
		return spec_help(argc > 2);
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	if (command->run == cmd_help)
		return cmd_help(1, argv);
	return command->run(2, (char *[]){ argv[1], help, NULL });
}

/* What the last of the words may become: a command's name, or what complete_word() knows. */
static int complete(char **words, int count)
{
	const struct command *command = count > 1 ? find(words[0]) : NULL;
	const char *word = count ? words[count - 1] : "";

	if (command && command->run == cmd_version)
		return CLI_FINE;
	if (command && command->run != cmd_help)
		return complete_word(command->run, words, count);
	for (size_t i = 0; i < COMMAND_COUNT && (count < 2 || command); i++)
		if (!strncmp(word, commands[i].name, strlen(word)))
			puts(commands[i].name);
	return CLI_FINE;
}

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("waymark " WAYMARK_VERSION);
	return CLI_FINE;
}

/*
 * If a standard stream is closed at the start, the next opened file would take its number, and
 * messages would go into a trace. Put a descriptor there that can be neither read nor written, and
 * is closed in programs that the command starts.
 */
static void keep_streams_closed(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/", O_PATH | O_CLOEXEC);
}

/* Else a script that simulates a failure would pass its test without one. */
static int simulates_unknown(void)
{
	size_t bytes = 0;
	const char *word = simulate_unknown(&bytes);

	if (!word)
		return 0;
	fprintf(stderr, "waymark: WAYMARK_SIMULATE: no such failure: %.*s\n", (int)bytes, word);
	fputs("  waymark-doctor(1) lists those that can be simulated\n", stderr);
	return 1;
}

/* A line on a terminal, while a debug file is fetched. */
static void show_fetch(const char *build_id, long done, long all)
{
	char got[32], size[32];

	if (done < 0)
		fputs("\r\033[K", stderr);
	else if (!all)
		fprintf(stderr, "\rasking for the debug information of build %.12s\033[K",
			build_id);
	else
		fprintf(stderr, "\rfetching the debug information of build %.12s: %s of %s\033[K",
			build_id, quantity_show_bytes((uint64_t)done, got, sizeof(got)),
			quantity_show_bytes((uint64_t)all, size, sizeof(size)));
}

/* A command's exit status, unless a full disk or the like did not take what it printed. */
static int printed(int status)
{
	errno = 0;
	if ((!fflush(stdout) && !ferror(stdout)) || errno == EPIPE || status)
		return status;
	return complain(errno ? -errno : -EIO, "standard output");
}

int main(int argc, char **argv)
{
	const struct command *command;

	keep_streams_closed();
	if (argc < 2) {
		print_usage(stderr);
		return CLI_USAGE;
	}
	if (simulates_unknown())
		return CLI_USAGE;
	if (!strcmp(argv[1], "complete"))
		return complete(argv + 2, argc - 2);
	command = find(argv[1]);
	if (!command)
		return unknown(argv[1]);
	if (command->reads)
		code_fetch_allow(isatty(STDERR_FILENO) ? show_fetch : NULL);
	return printed(command->run(argc - 1, argv + 1));
}
