/* SPDX-License-Identifier: MIT */
/* A file's own stripped parts are found again; those of another file are not taken. */
#include "target/code/dwarf.h"
#include "target/code/symbol.h"
#include "target/code/testing/folder.h"

#include <criterion/criterion.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct code_file *file;
static struct code_symbols symbols;

static void make_folder(void)
{
	folder_make("objcopy strip");
	shell("cp '%s' whole", SAMPLE_MODULE);
}

static void remove_folder(void)
{
	code_symbols_release(&symbols);
	code_file_close(file);
	folder_remove();
}

static void read_file(const char *name)
{
	file = folder_open(name);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
}

static int count(const struct code_function *function, const struct code_symbol *symbol, void *data)
{
	(void)function;
	(void)symbol;
	(void)data;
	return 0;
}

Test(debug, a_stripped_file_has_what_it_exports, .init = make_folder, .fini = remove_folder)
{
	shell("strip -R .gnu_debuglink whole -o stripped");
	read_file("stripped");
	cr_assert(symbols.is_stripped);
	cr_assert_eq(code_symbols_match(&symbols, "sample_global", count, NULL), 1);
	cr_assert_eq(code_symbols_match(&symbols, "same", count, NULL), 0);
}

Test(debug, a_link_leads_to_the_debug_file, .init = make_folder, .fini = remove_folder)
{
	shell("objcopy --only-keep-debug whole whole.debug && strip whole -o linked && "
	      "objcopy --add-gnu-debuglink=whole.debug linked");
	read_file("linked");
	cr_assert_not_null(file->debug);
	cr_assert_not(symbols.is_stripped);
	cr_assert_eq(code_symbols_match(&symbols, "same", count, NULL), 2);
}

Test(debug, or_to_one_in_a_folder_beside_it, .init = make_folder, .fini = remove_folder)
{
	shell("objcopy --only-keep-debug whole x.debug && strip whole -o linked && "
	      "objcopy --add-gnu-debuglink=x.debug linked && mkdir .debug && mv x.debug .debug");
	read_file("linked");
	cr_assert_eq(code_symbols_match(&symbols, "same", count, NULL), 2);
}

Test(debug, without_a_build_id_the_checksum_decides, .init = make_folder, .fini = remove_folder)
{
	shell("objcopy -R .note.gnu.build-id whole bare && objcopy --only-keep-debug bare bare.debug && "
	      "strip bare -o linked && objcopy --add-gnu-debuglink=bare.debug linked");
	read_file("linked");
	cr_assert_not_null(file->debug);
	code_symbols_release(&symbols);
	code_file_close(file);
	shell("printf x >>bare.debug");
	read_file("linked");
	cr_assert_null(file->debug);
}

Test(debug, a_debug_file_of_another_build_is_not_taken, .init = make_folder, .fini = remove_folder)
{
	shell("objcopy --only-keep-debug whole x.debug && strip whole -o linked && "
	      "objcopy --add-gnu-debuglink=x.debug linked && "
	      "objcopy --only-keep-debug /proc/%d/exe x.debug",
	      (int)getpid());
	read_file("linked");
	cr_assert_null(file->debug);
	cr_assert(symbols.is_stripped);
}

/* libdw would open it, and wait for a writer. */
Test(debug, fifo_is_no_shared_file, .init = make_folder, .fini = remove_folder, .timeout = 60)
{
	struct code_dwarf *dwarf;

	shell("printf 'shared\\0abcdefghijklmnopqrst' >link && mkfifo shared && "
	      "objcopy --add-section .gnu_debugaltlink=link whole linked");
	file = folder_open("linked");
	dwarf = code_dwarf_of(file);
	cr_assert_not_null(dwarf);
	cr_assert_null(dwarf_getalt(dwarf->dwarf));
}

/* Write a file, and zeros behind it, packed as .xz into the folder. */
static void pack(const char *from, const char *to, size_t zeros)
{
	size_t bytes, room = zeros + (1 << 20), used = 0;
	uint8_t *plain = calloc(1, room), *packed = malloc(room);
	char path[128];
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", folder, from);
	stream = fopen(path, "re");
	bytes = fread(plain, 1, 1 << 20, stream);
	fclose(stream);
	cr_assert_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, plain, bytes + zeros,
					     packed, &used, room),
		     LZMA_OK);
	snprintf(path, sizeof(path), "%s/%s", folder, to);
	stream = fopen(path, "we");
	cr_assert_eq(fwrite(packed, 1, used, stream), used);
	fclose(stream);
	free(plain);
	free(packed);
}

Test(debug, symbols_may_be_packed_into_the_file, .init = make_folder, .fini = remove_folder)
{
	shell("objcopy -S -R .gnu_debuglink --keep-symbol=same whole mini");
	pack("mini", "mini.xz", 0);
	shell("strip -R .gnu_debuglink whole -o packed && objcopy --add-section .gnu_debugdata=mini.xz packed");
	read_file("packed");
	cr_assert_not_null(file->packed);
	cr_assert_not(symbols.is_stripped);
	cr_assert_eq(code_symbols_match(&symbols, "same", count, NULL), 2);
}

Test(debug, what_is_packed_must_not_fill_the_memory, .init = make_folder, .fini = remove_folder)
{
	pack("whole", "bomb.xz", 130u << 20);
	shell("strip -R .gnu_debuglink whole -o packed && objcopy --add-section .gnu_debugdata=bomb.xz packed");
	read_file("packed");
	cr_assert_null(file->packed);
	code_symbols_release(&symbols);
	code_file_close(file);
	shell("printf 'no xz at all' >damaged && strip whole -o packed && "
	      "objcopy --add-section .gnu_debugdata=damaged packed");
	read_file("packed");
	cr_assert_null(file->packed);
	cr_assert_eq(code_symbols_match(&symbols, "sample_global", count, NULL), 1);
}
