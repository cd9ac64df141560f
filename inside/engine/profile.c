/* SPDX-License-Identifier: MIT */
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/pages.h"
#include "inside/engine/profile.h"
#include "inside/engine/sys.h"
#include "inside/engine/trace.h"
#include "inside/engine/translate.h"

#include <errno.h>
#include <sys/mman.h>

#define WINDOWS 4u /* of a segment that are looked at, so many words each */
#define WINDOW_WORDS 1024u
#define WINDOW_STEP 32u
#define WORDS_MIN (UINT64_C(256) << 10) /* between looks */
#define WORDS_MAX (UINT64_C(8) << 20)
#define HOT_HITS 8u /* until a trace is laid out again; eight times as many for each further time */
#define LAYOUTS_MAX 3u
#define LOOK_SHARE 16u
#define BATCH_MAX 64u

/* ---- which block mostly follows which ---- */

#define EDGES (1u << 16) /* a block's place is taken by the next that has it */

/* Of a block: which block followed most of the times, by a vote that each other one takes back. */
struct edge {
	uint64_t from, to;
	uint32_t lead, total;
};

static struct edge *edges;

int profile_open(void)
{
	if (!edges)
		edges = memory_map(0, EDGES * sizeof(*edges), PROT_READ | PROT_WRITE);
	return edges ? 0 : -ENOMEM;
}

static struct edge *edge_of(uint64_t from)
{
	return &edges[from * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

void profile_vote(uint64_t from, uint64_t to)
{
	struct edge *edge = edge_of(from);

	if (edge->from != from) {
		if (edge->total > 4) {
			edge->total /= 2;
			edge->lead /= 2;
			return;
		}
		*edge = (struct edge){ from, to, 0, 0 };
	}
	edge->total++;
	if (edge->to == to) {
		edge->lead++;
	} else if (edge->lead) {
		edge->lead--;
	} else {
		edge->to = to;
		edge->lead = 1;
	}
}

uint64_t profile_next(uint64_t start)
{
	const struct edge *edge = edges ? edge_of(start) : NULL;

	return edge && edge->from == start ? edge->to : 0;
}

uint64_t profile_sure(uint64_t start)
{
	const struct edge *edge = edges ? edge_of(start) : NULL;

	return edge && edge->from == start && edge->total >= 4 && edge->lead * 4 > edge->total * 3
		       ? edge->to
		       : 0;
}

/* ---- hot traces ---- */

/* The traces that are to be laid out again. */
struct batch {
	struct trace *traces[BATCH_MAX];
	uint32_t count;
};

static uint64_t words_since, words_between = WORDS_MIN;
static uint64_t not_before; /* ticks: looks take no more than one in LOOK_SHARE */

/* The hottest first, each once. */
static void batch_add(struct batch *batch, struct trace *trace)
{
	uint32_t at;

	for (uint32_t i = 0; i < batch->count; i++)
		if (batch->traces[i] == trace)
			return;
	if (batch->count < BATCH_MAX)
		batch->count++;
	else if (batch->traces[BATCH_MAX - 1]->heat >= trace->heat)
		return;
	for (at = batch->count - 1; at && batch->traces[at - 1]->heat < trace->heat; at--)
		batch->traces[at] = batch->traces[at - 1];
	batch->traces[at] = trace;
}

/* What a word means, as far as it has been looked for. */
struct path {
	const struct exit *exit;
	struct trace *trace; /* NULL: none, or one that is gone */
};

/*
 * Of the paths of some words; the tool may have written over them: nothing is believed. Nothing of
 * it is in the processor's cache: each step asks for all that the next will read, or most of the
 * time went by waiting.
 */
static void paths_find(struct path *paths, const uint32_t *words, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		paths[i].exit = trace_exit_now(words[i]);
		__builtin_prefetch(paths[i].exit);
	}
	for (uint32_t i = 0; i < count; i++) {
		paths[i].trace = paths[i].exit && paths[i].exit->blocks
					 ? trace_numbered(paths[i].exit->trace)
					 : NULL;
		__builtin_prefetch(paths[i].trace);
		__builtin_prefetch(paths[i].trace ? &paths[i].trace->starts : NULL);
	}
	for (uint32_t i = 0; i < count; i++)
		if (paths[i].trace)
			__builtin_prefetch(paths[i].trace->starts);
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t k = 0; paths[i].trace && k < paths[i].exit->blocks; k++)
			__builtin_prefetch(edge_of(paths[i].trace->starts[k]));
}

/* What the reader makes of a word, too. */
static void path_look(struct batch *batch, const struct path *path, const struct path *next)
{
	struct trace *trace = path->trace;
	uint32_t blocks;

	if (!trace)
		return;
	blocks = path->exit->blocks;
	for (uint32_t block = 1; block < blocks; block++)
		profile_vote(trace->starts[block - 1], trace->starts[block]);
	if (next->trace)
		profile_vote(trace->starts[blocks - 1], next->trace->pc);
	trace->heat += trace->heat < UINT16_MAX;
	if (trace->layouts < LAYOUTS_MAX && !trace->is_dead && !trace->code &&
	    trace->heat >= HOT_HITS << 3 * trace->layouts)
		batch_add(batch, trace);
}

static void words_look(struct batch *batch, const uint32_t *words)
{
	struct path paths[WINDOW_STEP + 1];

	for (uint32_t at = 0; at < WINDOW_WORDS - 1; at += WINDOW_STEP) {
		uint32_t count = WINDOW_WORDS - 1 - at < WINDOW_STEP ? WINDOW_WORDS - 1 - at
								     : WINDOW_STEP;

		paths_find(paths, words + at, count + 1);
		for (uint32_t i = 0; i < count; i++)
			path_look(batch, &paths[i], &paths[i + 1]);
	}
}

/* What a new layout took in is not as hot by itself any more. */
static void cool(const struct trace *trace)
{
	for (uint32_t i = 1; i < trace->blocks; i++) {
		struct trace *inside = trace_at(trace->starts[i]);

		if (inside)
			inside->heat = 0;
	}
}

static void lay_out(struct batch *batch)
{
	uint64_t generation = traces_newest();

	for (uint32_t i = 0; i < batch->count && traces_newest() == generation; i++) {
		struct trace *trace = batch->traces[i];

		if (trace->is_dead || trace->heat < HOT_HITS << 3 * trace->layouts)
			continue;
		trace = translate_hot(trace);
		if (trace)
			cool(trace);
	}
}

static void look(const struct thread *thread)
{
	uint32_t words = (uint32_t)((const uint32_t *)thread->pointer - thread->words);
	struct batch batch = { .count = 0 };

	if (profile_open() || words < WINDOWS * WINDOW_WORDS)
		return;
	for (uint32_t i = 0; i < WINDOWS; i++)
		words_look(&batch, thread->words + (uint64_t)words * i / WINDOWS);
	lay_out(&batch);
	if (batch.count)
		words_between = words_between / 2 > WORDS_MIN ? words_between / 2 : WORDS_MIN;
	else if (words_between < WORDS_MAX)
		words_between *= 2;
}

void profile_look(const struct thread *thread)
{
	uint64_t words = (uint64_t)((const uint32_t *)thread->pointer - thread->words);
	uint64_t began = sys_ticks();

	pages_look(began);
	if (__atomic_add_fetch(&words_since, words, __ATOMIC_RELAXED) < words_between ||
	    began < not_before || !thread->slot || !lock_try(&dispatch_lock))
		return;
	words_since = 0;
	look(thread);
	not_before = began + (sys_ticks() - began) * LOOK_SHARE;
	lock_give(&dispatch_lock);
}
