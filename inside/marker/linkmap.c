/* SPDX-License-Identifier: MIT */
#include "inside/marker/linkmap.h"

#include "base/kernel.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define PHDRS_MAX 128
#define DYNAMIC_MAX 512
#define MODULES_MAX 65536
#define NAMESPACES_MAX 64

/* glibc 2.35 and later, where r_version is 2: dlmopen's namespaces follow each other. */
struct namespace
{
	struct r_debug debug;
	uintptr_t next;
};

static struct module_place program;
static uintptr_t debug; /* the first struct r_debug; 0: static */
static uintptr_t hook_address;
/* forked while the loader was at work: the state is not to be believed */
static uint32_t stale_state;

/* The program's load address: from PT_PHDR, else from the ELF header before the program headers. */
static uintptr_t program_base(const struct text *text, const Elf64_Phdr *phdrs)
{
	Elf64_Ehdr head;

	for (unsigned int i = 0; i < program.phdr_count; i++) {
		if (phdrs[i].p_type == PT_PHDR)
			return program.phdrs - phdrs[i].p_vaddr;
	}
	if (text_read(text, program.phdrs - sizeof head, &head, sizeof head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_phoff != sizeof head)
		return 0;
	for (unsigned int i = 0; i < program.phdr_count; i++) {
		if (phdrs[i].p_type == PT_LOAD && !phdrs[i].p_offset)
			return program.phdrs - sizeof head - phdrs[i].p_vaddr;
	}
	return 0;
}

static void find_debug(const struct text *text)
{
	for (unsigned int i = 0; i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;

		if (text_read(text, program.dynamic + i * sizeof entry, &entry, sizeof entry) ||
		    entry.d_tag == DT_NULL)
			return;
		if (entry.d_tag == DT_DEBUG) {
			debug = entry.d_un.d_ptr;
			return;
		}
	}
}

int linkmap_init(const struct text *text)
{
	Elf64_Phdr phdrs[PHDRS_MAX];
	struct r_debug first;

	program.phdrs = getauxval(AT_PHDR);
	program.phdr_count = (unsigned int)getauxval(AT_PHNUM);
	if (!program.phdrs || program.phdr_count > PHDRS_MAX ||
	    text_read(text, program.phdrs, phdrs, program.phdr_count * sizeof phdrs[0]))
		return -ENOEXEC;
	program.base = program_base(text, phdrs);
	for (unsigned int i = 0; i < program.phdr_count; i++) {
		if (phdrs[i].p_type == PT_DYNAMIC)
			program.dynamic = program.base + phdrs[i].p_vaddr;
	}
	if (program.dynamic)
		find_debug(text);
	if (debug && !text_read(text, debug, &first, sizeof first))
		hook_address = first.r_brk;
	return 0;
}

uintptr_t linkmap_hook_address(void)
{
	return hook_address;
}

/* The state of all namespaces together: the first that is not consistent. */
static int read_state(const struct text *text)
{
	struct namespace space;
	uintptr_t at = debug;

	for (unsigned int i = 0; at && i < NAMESPACES_MAX; i++) {
		if (text_read(text, at, &space.debug, sizeof space.debug))
			return RT_ADD;
		if (space.debug.r_state != RT_CONSISTENT)
			return space.debug.r_state;
		if (space.debug.r_version < 2 ||
		    text_read(text, at + sizeof space.debug, &space.next, sizeof space.next))
			break;
		at = space.next;
	}
	return RT_CONSISTENT;
}

int linkmap_state(const struct text *text)
{
	int state = read_state(text);

	if (state == RT_CONSISTENT)
		stale_state = 0;
	return stale_state ? RT_CONSISTENT : state;
}

int linkmap_state_now(void)
{
	const struct namespace *space = (const struct namespace *)debug;

	for (unsigned int i = 0; space && i < NAMESPACES_MAX; i++) {
		if (space->debug.r_state != RT_CONSISTENT)
			return space->debug.r_state;
		space = space->debug.r_version < 2 ? NULL : (const struct namespace *)space->next;
	}
	stale_state = 0;
	return RT_CONSISTENT;
}

void linkmap_forked(void)
{
	stale_state = 1; /* until it is seen consistent */
}

static int walk_namespace(const struct text *text, uintptr_t at,
			  int (*visit)(const struct linkmap_module *, void *), void *data)
{
	for (unsigned int i = 0; at && i < MODULES_MAX; i++) {
		struct linkmap_module module = { 0 };
		struct link_map map; /* the public part */
		int result;

		if (text_read(text, at, &map, sizeof map))
			return -EFAULT;
		/*
		 * the program comes first, with the name "" and the headers that the kernel gave us
		 */
		if (program.dynamic == (uintptr_t)map.l_ld)
			module.place = program;
		module.place.link = at;
		module.place.base = map.l_addr;
		module.place.dynamic = (uintptr_t)map.l_ld;
		module.name = (uintptr_t)map.l_name;
		result = visit(&module, data);
		if (result)
			return result;
		at = (uintptr_t)map.l_next;
	}
	return 0;
}

int linkmap_walk(const struct text *text, int (*visit)(const struct linkmap_module *, void *),
		 void *data)
{
	struct namespace space;
	uintptr_t at = debug;

	if (!debug) {
		struct linkmap_module module = { .place = program };

		return visit(&module, data);
	}
	if (linkmap_state(text) != RT_CONSISTENT)
		return -EAGAIN;
	for (unsigned int i = 0; at && i < NAMESPACES_MAX; i++) {
		int result;

		if (text_read(text, at, &space.debug, sizeof space.debug))
			return -EFAULT;
		result = walk_namespace(text, (uintptr_t)space.debug.r_map, visit, data);
		if (result)
			return result;
		if (space.debug.r_version < 2 ||
		    text_read(text, at + sizeof space.debug, &space.next, sizeof space.next))
			break;
		at = space.next;
	}
	return 0;
}

void linkmap_path(const struct text *text, const struct linkmap_module *module, char *path)
{
	long bytes = 0;

	if (module->place.phdrs) {
		bytes = kernel_readlink("/proc/thread-self/exe", path, LINKMAP_PATH_MAX - 1);
		path[bytes > 0 ? bytes : 0] = 0;
		return;
	}
	if (!module->name || text_read_string(text, module->name, path, LINKMAP_PATH_MAX) < 0)
		path[0] = 0;
}
