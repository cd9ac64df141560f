/* SPDX-License-Identifier: MIT */
#include "target/code/callstack.h"

#include "base/array.h"
#include "base/cfi.h"
#include "target/code/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES 64u /* of a file's first code, which has called all else */

/* A section's content, which its file owns. */
struct table {
	uint64_t address, bytes; /* as linked */
	const void *content;
};

struct module {
	struct code_file *file;
	uint64_t base;
	struct table header, frames; /* .eh_frame_hdr, .eh_frame */
};

struct callstack {
	struct module *modules;
	size_t count, room;
	/* while callstack_frames() runs: */
	const struct callstack_thread *thread;
	int is_short; /* the copy of the stack ended too early */
};

struct callstack *callstack_new(void)
{
	return calloc(1, sizeof(struct callstack));
}

void callstack_free(struct callstack *callstack)
{
	if (!callstack)
		return;
	for (size_t i = 0; i < callstack->count; i++)
		code_file_close(callstack->modules[i].file);
	free(callstack->modules);
	free(callstack);
}

static void table_load(struct table *table, struct code_file *file, const char *name)
{
	const struct code_section *section = code_file_section(file, name);
	size_t bytes;

	if (section && !code_file_content(file, section, &table->content, &bytes)) {
		table->address = section->address;
		table->bytes = bytes;
	}
}

int callstack_module_add(struct callstack *callstack, const char *path, uint64_t base)
{
	struct module new = { .base = base };

	if (array_grow(&callstack->modules, &callstack->room, callstack->count + 1,
		       sizeof(*callstack->modules)) ||
	    code_file_open(&new.file, path))
		return -ENOENT;
	table_load(&new.header, new.file, ".eh_frame_hdr");
	table_load(&new.frames, new.file, ".eh_frame");
	callstack->modules[callstack->count++] = new;
	return 0;
}

static int table_read(const struct table *table, uint64_t address, void *to, size_t bytes)
{
	uint64_t at = address - table->address;

	if (address < table->address || at > table->bytes || table->bytes - at < bytes)
		return -EFAULT;
	memcpy(to, (const uint8_t *)table->content + at, bytes);
	return 0;
}

static int module_read(void *data, uint64_t address, void *to, size_t bytes)
{
	const struct module *module = data;

	return table_read(&module->header, address, to, bytes) &&
			       table_read(&module->frames, address, to, bytes)
		       ? -EFAULT
		       : 0;
}

static const struct module *module_at(const struct callstack *callstack, uint64_t address)
{
	for (size_t i = 0; i < callstack->count; i++)
		if (code_file_segment(callstack->modules[i].file,
				      address - callstack->modules[i].base))
			return &callstack->modules[i];
	return NULL;
}

/* The copy of the stack, and the files' code. */
static int memory_read(void *data, uint64_t address, void *to, size_t bytes)
{
	struct callstack *callstack = data;
	const struct callstack_thread *thread = callstack->thread;
	const struct table stack = { thread->registers[CALLSTACK_RSP], thread->stack_bytes,
				     thread->stack };
	const struct module *module;

	if (!table_read(&stack, address, to, bytes))
		return 0;
	module = module_at(callstack, address);
	if (module)
		return code_file_read(module->file, address - module->base, to, bytes);
	callstack->is_short |= address >= stack.address;
	return -EFAULT;
}

static enum cfi_out caller_find(struct callstack *callstack, struct cfi_registers *registers)
{
	const struct cfi_reader memory = { memory_read, callstack };
	uint64_t address = registers->values[CFI_RETURN] - !registers->is_exact, cfa;
	const struct module *module = module_at(callstack, address);
	struct cfi_reader tables = { module_read, (void *)module };
	struct cfi_function function;
	struct cfi_row row;

	if (!module)
		return CFI_LOST;
	address -= module->base;
	if (cfi_find(&tables, module->header.address, address, &function) || function.is_signal)
		return cfi_interrupted(&memory, registers) ? CFI_LOST : CFI_OUT;
	if (cfi_row(&tables, &function, address, &row, NULL) ||
	    cfi_cfa(&memory, &row, registers, &cfa))
		return CFI_LOST;
	return cfi_step(&memory, &row, cfa, registers);
}

/* The loader's first code has no unwind table that ends the stack there. */
static int is_entry(const struct callstack *callstack, uint64_t address)
{
	const struct module *module = module_at(callstack, address);

	return module && address - (module->file->header.e_entry + module->base) < ENTRY_BYTES;
}

size_t callstack_frames(struct callstack *callstack, const struct callstack_thread *thread,
			uint64_t *frames, size_t most, int *is_cut)
{
	struct cfi_registers registers = { .known = (1u << CFI_REGISTERS) - 1, .is_exact = 1 };
	enum cfi_out out = CFI_OUT;
	size_t count = 0;

	_Static_assert(CALLSTACK_REGISTERS == CFI_REGISTERS, "in the same order");
	memcpy(registers.values, thread->registers, sizeof(registers.values));
	callstack->thread = thread;
	callstack->is_short = 0;
	for (; out == CFI_OUT && count < most; count++) {
		frames[count] = registers.values[CFI_RETURN];
		out = caller_find(callstack, &registers);
	}
	*is_cut = out == CFI_OUT || callstack->is_short ||
		  (out == CFI_LOST && !is_entry(callstack, frames[count - 1]));
	return count;
}
