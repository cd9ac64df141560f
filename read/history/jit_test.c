/* SPDX-License-Identifier: MIT */
#include "read/history/image.h"
#include "trace/perf_map.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char dir[64];
static struct trace_reader reader;
static struct fact_process process = { .pid = 77 };
static struct image *image;

static void begin(void)
{
	sample_folder(dir);
	reader.dir = open(dir, O_RDONLY | O_DIRECTORY);
}

static void end(void)
{
	char name[PERF_MAP_NAME_BYTES];

	image_close(image);
	perf_map_name(process.pid, name);
	unlinkat(reader.dir, name, 0);
	close(reader.dir);
	sample_folder_remove(dir);
}

TestSuite(jit, .init = begin, .fini = end);

static void open_with(const char *text)
{
	char name[PERF_MAP_NAME_BYTES];
	int fd;

	perf_map_name(process.pid, name);
	fd = openat(reader.dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .trace = &reader }), 0);
}

static const char *name_at(uint64_t address)
{
	return image_place(image, address)->function;
}

Test(jit, function_has_name_start_and_module)
{
	const struct image_place *place;
	struct image_line line;

	open_with("5000 20 second\n4000 10 JS:*first file.js:3\n");
	place = image_place(image, 0x400f);
	cr_assert_str_eq(place->function, "JS:*first file.js:3");
	cr_expect_eq(place->start, 0x4000);
	cr_expect_eq(place->bytes, 0x10);
	cr_expect_str_eq(place->module->name, "perf-77.map");
	cr_expect_str_eq(place->module->path, "/tmp/perf-77.map");
	cr_expect_eq(image_module(image, 0), place->module);
	cr_expect_null(image_module(image, 1));
	image_line(image, 0x400f, &line);
	cr_expect_null(line.source);
	cr_expect_str_eq(name_at(0x501f), "second");
	cr_expect_null(image_place(image, 0x4010)->module);
	cr_expect_null(image_place(image, 0x3fff)->module);
	cr_expect_null(image_place(image, 0x5020)->module);
}

Test(jit, newest_of_overlapping_functions_is_taken)
{
	open_with("1000 100 old\n1080 10 over_old\n"
		  "2000 10 first\n2000 20 again\n"
		  "3040 40 old_tail\n3000 80 over_both\n30c0 10 apart\n"
		  "5000 10 a\n5010 10 b\n5008 10 middle\n");
	cr_expect_null(name_at(0x1000), "its code is gone");
	cr_expect_str_eq(name_at(0x1080), "over_old");
	cr_expect_str_eq(name_at(0x2018), "again");
	cr_expect_str_eq(name_at(0x3070), "over_both");
	cr_expect_str_eq(name_at(0x30c0), "apart");
	cr_expect_null(name_at(0x5004));
	cr_expect_str_eq(name_at(0x5010), "middle");
	cr_expect_null(name_at(0x501c));
}

Test(jit, damaged_lines_are_left_out)
{
	open_with("\n \nnonsense\n1000\n1000 10\n1000 10 \n1000 0 empty\n"
		  "ffffffffffffffff 10 around\nzz 10 x\n2000 10 whole\n3000 10 cut");
	cr_expect_null(name_at(0x1000));
	cr_expect_null(name_at(UINT64_MAX));
	cr_expect_str_eq(name_at(0x2000), "whole");
	cr_expect_null(name_at(0x3000));
}

/* A sanitizer sees that nothing is sorted. */
Test(jit, empty_map_names_nothing)
{
	open_with("");
	cr_expect_null(name_at(0x1000));
}

Test(jit, no_map_names_nothing)
{
	cr_assert_eq(image_open(&image, &process, &(struct image_options){ .trace = &reader }), 0);
	cr_expect_null(image_place(image, 0x1000)->module);
	cr_expect_null(image_module(image, 0));
}
