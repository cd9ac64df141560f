/* SPDX-License-Identifier: MIT */
/* Files that were made to take more memory and time than they are worth. */
#include "target/code/file.h"
#include "target/code/symbol.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES (4u << 20)
#define TEXT_AT 0x1000u
#define TEXT_BYTES 0x10000u
#define SYMBOLS_AT 0x20000u
#define NAMES_AT 0x200000u
#define SECTIONS_AT 0x1000u /* where no test looks for text */
#define SECTIONS_MAX 64

static uint8_t *image;
static struct code_file *file;
static struct code_symbols symbols;
static size_t section_count = 1, symbol_count = 1;

static void section_add(uint32_t type, uint64_t offset, uint64_t bytes, uint32_t link)
{
	Elf64_Shdr *all = (Elf64_Shdr *)(image + SECTIONS_AT);

	cr_assert_lt(section_count, SECTIONS_MAX);
	all[section_count++] = (Elf64_Shdr){
		.sh_type = type, .sh_offset = offset, .sh_size = bytes, .sh_link = link
	};
}

static void symbol_add(uint32_t name, uint64_t address, uint64_t bytes)
{
	Elf64_Sym *all = (Elf64_Sym *)(image + SYMBOLS_AT);

	all[symbol_count++] = (Elf64_Sym){
		.st_name = name,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = 1,
		.st_value = address,
		.st_size = bytes,
	};
}

static void make(void)
{
	image = calloc(1, FILE_BYTES);
	cr_assert_not_null(image);
	*(Elf64_Phdr *)(image + sizeof(Elf64_Ehdr)) = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = TEXT_AT,
		.p_offset = TEXT_AT,
		.p_filesz = TEXT_BYTES,
		.p_memsz = TEXT_BYTES,
	};
}

static void open_forged(void)
{
	*(Elf64_Ehdr *)image = (Elf64_Ehdr){
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
		.e_shoff = SECTIONS_AT,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = (uint16_t)section_count,
	};
	cr_assert_eq(code_file_open_image(&file, "forged", image, FILE_BYTES), 0);
}

static void release(void)
{
	code_symbols_release(&symbols);
	code_file_close(file);
	free(image);
}

Test(forged, sections_across_each_other_don_t_multiply_the_file, .init = make, .fini = release)
{
	const void *content;
	size_t bytes, read = 0;

	for (int i = 1; i < SECTIONS_MAX; i++)
		section_add(SHT_NOTE, 0, FILE_BYTES, 0);
	open_forged();
	for (size_t i = 1; i < file->section_count; i++)
		if (!code_file_content(file, &file->sections[i], &content, &bytes))
			read += bytes;
		else
			cr_assert_eq(code_file_content(file, &file->sections[i], &content, &bytes),
				     -EFBIG);
	cr_assert_geq(read, FILE_BYTES);
	cr_assert_leq(read, 2 * FILE_BYTES);
}

static void read_symbols(void)
{
	section_add(SHT_SYMTAB, SYMBOLS_AT, symbol_count * sizeof(Elf64_Sym), 2);
	section_add(SHT_STRTAB, NAMES_AT, FILE_BYTES - NAMES_AT, 0);
	open_forged();
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
}

Test(forged, a_name_without_end_is_none, .init = make, .fini = release)
{
	memset(image + NAMES_AT + 1, 'a', FILE_BYTES - NAMES_AT - 1);
	symbol_add(1, TEXT_AT + 16, 16);
	symbol_add(2, TEXT_AT + 32, 16);
	symbol_add(FILE_BYTES - NAMES_AT - 5000, TEXT_AT + 64, 16); /* a template's */
	read_symbols();
	cr_assert_eq(symbols.count, 1);
	cr_assert_eq(symbols.all[0].address, TEXT_AT + 64);
}

Test(forged, labels_without_number_hide_what_is_around_them, .init = make, .fini = release)
{
	memcpy(image + NAMES_AT, "\0whole\0label", 13);
	symbol_add(1, TEXT_AT, 0x8000);
	for (uint32_t i = 1; i < 0x7000; i++)
		symbol_add(7, TEXT_AT + i, 1);
	read_symbols();
	cr_assert_eq(code_function_at(&symbols, TEXT_AT + 0x6fff)->bytes, 1);
	cr_assert_null(code_function_at(&symbols, TEXT_AT + 0x7000));
}
