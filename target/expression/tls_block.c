/* SPDX-License-Identifier: MIT */
#include "target/expression/tls_block.h"

#include "base/name_match.h"
#include "target/code/symbol.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <waymark/error.h>

#define MODULES_MAX 65536u
#define OFFSET_MAX (1u << 20) /* of a member of theirs */
#define STATIC_MAX INT32_MAX  /* bytes of all blocks that were there from the beginning */
#define LISTS_MAX 1024u
#define UNALLOCATED UINT64_MAX
#define SLOT_BYTES 16u /* of a dtv: the block's address, and what to free */

/* A member, as _thread_db_* has it. */
struct member {
	uint32_t bits, count, offset;
};

struct looking {
	const struct code_process *process;
	struct code_module *libc, *loader;
	struct watch_trouble *trouble;
};

static int is_called(const struct code_module *module, const char *name)
{
	return !strncmp(name_last_part(module->file->path), name, strlen(name));
}

static int read_at(const struct looking *looking, uint64_t address, void *to, size_t bytes)
{
	const struct code_memory *memory = &looking->process->memory;

	return memory->read(memory->data, address, to, bytes) ? -WM_E_WATCH_BLOCKS : 0;
}

static int refuse(const struct looking *looking, int error, const char *detail)
{
	return expression_trouble_set(looking->trouble, error, 0, 0, "%s", detail);
}

static int begin(struct looking *looking)
{
	for (size_t i = 0; i < looking->process->module_count; i++) {
		struct code_module *module = looking->process->modules[i];

		if (is_called(module, "libc.so.6") ||
		    (!looking->libc && is_called(module, "libpthread.so.0")))
			looking->libc = module;
		if (is_called(module, "ld-linux"))
			looking->loader = module;
	}
	if (!looking->libc || !looking->loader)
		return refuse(looking, -WM_E_WATCH_BLOCKS, "it is not glibc");
	return 0;
}

static int member_read(const struct looking *looking, const char *name, struct member *member)
{
	uint64_t address;
	int err = code_symbol_value(looking->libc->file, name, &address);

	if (!err)
		err = read_at(looking, looking->libc->base + address, member, sizeof(*member));
	if (err || member->offset > OFFSET_MAX)
		return refuse(looking, -WM_E_WATCH_BLOCKS, name);
	return 0;
}

/* The number that a structure at an address has in a member of 4 or 8 bytes. */
static int number_read(const struct looking *looking, const char *name, uint64_t structure,
		       uint64_t *number)
{
	struct member member;
	int err = member_read(looking, name, &member);

	*number = 0;
	if (err)
		return err;
	if (member.bits != 32 && member.bits != 64)
		return refuse(looking, -WM_E_WATCH_BLOCKS, name);
	err = read_at(looking, structure + member.offset, number, member.bits / 8);
	return err ? refuse(looking, err, name) : 0;
}

/* The loader's own entry for a module. */
static int link_find(const struct looking *looking, const struct code_module *module,
		     uint64_t *address)
{
	struct r_debug debug;
	struct link_map link;
	uint64_t dynamic = 0, at;
	int err = code_symbol_value(looking->loader->file, "_r_debug", &at);

	for (size_t i = 0; i < module->file->segment_count; i++)
		if (module->file->segments[i].type == PT_DYNAMIC)
			dynamic = module->base + module->file->segments[i].address;
	if (!err)
		err = read_at(looking, looking->loader->base + at, &debug, sizeof(debug));
	at = err ? 0 : (uint64_t)(uintptr_t)debug.r_map;
	for (unsigned int i = 0; at && i < MODULES_MAX; i++) {
		if (read_at(looking, at, &link, sizeof(link)))
			break;
		if (link.l_addr == module->base && (uint64_t)(uintptr_t)link.l_ld == dynamic) {
			*address = at;
			return 0;
		}
		at = (uint64_t)(uintptr_t)link.l_next;
	}
	return refuse(looking, -WM_E_WATCH_BLOCKS, "the loader does not know the library");
}

/* When the module got its number: what a thread has under it from before was another module's. */
static int generation_of(const struct looking *looking, uint64_t number, uint64_t *generation)
{
	struct member list = { 0 }, slots = { 0 };
	uint64_t at, length, next, passed = 0;
	uint32_t slot_bits = 0;
	int err = code_symbol_value(looking->libc->file, "_thread_db_sizeof_dtv_slotinfo", &at);

	if (!err)
		err = read_at(looking, looking->libc->base + at, &slot_bits, sizeof(slot_bits));
	if (!err)
		err = member_read(looking, "_thread_db_rtld_global__dl_tls_dtv_slotinfo_list",
				  &list);
	if (!err)
		err = member_read(looking, "_thread_db_dtv_slotinfo_list_slotinfo", &slots);
	if (!err)
		err = code_symbol_value(looking->loader->file, "_rtld_global", &at);
	if (!err)
		err = read_at(looking, looking->loader->base + at + list.offset, &at, sizeof(at));
	for (unsigned int i = 0; !err && at && i < LISTS_MAX; i++, at = next) {
		err = number_read(looking, "_thread_db_dtv_slotinfo_list_len", at, &length);
		if (!err)
			err = number_read(looking, "_thread_db_dtv_slotinfo_list_next", at, &next);
		if (!err && number - passed < length)
			return number_read(looking, "_thread_db_dtv_slotinfo_gen",
					   at + slots.offset + (number - passed) * slot_bits,
					   generation);
		passed += length;
	}
	return refuse(looking, -WM_E_WATCH_BLOCKS, "_dl_tls_dtv_slotinfo_list");
}

static int slot_read(const struct looking *looking, uint64_t number, uint64_t thread_pointer,
		     uint64_t *block)
{
	uint64_t dtv = 0, newest, slot[2] = { 0 }, generation = 0;
	int err = number_read(looking, "_thread_db_pthread_dtvp", thread_pointer, &dtv);

	/* in front of the first, how many there are; in the first, how new they are */
	if (!err)
		err = read_at(looking, dtv - SLOT_BYTES, slot, sizeof(slot));
	if (!err && number > slot[0])
		return refuse(looking, -WM_E_WATCH_NO_BLOCK, "");
	if (!err)
		err = read_at(looking, dtv, slot, sizeof(slot));
	newest = slot[0];
	if (!err)
		err = generation_of(looking, number, &generation);
	if (!err && generation > newest)
		return refuse(looking, -WM_E_WATCH_NO_BLOCK, "");
	if (!err)
		err = read_at(looking, dtv + number * SLOT_BYTES, slot, sizeof(slot));
	if (err)
		return err;
	if (slot[0] == UNALLOCATED || !slot[0] || slot[0] & 1)
		return refuse(looking, -WM_E_WATCH_NO_BLOCK, "");
	*block = slot[0];
	return 0;
}

int expression_block_find(uint64_t *block, const struct code_process *process,
			  const struct code_module *module, uint64_t thread_pointer,
			  struct watch_trouble *trouble)
{
	struct looking looking = { .process = process, .trouble = trouble };
	uint64_t link = 0, offset = 0, number = 0;
	int err = begin(&looking);

	if (!err)
		err = link_find(&looking, module, &link);
	if (!err)
		err = number_read(&looking, "_thread_db_link_map_l_tls_offset", link, &offset);
	if (!err)
		err = number_read(&looking, "_thread_db_link_map_l_tls_modid", link, &number);
	if (err)
		return err;
	/* 0: none yet; -1 and -2: not to have one */
	if (offset && offset <= STATIC_MAX) {
		*block = thread_pointer - offset;
		return 0;
	}
	if (!number || number > MODULES_MAX)
		return refuse(&looking, -WM_E_WATCH_NO_BLOCK, "");
	return slot_read(&looking, number, thread_pointer, block);
}

int expression_block_number(uint64_t *address, const struct code_process *process,
			    uint64_t thread_pointer, struct watch_trouble *trouble)
{
	struct looking looking = { .process = process, .trouble = trouble };
	struct member member;
	int err = begin(&looking);

	if (!err)
		err = member_read(&looking, "_thread_db_pthread_tid", &member);
	*address = err ? 0 : thread_pointer + member.offset;
	return err;
}
