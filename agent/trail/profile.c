/* SPDX-License-Identifier: MIT */
#include "agent/trail/profile.h"
#include "agent/trail/dispatch.h"
#include "agent/trail/lock.h"
#include "agent/trail/memory.h"
#include "agent/trail/sys.h"
#include "agent/trail/trace.h"
#include "agent/trail/translate.h"

#include <sys/mman.h>

#define EDGES (1u << 16) /* a block's place is taken by the next that has it */
#define WINDOWS 4u	 /* of a segment that are looked at, so many words each */
#define WINDOW_WORDS 1024u
#define WORDS_MIN (UINT64_C(256) << 10) /* between looks */
#define WORDS_MAX (UINT64_C(8) << 20)
#define HOT_HITS                                                                                   \
	16u /* until a trace is laid out again; eight times as many for each further time */
#define LAYOUTS_MAX 3u
#define LOOK_SHARE 64u
#define BATCH_MAX 24u

/* Of a block: which block followed most of the times, by a vote that each other one takes back. */
struct edge {
	uint64_t from, to;
	uint32_t lead, total;
};

/* The traces that are to be laid out again. */
struct batch {
	struct trace *traces[BATCH_MAX];
	uint32_t count;
};

static struct edge *edges;
static uint64_t words_since, words_between = WORDS_MIN;
static uint64_t not_before; /* ticks: looks take no more than one in LOOK_SHARE */

static struct edge *edge_of(uint64_t from)
{
	return &edges[from * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

static void vote(uint64_t from, uint64_t to)
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

static struct trace *path_of(uint32_t id, const struct exit **exit)
{
	*exit = exit_now(id);
	return *exit && (*exit)->blocks ? trace_numbered((*exit)->trace) : NULL;
}

/* What the reader makes of the words, too; the tool may have written over them: nothing is believed. */
static void words_look(struct batch *batch, const uint32_t *words, uint32_t count)
{
	const struct exit *exit, *next_exit;
	struct trace *trace = path_of(words[0], &exit);

	for (uint32_t i = 1; i < count; i++) {
		struct trace *next = path_of(words[i], &next_exit);

		if (trace) {
			for (uint32_t block = 1; block < exit->blocks; block++)
				vote(trace->starts[block - 1], trace->starts[block]);
			if (next)
				vote(trace->starts[exit->blocks - 1], next->pc);
			trace->heat += trace->heat < UINT16_MAX;
			if (trace->layouts < LAYOUTS_MAX && !trace->is_dead && !trace->is_checked &&
			    trace->heat >= HOT_HITS << 3 * trace->layouts)
				batch_add(batch, trace);
		}
		trace = next;
		exit = next_exit;
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
	for (uint32_t i = 0; i < batch->count; i++) {
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

	if (!edges)
		edges = memory_map(0, EDGES * sizeof(*edges), PROT_READ | PROT_WRITE);
	if (!edges || words < WINDOWS * WINDOW_WORDS)
		return;
	for (uint32_t i = 0; i < WINDOWS; i++)
		words_look(&batch, thread->words + (uint64_t)words * i / WINDOWS, WINDOW_WORDS);
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

	if (__atomic_add_fetch(&words_since, words, __ATOMIC_RELAXED) < words_between ||
	    began < not_before || !thread->slot || !lock_try(&dispatch_lock))
		return;
	words_since = 0;
	look(thread);
	not_before = began + (sys_ticks() - began) * LOOK_SHARE;
	lock_give(&dispatch_lock);
}
