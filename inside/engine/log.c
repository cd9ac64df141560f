/* SPDX-License-Identifier: MIT */
#include "inside/engine/channel.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/log.h"
#include "inside/engine/sys.h"

#include <stddef.h>

#define MODULES_MAX 4096u

static uint8_t *ready;
static uint64_t put, begun; /* bytes ever; of these with the entry that is being written */
static uint64_t reported;   /* of these, when the tool was notified last */
/* Code of files that the log has, and that is still there. */
static struct {
	uint64_t start, end, hash;
} modules[MODULES_MAX];
static uint32_t module_count;

/* Wait until the tool has taken what is in the way. 0, or -1: it never will. */
static int room_wait(uint64_t up_to)
{
	struct engine_channel *head = channel.head;

	for (;;) {
		uint64_t taken = __atomic_load_n(&head->log_taken, __ATOMIC_ACQUIRE);

		if (up_to - taken <= channel.log_bytes)
			return 0;
		if (!channel_has_tool())
			return -1;
		channel_wait((const uint32_t *)&head->log_taken, (uint32_t)taken);
	}
}

void *log_begin(enum engine_entry_kind kind, uint32_t bytes)
{
	uint64_t at = put % channel.log_bytes;
	struct engine_entry *entry;

	bytes = (bytes + 7) & ~7u;
	if (at + bytes > channel.log_bytes) {
		uint32_t rest = (uint32_t)(channel.log_bytes - at);

		if (room_wait(put + rest))
			return NULL;
		entry = (struct engine_entry *)(channel.log + at);
		*entry = (struct engine_entry){ rest, ENGINE_ENTRY_PAD };
		put += rest;
		at = 0;
	}
	if (room_wait(put + bytes))
		return NULL;
	entry = (struct engine_entry *)(channel.log + at);
	if (!ready)
		ready = channel.log;
	memory_ready(&ready, (uint8_t *)entry + bytes);
	*entry = (struct engine_entry){ bytes, kind };
	begun = put + bytes;
	return entry;
}

void log_end(void)
{
	put = begun;
	__atomic_store_n(&channel.head->log_put, put,
			 __ATOMIC_RELEASE); /* pairs with the tool's look */
	if (put - reported < channel.log_bytes / 4)
		return;
	reported = put;
	channel_tell();
}

void log_restart(void)
{
	ready = NULL;
	put = begun = reported = 0;
}

int log_gone(uint64_t start, uint64_t bytes)
{
	struct engine_module *module;
	int is_part = 0;

	for (uint32_t i = 0; i < module_count; i++) {
		uint64_t first = modules[i].start, end = modules[i].end;

		if (first >= start + bytes || end <= start)
			continue;
		is_part |= first < start || end > start + bytes;
		modules[i--] = modules[--module_count];
		module = log_begin(ENGINE_ENTRY_GONE, (uint32_t)sizeof(*module));
		if (!module)
			continue;
		module->start = first;
		module->bytes = end - first;
		module->offset = 0;
		module->ticks = sys_ticks();
		log_end();
	}
	return is_part;
}

void log_module(const struct mapped *line, uint64_t start, uint64_t end, const char *path)
{
	uint64_t bytes = end - start,
		 hash = start * 31 + bytes * 7 + line->offset + line->inode * 3;
	struct engine_module *module;
	uint32_t length = 0;

	while (path[length]) {
		hash = hash * 131 + (uint8_t)path[length];
		length++;
	}
	if (path[0] != '/' && path[0] != '[')
		return;
	for (uint32_t i = 0; i < module_count; i++)
		if (modules[i].hash == hash)
			return;
	log_gone(start, bytes);
	if (module_count < MODULES_MAX) {
		modules[module_count].start = start;
		modules[module_count].end = start + bytes;
		modules[module_count++].hash = hash;
	}
	module = log_begin(ENGINE_ENTRY_MODULE, (uint32_t)sizeof(*module) + length + 1);
	if (!module)
		return;
	module->start = start;
	module->bytes = bytes;
	module->offset = line->offset;
	module->ticks = sys_ticks();
	module->inode = line->inode;
	module->device[0] = line->device[0];
	module->device[1] = line->device[1];
	memory_copy(module + 1, path, length + 1);
	log_end();
}
