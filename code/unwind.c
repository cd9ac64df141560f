/* SPDX-License-Identifier: MIT */
#include "code/unwind.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANY_PID 1 /* libdwfl wants one, and does nothing with it */

struct unwind {
	Dwfl *dwfl;
	int is_attached;
	size_t modules;
	/* while unwind_frames() runs: */
	const struct unwind_thread *thread;
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
	struct unwind *unwind = data;
	const struct unwind_thread *thread = unwind->thread;
	uint64_t at = address - thread->registers[UNWIND_RSP];

	(void)dwfl;
	if (address < thread->registers[UNWIND_RSP])
		return false;
	if (at > thread->stack_bytes || thread->stack_bytes - at < sizeof(*result)) {
		unwind->is_cut = 1;
		return false;
	}
	memcpy(result, (const uint8_t *)thread->stack + at, sizeof(*result));
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *data)
{
	const struct unwind *unwind = data;
	Dwarf_Word registers[UNWIND_REGISTERS];

	for (unsigned int i = 0; i < UNWIND_REGISTERS; i++)
		registers[i] = unwind->thread->registers[i];
	return dwfl_thread_state_registers(thread, 0, UNWIND_REGISTERS, registers);
}

static const Dwfl_Thread_Callbacks threads = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = memory_read,
	.set_initial_registers = set_registers,
};

static int frame_take(Dwfl_Frame *frame, void *data)
{
	struct unwind *unwind = data;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL))
		return DWARF_CB_ABORT;
	if (unwind->count == unwind->most) {
		unwind->is_cut = 1;
		return DWARF_CB_ABORT;
	}
	unwind->frames[unwind->count++] = pc;
	return DWARF_CB_OK;
}

/* ---- an object ---- */

struct unwind *unwind_new(void)
{
	struct unwind *unwind = calloc(1, sizeof(*unwind));

	if (!unwind)
		return NULL;
	unwind->dwfl = dwfl_begin(&callbacks);
	if (unwind->dwfl)
		return unwind;
	free(unwind);
	return NULL;
}

void unwind_free(struct unwind *unwind)
{
	if (!unwind)
		return;
	dwfl_end(unwind->dwfl);
	free(unwind);
}

int unwind_module_add(struct unwind *unwind, const char *path, uint64_t base)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	const Dwfl_Module *module;

	if (fd < 0)
		return -ENOENT;
	dwfl_report_begin_add(unwind->dwfl);
	module = dwfl_report_elf(unwind->dwfl, path, path, fd, base, true);
	dwfl_report_end(unwind->dwfl, NULL, NULL);
	if (!module) {
		close(fd); /* else it is libdwfl's */
		return -ENOENT;
	}
	unwind->modules++;
	return 0;
}

size_t unwind_frames(struct unwind *unwind, const struct unwind_thread *thread, uint64_t *frames,
		     size_t most, int *is_cut)
{
	unwind->thread = thread;
	unwind->frames = frames;
	unwind->most = most;
	unwind->count = 0;
	unwind->is_cut = 0;
	/* the processor is that of the modules, so there must be one */
	if (!unwind->is_attached && unwind->modules)
		unwind->is_attached = dwfl_attach_state(unwind->dwfl, NULL, ANY_PID, &threads,
							unwind);
	/* its result is an error also at the outermost frame of some programs */
	if (unwind->is_attached)
		dwfl_getthread_frames(unwind->dwfl, ANY_PID, frame_take, unwind);
	if (!unwind->count)
		frames[unwind->count++] = thread->registers[UNWIND_RIP];
	*is_cut = unwind->is_cut;
	return unwind->count;
}
