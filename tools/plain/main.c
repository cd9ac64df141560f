/* SPDX-License-Identifier: MIT */
#include "tools/plain/criterion/criterion.h"
#include "tools/plain/criterion/redirect.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED 77
#define DEFAULT_TIMEOUT_S 300
#define SUITES_MAX 32

static struct plain_test *tests, **tests_end;
static struct {
	const char *name;
	struct plain_options options;
} suites[SUITES_MAX];
static int suite_count;
static int kept_fd = -1; /* of what is written to stderr */
static int stderr_fd = -1;

void *plain_parameter;

void plain_register(struct plain_test *test)
{
	if (!tests_end)
		tests_end = &tests;
	*tests_end = test;
	tests_end = &test->next;
}

void plain_register_suite(const char *suite, struct plain_options options)
{
	if (suite_count < SUITES_MAX) {
		suites[suite_count].name = suite;
		suites[suite_count++].options = options;
	}
}

void cr_redirect_stderr(void)
{
	fflush(stderr);
	stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	kept_fd = memfd_create("stderr", MFD_CLOEXEC);
	if (stderr_fd < 0 || kept_fd < 0 || dup2(kept_fd, STDERR_FILENO) < 0)
		abort();
}

static void stderr_back(void)
{
	fflush(stderr);
	if (stderr_fd >= 0)
		dup2(stderr_fd, STDERR_FILENO);
}

const char *plain_stderr(void)
{
	static char text[1 << 16];
	ssize_t bytes;

	fflush(stderr);
	bytes = pread(kept_fd, text, sizeof(text) - 1, 0);
	text[bytes > 0 ? bytes : 0] = '\0';
	return text;
}

static void print_line(const char *format, va_list args)
{
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
}

void plain_fail(const char *file, int line, const char *text, const char *format, ...)
{
	va_list args;

	stderr_back();
	fprintf(stderr, "%s:%d: %s", file, line, text);
	va_start(args, format);
	print_line(format, args);
	va_end(args);
	_exit(1);
}

void plain_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
	_exit(SKIPPED);
}

void plain_log(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(format, args);
	va_end(args);
}

/* A test's own options where it gives them, else its suite's. */
static struct plain_options options_of(const struct plain_test *test)
{
	struct plain_options options = test->options;

	for (int i = 0; i < suite_count; i++) {
		const struct plain_options *suite = &suites[i].options;

		if (strcmp(suites[i].name, test->suite) != 0)
			continue;
		if (!options.init)
			options.init = suite->init;
		if (!options.fini)
			options.fini = suite->fini;
		if (options.timeout <= 0)
			options.timeout = suite->timeout;
		options.disabled |= suite->disabled;
	}
	return options;
}

static int run(const struct plain_test *test, const struct plain_options *options)
{
	int status;
	pid_t child = fork();

	if (child < 0)
		return 1;
	if (child == 0) {
		alarm(options->timeout > 0 ? (unsigned int)options->timeout + 1
					   : DEFAULT_TIMEOUT_S);
		if (options->init)
			options->init();
		test->run();
		if (options->fini)
			options->fini();
		stderr_back();
		exit(0);
	}
	if (waitpid(child, &status, 0) < 0)
		return 1;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) != options->signal;
	if (WEXITSTATUS(status) == SKIPPED)
		return SKIPPED;
	return WEXITSTATUS(status) != options->exit_code;
}

/* Reports as Criterion does when CRITERION_OUTPUTS is tap:FILE. Returns whether it failed. */
static int run_and_tell(const struct plain_test *test, FILE *tap)
{
	struct plain_options options = options_of(test);
	int result = options.disabled ? SKIPPED : run(test, &options);

	fprintf(tap, "%sok - %s::%s%s\n", result && result != SKIPPED ? "not " : "", test->suite,
		test->name, result == SKIPPED ? " # SKIP see its output" : "");
	fflush(tap);
	return result && result != SKIPPED;
}

int main(void)
{
	const char *outputs = getenv("CRITERION_OUTPUTS");
	FILE *tap = outputs && strncmp(outputs, "tap:", 4) == 0 ? fopen(outputs + 4, "we") : NULL;
	int failed = 0;

	if (!tap)
		tap = stdout;
	for (struct plain_test *test = tests; test; test = test->next) {
		struct plain_parameters with = { .count = 1 };

		if (test->parameters)
			with = test->parameters();
		for (size_t i = 0; i < with.count; i++) {
			plain_parameter = with.all ? with.all + i * with.bytes : NULL;
			failed += run_and_tell(test, tap);
		}
	}
	return failed > 0;
}
