/* SPDX-License-Identifier: MIT */
#include "target/code/callstack.h"

#include "base/regular_file.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANY_PID 1	/* libdwfl wants one, and does nothing with it */
#define ENTRY_BYTES 64u /* of a file's first code, which has called all else */

struct callstack {
	Dwfl *dwfl;
	int is_attached;
	size_t modules;
	/* while callstack_module_add() runs: */
	Elf *added;
	int added_fd;
	/* while callstack_frames() runs: */
	const struct callstack_thread *thread;
	uint64_t *frames;
	size_t count, most;
	int is_cut;
};

/* ---- what libdwfl asks for ---- */

/* The file that is just being added: libdwfl owns it from here on. */
static int find_added(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		      char **file, Elf **elf)
{
	struct callstack *callstack = *data;

	(void)module, (void)name, (void)base, (void)file;
	*elf = callstack ? callstack->added : NULL;
	if (!*elf)
		return -1;
	callstack->added = NULL;
	return callstack->added_fd;
}

/* Unwind tables are in the files themselves. A search for others could go over the network. */
static int find_no_debug(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			 const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc,
		(void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_added,
	.find_debuginfo = find_no_debug,
	.section_address = dwfl_offline_section_address,
};

static pid_t next_thread(Dwfl *dwfl, void *data, void **thread)
{
	(void)dwfl;
	if (*thread)
		return 0;
	*thread = data;
	return ANY_PID;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *data, void **thread)
{
	(void)dwfl, (void)tid;
	*thread = data;
	return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *data)
{
	struct callstack *callstack = data;
	const struct callstack_thread *thread = callstack->thread;
	uint64_t at = address - thread->registers[CALLSTACK_RSP];

	(void)dwfl;
	if (address < thread->registers[CALLSTACK_RSP])
		return false;
	if (at > thread->stack_bytes || thread->stack_bytes - at < sizeof(*result)) {
		callstack->is_cut = 1;
		return false;
	}
	memcpy(result, (const uint8_t *)thread->stack + at, sizeof(*result));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *data)
{
	const struct callstack *callstack = data;
	Dwarf_Word registers[CALLSTACK_REGISTERS];

	for (unsigned int i = 0; i < CALLSTACK_REGISTERS; i++)
		registers[i] = callstack->thread->registers[i];
	return dwfl_thread_state_registers(thread, 0, CALLSTACK_REGISTERS, registers);
}

static const Dwfl_Thread_Callbacks threads = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int frame_take(Dwfl_Frame *frame, void *data)
{
	struct callstack *callstack = data;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	if (callstack->count == callstack->most) {
		callstack->is_cut = 1;
		return DWARF_CB_ABORT;
	}
	callstack->frames[callstack->count++] = pc;
	return DWARF_CB_OK;
}

/* ---- an object ---- */

struct callstack *callstack_new(void)
{
	struct callstack *callstack = calloc(1, sizeof(*callstack));

	if (!callstack)
		return NULL;
	callstack->dwfl = dwfl_begin(&callbacks);
	if (callstack->dwfl)
		return callstack;
	free(callstack);
	return NULL;
}

void callstack_free(struct callstack *callstack)
{
	if (!callstack)
		return;
	dwfl_end(callstack->dwfl);
	free(callstack);
}

/* The addresses that a file's segments take, as linked; the first as libdwfl rounds it. */
static int range_of(Elf *elf, GElf_Addr *start, GElf_Addr *end)
{
	size_t count;
	GElf_Phdr load;

	*start = *end = 0;
	if (elf_getphdrnum(elf, &count))
		return -ENOENT;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &load) || load.p_type != PT_LOAD)
			continue;
		*start = *end ? *start : load.p_vaddr & -load.p_align;
		*end = load.p_vaddr + load.p_memsz;
	}
	return *end > *start ? 0 : -ENOENT;
}

/* Not by dwfl_report_elf(), which maps the file: a process that cuts it short would end us. */
static int added_report(struct callstack *callstack, const char *path, uint64_t base)
{
	GElf_Addr start, end, bias;
	Dwfl_Module *module;
	void **data;

	if (range_of(callstack->added, &start, &end))
		return -ENOENT;
	dwfl_report_begin_add(callstack->dwfl);
	module = dwfl_report_module(callstack->dwfl, path, base + start, base + end);
	dwfl_report_end(callstack->dwfl, NULL, NULL);
	if (!module)
		return -ENOENT;
	dwfl_module_info(module, &data, NULL, NULL, NULL, NULL, NULL, NULL);
	*data = callstack;
	return dwfl_module_getelf(module, &bias) ? 0 : -ENOENT;
}

int callstack_module_add(struct callstack *callstack, const char *path, uint64_t base)
{
	struct stat about;
	int fd = regular_file_open(path, &about), err = -ENOENT;

	if (fd < 0)
		return err;
	elf_version(EV_CURRENT);
	callstack->added_fd = fd;
	callstack->added = elf_begin(fd, ELF_C_READ, NULL);
	if (callstack->added) {
		err = added_report(callstack, path, base);
		callstack->modules += !err;
		if (!callstack->added)
			return err; /* libdwfl has it, and the descriptor */
		elf_end(callstack->added);
		callstack->added = NULL;
	}
	close(fd);
	return err;
}

/* The loader's first code has no unwind table that ends the stack there. */
static int is_entry(struct callstack *callstack, uint64_t address)
{
	Dwfl_Module *module = dwfl_addrmodule(callstack->dwfl, address);
	GElf_Addr bias;
	Elf *elf = module ? dwfl_module_getelf(module, &bias) : NULL;
	GElf_Ehdr head;

	return elf && gelf_getehdr(elf, &head) && address - (head.e_entry + bias) < ENTRY_BYTES;
}

size_t callstack_frames(struct callstack *callstack, const struct callstack_thread *thread,
			uint64_t *frames, size_t most, int *is_cut)
{
	int error = -1;

	callstack->thread = thread;
	callstack->frames = frames;
	callstack->most = most;
	callstack->count = 0;
	callstack->is_cut = 0;
	/* the processor is that of the modules, so there must be one */
	if (!callstack->is_attached && callstack->modules)
		callstack->is_attached = dwfl_attach_state(callstack->dwfl, NULL, ANY_PID, &threads,
							   callstack);
	/* 0: the tables say that the last frame has no caller */
	if (callstack->is_attached)
		error = dwfl_getthread_frames(callstack->dwfl, ANY_PID, frame_take, callstack);
	if (!callstack->count)
		frames[callstack->count++] = thread->registers[CALLSTACK_RIP];
	if (error && !is_entry(callstack, frames[callstack->count - 1]))
		callstack->is_cut = 1;
	*is_cut = callstack->is_cut;
	return callstack->count;
}
