/* SPDX-License-Identifier: MIT */
#include "inside/engine/edges.h"
#include "inside/engine/engine_memory.h"

#include <errno.h>
#include <sys/mman.h>

#define EDGES (1u << 16) /* a block's place is taken by the next that has it */

/* Of a block: which block followed most of the times, by a vote that each other one takes back. */
struct edge {
	uint64_t from, to;
	uint32_t lead, total;
};

static struct edge *edges;

int edges_open(void)
{
	if (!edges)
		edges = memory_map(0, EDGES * sizeof(*edges), PROT_READ | PROT_WRITE);
	return edges ? 0 : -ENOMEM;
}

static struct edge *edge_of(uint64_t from)
{
	return &edges[from * UINT64_C(0x9e3779b97f4a7c15) >> 48];
}

void edges_prefetch(uint64_t from)
{
	__builtin_prefetch(edge_of(from));
}

void edges_vote(uint64_t from, uint64_t to)
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

uint64_t edges_next(uint64_t start)
{
	const struct edge *edge = edges ? edge_of(start) : NULL;

	return edge && edge->from == start ? edge->to : 0;
}

uint64_t edges_sure(uint64_t start)
{
	const struct edge *edge = edges ? edge_of(start) : NULL;

	return edge && edge->from == start && edge->total >= 4 && edge->lead * 4 > edge->total * 3
		       ? edge->to
		       : 0;
}
