/* SPDX-License-Identifier: MIT */
#include "agent/trail/trace.h"
#include "agent/trail/cache.h"
#include "agent/trail/log.h"
#include "agent/trail/map.h"
#include "agent/trail/memory.h"

#include <errno.h>
#include <sys/mman.h>

#define TRACES_MAX (1u << 22)
#define IDS_MAX (1u << 25)
#define SLOTS (1u << 23) /* of the table by pc: at most half full */
#define PAGES (1u << 16)

static struct trace *traces;
static struct exit *exits;
static uint32_t *slots; /* a trace's number and one */
static uint32_t trace_count, id_count = 1;
static uint8_t *traces_ready, *exits_ready;

int traces_open(void)
{
	traces = memory_map_alone(0, TRACES_MAX * sizeof(*traces), PROT_READ | PROT_WRITE);
	exits = memory_map_alone(0, IDS_MAX * sizeof(*exits), PROT_READ | PROT_WRITE);
	slots = memory_map_alone(0, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE);
	traces_ready = (uint8_t *)traces;
	exits_ready = (uint8_t *)exits;
	return traces && exits && slots ? 0 : -ENOMEM;
}

static uint32_t *slot_of(uint64_t pc)
{
	/* What lies together in the program does here: each page of this table costs a fault. */
	uint64_t group = (pc >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
	uint64_t at = group << 9 | (pc >> 3 & 511);

	while (slots[at % SLOTS] && traces[slots[at % SLOTS] - 1].pc != pc)
		at++;
	return &slots[at % SLOTS];
}

struct trace *trace_at(uint64_t pc)
{
	uint32_t number = *slot_of(pc);

	return number && !traces[number - 1].is_dead ? &traces[number - 1] : NULL;
}

void trace_incoming(struct trace *trace, uint32_t id)
{
	exits[id].next = trace->incoming;
	trace->incoming = id;
}

void trace_kill(struct trace *trace)
{
	trace->is_dead = 1;
	if (!trace->is_checked)
		map_set(trace->pc, 0);
	for (uint32_t id = trace->incoming, next; id; id = next) {
		next = exits[id].next;
		exits[id].next = 0;
		cache_jump_set(exits[id].jump, cache_exit_jump(exits[id].jump));
	}
	trace->incoming = 0;
}

void traces_kill(void)
{
	for (uint32_t i = 0; i < trace_count; i++)
		if (!traces[i].is_dead)
			trace_kill(&traces[i]);
}

struct exit *exit_of(uint32_t id)
{
	return id && id < id_count ? &exits[id] : NULL;
}

uint32_t exit_number(const struct exit *exit)
{
	return (uint32_t)(exit - exits);
}

struct trace *trace_numbered(uint32_t number)
{
	return &traces[number];
}

uint32_t trace_number(const struct trace *trace)
{
	return (uint32_t)(trace - traces);
}

struct trace *trace_add(uint64_t pc, uint16_t count)
{
	struct trace *trace = &traces[trace_count];

	if (trace_count >= TRACES_MAX - 1 || trace_count >= SLOTS / 2 || id_count + count > IDS_MAX)
		return NULL;
	memory_ready(&traces_ready, trace + 1);
	memory_ready(&exits_ready, &exits[id_count + count]);
	*trace = (struct trace){ .pc = pc, .first_exit = id_count, .exits = count };
	id_count += count;
	return trace;
}

void trace_publish(struct trace *trace)
{
	id_count = trace->first_exit + trace->exits;
	*slot_of(trace->pc) = ++trace_count;
}

uint32_t trace_prefix(struct trace *trace, uint32_t blocks)
{
	struct engine_prefix *entry;

	for (uint32_t i = 0; i < trace->exits; i++)
		if (exits[trace->first_exit + i].blocks == blocks)
			return trace->first_exit + i;
	if (!trace->prefixes)
		trace->prefixes = memory_get(trace->blocks * sizeof(*trace->prefixes));
	if (!trace->prefixes || id_count == IDS_MAX)
		return 0;
	if (trace->prefixes[blocks - 1])
		return trace->prefixes[blocks - 1];
	entry = log_begin(ENGINE_ENTRY_PREFIX, sizeof(*entry));
	if (!entry)
		return 0;
	entry->id = id_count;
	entry->of = trace->first_exit;
	entry->blocks = blocks;
	log_end();
	trace->prefixes[blocks - 1] = id_count;
	return id_count++;
}

/*
 * Areas give code out in the order of the traces, but there are several areas: a look through all, from the newest. Only
 * signals ask.
 */
struct trace *trace_of(uint64_t address)
{
	const uint8_t *at = (const uint8_t *)address;

	for (uint32_t i = trace_count; i-- > 0;)
		if ((at >= traces[i].landing && at < traces[i].end) ||
		    (at >= traces[i].cold && at < traces[i].cold_end))
			return &traces[i];
	return NULL;
}
