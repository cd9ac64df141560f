/* SPDX-License-Identifier: MIT */
/* This very program, as a trace would name it. */
#include "history/image.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static char exe[4096], id[2 * CODE_BUILD_ID_MAX + 1];
static struct tsdl_module module = { .path = exe, .build_id = id };
static const struct tsdl_process process = { .modules = &module, .module_count = 1 };
static struct image *image;

static int first_base(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

__attribute__((noinline)) static uint64_t here(void)
{
	return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static void begin(void)
{
	struct code_file *file;

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	cr_assert_eq(code_file_open(&file, exe), 0);
	for (size_t i = 0; i < file->build_id_bytes; i++)
		sprintf(id + 2 * i, "%02x", file->build_id[i]);
	code_file_close(file);
	dl_iterate_phdr(first_base, &module.base);
}

static void end(void)
{
	image_close(image);
}

TestSuite(image, .init = begin, .fini = end);

Test(image, names_function_and_line)
{
	const struct image_place *place;
	struct image_line line;
	uint64_t at = (uint64_t)(uintptr_t)here;

	cr_assert_eq(image_open(&image, &process, NULL), 0);
	place = image_place(image, at + 1);
	cr_assert_str_eq(place->function, "here");
	cr_expect_eq(place->start, at);
	cr_expect_str_eq(place->module->path, exe);
	cr_expect_eq(image_place(image, at + 1), place);
	image_line(image, at, &line);
	cr_assert_not_null(line.source);
	cr_expect_not_null(strstr(line.source, "image_test.c"));
	cr_expect(line.line > 20 && line.line < 40, "%u", line.line);
	cr_expect_null(image_place(image, 0x10)->module);
	cr_expect_null(image_place(image, at + (1ull << 40))->module);
}

Test(image, says_that_a_file_is_missing_or_another)
{
	uint64_t at = (uint64_t)(uintptr_t)here;
	const struct image_place *place;

	id[0] = id[0] == '0' ? '1' : '0';
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	place = image_place(image, at);
	cr_assert_not_null(place->module);
	cr_expect_eq(place->module->error, -WM_E_FILE_REPLACED);
	cr_expect_null(place->function);
	image_close(image);
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ "/nonexistent" }), 0);
	cr_expect_eq(image_place(image, at)->module->error, -ENOENT);
	cr_expect_eq(image_module(image, 0)->is_asked, 1);
	cr_expect_null(image_module(image, 1));
}
