/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/cache.h"
#include "inside/engine/channel.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/log.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/sys.h"
#include "inside/engine/trace.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define CACHE_BYTES_MAX (UINT64_C(256) << 20)
#define TRACES_MAX (1u << 22)
#define IDS_MAX (1u << 25)
#define SLOTS (1u << 23) /* of the table by pc: at most half full */
#define GENERATIONS                                                                                \
	8u /* that are there at once: the newest, and those that some thread may still be in */

/* Traces that are given up together. */
struct generation {
	struct trace *traces;
	struct exit *exits;
	uint32_t trace_count, first_id, id_end; /* id_end: of an old one */
	uint32_t threads;			/* that went on in it last */
	uint8_t *traces_ready, *exits_ready;
	uint32_t cache; /* what its areas are called: cache_turn() counts as we do */
	void *memory;
};

static struct generation generations[GENERATIONS];
static uint64_t newest, oldest; /* numbers; each is at its number modulo */
static struct generation *now;

static uint32_t *slots; /* a trace's number and one */
static uint32_t id_count = 1;
static int is_asked;

static struct generation *generation_of(uint64_t number)
{
	return &generations[number % GENERATIONS];
}

static int generation_begin(uint64_t number)
{
	struct generation *generation = generation_of(number);

	*generation = (struct generation){ .first_id = id_count, .cache = (uint32_t)(number - 1) };
	generation->traces = memory_map_alone(0, TRACES_MAX * sizeof(struct trace),
					      PROT_READ | PROT_WRITE);
	if (!generation->traces)
		return -ENOMEM;
	generation->exits = memory_map_alone(0, IDS_MAX * sizeof(struct exit),
					     PROT_READ | PROT_WRITE);
	if (!generation->exits) {
		memory_unmap(generation->traces, TRACES_MAX * sizeof(struct trace));
		return -ENOMEM;
	}
	generation->traces_ready = (uint8_t *)generation->traces;
	generation->exits_ready = (uint8_t *)generation->exits;
	newest = number;
	now = generation;
	return 0;
}

static void generation_end(struct generation *generation)
{
	cache_drop(generation->cache);
	memory_drop(generation->memory);
	memory_unmap(generation->traces, TRACES_MAX * sizeof(struct trace));
	memory_unmap(generation->exits, IDS_MAX * sizeof(struct exit));
}

int traces_open(void)
{
	slots = memory_map_alone(0, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE);
	oldest = 1;
	return slots ? generation_begin(1) : -ENOMEM;
}

#define SAME(type, field, abi_field)                                                               \
	_Static_assert(offsetof(struct type, field) ==                                             \
			       offsetof(struct engine_code_##type, abi_field),                     \
		       "as abi/engine_code.h has it")

SAME(trace, pc, pc);
SAME(trace, landing, landing);
SAME(trace, head, head);
SAME(trace, end, end);
SAME(trace, cold, cold);
SAME(trace, cold_end, cold_end);
SAME(trace, first_exit, first_exit);
SAME(trace, exits, exits);
SAME(trace, blocks, blocks);
SAME(trace, starts, starts_at);
SAME(trace, pieces, pieces_at);
SAME(trace, piece_count, piece_count);
SAME(piece, program_bytes, program_bytes);
SAME(piece, cache_bytes, code_bytes);
SAME(piece, block, block);
SAME(exit, target, target);
SAME(exit, jump, jump);
SAME(exit, cold_bytes, cold_bytes);
_Static_assert(sizeof(struct trace) == sizeof(struct engine_code_trace) &&
		       sizeof(struct piece) == sizeof(struct engine_code_piece) &&
		       sizeof(struct exit) == sizeof(struct engine_code_exit) &&
		       TRACE_BLOCKS_MAX == ENGINE_CODE_BLOCKS_MAX,
	       "as abi/engine_code.h has it");

void traces_describe(struct engine_code_head *head)
{
	head->traces_at = (uint64_t)now->traces;
	head->exits_at = (uint64_t)now->exits;
	head->first_id = now->first_id;
}

/* ---- generations ---- */

void trace_out(struct thread *thread)
{
	if (thread->generation)
		__atomic_sub_fetch(&generation_of(thread->generation)->threads, 1,
				   __ATOMIC_RELEASE);
	thread->generation = 0;
}

void trace_in(struct thread *thread)
{
	if (thread->generation != newest) {
		trace_out(thread);
		__atomic_add_fetch(&now->threads, 1, __ATOMIC_RELAXED);
		thread->generation = newest;
	}
	traces_drop();
}

void traces_drop(void)
{
	while (oldest < newest &&
	       !__atomic_load_n(&generation_of(oldest)->threads, __ATOMIC_ACQUIRE))
		generation_end(generation_of(oldest++));
}

uint32_t trace_next_id(void)
{
	return id_count;
}

void traces_copied(void)
{
	for (unsigned int i = 0; i < GENERATIONS; i++)
		generations[i].threads = 0;
}

static int is_full(void)
{
	uint64_t most = channel.head->cache_bytes ? channel.head->cache_bytes : CACHE_BYTES_MAX;

	return cache_used() > most || pages_are_many() || map_is_large() ||
	       now->trace_count > TRACES_MAX - 64 || now->trace_count >= SLOTS / 2 - 64 ||
	       id_count - now->first_id > IDS_MAX - 64 * TRACE_EXITS_MAX;
}

uint64_t traces_newest(void)
{
	return newest;
}

int traces_are_new(void)
{
	return oldest == newest;
}

void traces_ask(void)
{
	is_asked = 1;
}

int traces_are_stuck(void)
{
	return newest + 1 - oldest == GENERATIONS;
}

void traces_turn(void)
{
	struct generation *old = now;

	if (!is_asked && !is_full())
		return;
	if (traces_are_stuck() || generation_begin(newest + 1))
		return; /* later */
	is_asked = 0;
	old->id_end = id_count;
	for (uint32_t i = 0; i < old->trace_count; i++)
		old->traces[i].is_dead = 1;
	for (uint32_t i = 0; i < id_count - old->first_id; i++)
		if (old->exits[i].jump)
			cache_jump_set(old->exits[i].jump, cache_exit_jump(old->exits[i].jump));
	map_clear();
	pages_clear();
	sys_call3(SYS_madvise, (long)slots, SLOTS * sizeof(*slots), MADV_DONTNEED);
	old->cache = cache_turn();
	old->memory = memory_turn();
	DEBUG_TRACE("engine/trace", "generation %d: gave up %d traces, %d ids", newest,
		    old->trace_count, id_count - old->first_id);
}

/* ---- traces ---- */

static uint32_t *slot_of(uint64_t pc)
{
	/* Neighbours in the program are neighbours here: each page of this table costs a fault. */
	uint64_t group = (pc >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
	uint64_t at = group << 9 | (pc >> 3 & 511);

	while (slots[at % SLOTS] && now->traces[slots[at % SLOTS] - 1].pc != pc)
		at++;
	return &slots[at % SLOTS];
}

struct trace *trace_at(uint64_t pc)
{
	uint32_t number = *slot_of(pc);

	return number && !now->traces[number - 1].is_dead ? &now->traces[number - 1] : NULL;
}

void trace_incoming(struct trace *trace, uint32_t id)
{
	trace_exit_now(id)->next = trace->incoming;
	trace->incoming = id;
}

void trace_kill(struct trace *trace)
{
	trace->is_dead = 1;
	if (!trace->is_checked)
		map_set(trace->pc, 0);
	for (uint32_t id = trace->incoming; id;) {
		struct exit *exit = trace_exit_now(id);

		id = exit->next;
		exit->next = 0;
		cache_jump_set(exit->jump, cache_exit_jump(exit->jump));
	}
	trace->incoming = 0;
}

struct exit *trace_exit_now(uint32_t id)
{
	return id >= now->first_id && id < id_count ? &now->exits[id - now->first_id] : NULL;
}

struct exit *trace_exit_of(uint32_t id)
{
	struct exit *exit = trace_exit_now(id);

	for (uint64_t number = newest; !exit && number-- > oldest;) {
		struct generation *old = generation_of(number);

		if (id >= old->first_id && id < old->id_end)
			exit = &old->exits[id - old->first_id];
	}
	return exit;
}

uint32_t trace_path_blocks(const struct thread *thread, uint32_t id)
{
	/* the thread is counted there: the generation stays, and all of `exits` is mapped */
	const struct generation *generation = generation_of(thread->generation);

	if (!thread->generation || id < generation->first_id ||
	    id - generation->first_id >= IDS_MAX)
		return 0;
	return generation->exits[id - generation->first_id].blocks;
}

uint32_t trace_exit_number(const struct exit *exit)
{
	uint64_t at = (uint64_t)((const uint8_t *)exit - (const uint8_t *)now->exits) /
		      sizeof(*exit);

	return at < id_count - now->first_id ? now->first_id + (uint32_t)at : 0;
}

struct trace *trace_numbered(uint32_t number)
{
	return &now->traces[number];
}

struct trace *trace_left(const struct thread *thread, const struct exit *exit)
{
	return &generation_of(thread->generation)->traces[exit->trace];
}

uint32_t trace_number(const struct trace *trace)
{
	return (uint32_t)(trace - now->traces);
}

struct trace *trace_add(uint64_t pc, uint16_t count)
{
	struct trace *trace = &now->traces[now->trace_count];

	if (now->trace_count >= TRACES_MAX - 1 || now->trace_count >= SLOTS / 2 ||
	    id_count - now->first_id + count > IDS_MAX || id_count + count >= ENGINE_EVENT)
		return NULL;
	memory_ready(&now->traces_ready, trace + 1);
	memory_ready(&now->exits_ready, &now->exits[id_count - now->first_id + count]);
	*trace = (struct trace){ .pc = pc, .first_exit = id_count, .exits = count };
	id_count += count;
	return trace;
}

void trace_take_back(const struct trace *trace)
{
	id_count = trace->first_exit;
}

/* Pieces of the cache that no trace before has had anything in. */
static void firsts_set(const uint8_t *from, const uint8_t *end, uint32_t number)
{
	uint64_t at = (uint64_t)from & ~(uint64_t)(CACHE_PIECE_BYTES - 1);

	for (; at < (uint64_t)end; at += CACHE_PIECE_BYTES) {
		uint32_t *first = cache_first(at);

		if (first && !*first)
			__atomic_store_n(first, number, __ATOMIC_RELEASE);
	}
}

void trace_publish(struct trace *trace)
{
	firsts_set(trace->landing, trace->end, now->trace_count + 1);
	firsts_set(trace->cold, trace->cold_end, now->trace_count + 1);
	id_count = trace->first_exit + trace->exits;
	*slot_of(trace->pc) = ++now->trace_count;
}

uint32_t trace_prefix(struct trace *trace, uint32_t blocks)
{
	struct engine_prefix *entry;

	for (uint32_t i = 0; i < trace->exits; i++)
		if (trace_exit_of(trace->first_exit + i)->blocks == blocks)
			return trace->first_exit + i;
	if (!trace->prefixes)
		trace->prefixes = memory_get(trace->blocks * sizeof(*trace->prefixes));
	if (!trace->prefixes || id_count - now->first_id >= IDS_MAX || id_count >= ENGINE_EVENT - 1)
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

static int has(const struct trace *trace, const uint8_t *at)
{
	return (at >= trace->landing && at < trace->end) ||
	       (at >= trace->cold && at < trace->cold_end);
}

/* It begins behind that address, and so do all that follow in that area. */
static int is_behind(const struct trace *trace, const uint8_t *at)
{
	return (uint64_t)(trace->landing - at) - 1 < CACHE_PIECE_BYTES ||
	       (uint64_t)(trace->cold - at) - 1 < CACHE_PIECE_BYTES;
}

/*
 * Each piece of an area knows the first trace that has code in it; those behind follow, among those
 * of other areas, for an area gives code out in the order of the traces. Handlers ask, without the
 * lock.
 */
struct trace *trace_of(uint64_t address)
{
	const uint8_t *at = (const uint8_t *)address;
	uint32_t i;
	const uint32_t *first = cache_first(address);
	const struct generation *generation;
	const struct thread *thread;

	__asm__("mov %%gs:0, %0" : "=r"(thread));
	if (!first || !thread->generation)
		return NULL;
	/* the thread is counted there: the generation stays */
	generation = generation_of(thread->generation);
	i = __atomic_load_n(first, __ATOMIC_ACQUIRE);
	for (; i && i <= generation->trace_count; i++) {
		if (has(&generation->traces[i - 1], at))
			return &generation->traces[i - 1];
		if (is_behind(&generation->traces[i - 1], at))
			return NULL;
	}
	return NULL;
}
