/* SPDX-License-Identifier: MIT */
/*
 * The readers of modules' files against any bytes. An input is a module. With -DLIBFUZZER this is a
 * libFuzzer target. Else it runs by itself:
 *
 *	code_fuzz GOOD [SECONDS [SEED]]   a good module, changed at random (default 3 s, seed 1)
 *	code_fuzz FILE...                 these inputs
 */
#include "base/pun.h"
#include "fuzz/run.h"
#include "record/spec/spec.h"
#include "target/code/resolve.h"
#include "target/code/trampoline.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Touch all that a place says. */
static int look(const struct code_place *place, int err, const char *detail, void *data)
{
	size_t *sum = data;

	*sum += strlen(place->subsystem) + strlen(place->event) + strlen(detail) + (size_t)-err;
	if (!err) {
		*sum += strlen(place->source);
		if (place->field_count > CODE_FIELDS_MAX)
			abort();
		for (unsigned int i = 0; i < place->field_count; i++)
			if (!memchr(place->fields[i].name, 0, sizeof(place->fields[i].name)) ||
			    !place->fields[i].type)
				abort();
	}
	return 0;
}

/* What abi/detour.h bounds, and the ways to write the jump. */
static void choice_write(const struct trampoline *trampoline)
{
	static uint8_t record[16384];
	const struct control_detour *detour = &trampoline->detour;
	struct pun_window window;
	struct pun_bytes bytes;

	if (detour->insn_bytes > DETOUR_INSN_MAX || detour->kept_bytes > DETOUR_KEPT_MAX ||
	    detour->code_bytes > DETOUR_CODE_MAX || detour->moved_at > detour->code_bytes ||
	    trampoline_write(trampoline, 0x400000, "", "", record, sizeof(record)) > sizeof(record))
		abort();
	for (int form = FORM_BYTE; form <= FORM_FIRST; form++) {
		unsigned int number = 0;

		while (pun_next(detour, (enum detour_form)form, &number, &window)) {
			pun_write(detour, &window, detour->address + (uint64_t)window.low, &bytes);
			if (bytes.at + bytes.count > detour->insn_bytes)
				abort();
		}
	}
}

/* Detours at functions' entries and at points all over the code. */
static void place_all(struct code_module *module)
{
	static struct trampoline trampoline;
	const struct code_symbols *symbols = code_module_symbols(module);
	struct sweep sweep;

	if (!symbols || sweep_make(&sweep, module->file, symbols)) {
		sweep_release(&sweep);
		return;
	}
	for (size_t i = 0; i < sweep.part_count; i++) {
		const struct image_range *range = &sweep.parts[i].range;
		uint64_t step = (range->end - range->start) / 256 + 1;

		for (uint64_t at = range->start; at < range->end; at += step) {
			struct code_place place = { .address = at,
						    .wants_entry = 1,
						    .is_entry = sweep_is_target(&sweep, at) };

			place.wants_return = place.is_entry;
			for (unsigned int number = 0;
			     number < 2 * DETOUR_CHOICES_MAX &&
			     !trampoline_compose(&sweep, &place, number, &trampoline);
			     number++)
				choice_write(&trampoline);
		}
	}
	sweep_release(&sweep);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	static const char *const specs[] = { "func:*/args,ret/",   "func:same/ret/",
					     "func:shop::*",	   "usdt:*:*",
					     "addr:x+0x1100/rdi/", "addr:sample_module.c:20" };
	struct spec spec;
	struct code_module module;
	struct code_file *file;
	size_t sum = 0;

	if (code_file_open_image(&file, "/lib/fuzzed.so", input, bytes))
		return 0;
	file->debug_sought = 1; /* no file of this machine fits */
	code_module_init(&module, file, 0);
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		if (spec_read(&spec, specs[i], (struct detail){ 0 }))
			abort();
		(void)code_resolve(spec.request, &module, NULL, look, &sum);
		spec_release(&spec);
	}
	place_all(&module);
	code_module_release(&module);
	return 0;
}

#ifndef LIBFUZZER

static uint8_t *load(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t *content = NULL;
	struct stat st;

	*bytes = 0;
	if (fd >= 0 && !fstat(fd, &st) && (content = malloc((size_t)st.st_size + 1)) &&
	    read(fd, content, (size_t)st.st_size) == st.st_size)
		*bytes = (size_t)st.st_size;
	if (fd >= 0)
		close(fd);
	return content;
}

/*
 * Change a few bytes or numbers, as often in the headers, at either end, as in between. Returns the
 * new length.
 */
static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	uint64_t changes = 1 + run_random(seed) % 8;

	while (changes--) {
		size_t near = bytes < 4096 ? bytes : 4096;
		size_t at = run_random(seed) % bytes;

		if (run_random(seed) % 4 == 0)
			at = run_random(seed) % 2 ? run_random(seed) % near
						  : bytes - 1 - run_random(seed) % near;
		bytes = run_damage(input, bytes, at, seed);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 3;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	uint8_t *good, *input;
	size_t bytes;

	if (argc < 2 || (argc > 2 && seconds <= 0)) {
		for (int i = 1; i < argc; i++) {
			input = load(argv[i], &bytes);
			LLVMFuzzerTestOneInput(input, bytes);
			free(input);
		}
		return argc < 2;
	}
	good = load(argv[1], &bytes);
	input = bytes ? malloc(bytes) : NULL;
	if (!input)
		return 1;
	run_for(seconds, seed, good, input, bytes, change);
	free(good);
	free(input);
	return 0;
}

#endif
