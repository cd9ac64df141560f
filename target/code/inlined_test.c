/* SPDX-License-Identifier: MIT */
/* Inlined functions of compiled programs, compared with binutils; and forged debug information. */
#include "target/code/inlined.h"

#include "target/code/symbol.h"
#include "target/code/testing/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 16

static struct code_file *file;

static void make_folder(void)
{
	folder_make("c++ objcopy addr2line");
	shell("cp \"$(dirname '%s')\"/sample_inlined.cc sample.cc", SAMPLE_SOURCE);
}

static void remove_folder(void)
{
	code_file_close(file);
	folder_remove();
}

static void open_program(void)
{
	code_file_close(file);
	file = folder_open("program");
}

/* What addr2line says of one address. */
struct access_decode {
	uint64_t address;
	size_t count;
	char functions[FRAMES_MAX][512];
	unsigned int lines[FRAMES_MAX];
};

static int told_read(FILE *from, struct access_decode *reported, char text[512])
{
	*reported = (struct access_decode){ .address = strtoull(text, NULL, 16) };
	while (fgets(text, 512, from) && strncmp(text, "0x", 2) != 0) {
		cr_assert_lt(reported->count, FRAMES_MAX);
		text[strcspn(text, "\n")] = 0;
		snprintf(reported->functions[reported->count], 512, "%s", text);
		cr_assert_not_null(fgets(text, 512, from));
		reported->lines[reported->count++] = strchr(text, ':')
							     ? (unsigned int)strtoul(
								       strrchr(text, ':') + 1, NULL,
								       10)
							     : 0;
	}
	return !feof(from);
}

static unsigned int most; /* in line at one address */

static int ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

static void compare(const struct access_decode *reported)
{
	struct code_inlined inlined[CODE_INLINED_MAX];
	size_t count = code_inlined_at(file, reported->address, inlined);

	cr_assert_eq(count + 1, reported->count, "%lx: %zu, and addr2line has %zu",
		     reported->address, count, reported->count);
	for (size_t i = 0; i < count; i++) {
		const char *name = inlined[i].linkage ? inlined[i].linkage : inlined[i].name;

		/* it has no namespaces, and in some places the name of the symbol there */
		cr_expect(ends_with(name, reported->functions[i]) ||
				  (inlined[i].linkage
					   ? !i && strstr(reported->functions[i], ".cold")
					   : !strncmp(reported->functions[i], "_Z", 2)),
			  "%lx: %s, and addr2line has %s", reported->address, name,
			  reported->functions[i]);
		cr_expect_eq(inlined[i].line, reported->lines[i + 1],
			     "%lx: %s is called in line %u", reported->address, name,
			     inlined[i].line);
		cr_assert_not_null(inlined[i].source);
		cr_expect_not_null(strstr(inlined[i].source, "sample.cc"));
	}
	most = count > most ? (unsigned int)count : most;
}

/* At every byte of the program's text. */
static void agree(void)
{
	const struct code_section *text = code_file_section(file, ".text");
	char command[160], path[64], line[512];
	struct access_decode reported;
	FILE *to, *from;

	snprintf(path, sizeof(path), "%s/addresses", folder);
	to = fopen(path, "we");
	for (uint64_t i = 0; i < text->bytes; i++)
		fprintf(to, "%#llx\n", (unsigned long long)(text->address + i));
	fclose(to);
	snprintf(command, sizeof(command), "cd %s && addr2line -afie program <addresses", folder);
	from = popen(command, "re");
	cr_assert_not_null(fgets(line, sizeof(line), from));
	most = 0;
	while (told_read(from, &reported, line))
		compare(&reported);
	compare(&reported);
	cr_expect_eq(pclose(from), 0);
	cr_expect_geq(most, 3);
}

TestSuite(inlined, .init = make_folder, .fini = remove_folder);

Test(inlined, functions_are_those_of_addr2line_in_each_version_of_dwarf)
{
	for (int version = 3; version <= 5; version++) {
		for (int level = 0; level <= 2; level++) {
			shell("c++ -O%d -g -gdwarf-%d sample.cc -o program", level, version);
			open_program();
			agree();
		}
	}
}

Test(inlined, functions_of_clang_are_those_of_addr2line)
{
	if (system("command -v clang++ >/dev/null"))
		cr_skip_test("clang++ is not here");
	/* of DWARF 5 of clang 14 binutils 2.40 loses functions */
	for (int level = 1; level <= 3; level++) {
		shell("clang++ -O%d -g -gdwarf-4 sample.cc -o program", level);
		open_program();
		agree();
	}
}

Test(inlined, functions_are_found_in_a_separate_file)
{
	struct code_inlined inlined[CODE_INLINED_MAX];
	uint64_t work = 0;
	size_t before = 0, after = 0;

	shell("c++ -O2 -g sample.cc -o program");
	open_program();
	cr_assert_eq(code_symbol_value(file, "_Z4workl", &work), 0);
	for (uint64_t i = 0; i < 64; i++)
		before += code_inlined_at(file, work + i, inlined);
	shell("objcopy --only-keep-debug program whole.debug && strip program && "
	      "objcopy --add-gnu-debuglink=whole.debug program");
	open_program();
	for (uint64_t i = 0; i < 64; i++)
		after += code_inlined_at(file, work + i, inlined);
	cr_expect_gt(before, 20);
	cr_expect_eq(after, before);
	shell("rm whole.debug");
	open_program();
	cr_expect_eq(code_inlined_at(file, work, inlined), 0);
}

/* Each byte of the debug information, changed: what comes out is anything, but it ends. */
Test(inlined, damaged_debug_information_ends, .timeout = 120)
{
	const struct code_section *section;
	uint64_t offset, bytes, work = 0;
	char path[64];

	shell("c++ -O2 -g -gdwarf-5 sample.cc -o program");
	open_program();
	section = code_file_section(file, ".debug_info");
	cr_assert_not_null(section);
	offset = section->offset;
	bytes = section->bytes;
	cr_assert_eq(code_symbol_value(file, "_Z4workl", &work), 0);
	snprintf(path, sizeof(path), "%s/program", folder);
	for (uint64_t i = 0; i < bytes; i++) {
		struct code_inlined inlined[CODE_INLINED_MAX];
		FILE *to = fopen(path, "r+e");
		int was;

		cr_assert_not_null(to);
		fseek(to, (long)(offset + i), SEEK_SET);
		was = fgetc(to);
		fseek(to, (long)(offset + i), SEEK_SET);
		fputc(was ^ (1 << i % 8), to);
		fflush(to);
		open_program();
		for (uint64_t at = 0; at < 64; at += 3)
			cr_assert_leq(code_inlined_at(file, work + at, inlined), CODE_INLINED_MAX);
		fseek(to, (long)(offset + i), SEEK_SET);
		fputc(was, to);
		fclose(to);
	}
}
