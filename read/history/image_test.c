/* SPDX-License-Identifier: MIT */
/* This very program, as a trace would name it. */
#include "read/history/image.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

static char exe[4096], id[2 * CODE_BUILD_ID_MAX + 1];
static struct fact_module modules[4] = { { .path = exe, .build_id = id } };
static struct fact_process process = { .modules = modules, .module_count = 1 };
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
	dl_iterate_phdr(first_base, &modules[0].base);
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
	cr_assert_eq(
		image_open(&image, &process, &(struct image_options){ .root = "/nonexistent" }), 0);
	cr_expect_eq(image_place(image, at)->module->error, -ENOENT);
	cr_expect_eq(image_module(image, 0)->is_asked, 1);
	cr_expect_null(image_module(image, 1));
}

/* What a shell says of a command. */
static int shell(const char *format, ...)
{
	char command[16384];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command);
}

Test(image, takes_names_from_a_debug_file_where_the_file_is_missing)
{
	uint64_t at = (uint64_t)(uintptr_t)here;
	char root[] = "/tmp/waymark-image-XXXXXX";
	struct image_line line;
	uint8_t code[4];

	cr_assert_not_null(mkdtemp(root));
	if (shell("d=%s/usr/lib/debug/.build-id/%.2s; mkdir -p $d && "
		  "objcopy --only-keep-debug '%s' $d/%s.debug 2>/dev/null",
		  root, id, exe, id + 2)) {
		shell("rm -rf %s", root);
		cr_skip_test("no objcopy");
	}
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .root = root }), 0);
	cr_expect_str_eq(image_place(image, at)->function, "here");
	cr_expect_eq(image_module(image, 0)->error, 0);
	image_line(image, at, &line);
	cr_assert_not_null(line.source);
	cr_expect_not_null(strstr(line.source, "image_test.c"));
	cr_expect_eq(image_code(image, at, code, sizeof(code)), 0, "code out of a debug file");
	image_close(image);
	/* of another build it is not the one */
	id[4] = id[4] == '0' ? '1' : '0';
	shell("cd %s/usr/lib/debug/.build-id/*/ && mv *.debug %s.debug", root, id + 2);
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .root = root }), 0);
	cr_expect_null(image_place(image, at)->function);
	cr_expect_eq(image_module(image, 0)->error, -ENOENT);
	shell("rm -rf %s", root);
}

Test(image, has_the_code_of_files)
{
	uint64_t at = (uint64_t)(uintptr_t)here;
	uint8_t code[8];

	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_eq(image_code(image, at, code, sizeof(code)), sizeof(code));
	cr_expect_arr_eq(code, (const void *)here, sizeof(code));
	cr_expect_eq(image_code(image, 0x10, code, sizeof(code)), 0);
	cr_expect_eq(image_code(image, (uint64_t)(uintptr_t)&image, code, sizeof(code)), 0,
		     "data is no code");
}

Test(image, knows_this_kernels_vdso)
{
	uint64_t start = getauxval(AT_SYSINFO_EHDR);
	const struct image_place *place;

	if (!start)
		cr_skip_test("the kernel has no vdso here");
	modules[0] = (struct fact_module){ .path = (char *)"[vdso]", .base = start };
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	for (uint64_t at = start; at < start + 4096; at += 16) {
		place = image_place(image, at);
		cr_assert_not_null(place->module);
		if (place->function && strstr(place->function, "clock_gettime"))
			return;
	}
	cr_assert_fail("no function of the vdso has its name");
}

Test(image, keeps_a_vdso_of_another_kernel_apart)
{
	modules[0] = (struct fact_module){ .path = (char *)"[vdso]",
					   .base = 0x7fff00000000,
					   .build_id = (char *)"0123456789" };
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_eq(image_place(image, 0x7fff00000100)->module->error, -WM_E_FILE_REPLACED);
}

/* The path of the module that an address is said to lie in. */
static const char *path_at(uint64_t address)
{
	const struct image_place *place = image_place(image, address);

	return place->module ? place->module->path : "";
}

Test(image, of_modules_at_one_place_takes_the_one_that_stayed)
{
	struct fact_module first = { .base = 0x100000, .path = (char *)"/nonexistent/first" };
	struct fact_module second = { .base = 0x100000, .path = (char *)"/nonexistent/second" };

	modules[0] = first;
	modules[1] = second;
	process.module_count = 2;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/second", "both there: the later");
	image_close(image);

	first.gone = 1; /* came, went, another came */
	modules[1] = first;
	modules[2] = second;
	process.module_count = 3;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/second");
	image_close(image);

	second.gone = 1; /* went too: the last that there was */
	modules[3] = second;
	process.module_count = 4;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/second");
	image_close(image);

	process.module_count = 2; /* nothing in its place: its names still hold */
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/first");
	image_close(image);

	modules[0] = first; /* only the later went: the earlier is still there */
	modules[0].gone = 0;
	modules[1] = second;
	modules[1].gone = 0;
	modules[2] = second;
	process.module_count = 3;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/first");
}

static const char *path_then(uint64_t ns)
{
	const struct image_place *place = image_place(image_then(image, ns, NULL), 0x100010);

	return place->module ? place->module->path : "";
}

Test(image, then_has_the_module_of_that_time)
{
	struct fact_module first = { .base = 0x100000, .ns = 10, .path = (char *)"/none/first" };
	struct fact_module second = { .base = 0x100000, .ns = 20, .path = (char *)"/none/second" };
	uint32_t number;

	modules[0] = first;
	modules[1] = first;
	modules[1].gone = 1;
	modules[1].ns = 18;
	modules[2] = second;
	modules[3] = first; /* it comes back, and nothing says that the second went */
	modules[3].ns = 30;
	process.module_count = 4;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_then(0), "/none/first", "before anything is known to be there");
	cr_expect_str_eq(path_then(17), "/none/first");
	cr_expect_str_eq(path_then(18), "/none/second", "nothing runs where one went");
	cr_expect_str_eq(path_then(29), "/none/second");
	cr_expect_str_eq(path_then(30), "/none/first");
	cr_expect_str_eq(path_then(UINT64_MAX), "/none/first");
	cr_expect_eq(image_then(image, 20, &number), image_then(image, 28, NULL));
	cr_expect_eq(number, 1);
	image_close(image);

	process.module_count = 3; /* times are of one that knew none */
	modules[0].ns = modules[1].ns = modules[2].ns = 0;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_eq(image_then(image, 5, NULL), image);
}

/* One without a build id is known by the time at which it was written. */
Test(image, of_a_file_that_was_written_since_is_not_the_one_that_ran)
{
	char path[] = "/tmp/image_test.XXXXXX";
	struct timespec written[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && !futimens(fd, written));
	modules[0] = (struct fact_module){ .base = 0x100000, .ns = 999999999000, .path = path };
	modules[1] = modules[0];
	modules[1].ns = 999999999999;
	modules[1].gone = 1;
	modules[2] = modules[0];
	modules[2].ns = 1000000000001;
	process.module_count = 3;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	image_place(image_then(image, 999999999000, NULL), 0x100010);
	image_place(image_then(image, 1000000000001, NULL), 0x100010);
	cr_expect_eq(image_module(image, 0)->error, -WM_E_FILE_REPLACED);
	cr_expect_not_null(image_module(image, 1), "another build came behind it");
	cr_expect_neq(image_module(image, 1)->error, -WM_E_FILE_REPLACED);
	close(fd);
	unlink(path);
}

Test(image, of_no_file_has_a_module_alone)
{
	modules[0] = (struct fact_module){ .base = 0x100000, .path = (char *)"[vsyscall]" };
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x100010), "[vsyscall]");
	cr_expect_eq(image_module(image, 0)->error, -ENOENT);
}

Test(image, of_a_missing_file_does_not_reach_everywhere)
{
	modules[0] = (struct fact_module){ .base = 0x100000, .path = (char *)"/nonexistent/x" };
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	cr_expect_str_eq(path_at(0x200000), "/nonexistent/x");
	cr_expect_str_eq(path_at(0x7f0000000000), "");
	cr_expect_str_eq(path_at(UINT64_MAX), "");
	cr_expect_str_eq(path_at(0), "");
}

/*
 * What came and went at one place, each for its time: the one before, the one between, the one that
 * stayed.
 */
Test(image, of_an_era_has_what_lay_there_then)
{
	struct trail_table before = { .era = { 2, 0, 2 } }, after = { .era = { 1, 2, 3 } },
			   last = { .era = { 0, 3, 0 } };
	struct fact_module first = { .base = 0x100000, .path = (char *)"/nonexistent/first" };
	struct fact_module second = { .base = 0x100000, .path = (char *)"/nonexistent/second" };
	struct image *whole, *in;

	modules[0] = first;
	modules[1] = first;
	modules[1].gone = 1;
	modules[2] = second;
	modules[3] = (struct fact_module){ .base = 0x90000000, .path = (char *)"[vdso]" };
	process.module_count = 4;
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	whole = image;
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/second");
	image = in = image_in(whole, &before);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/first");
	cr_expect_str_eq(path_at(0x90000010), "");
	cr_expect_eq(image_in(image, &before), in, "asked again it is the same");
	cr_expect_eq(image_in(whole, &before), in);
	cr_expect_eq(image_in(in, NULL), whole);
	cr_expect(image_has(image, image_place(image, 0x100010)->module));
	image = image_in(in, &after);
	cr_expect_str_eq(path_at(0x100010), "/nonexistent/second");
	cr_expect_str_eq(path_at(0x90000010), "");
	cr_expect_not(image_has(image, image_place(in, 0x100010)->module));
	in = image_in(in, &last);
	cr_expect_eq(image_place(in, 0x100010)->module, image_place(image, 0x100010)->module);
	image = in;
	cr_expect_str_eq(path_at(0x90000010), "[vdso]");
	image = whole;
}

/* The file is there for the first who asks, and gone when the second does. */
Test(image, reads_a_file_once_for_several_processes)
{
	char root[] = "/tmp/waymark-image-XXXXXX";
	uint64_t at = (uint64_t)(uintptr_t)here;
	struct image_files *files;
	struct image *other;
	struct image_line line;

	cr_assert_not_null(mkdtemp(root));
	cr_assert_eq(shell("d=%s$(dirname %s); mkdir -p $d && cp %s $d", root, exe, exe), 0);
	cr_assert_eq(image_files_open(&files, root), 0);
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .files = files }), 0);
	cr_expect_str_eq(image_place(image, at)->function, "here");
	cr_assert_eq(shell("rm -r %s", root), 0);
	cr_assert_eq(image_open(&other, &process, &(struct image_options){ .files = files }), 0);
	cr_expect_str_eq(image_place(other, at)->function, "here");
	image_close(image);
	image_line(other, at, &line);
	cr_expect(line.line > 20 && line.line < 40, "%u", line.line);
	image_close(other);
	image = NULL;
	image_files_close(files);
}

Test(image, does_not_take_another_build_for_the_same_file)
{
	uint64_t at = (uint64_t)(uintptr_t)here;
	struct image_files *files;
	struct image *other;

	cr_assert_eq(image_files_open(&files, ""), 0);
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .files = files }), 0);
	cr_expect_not_null(image_place(image, at)->function);
	id[0] = id[0] == '0' ? '1' : '0';
	cr_assert_eq(image_open(&other, &process, &(struct image_options){ .files = files }), 0);
	cr_expect_null(image_place(other, at)->function);
	cr_expect_eq(image_place(other, at)->module->error, -WM_E_FILE_REPLACED);
	image_close(other);
	image_close(image);
	image = NULL;
	image_files_close(files);
}
