/* SPDX-License-Identifier: MIT */
#include "read/history/image.h"
#include "read/history/kernel_symbols.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define KERNEL UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)

static char root[64];
static struct code_symbols symbols;
static char *names;
static uint64_t bytes;

static void put(const char *path, const char *content, size_t count)
{
	sample_folder_put(root, path, content, count);
}

static void begin(void)
{
	/* not in order, as it is where modules and eBPF come behind */
	static const char list[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000000 T _stext\n"
				   "ffffffff81000000 t first_local\n"
				   "ffffffff81000000 T first\n"
				   "ffffffff81000040 t third\n"
				   "ffffffff81000020 W second\n"
				   "ffffffff81000060 D data\n"
				   "ffffffffc0000010 t helper\t[sample]\n"
				   "ffffffffc0000030 t behind\t[sample]\n"
				   "garbage\n\n"
				   "0000000000000010 A percpu\n";
	static const char notes[] = "\4\0\0\0\2\0\0\0\3\0\0\0GNU\0\xca\xfe\0";
	static const char modules[] = "sample 4096 0 - Live 0xffffffffc0000000\n";

	sample_folder(root);
	put("/proc/kallsyms", list, strlen(list));
	put("/proc/modules", modules, strlen(modules));
	put("/sys/kernel/notes", notes, sizeof(notes));
}

static void end(void)
{
	code_symbols_release(&symbols);
	free(names);
	sample_folder_remove(root);
}

TestSuite(kernel_symbols, .init = begin, .fini = end, .timeout = 60);

static int read_of(const char *path, uint64_t base, const char *build_id)
{
	code_symbols_release(&symbols);
	free(names);
	return kernel_symbols_read(&symbols, &names, &bytes, root, path, base, build_id);
}

static const char *at(uint64_t offset)
{
	const struct code_function *function = code_function_at(&symbols, offset);

	return function ? symbols.all[function->first].name : "";
}

Test(kernel_symbols, names_the_kernels_functions)
{
	cr_assert_eq(read_of("[kernel]", KERNEL, "cafe"), 0);
	cr_expect_str_eq(at(0), "first");
	cr_expect_str_eq(at(0x1f), "first");
	cr_expect_str_eq(at(0x20), "second");
	cr_expect_str_eq(at(0x5f), "third");
	cr_expect_str_eq(at(0x60), "", "data");
	cr_expect_eq(symbols.function_count, 3);
	cr_expect_eq(bytes, 0x61);
}

Test(kernel_symbols, names_a_modules)
{
	cr_assert_eq(read_of("[sample]", MODULE, NULL), 0);
	cr_expect_str_eq(at(0x08), "");
	cr_expect_str_eq(at(0x18), "helper");
	cr_expect_eq(symbols.function_count, 2);
}

Test(kernel_symbols, takes_no_other_kernels)
{
	cr_expect_eq(read_of("[kernel]", KERNEL, "cafd"), -WM_E_FILE_REPLACED);
	cr_expect_eq(read_of("[kernel]", KERNEL + 0x1000, "cafe"), -WM_E_FILE_REPLACED,
		     "it was booted again");
	cr_expect_eq(read_of("[sample]", MODULE + 0x1000, NULL), -WM_E_FILE_REPLACED);
	cr_expect_eq(read_of("[sampler]", MODULE, NULL), -WM_E_FILE_REPLACED);
	cr_expect_eq(read_of("[sam]", MODULE, NULL), -WM_E_FILE_REPLACED);
	cr_expect_eq(symbols.count, 0);
	put("/proc/kallsyms", "0000000000000000 T _stext\n", 26);
	cr_expect_eq(read_of("[kernel]", KERNEL, "cafe"), -EACCES);
}

Test(kernel_symbols, empty_list_names_nothing)
{
	put("/proc/kallsyms", "", 0);
	read_of("[sample]", MODULE, NULL);
	cr_expect_eq(symbols.function_count, 0);
}

Test(kernel_symbols, stand_in_an_image)
{
	struct fact_module modules[] = {
		{ .path = (char *)"[kernel]", .build_id = (char *)"cafe", .base = KERNEL },
		{ .path = (char *)"[sample]", .base = MODULE },
	};
	const struct fact_process process = { .modules = modules, .module_count = 2 };
	const struct image_options where = { .root = root };
	const struct image_place *place;
	struct image_line line;
	struct image *image;

	cr_assert_eq(image_open(&image, &process, &where), 0);
	place = image_place(image, KERNEL + 0x24);
	cr_assert(place && place->module && place->function);
	cr_expect_str_eq(place->function, "second");
	cr_expect_str_eq(place->module->name, "[kernel]");
	cr_expect_eq(place->start, KERNEL + 0x20);
	image_line(image, KERNEL + 0x24, &line);
	cr_expect_null(line.source);
	place = image_place(image, MODULE + 0x14);
	cr_assert(place && place->function);
	cr_expect_str_eq(place->function, "helper");
	place = image_place(image, 0x401000);
	cr_expect_null(place->module, "of a user's code nothing is the kernel's");
	image_close(image);
}

Test(kernel_symbols, an_unknown_kernel_is_the_kernel)
{
	struct fact_module modules[] = {
		{ .path = (char *)"[kernel]", .build_id = (char *)"beef", .base = KERNEL }
	};
	const struct fact_process process = { .modules = modules, .module_count = 1 };
	const struct image_options where = { .root = root };
	const struct image_place *place;
	struct image *image;

	cr_assert_eq(image_open(&image, &process, &where), 0);
	place = image_place(image, KERNEL + 0x24);
	cr_assert(place && place->module);
	cr_expect_null(place->function);
	cr_expect_str_eq(place->module->name, "[kernel]");
	cr_expect_eq(place->module->error, -WM_E_FILE_REPLACED);
	image_close(image);
}
