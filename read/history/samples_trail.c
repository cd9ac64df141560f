/* SPDX-License-Identifier: MIT */
#include "read/history/samples_trail.h"

#include "abi/trail.h"
#include "base/array.h"
#include "base/sorted.h"
#include "read/history/calls.h"
#include "trace/trail/range.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- where in a trail a sample may have been taken ---- */

/*
 * How far the times of a trail and of a sample may be apart: both are made of ticks, but the rate
 * of a trail's clock follows NTP.
 */
#define SLACK_NS 50000u
#define SLACK_PART 20000u      /* of the time since the trace began */
#define SLACK_NS_MAX 10000000u /* where it is more, the trail does not know the callers */

int samples_trail_open(struct samples_trail *trail, struct samples *samples)
{
	*trail = (struct samples_trail){ .samples = samples };
	return trails_read(&trail->trails, samples->reader);
}

void samples_trail_release(struct samples_trail *trail)
{
	if (trail->samples)
		trails_release(&trail->trails, trail->samples->reader);
	free(trail->places);
	free(trail->callers);
	free(trail->last_paths);
	*trail = (struct samples_trail){ 0 };
}

static uint64_t slack_of(const struct samples_trail *trail, uint64_t ns)
{
	uint64_t begin_ns = reader_begin_ns(trail->samples->reader);

	return SLACK_NS + (ns > begin_ns ? (ns - begin_ns) / SLACK_PART : 0);
}

static uint64_t part_ns(const struct samples_trail *trail, const struct trail_path *path,
			size_t part)
{
	return trail_ns(trail->samples->reader, path, path->parts[part].ticks);
}

/* The first part later than a time, or as late; path->count: none is. */
static size_t part_find(const struct samples_trail *trail, const struct trail_path *path,
			uint64_t ns)
{
	size_t low = 0, high = path->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (part_ns(trail, path, middle) < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a thread may have been in a path at a time. */
static int is_in(const struct samples_trail *trail, const struct trail_path *path, uint64_t ns,
		 uint64_t slack)
{
	uint64_t begin_ns = trail_ns(trail->samples->reader, path, path->stream->begin_ticks);

	return ns + slack >= begin_ns && ns <= part_ns(trail, path, path->count - 1) + slack;
}

/* The path of a thread at a time; the number of paths: it has none, or more than one. */
static size_t path_find(struct samples_trail *trail, uint32_t number, uint64_t ns, uint64_t slack)
{
	const struct samples_thread *thread = &trail->samples->threads[number];
	const struct trails *trails = &trail->trails;
	size_t *last = &trail->last_paths[number], found = trails->path_count, count = 0;

	if (*last && is_in(trail, &trails->paths[*last - 1], ns - slack, 0) &&
	    is_in(trail, &trails->paths[*last - 1], ns + slack, 0))
		return *last - 1;
	for (size_t i = 0; i < trails->path_count; i++) {
		const struct trail_path *path = &trails->paths[i];

		if (path->stream->tid != thread->tid || path->stream->pid != thread->pid ||
		    !path->blocks || !is_in(trail, path, ns, slack))
			continue;
		found = i;
		count++;
	}
	*last = count == 1 ? found + 1 : 0;
	return count == 1 ? found : trails->path_count;
}

/*
 * The blocks of a path that a thread may have been in at a time. Many parts may have one time. The
 * first path right behind them may have begun already: it is written when it is left.
 */
static void stretch_find(const struct samples_trail *trail, const struct trail_path *path,
			 uint64_t ns, uint64_t slack, struct samples_place *place)
{
	size_t part = part_find(trail, path, ns + slack + 1);
	struct trail_cursor cursor = { .path = path };

	place->begin = path->parts[part_find(trail, path, ns - slack)].before;
	place->end = path->blocks;
	if (part < path->count)
		part = part_find(trail, path, part_ns(trail, path, part) + 1);
	if (part == path->count)
		return;
	place->end = path->parts[part].before;
	if (!path->parts[part].count)
		return;
	trail_seek(&cursor, place->end);
	place->end += path->parts[part].has_paths ? trail_cursor_run(&cursor)->count : 1;
}

int samples_trail_add(struct samples_trail *trail, uint32_t thread, uint64_t address, uint64_t ns)
{
	struct samples_place place = { .thread = thread,
				       .address = address < TRAIL_KERNEL ? address : 0,
				       .sample = trail->count };
	uint64_t slack = slack_of(trail, ns);

	if (array_grow(&trail->callers, &trail->room, trail->count + 1, sizeof(*trail->callers)) ||
	    array_grow(&trail->places, &trail->place_room, trail->place_count + 1,
		       sizeof(*trail->places)) ||
	    array_grow_zeroed(&trail->last_paths, &trail->last_room, thread + 1ul,
			      sizeof(*trail->last_paths)))
		return -ENOMEM;
	trail->callers[trail->count++] = (struct samples_callers){ STACKS_ROOT, 0 };
	if (slack > SLACK_NS_MAX)
		return 0;
	place.path = path_find(trail, thread, ns, slack);
	if (place.path == trail->trails.path_count)
		return 0;
	stretch_find(trail, &trail->trails.paths[place.path], ns, slack, &place);
	trail->places[trail->place_count++] = place;
	return 0;
}

/* ---- what their stacks have in common ---- */

/* The samples from `first` on up to that of the next one, and the stacks at their places. */
struct samples_common {
	size_t first;
	int is_met;
	uint32_t stack, last; /* the first that was met, and the last */
	uint32_t outer;	      /* that all begin with */
	uint32_t inner;	      /* so many innermost functions of `stack` all have */
	uint32_t least;	      /* the depth of the one that is least deep */
};

static void common_meet(struct samples_common *common, const struct stacks_one *all, uint32_t stack)
{
	uint32_t a = common->stack, b = stack, same = 0;

	if (common->is_met && (stack == common->stack || stack == common->last))
		return;
	common->last = stack;
	if (!common->is_met) {
		common->is_met = 1;
		common->stack = common->outer = stack;
		common->least = common->inner = all[stack].depth;
		return;
	}
	if (all[stack].depth < common->least)
		common->least = all[stack].depth;
	for (; all[a].function && all[a].function == all[b].function; same++) {
		a = all[a].outer;
		b = all[b].outer;
	}
	if (same < common->inner)
		common->inner = same;
	for (a = common->outer, b = stack; a != b;) {
		if (all[a].depth >= all[b].depth)
			a = all[a].outer;
		else
			b = all[b].outer;
	}
	common->outer = a;
}

/* ---- a walk ---- */

/* A block or a path, by its id, as the search needs it. */
struct id_known {
	uint32_t first, end; /* of the addresses: those in the block */
	/* a path's; NULL: calls and returns are in it, or code of several functions */
	const struct function *region;
	/* a path ran so since the last place began: with that stack, of so many frames */
	uint32_t stack, depth;
	uint32_t round; /* which was then the number of places that had begun */
	uint8_t is_known;
};

/* The samples of an address: some of `commons`; those before `next` are behind. */
struct asked {
	size_t next, end;
};

struct trail_search {
	struct samples_trail *trail;
	struct samples_place *places; /* of one path and thread, by address, then in order */
	struct samples_common *commons;
	uint64_t *addresses; /* in order */
	struct asked *asked; /* of each address */
	uint64_t *begins;    /* of the places, in order */
	size_t common_count, address_count;
	uint32_t begun;	       /* so many of the places have begun */
	struct id_known **ids; /* by number of the table */
	struct calls calls;
	uint32_t thread, process;
	const struct function *unknown_function; /* [unknown] */
	uint32_t unknown;			 /* the thread's stack of it alone */
	uint32_t *stacks;			 /* of the frames, SAMPLES_DEPTH_MAX at most */
	uint32_t known;				 /* so many of these hold */
	uint32_t unsure;			 /* frames that were a guess then */
};

static int by_place(const void *one, const void *other)
{
	const struct samples_place *a = one, *b = other;

	if (a->path != b->path)
		return a->path < b->path ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return (a->end > b->end) - (a->end < b->end);
}

/*
 * The stack below the outermost frame. If the trail entered that frame's function midway, it does
 * not have the caller.
 */
static uint32_t base_of(const struct trail_search *search)
{
	const struct call_frame *outermost = search->calls.frames;

	return outermost->how == CALL_FOUND && outermost->region->name &&
			       outermost->address != outermost->region->start
		       ? search->unknown
		       : search->trail->samples->threads[search->thread].stack;
}

/* The stack of the `depth` outermost frames as they are; there is one. 0 or -ENOMEM. */
static int stack_make(struct trail_search *search, uint32_t depth, uint32_t *stack)
{
	struct stacks *stacks = &search->trail->samples->stacks;
	uint32_t base = base_of(search);
	int is_deep = depth > SAMPLES_DEPTH_MAX;

	if (search->calls.unsure != search->unsure)
		search->known = 0;
	search->unsure = search->calls.unsure;
	depth = is_deep ? SAMPLES_DEPTH_MAX : depth;
	for (; search->known < depth; search->known++) {
		uint32_t outer = search->known ? search->stacks[search->known - 1] : base;

		search->stacks[search->known] = search->unknown;
		if (search->known >= search->unsure &&
		    stacks_of(stacks, outer, search->calls.frames[search->known].function,
			      search->process, NULL, &search->stacks[search->known]))
			return -ENOMEM;
	}
	*stack = depth ? search->stacks[depth - 1] : base;
	return is_deep ? stacks_of(stacks, *stack, search->unknown_function, search->process, NULL,
				   stack)
		       : 0;
}

/* The blocks from an index to another ran where the samples of an address may have been. */
static int address_meet(struct trail_search *search, struct asked *asked, uint64_t index,
			uint64_t end, uint32_t depth)
{
	uint32_t stack;

	while (asked->next < asked->end &&
	       search->places[search->commons[asked->next].first].end <= index)
		asked->next++;
	for (size_t i = asked->next; i < asked->end; i++) {
		if (search->places[search->commons[i].first].begin >= end)
			break;
		if (stack_make(search, depth, &stack))
			return -ENOMEM;
		common_meet(&search->commons[i], search->trail->samples->stacks.all, stack);
	}
	return 0;
}

/* NULL: no memory. */
static struct id_known *known_find(struct trail_search *search, const struct trail_table *table,
				   uint32_t id)
{
	struct id_known **of = &search->ids[table->number], *known;
	const struct trail_block *block = &table->blocks[id];

	if (!*of)
		*of = calloc(table->count, sizeof(**of));
	if (!*of)
		return NULL;
	known = &(*of)[id];
	if (known->is_known)
		return known;
	known->is_known = 1;
	if (block->flags & BLOCK_IS_PATH) {
		const uint8_t *ids = trail_table_path_ids(table, block);

		for (uint32_t i = 0; i < block->instructions; i++) {
			uint32_t at = load_u32(ids + 4 * (size_t)i);
			const struct function *region = functions_block(search->calls.functions,
									table, at);

			if (!region)
				return NULL;
			known->region = region;
			if (region != functions_block(search->calls.functions, table,
						      load_u32(ids)) ||
			    (i + 1u < block->instructions &&
			     !calls_is_straight(&table->blocks[at]))) {
				known->region = NULL;
				break;
			}
		}
		return known;
	}
	/* 0 is no address, but those of samples that may have been anywhere */
	known->first = (uint32_t)sorted_below(search->addresses, search->address_count,
					      sizeof(uint64_t), 0, block->start ? block->start : 1);
	known->end = (uint32_t)sorted_below(search->addresses, search->address_count,
					    sizeof(uint64_t), 0, block->start + block->bytes);
	return known;
}

/* A block ran, as one of the blocks from an index to another. 0 or -ENOMEM. */
static int block_meet(struct trail_search *search, const struct trail_table *table, uint32_t id,
		      uint64_t index, uint64_t end)
{
	const struct id_known *known = known_find(search, table, id);
	uint32_t depth = search->calls.depth;
	int err = known ? 0 : -ENOMEM;

	if (!err && !search->addresses[0])
		err = address_meet(search, &search->asked[0], index, end, depth);
	/* the frame that the block is in is not one of its callers */
	for (uint32_t i = known ? known->first : 0; !err && i < known->end; i++)
		err = address_meet(search, &search->asked[i], index, end, depth - 1);
	return err;
}

/*
 * Step over the next path, if it stays in the innermost frame. Where it ran with the same stack
 * already, and no place has begun since, it adds nothing. 1, 0 or -ENOMEM.
 */
static int path_pass(struct trail_search *search)
{
	struct calls *calls = &search->calls;
	const struct trail_run *run = calls_path(calls);
	const struct trail_table *table;
	struct id_known *known;
	uint64_t index, end;
	uint32_t stack;
	int err = 0;

	if (!run)
		return 0;
	table = run->part->table;
	known = known_find(search, table, load_u32(run->part->ids + 4 * (size_t)run->word));
	if (!known)
		return -ENOMEM;
	if (!known->region || !calls_pass(calls, known->region))
		return 0;
	index = run->part->before + run->first;
	end = index + run->count;
	while (search->begun < search->common_count && search->begins[search->begun] < end)
		search->begun++;
	if (stack_make(search, calls->depth, &stack))
		return -ENOMEM;
	if (known->stack == stack && known->depth == calls->depth && known->round == search->begun)
		return 1;
	known->stack = stack;
	known->depth = calls->depth;
	known->round = search->begun;
	for (uint32_t i = 0; i < run->count && !err; i++)
		err = block_meet(search, table, trail_run_id(run, run->first + i), index, end);
	return err ? err : 1;
}

static int calls_meet(struct trail_search *search, uint64_t end)
{
	struct samples *samples = search->trail->samples;
	struct calls *calls = &search->calls;
	struct call_change change;
	int more;

	for (;;) {
		uint64_t index;

		do
			more = path_pass(search);
		while (more > 0);
		if (!more)
			more = calls_next(calls, &change);
		if (more <= 0)
			return more;
		if (change.kind == CALL_ENTER || change.kind == CALL_LEAVE) {
			if (search->known > change.depth)
				search->known = change.depth;
			continue;
		}
		if (change.kind != CALL_BLOCK)
			continue;
		index = change.item->index;
		if (index >= end)
			return 0;
		if (samples->options.beat)
			samples->options.beat("looking for callers", index, end);
		more = block_meet(search, change.item->table, change.item->id, index, index + 1);
		if (more)
			return more;
	}
}

/* ---- what was found ---- */

static int is_unknown_in(const struct trail_search *search, uint32_t stack)
{
	const struct stacks_one *all = search->trail->samples->stacks.all;

	while (all[stack].function && all[stack].function != search->unknown_function)
		stack = all[stack].outer;
	return all[stack].function != NULL;
}

/* Add the `count` innermost functions of `from` to a stack. 0 or -ENOMEM. */
static int functions_add(struct stacks *stacks, uint32_t from, uint32_t count, uint32_t *stack)
{
	uint32_t chain[SAMPLES_DEPTH_MAX + 1] = { 0 };
	int err = 0;

	for (uint32_t i = 0; i < count; i++, from = stacks->all[from].outer)
		chain[i] = from;
	while (count-- && !err) {
		const struct stacks_one *one = &stacks->all[chain[count]];

		err = stacks_of(stacks, *stack, one->function, one->process, NULL, stack);
	}
	return err;
}

/* The callers of the samples that have `common`. 0 or -ENOMEM. */
static int common_callers(const struct trail_search *search, const struct samples_common *common,
			  struct samples_callers *callers)
{
	struct stacks *stacks = &search->trail->samples->stacks;
	uint32_t inner = common->least - stacks->all[common->outer].depth;

	callers->stack = common->is_met ? common->outer : search->unknown;
	if (common->is_met && common->last != common->stack &&
	    (stacks_of(stacks, common->outer, search->unknown_function, search->process, NULL,
		       &callers->stack) ||
	     functions_add(stacks, common->stack, inner < common->inner ? inner : common->inner,
			   &callers->stack)))
		return -ENOMEM;
	callers->is_cut = is_unknown_in(search, callers->stack);
	return 0;
}

static int is_alike(const struct samples_place *a, const struct samples_place *b)
{
	return a->address == b->address && a->begin == b->begin && a->end == b->end;
}

/* The addresses of `count` places, and what is asked of each. Returns where the last one ends. */
static uint64_t ask(struct trail_search *search, size_t count)
{
	uint64_t end = 0;

	search->common_count = search->address_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct samples_place *place = &search->places[i];

		if (i && is_alike(place, place - 1))
			continue;
		if (!i || place->address != place[-1].address) {
			search->asked[search->address_count].next = search->common_count;
			search->addresses[search->address_count++] = place->address;
		}
		search->begins[search->common_count] = place->begin;
		search->commons[search->common_count++] = (struct samples_common){ .first = i };
		search->asked[search->address_count - 1].end = search->common_count;
		end = place->end > end ? place->end : end;
	}
	sorted_make(search->begins, search->common_count, sizeof(*search->begins));
	return end;
}

/* ---- gaps ---- */

/*
 * A thread that ran unrecorded may have been anywhere. But in modules that were not chosen it was
 * at none of the addresses that blocks have.
 */
static int is_gap(const struct trail_part *part, int is_anywhere)
{
	return !part->count && (part->between.event == TRAIL_LOST ||
				(trail_is_gap(&part->between) &&
				 (is_anywhere || part->between.values[0] != TRAIL_GAP_ELSEWHERE)));
}

/* A sample that may have been taken in a gap gets [unknown] as its caller. 0 or -ENOMEM. */
static int gaps_meet(struct trail_search *search, const struct trail_path *path, int is_anywhere)
{
	const struct stacks_one *all = search->trail->samples->stacks.all;
	size_t count = 0, room = 0;
	uint64_t *gaps = NULL; /* so many blocks are before each */
	int err = 0;

	for (size_t i = 0; i < path->count && !err; i++) {
		if (!is_gap(&path->parts[i], is_anywhere))
			continue;
		err = array_grow(&gaps, &room, count + 1, sizeof(*gaps));
		if (!err)
			gaps[count++] = path->parts[i].before;
	}
	for (size_t i = 0; i < search->common_count && count && !err; i++) {
		const struct samples_place *place = &search->places[search->commons[i].first];
		size_t at = sorted_below(gaps, count, sizeof(uint64_t), 0, place->begin);

		if ((place->address == 0) == is_anywhere && at < count && gaps[at] < place->end)
			common_meet(&search->commons[i], all, search->unknown);
	}
	free(gaps);
	return err;
}

/* Samples of one thread on one path. 0 or -ENOMEM. */
static int path_walk(struct trail_search *search, struct samples_place *places, size_t count)
{
	struct samples_trail *trail = search->trail;
	const struct trail_path *path = &trail->trails.paths[places->path];
	struct functions *functions;
	uint64_t end;
	int err;

	search->places = places;
	search->thread = places->thread;
	search->process = path->stream->process;
	search->known = search->unsure = search->begun = 0;
	functions = samples_functions(trail->samples, search->process);
	search->unknown_function = functions ? functions_named(functions, "[unknown]", 2) : NULL;
	if (!search->unknown_function ||
	    stacks_of(&trail->samples->stacks, trail->samples->threads[search->thread].stack,
		      search->unknown_function, search->process, NULL, &search->unknown))
		return -ENOMEM;
	end = ask(search, count);
	err = gaps_meet(search, path, 0);
	if (!err)
		err = gaps_meet(search, path, 1);
	calls_init(&search->calls, path, functions, 1);
	if (!err)
		err = calls_meet(search, end);
	calls_release(&search->calls);
	for (size_t i = 0; i < trail->trails.space_count; i++) {
		free(search->ids[i]);
		search->ids[i] = NULL;
	}
	for (size_t i = 0, common = 0; i < count && !err; i++) {
		common += common + 1 < search->common_count &&
			  search->commons[common + 1].first == i;
		err = common_callers(search, &search->commons[common],
				     &trail->callers[places[i].sample]);
	}
	return err;
}

int samples_trail_walk(struct samples_trail *trail)
{
	struct trail_search search = { .trail = trail };
	size_t count = trail->place_count, next;
	int err = -ENOMEM;

	if (!count)
		return 0;
	qsort(trail->places, count, sizeof(*trail->places), by_place);
	search.commons = calloc(count, sizeof(*search.commons));
	search.addresses = calloc(count, sizeof(*search.addresses));
	search.asked = calloc(count, sizeof(*search.asked));
	search.begins = calloc(count, sizeof(*search.begins));
	search.stacks = calloc(SAMPLES_DEPTH_MAX, sizeof(*search.stacks));
	search.ids = calloc(trail->trails.space_count + 1, sizeof(struct id_known *));
	if (search.commons && search.addresses && search.asked && search.begins && search.stacks &&
	    search.ids)
		err = 0;
	for (size_t i = 0; i < count && !err; i = next) {
		const struct samples_place *first = &trail->places[i];

		for (next = i + 1; next < count && trail->places[next].path == first->path &&
				   trail->places[next].thread == first->thread;)
			next++;
		err = path_walk(&search, &trail->places[i], next - i);
	}
	free(search.commons);
	free(search.addresses);
	free(search.asked);
	free(search.begins);
	free(search.ids);
	free(search.stacks);
	return err;
}
