/* SPDX-License-Identifier: MIT */
/*
 * An area exists from its begin to the last time that it was seen. The engine may unmap code and
 * map other code there, so outside of these times an address does not belong to the area. The
 * process may forge all that is read. Then only its own addresses are wrong.
 */
#include "record/kernel/task_engine.h"

#include "abi/engine_code.h"
#include "abi/page.h"
#include "base/array.h"
#include "base/maps.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <sys/mman.h>

#define AREAS_MAX 512u
#define KNOWN_SLOTS 16384u /* a power of two */
#define LOOK_NS 20000000u  /* between two looks at a map */
#define SLACK_NS 10000000u /* by which a time may be off that comes from ticks */
#define TRACES_AT_ONCE 16u
#define TRACES_LOOKED_AT 1024u

struct task_engine_area {
	struct engine_code_head head;
	uint64_t began_ns, seen_ns; /* seen_ns: UINT64_MAX: to the process's end */
};

struct task_engine_known {
	uint64_t address, place;
	uint64_t area; /* its start, and when it began */
	uint64_t area_ticks;
};

void task_engine_release(struct task_engine *engine)
{
	free(engine->areas);
	free(engine->known);
	*engine = (struct task_engine){ 0 };
}

/* ---- areas ---- */

static int head_read(pid_t pid, uint64_t start, struct engine_code_head *head)
{
	int err = target_memory(pid, start, head, sizeof(*head));

	if (err)
		return err;
	return head->magic == ENGINE_CODE_MAGIC && head->start == start &&
			       head->bytes >= ENGINE_CODE_STEP
		       ? 0
		       : -EFAULT;
}

/* CLOCK_MONOTONIC of a moment that was not long ago. */
static uint64_t ns_of(uint64_t ticks)
{
	struct ticks_point now;
	uint64_t ago, hz = ticks_hz(STORE_CLOCK_TSC);

	ticks_now(STORE_CLOCK_TSC, &now);
	ago = now.ticks > ticks ? now.ticks - ticks : 0;
	ago = (uint64_t)((double)ago * 1e9 / (double)hz);
	return now.monotonic_ns > ago ? now.monotonic_ns - ago : 0;
}

static void area_add(struct task_engine *engine, const struct engine_code_head *head,
		     uint64_t seen_ns)
{
	if (engine->count == AREAS_MAX ||
	    array_grow(&engine->areas, &engine->room, engine->count + 1, sizeof(*engine->areas)))
		return;
	engine->areas[engine->count++] = (struct task_engine_area){
		.head = *head, .began_ns = ns_of(head->began_ticks), .seen_ns = seen_ns
	};
}

static struct task_engine_area *area_at(const struct task_engine *engine, uint64_t address)
{
	for (size_t i = engine->count; i--;)
		if (address - engine->areas[i].head.start < engine->areas[i].head.bytes)
			return &engine->areas[i];
	return NULL;
}

/* The area of an address, as the process's map shows it now. */
static struct task_engine_area *area_look(struct task_engine *engine, pid_t pid, uint64_t address)
{
	uint64_t now_ns = ticks_monotonic_ns(), start;
	struct engine_code_head head;
	const struct map *map;
	struct maps maps;

	if (now_ns - engine->looked_ns < LOOK_NS)
		return NULL;
	engine->looked_ns = now_ns;
	map = maps_read(&maps, pid) ? NULL : maps_find(&maps, address);
	start = address & ~(ENGINE_CODE_STEP - 1);
	for (; map && map->prot & PROT_EXEC && !map->inode && start >= map->start;
	     start -= ENGINE_CODE_STEP)
		if (!head_read(pid, start, &head)) {
			if (address - start < head.bytes)
				area_add(engine, &head, now_ns);
			break;
		}
	maps_release(&maps);
	return area_at(engine, address);
}

/* Whether it is there now, or was when its process ended. */
static int area_is_there(struct task_engine_area *area, pid_t pid)
{
	uint64_t now_ns = ticks_monotonic_ns();
	struct engine_code_head head;
	int err = head_read(pid, area->head.start, &head);

	if (err == -ESRCH)
		area->seen_ns = UINT64_MAX;
	else if (err || head.began_ticks != area->head.began_ticks)
		return 0;
	else
		area->seen_ns = now_ns;
	return 1;
}

static int area_was(struct task_engine_area *area, pid_t pid, uint64_t time_ns)
{
	return time_ns + SLACK_NS >= area->began_ns &&
	       (time_ns <= area->seen_ns || area_is_there(area, pid));
}

/* ---- traces ---- */

static int has(const struct engine_code_trace *trace, uint64_t at)
{
	return (at >= trace->landing && at < trace->end) ||
	       (at >= trace->cold && at < trace->cold_end);
}

static int is_behind(const struct engine_code_trace *trace, uint64_t at)
{
	return trace->landing - at - 1 < ENGINE_CODE_PIECE_BYTES ||
	       trace->cold - at - 1 < ENGINE_CODE_PIECE_BYTES;
}

/* The trace whose code it is. 0; -ENOENT: none. */
static int trace_find(const struct engine_code_head *head, pid_t pid, uint64_t at,
		      struct engine_code_trace *found)
{
	uint64_t piece = (at - head->start) / ENGINE_CODE_PIECE_BYTES;
	struct engine_code_trace traces[TRACES_AT_ONCE];
	uint32_t first, looked = 0;

	if (target_memory(pid, head->firsts_at + piece * sizeof(first), &first, sizeof(first)) ||
	    !first)
		return -ENOENT;
	for (first--; looked < TRACES_LOOKED_AT; first += TRACES_AT_ONCE) {
		if (target_memory(pid, head->traces_at + first * sizeof(*traces), traces,
				  sizeof(traces)))
			return -ENOENT;
		for (uint32_t i = 0; i < TRACES_AT_ONCE; i++, looked++) {
			if (has(&traces[i], at)) {
				*found = traces[i];
				return 0;
			}
			if (!traces[i].landing || is_behind(&traces[i], at))
				return -ENOENT;
		}
	}
	return -ENOENT;
}

/*
 * In the hot part. Code beside instructions is of the one that comes next in its block; behind a
 * block's last, of that.
 */
static uint64_t hot_place(const struct engine_code_trace *trace, pid_t pid, uint64_t at)
{
	struct engine_code_piece pieces[ENGINE_CODE_PIECES_MAX];
	uint64_t starts[ENGINE_CODE_BLOCKS_MAX];
	uint64_t code = trace->head, pc = trace->pc, last = trace->pc;
	uint32_t block = UINT32_MAX, count = trace->piece_count;

	if (at < trace->head)
		return trace->pc;
	if (!trace->blocks || trace->blocks > ENGINE_CODE_BLOCKS_MAX ||
	    count > ENGINE_CODE_PIECES_MAX ||
	    target_memory(pid, trace->starts_at, starts, trace->blocks * sizeof(*starts)) ||
	    target_memory(pid, trace->pieces_at, pieces, count * sizeof(*pieces)))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct engine_code_piece *piece = &pieces[i];
		uint32_t next = i;

		if (piece->block != block && piece->block < trace->blocks) {
			block = piece->block;
			pc = starts[block];
		}
		if (at < code + piece->code_bytes) {
			while (next < count && !pieces[next].program_bytes &&
			       pieces[next].block == piece->block)
				next++;
			return next < count && pieces[next].program_bytes &&
					       pieces[next].block == piece->block
				       ? pc
				       : last;
		}
		code += piece->code_bytes;
		if (piece->program_bytes)
			last = pc;
		pc += piece->program_bytes;
	}
	return 0;
}

/* In the cold part are ways out: the program is where they lead. Other code there is not known. */
static uint64_t cold_place(const struct engine_code_head *head,
			   const struct engine_code_trace *trace, pid_t pid, uint64_t at)
{
	struct engine_code_exit exits[ENGINE_CODE_BLOCKS_MAX + 2];
	uint64_t from = head->exits_at + (trace->first_exit - head->first_id) * sizeof(*exits);

	if (trace->exits > sizeof(exits) / sizeof(*exits) || trace->first_exit < head->first_id ||
	    target_memory(pid, from, exits, trace->exits * sizeof(*exits)))
		return 0;
	for (uint32_t i = 0; i < trace->exits; i++)
		if (exits[i].cold_bytes && at < exits[i].jump + 4 &&
		    at >= exits[i].jump - exits[i].cold_bytes)
			return exits[i].target;
	return 0;
}

/* ---- addresses ---- */

static struct task_engine_known *known_at(struct task_engine *engine, uint64_t address)
{
	if (!engine->known)
		engine->known = calloc(KNOWN_SLOTS, sizeof(*engine->known));
	return engine->known ? &engine->known[address * UINT64_C(0x9e3779b97f4a7c15) >> 50] : NULL;
}

uint64_t task_engine_place(struct task_engine *engine, pid_t pid, uint64_t address,
			   uint64_t time_ns)
{
	struct task_engine_area *area = area_at(engine, address);
	struct task_engine_known *known;
	struct engine_code_trace trace;
	uint64_t place;

	if (!area || !area_was(area, pid, time_ns))
		area = area_look(engine, pid, address);
	if (!area || !area_was(area, pid, time_ns))
		return 0;
	known = known_at(engine, address);
	if (known && known->address == address && known->area == area->head.start &&
	    known->area_ticks == area->head.began_ticks)
		return known->place;
	if (area->seen_ns == UINT64_MAX || trace_find(&area->head, pid, address, &trace))
		return 0;
	place = address >= trace.landing && address < trace.end
			? hot_place(&trace, pid, address)
			: cold_place(&area->head, &trace, pid, address);
	/* what was read is of this area if that is there still */
	if (!area_is_there(area, pid))
		return 0;
	if (known && place)
		*known = (struct task_engine_known){ address, place, area->head.start,
						     area->head.began_ticks };
	return place;
}
