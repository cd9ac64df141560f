/* SPDX-License-Identifier: MIT */
/*
 * The command's readers without memory:
 *
 *	no_memory SECONDS SEED PROGRAM DIR...	each DIR is a good trace
 *
 * In each input, 16 times one allocation of one command fails, chosen at random. Crashes are
 * printed with their places; the status is 1 if there were any.
 */
#include "fuzz/commands.h"
#include "fuzz/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAILURES 16    /* runs of an input */
#define DEEP_MAX 4000u /* later allocations fail in one of two runs only */

/* The C library's own names of what is defined here. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static char **dirs, *program;
static uint64_t dir_count, crashes;
static uint64_t fails_at; /* 0: none does */
static uint64_t *made;	  /* allocations of the command so far, shared with the child */
static int is_counting;	  /* in the child */

static int fails(void)
{
	if (!is_counting || ++*made != fails_at)
		return 0;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t bytes)
{
	return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __libc_realloc(old, bytes);
}

/* Whether our code is the first below the C library's. libdw looks at no result of its hashes. */
static int is_ours(void *const *frames, int count)
{
	Dl_info own, at;

	dladdr(&fails_at, &own);
	for (int i = 1; i < count; i++)
		if (dladdr(frames[i], &at) && !strstr(at.dli_fname, "/libc.so"))
			return at.dli_fbase == own.dli_fbase;
	return 1;
}

static void crashed(int signal)
{
	void *frames[32];
	int count;

	(void)signal;
	is_counting = 0;
	count = backtrace(frames, 32);
	if (!is_ours(frames, count))
		_exit(0);
	backtrace_symbols_fd(frames, count, STDERR_FILENO);
	_exit(COMMANDS_CRASHED);
}

static void begin(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], crashed);
	*made = 0;
	is_counting = 1;
}

/* An input is a seed. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	uint64_t seed, number, most;
	struct commands_of of = { .program = program };

	memcpy(&seed, input, bytes);
	of.dir = of.other = dirs[run_random(&seed) % dir_count];
	number = run_random(&seed) % (8 * commands_count);
	fails_at = 0;
	crashes += (uint64_t)commands_run(number, &of, begin);
	most = *made < DEEP_MAX || run_random(&seed) % 2 ? *made : DEEP_MAX;
	for (int i = 0; most && i < FAILURES; i++) {
		fails_at = 1 + run_random(&seed) % most;
		if (!commands_run(number, &of, begin))
			continue;
		fprintf(stderr, "no_memory: allocation %llu\n", (unsigned long long)fails_at);
		crashes++;
	}
	return 0;
}

static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	memcpy(input, seed, bytes);
	return bytes;
}

int main(int argc, char **argv)
{
	static const uint8_t good[sizeof(uint64_t)];
	uint8_t input[sizeof(good)];
	void *frames[1];

	if (argc < 5) {
		fputs("usage: no_memory SECONDS SEED PROGRAM DIR...\n", stderr);
		return 2;
	}
	program = argv[3];
	dirs = argv + 4;
	dir_count = (uint64_t)argc - 4;
	made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return 2;
	(void)backtrace(frames, 1); /* it loads a library, once */
	run_for(atof(argv[1]), strtoull(argv[2], NULL, 10), good, input, sizeof(good), change);
	return crashes != 0;
}
