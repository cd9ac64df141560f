/* SPDX-License-Identifier: MIT */
#include "fuzz/commands.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 8
#define SECONDS_MAX 60

int waymark_main(int argc, char **argv); /* main() of cli/main.c */

/* Read by the sanitizers before main(). Leaks are of commands that end at once. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "exitcode=99:detect_leaks=0:allocator_may_return_null=1:use_sigaltstack=0";
}

const char *__ubsan_default_options(void)
{
	return "halt_on_error=1:exitcode=99:print_stacktrace=1";
}

static const char *const lines[] = {
	"report",
	"report --json",
	"report --functions",
	"report --lines --json",
	"report --callers *",
	"report --threads",
	"report --locks",
	"report --repair",
	"dump",
	"dump --json",
	"dump --order thread --limit 500",
	"dump --order cpu --cpu 0-3",
	"export --format folded",
	"export --format perf-script",
	"export --format speedscope",
	"export --format perfetto",
	"export --format folded --weight samples",
	"export --format speedscope --weight period",
	"trail",
	"trail --branches --json -n 0",
	"trail --instructions --intel",
	"trail --blocks -v",
	"trail --calls -n 0",
	"trail --calls --json",
	"trail --functions",
	"trail --lines --json",
	"diff",
	"diff --all --strict --json",
	"coverage",
	"coverage --summary --all",
	"coverage --json",
	"compress",
	"list",
	"list --json --func",
	"list --usdt",
};

#define LINES (sizeof(lines) / sizeof(lines[0]))

const uint64_t commands_count = LINES;

/* In the child. */
static void run(const char *line, int has_files, const struct commands_of *of, void (*begin)(void))
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), count = 1;
	int is_list = !strncmp(line, "list", 4), is_dump = !strncmp(line, "dump", 4);
	char copy[128], *words[WORDS_MAX + 6] = { "waymark" };

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word && count < WORDS_MAX; word = strtok(NULL, " "))
		words[count++] = word;
	if (!has_files && !is_list && !is_dump && strncmp(line, "compress", 8) != 0) {
		words[count++] = "--root";
		words[count++] = "/nonexistent";
	}
	words[count++] = (char *)(is_list ? of->program : of->dir);
	if (!strncmp(line, "diff", 4))
		words[count++] = (char *)of->other;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	alarm(SECONDS_MAX);
	if (begin)
		begin();
	_exit(waymark_main(count, words));
}

int commands_run(uint64_t number, const struct commands_of *of, void (*begin)(void))
{
	const char *line = lines[number % LINES];
	int said[2], status;
	char text[8192];
	size_t bytes = 0;
	ssize_t got;
	pid_t child;

	if (pipe2(said, O_CLOEXEC))
		abort();
	child = fork();
	if (!child) {
		dup2(said[1], STDERR_FILENO);
		/* reading the modules' files takes longer than all else */
		run(line, number / LINES % 8 == 7, of, begin);
	}
	close(said[1]);
	/* what has no room is the end of a long list of complaints */
	while (child > 0 && (got = read(said[0], text + bytes, sizeof(text) - 1 - bytes)) > 0)
		if ((bytes += (size_t)got) > sizeof(text) - 512)
			bytes = sizeof(text) / 2;
	close(said[0]);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (WIFEXITED(status) && WEXITSTATUS(status) != COMMANDS_CRASHED)
		return 0;
	text[bytes] = 0;
	fprintf(stderr, "%s\nwaymark %s %s: status %x\n", text, line, of->dir, status);
	return 1;
}
