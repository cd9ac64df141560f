/* SPDX-License-Identifier: MIT */
/*
 * The command's readers against damaged traces:
 *
 *	consumers_fuzz SECONDS SEED DIR...	each DIR is a good trace
 *
 * Each run copies one of them, changes one of its files at random, and has a command read it. The
 * run that fails is printed with its seed, and its trace is kept.
 */
#include "fuzz/commands.h"
#include "fuzz/folder.h"
#include "fuzz/run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 64u
#define FILE_BYTES_MAX (4u << 20)

struct file {
	char name[256];
	uint8_t *content;
	size_t bytes;
};

struct trace {
	const char *dir;
	struct file files[FILES_MAX];
	size_t count;
};

static void trace_load(struct trace *trace, const char *dir)
{
	DIR *list = opendir(dir);
	struct dirent *entry;
	char path[1024];

	trace->dir = dir;
	while (list && (entry = readdir(list)) && trace->count < FILES_MAX) {
		struct file *file = &trace->files[trace->count];

		if (entry->d_type != DT_REG)
			continue;
		snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		file->content = malloc(FILE_BYTES_MAX);
		if (!file->content)
			abort();
		file->bytes = run_load(path, file->content, FILE_BYTES_MAX);
		trace->count += file->bytes != 0;
	}
	if (list)
		closedir(list);
	if (!trace->count) {
		fprintf(stderr, "consumers_fuzz: %s: no trace\n", dir);
		exit(2);
	}
}

/* The metadata is the smallest, and says how all others are read. */
static const struct file *file_choose(const struct trace *trace, uint64_t *seed)
{
	if (run_random(seed) % 3 == 0)
		for (size_t i = 0; i < trace->count; i++)
			if (!strcmp(trace->files[i].name, "metadata"))
				return &trace->files[i];
	return &trace->files[run_random(seed) % trace->count];
}

static void store_changed(const struct file *file, uint64_t *seed)
{
	static uint8_t changed[FILE_BYTES_MAX];
	uint64_t changes = 1 + run_random(seed) % 8;
	size_t bytes = file->bytes;

	memcpy(changed, file->content, bytes);
	while (changes--) {
		size_t at = run_random(seed) % bytes, from = run_random(seed) % bytes;
		size_t most = bytes - (at > from ? at : from), count = 1 + run_random(seed) % 32;

		if (run_random(seed) % 5 == 0)
			memmove(changed + at, changed + from, count < most ? count : most);
		else
			bytes = run_damage(changed, bytes, at, seed);
	}
	folder_store(file->name, changed, bytes);
}

static struct trace *traces;
static size_t trace_count;

/* An input is a seed. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	const struct trace *trace;
	const struct file *changed;
	struct commands_of of;
	uint64_t first, seed;

	memcpy(&seed, input, bytes);
	first = seed;
	trace = &traces[run_random(&seed) % trace_count];
	changed = file_choose(trace, &seed);
	folder_clear();
	for (size_t i = 0; i < trace->count; i++)
		if (&trace->files[i] == changed)
			store_changed(changed, &seed);
		else
			folder_store(trace->files[i].name, trace->files[i].content,
				     trace->files[i].bytes);
	of = (struct commands_of){ folder_path(), trace->dir, "/proc/self/exe" };
	if (!commands_run(run_random(&seed), &of, NULL))
		return 0;
	fprintf(stderr, "consumers_fuzz: seed %llu\n", (unsigned long long)first);
	abort(); /* not exit(): the folder stays */
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

	if (argc < 4) {
		fputs("usage: consumers_fuzz SECONDS SEED DIR...\n", stderr);
		return 2;
	}
	trace_count = (size_t)argc - 3;
	traces = calloc(trace_count, sizeof(*traces));
	if (!traces)
		return 2;
	for (size_t i = 0; i < trace_count; i++)
		trace_load(&traces[i], argv[i + 3]);
	run_for(atof(argv[1]), strtoull(argv[2], NULL, 10), good, input, sizeof(good), change);
	return 0;
}
