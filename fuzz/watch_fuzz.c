/* SPDX-License-Identifier: MIT */
/*
 * Watches' expressions, and debug information, against any bytes. An input is a spec, a line end,
 * and a module. With -DLIBFUZZER this is a libFuzzer target. Else it runs by itself:
 *
 *	watch_fuzz GOOD [SECONDS [SEED]]   a good module with specs of its variables, changed at
 *					   random
 *	watch_fuzz FILE...                 these inputs
 */
#include "fuzz/run.h"
#include "record/spec/spec.h"
#include "target/expression/find.h"
#include "target/expression/variable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEC_MAX 512

static const char *const specs[] = {
	"watch:counter",
	"watch:list->next->where.y:rw/if=value==0,bt/",
	"watch:*first_node.next",
	"watch:matrix[1][2]/if=changed,count/",
	"watch:line[2].x@whole/signal=STOP/",
	"watch:(*list_at)[1].number/8",
	"watch:bits.middle/if=old<-1/",
	"watch:packed.more",
	"watch:modes/if=value==READ/",
	"watch:sample_watch.c::next_id::last",
	"watch:*other_at",
	"watch:either",
	"watch:rows[1]",
	"watch:&table[1]",
	"watch:*apply:x",
	"watch:add:x",
	"watch:flexible->items[3]",
	"watch:complex_v/thread=7/",
	"watch:0x4010/8@whole",
	"watch:text+4/4",
	"watch:f(int)::kept",
	"watch:shop::offer.price",
};

static int memory_read(void *data, uint64_t address, void *buffer, size_t bytes)
{
	return code_file_read(data, address, buffer, bytes);
}

static int name_take(const char *name, void *data)
{
	*(size_t *)data += strlen(name);
	return *(size_t *)data > 1u << 20;
}

/* A part is within the register's bytes, and its name within its room. */
static void look_at_parts(const struct watch_type *type, const uint8_t *value,
			  const struct watch_piece *pieces, size_t count)
{
	char text[WATCH_TEXT_MAX], name[64];
	uint8_t before[8];

	for (size_t i = 0; i < count; i++) {
		uint32_t offset = (uint32_t)(pieces[i].address - pieces[0].address);
		const struct watch_stretch stretch = { offset, pieces[i].bytes, before,
						       value + offset };
		struct watch_part part;
		int found;

		memcpy(before, value + offset, pieces[i].bytes);
		before[i % pieces[i].bytes] ^= (uint8_t)(value[0] | 1);
		found = expression_type_part(type, &stretch, &part, name, sizeof(name));
		if (!memchr(name, 0, sizeof(name)))
			abort();
		if (found && (uint64_t)part.offset + part.bytes > type->nodes[0].bytes)
			abort();
		if (found > 0 && (part.offset < offset || part.offset - offset > stretch.bytes ||
				  part.bytes > stretch.bytes - (part.offset - offset)))
			abort();
		if (found > 0)
			(void)expression_type_part_text(type, &part, value + part.offset, NULL,
							text, sizeof(text));
	}
}

/* A result must be usable, in any input. */
static void look(const struct watch_expr *expr, const struct watch_place *place,
		 struct code_file *file)
{
	const struct code_memory memory = { memory_read, file };
	struct watch_piece pieces[WATCH_REGISTERS];
	struct watch_condition bound;
	uint8_t value[64] = { 0 };
	char text[WATCH_TEXT_MAX];
	uint64_t address;

	if (expression_type_check(&place->type) || !place->bytes ||
	    place->type.nodes[0].bytes != place->bytes)
		abort();
	for (unsigned int i = 0; i < expr->options.test_count; i++)
		(void)expression_test_bind(&expr->options.tests[i], &place->type, &bound, NULL);
	if (watch_place_address(place, &memory, 0, &address, NULL) ||
	    expression_pieces(address, place->bytes, pieces) > WATCH_REGISTERS)
		return;
	if (place->bytes > sizeof(value))
		abort();
	(void)code_file_read(file, address, value, place->bytes);
	if (expression_type_text(&place->type, value, NULL, text, sizeof(text)) != strlen(text))
		abort();
	look_at_parts(&place->type, value, pieces,
		      expression_pieces(address, place->bytes, pieces));
}

static void try_spec(const char *text, struct code_module *module)
{
	struct code_module *const modules[] = { module };
	struct watch_trouble trouble = { 0 };
	struct watch_place place;
	struct spec spec;

	if (!spec_read(&spec, text, (struct detail){ 0 }) && spec.watch) {
		if (!expression_place_find(&place, spec.watch, modules, 1, &trouble))
			look(spec.watch, &place, module->file);
		watch_place_release(&place);
	}
	if (trouble.at + trouble.bytes > strlen(text) ||
	    !memchr(trouble.detail, 0, sizeof(trouble.detail)))
		abort();
	spec_release(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	const uint8_t *line = memchr(input, '\n', bytes < SPEC_MAX ? bytes : SPEC_MAX - 1);
	size_t spec_bytes = line ? (size_t)(line - input) : 0, named = 0;
	char spec[SPEC_MAX];
	struct code_module module;
	struct code_file *file;

	memcpy(spec, input, spec_bytes);
	spec[spec_bytes] = 0;
	if (!line || code_file_open_image(&file, "/bin/whole", line + 1, bytes - spec_bytes - 1))
		return 0;
	file->debug_sought = 1; /* no file of this machine fits */
	code_module_init(&module, file, 0);
	try_spec(spec, &module);
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		try_spec(specs[i], &module);
	expression_names(&module, name_take, &named);
	code_module_release(&module);
	return 0;
}

#ifndef LIBFUZZER

static uint8_t good[RUN_INPUT_MAX], input_room[RUN_INPUT_MAX];

/* The debug information is damaged as often as the spec, and the headers now and then. */
static size_t change(uint8_t *input, size_t bytes, uint64_t *seed)
{
	const char *spec = specs[run_random(seed) % (sizeof(specs) / sizeof(specs[0]))];
	size_t head = strlen(spec), total = bytes;
	uint8_t *line = memchr(input, '\n', bytes);
	size_t old = (size_t)(line - input);

	if (bytes - old + head > RUN_INPUT_MAX)
		return bytes;
	memmove(input + head, line, bytes - old);
	memcpy(input, spec, head);
	total = bytes - old + head;
	for (uint64_t n = run_random(seed) % 4; n; n--)
		input[6 + run_random(seed) % (head - 6)] = (uint8_t) "abx.->[]()*&:/@+-='\"0123 ,<"
			[run_random(seed) % 27];
	for (uint64_t n = run_random(seed) % 12; n; n--)
		total = run_damage(input, total, head + 1 + run_random(seed) % (total - head - 1),
				   seed);
	return total;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 3;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	size_t bytes;

	if (argc < 2 || (argc > 2 && seconds <= 0)) {
		for (int i = 1; i < argc; i++)
			LLVMFuzzerTestOneInput(good, run_load(argv[i], good, sizeof(good)));
		return argc < 2;
	}
	good[0] = '\n';
	bytes = run_load(argv[1], good + 1, sizeof(good) - SPEC_MAX - 1);
	if (!bytes)
		return 1;
	run_for(seconds, seed, good, input_room, bytes + 1, change);
	return 0;
}

#endif
