/* SPDX-License-Identifier: MIT */
/*
 * coverage_bench [NAME FILE]: which share of a module's functions of more than 5 bytes can take an event at their
 * entry, by the symbols that there are; why the others can't, and which share can with punned jumps too, if
 * a process has nothing where these lead; the same for all that have a frame, with a name or without. And how long reading the module's code takes. Else of what Debian has.
 */
#include "code/file.h"
#include "code/symbol.h"
#include "code/trampoline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define SMALL_BYTES 5
#define REASONS_MAX 64

struct counts {
	unsigned int tiers[TIER_REFUSED + 1], all;
	struct {
		int err;
		unsigned int count;
	} reasons[REASONS_MAX];
};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void reason_count(struct counts *counts, int err)
{
	int i = 0;

	while (i < REASONS_MAX - 1 && counts->reasons[i].err && counts->reasons[i].err != err)
		i++;
	counts->reasons[i].err = err;
	counts->reasons[i].count++;
}

/* Two arguments by register, as a function's events have. */
static void entry_try(const struct sweep *sweep, uint64_t address, struct counts *counts)
{
	static struct trampoline trampoline;
	struct code_place place = { .kind = PLACE_FUNCTION,
				    .address = address,
				    .is_entry = 1,
				    .wants_entry = 1,
				    .field_count = 2 };
	int err;

	for (unsigned int i = 0; i < 2; i++) {
		place.fields[i].type = WM_TYPE_U64;
		place.fields[i].from = (struct code_operand){
			.kind = OPERAND_REGISTER,
			.bytes = 8,
			.reg = (uint8_t)(5 - i),
			.index = OPERAND_NONE,
		};
	}
	err = trampoline_compose(sweep, &place, &trampoline);
	counts->all++;
	counts->tiers[trampoline.detour.tier]++;
	if (err)
		reason_count(counts, err);
}

static void tell(const char *name, const char *which, const struct counts *counts)
{
	unsigned int refused = counts->tiers[TIER_REFUSED];
	unsigned int punned = counts->tiers[TIER_PUNNED];
	double all = counts->all ? counts->all : 1;

	printf("figure probe.coverage_%s%s %.4f share\n", name, which,
	       1 - (refused + punned) / all);
	printf("figure probe.coverage_%s%s_punned %.4f share\n", name, which, 1 - refused / all);
	printf("raw coverage_%s%s %u functions: %u filler, %u one instruction, %u several, %u punned, %u refused\n",
	       name, which, counts->all, counts->tiers[TIER_FILLER], counts->tiers[TIER_ONE],
	       counts->tiers[TIER_SEVERAL], punned, refused);
	for (int i = 0; i < REASONS_MAX && counts->reasons[i].err; i++)
		printf("raw coverage_%s%s %u: %s\n", name, which, counts->reasons[i].count,
		       wm_error_text(counts->reasons[i].err));
}

static int cover(const char *name, struct code_file *file)
{
	struct counts named = { 0 }, framed = { 0 };
	struct code_symbols symbols;
	struct sweep sweep;
	double start_ms;
	int err = code_symbols_read(&symbols, file);

	start_ms = now_ms();
	if (!err)
		err = sweep_make(&sweep, file, &symbols);
	if (err)
		return err;
	printf("figure probe.sweep_%s_ms %.1f ms\n", name, now_ms() - start_ms);
	for (size_t i = 0; i < symbols.function_count; i++) {
		const struct code_function *function = &symbols.functions[i];

		if (function->bytes > SMALL_BYTES && !function->is_part &&
		    sweep_part_at(&sweep, function->address))
			entry_try(&sweep, function->address, &named);
	}
	for (size_t i = 0; i < sweep.frames.count; i++)
		if (sweep.frames.all[i].end - sweep.frames.all[i].start > SMALL_BYTES)
			entry_try(&sweep, sweep.frames.all[i].start, &framed);
	tell(name, "", &named);
	tell(name, "_frames", &framed);
	sweep_release(&sweep);
	code_symbols_release(&symbols);
	return 0;
}

static int cover_file(const char *name, const char *path)
{
	struct code_file *file;
	int err = code_file_open(&file, path);

	if (err) {
		printf("skipped probe.coverage_%s: %s: %s\n", name, path, wm_error_text(err));
		return 0;
	}
	err = cover(name, file);
	if (err)
		fprintf(stderr, "%s: %s\n", path, wm_error_text(err));
	code_file_close(file);
	return err;
}

int main(int argc, char **argv)
{
	int err;

	if (argc == 3)
		return cover_file(argv[1], argv[2]) ? 1 : 0;
	err = cover_file("libc", "/lib/x86_64-linux-gnu/libc.so.6");
	err |= cover_file("python", "/usr/bin/python3.11");
	err |= cover_file("postgres", "/usr/lib/postgresql/15/bin/postgres");
	return err ? 1 : 0;
}
