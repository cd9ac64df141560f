/* SPDX-License-Identifier: MIT */
/* Rows of programs as compilers and linkers make them, held against binutils. */
#include "target/code/rows.h"

#include "target/code/symbol.h"
#include "target/code/testing/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct code_file *file;
static struct code_rows rows;

static void make_folder(void)
{
	folder_make("cc objcopy strip addr2line");
	shell("cp \"$(dirname '%s')\"/sample_rows.c sample.c", SAMPLE_SOURCE);
}

static void close_file(void)
{
	code_rows_release(&rows);
	code_file_close(file);
	file = NULL;
}

static void remove_folder(void)
{
	close_file();
	folder_remove();
}

static void read_rows(const char *name)
{
	close_file();
	file = folder_open(name);
	cr_assert_eq(code_rows_read(&rows, file), 0);
	for (size_t i = 1; i < rows.count; i++)
		cr_assert_leq(rows.all[i - 1].address, rows.all[i].address);
}

static uint64_t address_of(const char *name)
{
	uint64_t address = 0;

	cr_assert_eq(code_symbol_value(file, name, &address), 0, "%s", name);
	return address;
}

/* The line at an address; 0: none. */
static unsigned int line_at(uint64_t address)
{
	const struct code_row *row = code_row_at(&rows, address);

	return row ? row->line : 0;
}

static int is_optimized(const char *function)
{
	const struct code_row *row = code_row_at(&rows, address_of(function));

	cr_assert_not_null(row);
	return row->is_optimized;
}

/* Every byte of these functions is of the line that addr2line says. */
static void agree(const char *program)
{
	static const char *const names[] = { "twice", "loop", "main" };
	char command[160], path[64];
	unsigned int lines = 0;
	uint64_t address;
	FILE *to, *from;

	snprintf(path, sizeof(path), "%s/addresses", folder);
	to = fopen(path, "we");
	for (size_t i = 0; i < 3; i++)
		for (address = address_of(names[i]);
		     line_at(address) && address < address_of(names[i]) + 60; address++)
			fprintf(to, "%#llx\n", (unsigned long long)address);
	fclose(to);
	snprintf(command, sizeof(command), "cd %s && addr2line -a -e %s <addresses", folder,
		 program);
	from = popen(command, "re");
	for (char text[512]; fgets(text, sizeof(text), from); lines++) {
		address = strtoull(text, NULL, 16);
		cr_assert_not_null(fgets(text, sizeof(text), from));
		cr_assert_not_null(strstr(text, "sample.c:"), "%s", text);
		cr_expect_eq(line_at(address), strtoul(strstr(text, "sample.c:") + 9, NULL, 10),
			     "%s, %#llx: %u, but addr2line says %s", program,
			     (unsigned long long)address, line_at(address), text);
	}
	cr_expect_eq(pclose(from), 0);
	cr_expect_gt(lines, 20);
}

TestSuite(rows, .init = make_folder, .fini = remove_folder);

Test(rows, are_those_of_addr2line_in_each_version_of_dwarf)
{
	for (int version = 2; version <= 5; version++) {
		for (int level = 0; level <= 2; level++) {
			shell("cc -O%d -g -gdwarf-%d sample.c -o program", level, version);
			read_rows("program");
			agree("program");
			cr_expect_eq(is_optimized("main"), level > 0);
		}
	}
	shell("cc -O2 -g -gz=zlib sample.c -o program");
	read_rows("program");
	agree("program");
}

Test(rows, of_clang_and_lld_are_those_of_addr2line)
{
	if (system("command -v clang ld.lld >/dev/null"))
		cr_skip_test("clang and lld are not here");
	for (int level = 0; level <= 2; level++) {
		shell("clang -O%d -g -fuse-ld=lld sample.c -o program", level);
		read_rows("program");
		agree("program");
		cr_expect_eq(is_optimized("main"), level > 0);
	}
}

Test(rows, at_one_address_are_all_there_and_the_last_holds)
{
	size_t marks = 0;

	shell("cc -O2 -g -DBY_HAND sample.c -o program");
	read_rows("program");
	cr_expect_eq(line_at(address_of("by_hand")), 1001);
	cr_expect_eq(line_at(address_of("marked")), 1003);
	for (size_t i = 0; i < rows.count; i++)
		marks += rows.all[i].line == 1002 && rows.all[i].address == address_of("marked");
	cr_expect_eq(marks, 1, "the line without code is there too: %zu", marks);
}

/*
 * A row at the end of code, as after a call that does not return, does not cover the code behind.
 */
Test(rows, row_at_end_of_code_is_not_of_code_behind)
{
	shell("cc -O2 -g -DENDS sample.c -o program");
	read_rows("program");
	cr_assert_eq(address_of("next"), address_of("ends") + 1);
	cr_expect_eq(line_at(address_of("ends")), 1004);
	cr_expect_eq(line_at(address_of("next")), 0);
}

Test(rows, of_line_0_have_none)
{
	if (system("command -v clang >/dev/null"))
		cr_skip_test("clang is not here, and the GNU assembler knows no line 0");
	shell("clang -O2 -g -gdwarf-4 -DBY_HAND sample.c -o program");
	read_rows("program");
	cr_expect_eq(line_at(address_of("by_hand")), 1001);
	cr_expect_eq(line_at(address_of("no_line")), 0);
	cr_expect_eq(line_at(address_of("marked")), 1003);
}

/* A function of lines from 5000 on, and longer than the way from address 0 to the text. */
#define ADD_DROPPED                                                                                \
	"(cat sample.c && echo 'volatile int sink; void dropped(void) {' && echo '#line 5000' && " \
	"for i in $(seq 2000); do echo 'sink++;'; done && echo '}') >dropped.c && "

static size_t dropped_rows(void)
{
	size_t count = 0;

	for (size_t i = 0; i < rows.count; i++)
		count += rows.all[i].line >= 5000;
	return count;
}

Test(rows, are_not_of_functions_that_the_linker_dropped)
{
	unsigned int before[40];

	shell(ADD_DROPPED "cc -O0 -g -ffunction-sections dropped.c -o program");
	read_rows("program");
	cr_assert_gt(dropped_rows(), 10);
	for (unsigned int i = 0; i < 40; i++)
		before[i] = line_at(address_of("loop") + i);
	shell("cc -O0 -g -ffunction-sections -Wl,--gc-sections dropped.c -o program");
	read_rows("program");
	cr_expect_eq(dropped_rows(), 0, "%zu rows of it are left", dropped_rows());
	/* addr2line is not asked: it takes them */
	for (unsigned int i = 0; i < 40; i++)
		cr_expect_eq(line_at(address_of("loop") + i), before[i]);
}

Test(rows, are_found_in_a_separate_file)
{
	unsigned int line;
	uint64_t loop;
	size_t count;

	shell("cc -O2 -g sample.c -o whole && objcopy --only-keep-debug whole whole.debug && "
	      "strip whole -o program && objcopy --add-gnu-debuglink=whole.debug program");
	read_rows("whole");
	count = rows.count;
	loop = address_of("loop");
	line = line_at(loop);
	cr_assert_gt(line, 0);
	cr_assert_gt(count, 10);
	read_rows("program");
	cr_expect_eq(rows.count, count);
	cr_expect_eq(line_at(loop), line);
	shell("rm whole.debug");
	read_rows("program");
	cr_expect_eq(rows.count, 0);
}

Test(rows, need_not_the_part_of_debug_information_that_was_split_off)
{
	for (int version = 4; version <= 5; version++) {
		shell("cc -O0 -g -gdwarf-%d -gsplit-dwarf sample.c -o program && rm -f *.dwo",
		      version);
		read_rows("program");
		agree("program");
	}
}

Test(rows, name_their_source_from_the_folder_that_the_compiler_was_in)
{
	char wanted[64];

	snprintf(wanted, sizeof(wanted), "%s/build/../sample.c", folder);
	for (int version = 2; version <= 5; version++) {
		shell("mkdir -p build && cd build && cc -O0 -g -gdwarf-%d ../sample.c -o ../program",
		      version);
		read_rows("program");
		cr_expect_str_eq(code_row_at(&rows, address_of("loop"))->source, wanted);
	}
	/* as distributions build, to hide the folders of the build */
	shell("cd build && cc -O0 -g -ffile-prefix-map=%s=. ../sample.c -o ../program", folder);
	read_rows("program");
	cr_expect_str_eq(code_row_at(&rows, address_of("loop"))->source, "./build/../sample.c");
}

Test(rows, are_none_without_debug_information_or_behind_the_code)
{
	shell("cc -O0 sample.c -o program");
	read_rows("program");
	cr_expect_eq(rows.count, 0);
	cr_expect_null(code_row_at(&rows, address_of("loop")));
	shell("cc -O0 -g sample.c -o program");
	read_rows("program");
	cr_expect_null(code_row_at(&rows, 0));
	cr_expect_null(code_row_at(&rows, UINT64_MAX));
	cr_expect_eq(line_at(rows.all[rows.count - 1].address), 0);
	cr_expect(rows.all[rows.count - 1].is_end);
}
