/* SPDX-License-Identifier: MIT */
#include "target/code/chosen.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

struct search {
	const struct code_process *process;
	const struct code_module *module; /* that defines the function */
	const struct code_symbols *symbols;
	const struct code_function *function;
	uint64_t *addresses;
	int count, is_kernels;
};

static int has_name(const struct code_symbols *symbols, const struct code_function *function,
		    const char *name)
{
	for (size_t i = 0; i < function->count; i++)
		if (!strcmp(symbols->all[function->first + i].name, name))
			return 1;
	return 0;
}

/* An older version of the function, under the same name, that no resolver chose. */
static int is_other_version(const struct search *search, uint64_t address)
{
	const struct code_function *function = code_function_at(search->symbols, address);

	if (!function || function->address != address)
		return 0;
	for (size_t i = 0; i < search->function->count; i++)
		if (has_name(search->symbols, function,
			     search->symbols->all[search->function->first + i].name))
			return 1;
	return 0;
}

/* A word that is not bound yet points to the holder's own procedure table. */
static int is_procedure_table(const struct code_file *file, uint64_t address)
{
	const struct code_section *section = code_file_section_at(file, address);

	return !section || !strncmp(section->name, ".plt", 4);
}

/* time() and its like may have been given the kernel's own code. */
static int is_kernels(const struct code_process *process, uint64_t value)
{
	for (size_t i = 0; i < process->module_count; i++) {
		const struct code_module *module = process->modules[i];

		if (module->file->is_vdso && code_file_segment(module->file, value - module->base))
			return 1;
	}
	return 0;
}

/*
 * A word that a relocation should have filled counts if it points to code of the defining module.
 */
static void word_take(struct search *search, const struct code_module *holder, uint64_t offset)
{
	const struct code_memory *memory = &search->process->memory;
	const struct code_module *module = search->module;
	uint64_t value, address;

	if (memory->read(memory->data, holder->base + offset, &value, sizeof(value)))
		return;
	search->is_kernels |= is_kernels(search->process, value);
	address = value - module->base;
	if (address == search->function->address || !code_file_is_text(module->file, address, 1) ||
	    is_procedure_table(module->file, address) || is_other_version(search, address))
		return;
	for (int i = 0; i < search->count; i++)
		if (search->addresses[i] == address)
			return;
	if (search->count < CODE_CHOSEN_MAX)
		search->addresses[search->count++] = address;
}

/* Whether entry `index` of a dynamic symbol table is the function's, undefined or defined. */
static int is_name(const struct search *search, struct code_file *file,
		   const struct code_section *table, uint32_t index)
{
	const void *symbols, *strings;
	size_t symbols_bytes, strings_bytes;
	Elf64_Sym symbol;

	if (table->link >= file->section_count ||
	    code_file_content(file, table, &symbols, &symbols_bytes) ||
	    code_file_content(file, &file->sections[table->link], &strings, &strings_bytes) ||
	    index >= symbols_bytes / sizeof(symbol))
		return 0;
	memcpy(&symbol, (const char *)symbols + index * sizeof(symbol), sizeof(symbol));
	return symbol.st_name < strings_bytes &&
	       has_name(search->symbols, search->function, (const char *)strings + symbol.st_name);
}

static void relocation_take(struct search *search, struct code_module *holder,
			    const struct code_section *section, const Elf64_Rela *relocation)
{
	uint32_t type = ELF64_R_TYPE(relocation->r_info), index = ELF64_R_SYM(relocation->r_info);
	struct code_file *file = holder->file;

	if (type == R_X86_64_IRELATIVE) {
		if (holder == search->module &&
		    (uint64_t)relocation->r_addend == search->function->address)
			word_take(search, holder, relocation->r_offset);
	} else if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
		   (type == R_X86_64_64 && !relocation->r_addend)) {
		if (index && section->link < file->section_count &&
		    is_name(search, file, &file->sections[section->link], index))
			word_take(search, holder, relocation->r_offset);
	}
}

static void holder_search(struct search *search, struct code_module *holder)
{
	struct code_file *file = holder->file;

	for (size_t i = 0; i < file->section_count; i++) {
		const struct code_section *section = &file->sections[i];
		const void *content;
		size_t bytes;

		if (section->type != SHT_RELA || !(section->flags & SHF_ALLOC) ||
		    code_file_content(file, section, &content, &bytes))
			continue;
		for (size_t k = 0; k < bytes / sizeof(Elf64_Rela); k++) {
			Elf64_Rela relocation;

			memcpy(&relocation, (const char *)content + k * sizeof(relocation),
			       sizeof(relocation));
			relocation_take(search, holder, section, &relocation);
		}
	}
}

int code_chosen_find(const struct code_process *process, struct code_module *module,
		     const struct code_function *function, uint64_t *addresses)
{
	struct search search = { .process = process,
				 .module = module,
				 .symbols = code_module_symbols(module),
				 .function = function,
				 .addresses = addresses };

	if (!search.symbols)
		return -ENOMEM;
	for (size_t i = 0; i < process->module_count; i++)
		holder_search(&search, process->modules[i]);
	return search.count || !search.is_kernels ? search.count : -WM_E_KERNEL_CODE;
}
