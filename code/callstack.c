/* SPDX-License-Identifier: MIT */
#include "code/callstack.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANY_PID 1	/* libdwfl wants one, and does nothing with it */
#define ENTRY_BYTES 64u /* of a file's first code, which has called all else */

struct callstack {
	Dwfl *dwfl;
	int is_attached;
	size_t modules;
	/* while callstack_frames() runs: */
	const struct callstack_thread *thread;
	uint64_t *frames;
	size_t count, most;
	int is_cut;
};

/* ---- what libdwfl asks for ---- */

static int find_nothing(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			char **file, Elf **elf)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)elf;
	return -1;
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
	.find_elf = find_nothing,
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

int callstack_module_add(struct callstack *callstack, const char *path, uint64_t base)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const Dwfl_Module *module;

	if (fd < 0)
		return -ENOENT;
	dwfl_report_begin_add(callstack->dwfl);
	module = dwfl_report_elf(callstack->dwfl, path, path, fd, base, true);
	dwfl_report_end(callstack->dwfl, NULL, NULL);
	if (!module) {
		close(fd); /* else it is libdwfl's */
		return -ENOENT;
	}
	callstack->modules++;
	return 0;
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
