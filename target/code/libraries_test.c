/* SPDX-License-Identifier: MIT */
/*
 * A second C library and libz, in a namespace of their own, with detours in all of their code: at
 * every function's entry, and at points in between. What they compute must be what the first ones
 * compute.
 */
#include "target/code/file.h"
#include "target/code/symbol.h"
#include "target/code/testing/fixture.h"
#include "target/code/testing/machine.h"
#include "target/code/trampoline.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <regex.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <waymark/marker.h>

#define OUTPUT_BYTES 65536
#define BUFFER_BYTES 20000

static struct machine_hits hits, return_hits;
static uint64_t random_state;

static uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* ---- detours everywhere ---- */

struct density {
	unsigned int entries; /* whether at entries */
	unsigned int one_in;  /* of other instructions; 0: none */
};

#define MODULE_BYTES_MAX (16u << 20)

struct module {
	struct code_file *file;
	struct code_symbols symbols;
	struct sweep sweep;
	uint64_t base;
	unsigned int placed[FORM_FIRST + 1], pushed, elsewhere, refused;
	/* a byte for each of the module: a detour replaces it, or may end its distance in it */
	uint8_t *owned;
};

/* Whether no other detour has any of its bytes; then it has them. */
static bool own(struct module *module, const struct control_detour *detour)
{
	uint8_t *bytes = module->owned + detour->address;
	size_t count = detour->insn_bytes + detour->kept_bytes;

	if (memchr(bytes, 1, count))
		return false;
	memset(bytes, 1, count);
	return true;
}

/* One of the choices, in one of its forms, any one that this process has room for. */
static void point_place(struct module *module, uint64_t address, int is_entry)
{
	static struct trampoline trampoline;
	struct fixture_ends ends = { machine_enter, machine_enter_return, &hits, &return_hits };
	struct code_place place = { .address = address, .is_entry = is_entry, .field_count = 3 };
	unsigned int number = 0, form = (unsigned int)any() % FORM_FIRST;
	struct placed placed;
	int err = -ENOMEM;

	place.fields[0].type = place.fields[1].type = place.fields[2].type = WM_TYPE_U64;
	place.fields[0].from = (struct code_operand){ OPERAND_REGISTER, 8, 5, OPERAND_NONE, 1, 0 };
	place.fields[1].from = (struct code_operand){ OPERAND_MEMORY, 8, 7, OPERAND_NONE, 1, 0 };
	place.fields[2].from = (struct code_operand){ OPERAND_VECTOR, 8, 0, OPERAND_NONE, 1, 0 };
	while (any() % 2 && !trampoline_compose(&module->sweep, &place, number + 1, &trampoline))
		number++;
	if (trampoline_compose(&module->sweep, &place, number, &trampoline)) {
		module->refused++;
		return;
	}
	if (!own(module, &trampoline.detour))
		return;
	for (int i = 0; i < FORM_FIRST && err; i++) {
		form = form % FORM_FIRST + 1;
		err = fixture_place(&placed, &trampoline, (enum detour_form)form, module->base,
				    &ends);
		cr_assert(!err || err == -ENOENT || err == -ENOMEM, "%d", err);
	}
	module->elsewhere += err != 0;
	module->placed[form] += !err;
	module->pushed += !err && trampoline.detour.stack_bytes;
}

static void module_detour(struct module *module, const struct density *density)
{
	for (size_t i = 0; i < module->symbols.function_count; i++) {
		const struct code_function *function = &module->symbols.functions[i];
		uint64_t end = function->address + function->bytes;

		if (!function->bytes || !sweep_part_at(&module->sweep, function->address))
			continue;
		if (density->entries && !function->is_part)
			point_place(module, function->address, 1);
		for (uint64_t at = function->address + 1; density->one_in && at < end; at++)
			if (sweep_is_start(&module->sweep, at) && any() % density->one_in == 0)
				point_place(module, at, 0);
	}
}

static void module_open(struct module *module, const struct link_map *map)
{
	static uint8_t owned[MODULE_BYTES_MAX];

	memset(owned, 0, sizeof(owned));
	*module = (struct module){ .base = map->l_addr, .owned = owned };
	cr_assert_eq(code_file_open(&module->file, map->l_name), 0, "%s", map->l_name);
	cr_assert_eq(code_symbols_read(&module->symbols, module->file), 0);
	cr_assert_eq(sweep_make(&module->sweep, module->file, &module->symbols), 0);
}

static void module_close(struct module *module)
{
	sweep_release(&module->sweep);
	code_symbols_release(&module->symbols);
	code_file_close(module->file);
}

static struct link_map *library_find(void *handle, const char *name)
{
	struct link_map *map;

	cr_assert_eq(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	while (map->l_prev)
		map = map->l_prev;
	while (map && !strstr(map->l_name, name))
		map = map->l_next;
	return map;
}

/* ---- work ---- */

/* The functions of one namespace, what they compute written to `out`. */
struct work {
	void *handle;
	char *out;
	size_t used;
};

/* A function of the namespace, by its type in ours. */
#define CALL(work, name) ((__typeof__(&name))function_find(work, #name))

static void *function_find(struct work *work, const char *name)
{
	void *function = dlsym(work->handle, name);

	cr_assert(function, "%s", name);
	return function;
}

static void report(struct work *work, const void *from, size_t bytes)
{
	cr_assert_lt(work->used + bytes, OUTPUT_BYTES);
	memcpy(work->out + work->used, from, bytes);
	work->used += bytes;
}

static void tell_number(struct work *work, int64_t number)
{
	report(work, &number, sizeof(number));
}

static void work_numbers(struct work *work)
{
	static const char *const texts[] = { "0",      "-17",
					     "0x1p-3", "3.14159265358979",
					     "1e308",  "nan",
					     "inf",    "123456789012345678901234567890" };
	char text[512];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		double value = CALL(work, strtod)(texts[i], NULL);
		int read = 0;

		report(work, &value, sizeof(value));
		tell_number(work, CALL(work, strtol)(texts[i], NULL, 0));
		CALL(work, sscanf)(texts[i], "%d", &read);
		tell_number(work, read);
		for (int width = 0; width < 30; width += 7) {
			int bytes = CALL(work, snprintf)(
				text, sizeof(text),
				"%*d|%-*x|%+.*f|%e|%g|%a|%s|%c|%#o|%5.2s|%ld|%%", width,
				(int)any() % 100000, width, 0xbeef, width, value, value, value,
				value, texts[i], 'q', 8, "abc", (long)any());

			report(work, text, (size_t)bytes);
		}
	}
}

static int order(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void work_sorts(struct work *work)
{
	uint32_t *numbers = CALL(work, malloc)(BUFFER_BYTES);
	uint32_t key;

	for (size_t i = 0; i < BUFFER_BYTES / 4; i++)
		numbers[i] = (uint32_t)any() % 1000;
	key = numbers[5];
	CALL(work, qsort)(numbers, BUFFER_BYTES / 4, 4, order);
	report(work, numbers, 4096);
	tell_number(work, CALL(work, bsearch)(&key, numbers, BUFFER_BYTES / 4, 4, order) != NULL);
	CALL(work, free)(numbers);
}

static void work_strings(struct work *work)
{
	static char a[BUFFER_BYTES], b[BUFFER_BYTES];

	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = (char)('a' + any() % 4);
	for (size_t bytes = 0; bytes < 9000; bytes += 1 + bytes / 5) {
		size_t from = any() % 64, to = any() % 64;

		a[bytes + 64] = '\0';
		CALL(work, memcpy)(b + to, a + from, bytes);
		CALL(work, memmove)(b + from, b + to, bytes);
		CALL(work, memset)(b + bytes, (int)any(), to);
		tell_number(work, (int64_t)CALL(work, strlen)(a + from));
		tell_number(work, CALL(work, memcmp)(a + from, b + to, bytes) > 0);
		tell_number(work, CALL(work, strcmp)(a + from, a + to) > 0);
		tell_number(work, CALL(work, strcasecmp)(a + from, a + to) > 0);
		tell_number(work, (char *)CALL(work, memmem)(a, bytes, "abca", 4) - a);
		tell_number(work, CALL(work, strstr)(a + from, "bcdab") - a);
		tell_number(work, (char *)CALL(work, memchr)(a + from, 'd', bytes + 1) - a);
		tell_number(work, CALL(work, strrchr)(a + from, 'b') - a);
		tell_number(work, (int64_t)CALL(work, strspn)(a + from, "abc"));
		tell_number(work, CALL(work, stpcpy)(b + 10000, a + from) - b);
		a[bytes + 64] = 'c';
	}
	report(work, b, 4096);
}

static void work_memory(struct work *work)
{
	void *blocks[200] = { 0 };

	for (int i = 0; i < 4000; i++) {
		size_t which = any() % 200, bytes = any() % 70000;

		if (any() & 1) {
			CALL(work, free)(blocks[which]);
			blocks[which] = CALL(work, calloc)(1, bytes / 16);
		} else {
			blocks[which] = CALL(work, realloc)(blocks[which], bytes + 1);
			memset(blocks[which], i, bytes + 1);
		}
	}
	for (int i = 0; i < 200; i++)
		CALL(work, free)(blocks[i]);
	tell_number(work, 1);
}

static void work_texts(struct work *work)
{
	static const char text[] = "alpha = 12, beta = 3.5; gamma=\"x y\"";
	char line[256], *at = NULL, *copy = line;
	wchar_t wide[64];
	regmatch_t match[3];
	regex_t regex;
	FILE *file;
	jmp_buf *back = calloc(1, sizeof(jmp_buf));

	tell_number(work,
		    CALL(work, regcomp)(&regex, "([a-z]+) *= *([0-9.]+|\"[^\"]*\")", REG_EXTENDED));
	for (size_t from = 0; !CALL(work, regexec)(&regex, text + from, 3, match, 0);
	     from += (size_t)match[0].rm_eo)
		report(work, match, sizeof(match));
	CALL(work, regfree)(&regex);
	CALL(work, strcpy)(line, text);
	for (char *word; (word = CALL(work, strtok_r)(copy, " ,=;", &at)); copy = NULL)
		report(work, word, strlen(word));
	file = CALL(work, fmemopen)((void *)text, sizeof(text), "r");
	tell_number(work, CALL(work, fgets)(line, sizeof(line), file) != NULL);
	tell_number(work, CALL(work, fseek)(file, 8, SEEK_SET));
	tell_number(work, CALL(work, fgetc)(file));
	CALL(work, fclose)(file);
	tell_number(work, (int64_t)CALL(work, mbstowcs)(wide, text, 30));
	tell_number(work, CALL(work, swprintf)(wide, 64, L"%ls %d", L"wide", 5));
	/* not by a pointer: it returns twice */
	free(back);
}

static void work_libz(struct work *work)
{
	static unsigned char in[BUFFER_BYTES], packed[BUFFER_BYTES + 1000], out[BUFFER_BYTES];
	int (*compress2)(unsigned char *, unsigned long *, const unsigned char *, unsigned long,
			 int) = function_find(work, "compress2");
	int (*uncompress)(unsigned char *, unsigned long *, const unsigned char *,
			  unsigned long) = function_find(work, "uncompress");
	unsigned long (*crc32)(unsigned long, const unsigned char *,
			       unsigned int) = function_find(work, "crc32");
	unsigned long (*adler32)(unsigned long, const unsigned char *,
				 unsigned int) = function_find(work, "adler32");

	for (int level = 0; level <= 9; level++) {
		unsigned long packed_bytes = sizeof(packed), out_bytes = sizeof(out);

		for (size_t i = 0; i < sizeof(in); i++)
			in[i] = any() % 8 ? in[any() % (i + 1)] : (unsigned char)any();
		tell_number(work, compress2(packed, &packed_bytes, in, sizeof(in), level));
		tell_number(work, (int64_t)packed_bytes);
		tell_number(work, (int64_t)crc32(0, packed, (unsigned int)packed_bytes));
		tell_number(work, uncompress(out, &out_bytes, packed, packed_bytes));
		tell_number(work, memcmp(in, out, sizeof(in)));
		tell_number(work, (int64_t)adler32(1, out, (unsigned int)out_bytes));
	}
}

static void work_all(struct work *work)
{
	work->used = 0;
	random_state = 88172645463325252ull;
	for (int i = 0; i < 3; i++) {
		work_numbers(work);
		work_sorts(work);
		work_strings(work);
		work_memory(work);
		work_texts(work);
		work_libz(work);
		work->used = i < 2 ? work->used / 2 : work->used;
	}
}

/* ---- tests ---- */

static void compare_with(const struct density *density)
{
	static char first_out[OUTPUT_BYTES], second_out[OUTPUT_BYTES];
	static const char *const names[] = { "libz.so", "libc.so" };
	struct work first = { .out = first_out }, second = { .out = second_out };
	unsigned int placed = 0;

	first.handle = dlopen("libz.so.1", RTLD_NOW);
	second.handle = dlmopen(LM_ID_NEWLM, "libz.so.1", RTLD_NOW);
	if (!first.handle || !second.handle)
		cr_skip_test("no second namespace: %s", dlerror());
	work_all(&first);
	for (int i = 0; i < 2; i++) {
		struct module module;

		module_open(&module, library_find(second.handle, names[i]));
		module_detour(&module, density);
		cr_log_info(
			"%s: %u byte, %u behind, %u first; %u behind pushes; no room for %u, %u refused",
			names[i], module.placed[FORM_BYTE], module.placed[FORM_BEHIND],
			module.placed[FORM_FIRST], module.pushed, module.elsewhere, module.refused);
		for (int form = FORM_BYTE; form <= FORM_FIRST; form++) {
			cr_assert_gt(module.placed[form], 0, "form %d", form);
			placed += module.placed[form];
		}
		module_close(&module);
	}
	cr_assert_gt(placed, 2000);
	hits.count = 0;
	work_all(&second);
	cr_assert_gt(hits.count, 10000);
	cr_assert_eq(first.used, second.used);
	cr_assert_arr_eq(first.out, second.out, first.used);
}

TestSuite(libraries, .timeout = 120);

Test(libraries, compute_the_same_with_a_detour_at_every_entry)
{
	compare_with(&(struct density){ .entries = 1 });
}

/* A process each: there are not mappings for all. */
static void compare_at_points(unsigned int one_in)
{
	random_state = one_in * 0x9e3779b97f4a7c15ull;
	compare_with(&(struct density){ .entries = one_in & 1, .one_in = one_in });
}

Test(libraries, compute_the_same_with_detours_at_every_point)
{
	compare_at_points(1);
}

Test(libraries, compute_the_same_with_detours_at_every_second_point)
{
	compare_at_points(2);
}

Test(libraries, compute_the_same_with_detours_at_every_third_point)
{
	compare_at_points(3);
}
