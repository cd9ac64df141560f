/* SPDX-License-Identifier: MIT */
#include "target/code/line.h"

#include "target/code/symbol.h"
#include "target/code/testing/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct code_file *file;
static struct code_lines lines;

static void open_sample(void)
{
	cr_assert_eq(code_file_open(&file, SAMPLE_MODULE), 0);
}

static void close_sample(void)
{
	code_lines_release(&lines);
	code_file_close(file);
}

/* The line of a source that has a comment. */
static unsigned int line_of(const char *source, const char *comment)
{
	FILE *from = fopen(source, "re");
	unsigned int line = 0;
	char text[256];

	cr_assert_not_null(from, "%s", source);
	do {
		line++;
		cr_assert_not_null(fgets(text, sizeof(text), from));
	} while (!strstr(text, comment));
	fclose(from);
	return line;
}

Test(line, a_line_s_code_lies_in_its_function, .init = open_sample, .fini = close_sample)
{
	unsigned int line = line_of(SAMPLE_SOURCE, "line of sample_calls_chosen");
	uint64_t function;

	cr_assert_eq(code_symbol_value(file, "sample_calls_chosen", &function), 0);
	cr_assert_eq(code_lines_find(&lines, file, "sample_module.c", line), 0);
	cr_assert_geq(lines.count, 1);
	for (size_t i = 0; i < lines.count; i++) {
		cr_assert_geq(lines.all[i].address, function);
		cr_assert_lt(lines.all[i].address, function + 64);
		cr_assert_not_null(
			strstr(lines.all[i].source, "target/code/testing/sample_module.c"));
	}
	code_lines_release(&lines);
	cr_assert_eq(code_lines_find(&lines, file, "target/code/testing/sample_module.c", line), 0);
	cr_assert_geq(lines.count, 1);
	code_lines_release(&lines);
	cr_assert_eq(code_lines_find(&lines, file, ".//./sample_module.c", line), 0);
	cr_assert_geq(lines.count, 1);
	code_lines_release(&lines);
	cr_assert_eq(code_lines_find(&lines, file, "le_module.c", line), 0);
	cr_assert_eq(lines.count, 0);
	cr_assert_not(lines.has_source);
}

Test(line, a_line_of_two_statements_begins_once, .init = open_sample, .fini = close_sample)
{
	unsigned int line = line_of(SAMPLE_SOURCE, "line of sample_two_statements");

	cr_assert_eq(code_lines_find(&lines, file, "sample_module.c", line), 0);
	cr_assert_eq(lines.count, 1);
}

Test(line, where_nothing_begins_the_next_line_is_told, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(code_lines_find(&lines, file, "sample_module.c", 1), 0);
	cr_assert_eq(lines.count, 0);
	cr_assert(lines.has_source);
	cr_assert_gt(lines.after, 1);
	cr_assert_eq(code_lines_find(&lines, file, "sample_module.c", 99999), 0);
	cr_assert_eq(lines.after, 0);
}

Test(line, a_file_without_debug_information_knows_no_lines)
{
	cr_assert_eq(code_file_open(&file, "/bin/true"), 0);
	cr_assert_eq(code_lines_find(&lines, file, "true.c", 1), 0);
	cr_assert_not(lines.has_source);
	close_sample();
}

/* The unit's line program stays in the module, its description in a .dwo. */
Test(line, a_line_of_a_split_unit_is_found, .init = open_sample, .fini = close_sample)
{
	struct code_file *split;

	folder_make("cc");
	shell("printf 'int main(void)\\n{\\n\\treturn 0;\\n}\\n' >s.c && cc -g -gsplit-dwarf -o s s.c");
	split = folder_open("s");
	cr_expect_eq(code_lines_find(&lines, split, "s.c", 3), 0);
	cr_expect_eq(lines.count, 1);
	code_file_close(split);
	folder_remove();
}
