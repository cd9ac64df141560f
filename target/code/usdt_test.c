/* SPDX-License-Identifier: MIT */
#include "target/code/usdt.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct code_file *file;
static struct code_usdt_list list;

static void open_sample(void)
{
	cr_assert_eq(code_file_open(&file, SAMPLE_MODULE), 0);
	cr_assert_eq(code_usdt_read(&list, file), 0);
}

static void close_sample(void)
{
	code_usdt_release(&list);
	code_file_close(file);
}

static const struct code_usdt *probe(const char *provider, const char *name, int which)
{
	for (size_t i = 0; i < list.count; i++)
		if (!strcmp(list.all[i].provider, provider) && !strcmp(list.all[i].name, name) &&
		    !which--)
			return &list.all[i];
	return NULL;
}

Test(usdt, all_places_of_all_probes, .init = open_sample, .fini = close_sample)
{
	const struct code_usdt *first = probe("shop", "order", 0),
			       *second = probe("shop", "order", 1);
	uint8_t code = 0;

	cr_assert_eq(list.count, 6);
	cr_assert_not_null(first);
	cr_assert_not_null(second);
	cr_assert_null(probe("shop", "order", 2));
	cr_assert_lt(first->address, second->address);
	cr_assert_eq(code_file_read(file, first->address, &code, 1), 0);
	cr_assert_eq(code, 0x90);
	cr_assert_neq(first->semaphore, 0);
	cr_assert_eq(first->semaphore, second->semaphore);
	cr_assert_str_eq(code_file_section_at(file, first->semaphore)->name, ".probes");
	cr_assert_eq(probe("shop", "bare", 0)->semaphore, 0);
}

Test(usdt, arguments_become_fields, .init = open_sample, .fini = close_sample)
{
	struct code_field fields[16];

	cr_assert_eq(code_usdt_fields(probe("shop", "order", 0), file, fields, 16), 3);
	cr_assert_str_eq(fields[2].name, "arg3");
	cr_assert_eq(fields[0].type, WM_TYPE_I32);
	cr_assert_eq(fields[1].type, WM_TYPE_U64);
	cr_assert_eq(fields[2].type, WM_TYPE_F64);
	cr_assert_eq(code_usdt_fields(probe("shop", "bare", 0), file, fields, 16), 0);
	cr_assert_eq(code_usdt_fields(probe("store", "many", 0), file, fields, 16), 12);
	cr_assert_eq(fields[11].from.displacement, 12);
	cr_assert_eq(code_usdt_fields(probe("store", "many", 0), file, fields, 2), 12);
}

Test(usdt, an_argument_may_be_a_variable_of_the_module, .init = open_sample, .fini = close_sample)
{
	struct code_field fields[2];
	int value = 0;

	cr_assert_eq(code_usdt_fields(probe("shop", "counted", 0), file, fields, 2), 2);
	cr_assert_eq(fields[0].from.kind, OPERAND_ADDRESS);
	cr_assert_eq(code_file_read(file, (uint64_t)fields[0].from.displacement, &value, 4), 0);
	cr_assert_eq(value, 42);
}

Test(usdt, an_argument_that_can_t_be_read_is_told, .init = open_sample, .fini = close_sample)
{
	const struct code_usdt *strange = probe("store", "strange", 0);
	struct code_field fields[2];
	char text[64];

	cr_assert_eq(code_usdt_fields(strange, file, fields, 2), 2);
	cr_assert_neq(fields[0].type, 0);
	cr_assert_eq(fields[1].type, 0);
	code_usdt_argument(strange, 2, text, sizeof(text));
	cr_assert_str_eq(text, "8@%fs:sample_tls@tpoff");
	code_usdt_argument(strange, 3, text, sizeof(text));
	cr_assert_str_eq(text, "");
}

/* The file's bytes, and where a section is in them. */
static uint8_t *bytes_of(const char *section_name, size_t *bytes, size_t *at, size_t *length)
{
	const struct code_section *section = code_file_section(file, section_name);
	uint8_t *image = malloc(file->file_bytes);

	cr_assert_not_null(section);
	*bytes = file->file_bytes;
	*at = section->offset;
	*length = section->bytes;
	cr_assert_eq(pread(file->fd, image, *bytes, 0), (ssize_t)*bytes);
	return image;
}

Test(usdt, a_file_that_was_moved_after_its_notes_were_written, .init = open_sample,
     .fini = close_sample)
{
	uint64_t before = probe("shop", "bare", 0)->address,
		 semaphore = probe("shop", "order", 0)->semaphore;
	size_t bytes, at, length;
	uint8_t *image = bytes_of(".note.stapsdt", &bytes, &at, &length);
	struct code_usdt_list moved;
	struct code_file *other;
	uint64_t base;

	/* Every note's second word is the base: as if it had been 0x1000 lower. */
	for (size_t i = at; i + 20 < at + length;) {
		uint32_t name_bytes, description_bytes;

		memcpy(&name_bytes, image + i, 4);
		memcpy(&description_bytes, image + i + 4, 4);
		memcpy(&base, image + i + 12 + name_bytes + 8, 8);
		base -= 0x1000;
		memcpy(image + i + 12 + name_bytes + 8, &base, 8);
		i += 12 + name_bytes + ((description_bytes + 3) & ~3u);
	}
	cr_assert_eq(code_file_open_image(&other, "moved", image, bytes), 0);
	cr_assert_eq(code_usdt_read(&moved, other), 0);
	cr_assert_eq(moved.count, list.count);
	cr_assert_eq(moved.all[0].address, before + 0x1000);
	for (size_t i = 0; i < moved.count; i++)
		cr_assert(!moved.all[i].semaphore || moved.all[i].semaphore == semaphore + 0x1000);
	code_usdt_release(&moved);
	code_file_close(other);
	free(image);
}

Test(usdt, damaged_notes_are_an_error, .init = open_sample, .fini = close_sample)
{
	/* Offsets into the first note, and what is put there. */
	static const struct {
		size_t at;
		uint8_t byte;
	} damages[] = { { 3, 0xff }, { 7, 0xff }, { 4, 10 }, { 4, 26 } };
	size_t bytes, at, length;
	uint8_t *image = bytes_of(".note.stapsdt", &bytes, &at, &length);

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct code_usdt_list damaged;
		struct code_file *other;
		uint8_t kept = image[at + damages[i].at];

		image[at + damages[i].at] = damages[i].byte;
		cr_assert_eq(code_file_open_image(&other, "damaged", image, bytes), 0);
		cr_assert_eq(code_usdt_read(&damaged, other), -WM_E_MODULE_DAMAGED, "%zu", i);
		code_usdt_release(&damaged);
		code_file_close(other);
		image[at + damages[i].at] = kept;
	}
	free(image);
}

Test(usdt, any_bytes_do_no_harm, .init = open_sample, .fini = close_sample)
{
	size_t bytes, at, length;
	uint8_t *image = bytes_of(".note.stapsdt", &bytes, &at, &length);

	srandom(1);
	for (int round = 0; round < 2000; round++) {
		struct code_usdt_list any;
		struct code_field fields[16];
		struct code_file *other;
		size_t where = at + (size_t)random() % length;
		uint8_t kept = image[where];

		image[where] = (uint8_t)random();
		cr_assert_eq(code_file_open_image(&other, "any", image, bytes), 0);
		(void)code_usdt_read(&any, other);
		for (size_t i = 0; i < any.count; i++)
			(void)code_usdt_fields(&any.all[i], other, fields, 16);
		code_usdt_release(&any);
		code_file_close(other);
		if (round % 10)
			image[where] = kept;
	}
	free(image);
}

Test(usdt, a_module_without_probes_has_none)
{
	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	cr_assert_eq(code_usdt_read(&list, file), 0);
	cr_assert_eq(list.count, 0);
	close_sample();
}
