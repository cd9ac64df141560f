/* SPDX-License-Identifier: MIT */
#include "record/watch/outside_code.h"

#include "arch/access_decode.h"
#include "arch/insn.h"
#include "target/code/frames.h"
#include "target/code/module_image.h"
#include "target/code/symbol.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 1024u
#define WINDOW_BEFORE 16u
#define WINDOW_BYTES 32u
#define SWEEP_MAX (128u << 10) /* takes some ms; the same limit as inside */
#define RELOAD_NS 100000000u

/* The function starts of a module, read when first needed. */
struct functions {
	struct code_module *module;
	struct frames frames;
	const struct code_symbols *symbols; /* owned by the module */
};

/* Cached knowledge of the address behind an instruction. */
struct place {
	uint64_t end;
	uint64_t round; /* when the window was read */
	unsigned int window_bytes;
	uint8_t window[WINDOW_BYTES]; /* from end - WINDOW_BEFORE on */
	uint8_t known[WINDOW_BEFORE]; /* the code by which the length was found */
	uint8_t is_known, is_start, bytes;
};

struct outside_code {
	pid_t pid;
	struct loaded_list list;
	struct functions *functions;
	size_t function_count;
	uint64_t round, loaded_ns;
	int is_stale; /* code ran that is in no known module */
	struct place places[PLACES];
};

/* ---- modules ---- */

static void forget_functions(struct outside_code *code)
{
	for (size_t i = 0; i < code->function_count; i++)
		frames_release(&code->functions[i].frames);
	free(code->functions);
	code->functions = NULL;
	code->function_count = 0;
}

static int load(struct loaded_list *list, pid_t pid)
{
	int err = loaded_read(list, pid);

	if (!err)
		err = loaded_open(list);
	if (err)
		loaded_release(list);
	return err;
}

int outside_code_new(struct outside_code **out, pid_t pid)
{
	struct outside_code *code = *out = calloc(1, sizeof(*code));
	int err;

	if (!code)
		return -ENOMEM;
	code->pid = pid;
	code->loaded_ns = ticks_monotonic_ns();
	err = load(&code->list, pid);
	if (err) {
		free(code);
		*out = NULL;
	}
	return err;
}

void outside_code_free(struct outside_code *code)
{
	if (!code)
		return;
	forget_functions(code);
	loaded_release(&code->list);
	free(code);
}

const struct loaded_list *outside_code_modules(const struct outside_code *code)
{
	return &code->list;
}

int outside_code_is_gone(const struct outside_code *code)
{
	uint8_t byte;

	return !code->list.count ||
	       pread(code->list.mem, &byte, 1, (off_t)code->list.all[0].id.start) != 1;
}

/*
 * Reload the modules if new ones are likely. If the program has ended, keep the old list: its files
 * still have the code.
 */
void outside_code_round(struct outside_code *code)
{
	struct loaded_list now;

	code->round++;
	if (!code->is_stale || ticks_monotonic_ns() - code->loaded_ns < RELOAD_NS ||
	    outside_code_is_gone(code))
		return;
	code->is_stale = 0;
	code->loaded_ns = ticks_monotonic_ns();
	if (load(&now, code->pid))
		return;
	if (!now.count) {
		loaded_release(&now);
		return;
	}
	forget_functions(code);
	loaded_release(&code->list);
	code->list = now;
}

static struct code_module *module_of(struct outside_code *code, uint64_t address)
{
	for (size_t i = 0; i < code->list.module_count; i++) {
		struct code_module *module = code->list.modules[i];
		const struct code_segment *segment = code_file_segment(module->file,
								       address - module->base);

		if (segment && segment->flags & PF_X)
			return module;
	}
	code->is_stale = 1;
	return NULL;
}

int outside_code_is(struct outside_code *code, uint64_t address)
{
	return module_of(code, address) != NULL;
}

/* NULL: no memory, or the file can't be read. */
static const struct functions *functions_of(struct outside_code *code, struct code_module *module)
{
	struct functions *functions;
	struct image image;

	for (size_t i = 0; i < code->function_count; i++)
		if (code->functions[i].module == module)
			return code->functions[i].symbols ? &code->functions[i] : NULL;
	functions = reallocarray(code->functions, code->function_count + 1, sizeof(*functions));
	if (!functions)
		return NULL;
	code->functions = functions;
	functions += code->function_count++;
	*functions = (struct functions){ .module = module };
	if (!image_load(&image, module->file))
		frames_read(&functions->frames, &image);
	image_release(&image);
	functions->symbols = code_module_symbols(module);
	return functions->symbols ? functions : NULL;
}

/* ---- reading ---- */

static int code_read(void *data, void *to, uint64_t from, size_t bytes)
{
	struct outside_code *code = data;
	const struct code_module *module;

	/*
	 * the descriptor stays with the memory from when it was opened: it never reads a program
	 * executed since
	 */
	if (pread(code->list.mem, to, bytes, (off_t)from) == (ssize_t)bytes)
		return 0;
	module = module_of(code, from);
	return module && !code_file_read(module->file, from - module->base, to, bytes) ? 0 : -1;
}

/* Get the entry of an address, with the code around it as of this round. */
static struct place *place_of(struct outside_code *code, uint64_t end)
{
	struct place *place = &code->places[(end * UINT64_C(0x9e3779b97f4a7c15) >> 48) % PLACES];

	if (place->end == end && place->round == code->round)
		return place;
	if (place->end != end)
		*place = (struct place){ .end = end };
	place->round = code->round;
	place->window_bytes = WINDOW_BYTES;
	if (!code_read(code, place->window, end - WINDOW_BEFORE, WINDOW_BYTES))
		return place;
	/* the page behind it may not be mapped */
	place->window_bytes = WINDOW_BEFORE;
	if (code_read(code, place->window, end - WINDOW_BEFORE, WINDOW_BEFORE))
		place->window_bytes = 0;
	return place;
}

const uint8_t *outside_code_at(void *data, uint64_t address, size_t bytes, int has_run,
			       uint8_t *room)
{
	struct outside_code *code = data;
	/*
	 * callers ask for the instruction that ends at an address, or for what follows the address
	 */
	const struct place *place = place_of(
		code, has_run && bytes < INSN_BYTES_MAX ? address + bytes : address);
	uint64_t at = address - (place->end - WINDOW_BEFORE);

	if (at > place->window_bytes || bytes > place->window_bytes - at)
		return NULL;
	return memcpy(room, place->window + at, bytes);
}

/* ---- where an instruction begins ---- */

static void find(struct outside_code *code, struct place *place)
{
	struct code_module *module = module_of(code, place->end - 1);
	const struct functions *functions = module ? functions_of(code, module) : NULL;
	uint64_t end = functions ? place->end - module->base : 0, start = 0;
	const struct code_function *function;
	const struct frame *frame;

	if (!functions)
		return;
	frame = frames_at(&functions->frames, end - 1);
	function = code_function_at(functions->symbols, end - 1);
	start = frame ? frame->start : function ? function->address : 0;
	if (!start || end - start > SWEEP_MAX)
		return;
	place->bytes = (uint8_t)access_decode_sweep(start + module->base, place->end, code_read,
						    code);
	frame = frames_at(&functions->frames, end);
	function = code_function_at(functions->symbols, end);
	place->is_start = frame ? frame->start == end : function && function->address == end;
	memcpy(place->known, place->window, WINDOW_BEFORE);
	place->is_known = place->bytes && place->bytes <= INSN_BYTES_MAX;
}

unsigned int outside_code_before(void *data, uint64_t end, int *is_start)
{
	struct outside_code *code = data;
	struct place *place = place_of(code, end);

	if (place->window_bytes < WINDOW_BEFORE)
		return 0;
	if (!place->is_known || memcmp(place->known, place->window, WINDOW_BEFORE) != 0) {
		place->is_known = place->is_start = 0;
		find(code, place);
	}
	*is_start = place->is_start;
	return place->is_known ? place->bytes : 0;
}
