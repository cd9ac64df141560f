/* SPDX-License-Identifier: MIT */
#include "history/export.h"
#include "history/taken.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define SLOTS_MIN 4096u

/*
 * In the order and with the letters of the file; the last: straight code that was come to from
 * outside, or by a return, for which BOLT counts the way from the call's block to the next one,
 * too.
 */
enum edge_kind { EDGE_FREE, EDGE_BRANCH, EDGE_STRAIGHT, EDGE_STRAIGHT_FROM_OUTSIDE };

static const char letters[] = { 0, 'B', 'F', 'f' };

/* A branch, or the straight code from where one led to up to the next. */
struct edge {
	uint64_t from, to; /* as linked; OUTSIDE: not of the program's own file */
	uint64_t count;
	enum edge_kind kind;
	/* straight code of a PLT, which BOLT has no function for: it would doubt the rest */
	int is_stub;
};

#define OUTSIDE UINT64_MAX

struct edges {
	struct edge *slots; /* open addressing */
	size_t count, slot_count;
	const struct export_process *process;
	const struct image_module *program; /* of the process, as mapped now; NULL: unmapped */
	const struct image_module *counted; /* the program of all that was counted */
	int is_found, why;		    /* it was, at some time; why not, the last time */
	uint64_t landed;     /* where the last branch led to; OUTSIDE: nowhere that counts */
	enum edge_kind next; /* what is straight from there */
	int error;
};

static struct edge *slot_of(struct edge *slots, size_t count, enum edge_kind kind, uint64_t from,
			    uint64_t to)
{
	uint64_t key = (from * 0x9e3779b97f4a7c15ull ^ to) * 0xff51afd7ed558ccdull + kind;
	size_t at = (size_t)(key >> 20) & (count - 1);

	while (slots[at].kind &&
	       (slots[at].from != from || slots[at].to != to || slots[at].kind != kind))
		at = (at + 1) & (count - 1);
	return &slots[at];
}

static int edges_grow(struct edges *edges)
{
	size_t count = edges->slot_count ? edges->slot_count * 2 : SLOTS_MIN;
	struct edge *slots;

	if (edges->count * 2 < edges->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < edges->slot_count; i++) {
		const struct edge *edge = &edges->slots[i];

		if (edge->kind)
			*slot_of(slots, count, edge->kind, edge->from, edge->to) = *edge;
	}
	free(edges->slots);
	edges->slots = slots;
	edges->slot_count = count;
	return 0;
}

static int is_stub(const struct edges *edges, uint64_t address)
{
	const struct code_section *section = code_file_section_at(edges->program->file, address);

	return section && !strncmp(section->name, ".plt", 4);
}

static void count_edge(struct edges *edges, enum edge_kind kind, uint64_t from, uint64_t to)
{
	struct edge *edge;

	if (edges->error || (edges->error = edges_grow(edges)))
		return;
	edge = slot_of(edges->slots, edges->slot_count, kind, from, to);
	if (!edge->kind) {
		*edge = (struct edge){ .from = from, .to = to, .kind = kind };
		edge->is_stub = kind != EDGE_BRANCH && is_stub(edges, from);
		edges->count++;
	}
	edge->count++;
}

static uint64_t as_linked(const struct edges *edges, uint64_t address)
{
	const struct image_module *program = edges->program;

	if (!program || address < program->start || address >= program->end)
		return OUTSIDE;
	return address - program->base;
}

static void branch(void *data, uint8_t kind, uint64_t from, uint64_t to)
{
	struct edges *edges = data;

	from = as_linked(edges, from);
	to = as_linked(edges, to);
	if (edges->landed != OUTSIDE && from != OUTSIDE)
		count_edge(edges, edges->next, edges->landed, from);
	if (from != OUTSIDE || to != OUTSIDE)
		count_edge(edges, EDGE_BRANCH, from, to);
	edges->landed = to;
	edges->next = from == OUTSIDE || kind == TRAIL_RETURN ? EDGE_STRAIGHT_FROM_OUTSIDE
							      : EDGE_STRAIGHT;
}

static void cut(void *data)
{
	((struct edges *)data)->landed = OUTSIDE;
}

static int is_same(const struct image_module *one, const struct image_module *other)
{
	const char *a = one->build_id ? one->build_id : "",
		   *b = other->build_id ? other->build_id : "";

	return !strcmp(one->path, other->path) && !strcmp(a, b);
}

/* Find the module that is the program's own file, when the table's blocks ran. */
static int program_find(void *data, const struct trail_table *table)
{
	struct edges *edges = data;
	const char *exe = edges->process->exe;
	struct image *image = image_in(edges->process->image, table);
	struct image_module *module;

	cut(edges);
	edges->program = NULL;
	edges->why = -ENOENT;
	if (!image)
		return -ENOMEM;
	for (size_t i = 0; exe && (module = image_module(image, i)); i++) {
		if (strcmp(module->path, exe) != 0 || !image_has(image, module))
			continue;
		if (!image_place(image, module->start)) /* asked for, it is opened */
			return -ENOMEM;
		edges->program = module->end ? module : NULL;
		edges->why = module->error;
	}
	if (!edges->program)
		return 0;
	edges->is_found = 1;
	/* the counts of two programs would be those of none */
	if (edges->counted && !is_same(edges->counted, edges->program))
		return -WM_E_TRAIL_PROGRAMS;
	edges->counted = edges->program;
	return 0;
}

/* ---- lines ---- */

static int by_kind_and_place(const void *one, const void *other)
{
	const struct edge *a = one, *b = other;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

static void put_place(struct out *out, uint64_t place)
{
	static const char digits[] = "0123456789abcdef";
	int shift = 60;

	if (place == OUTSIDE) {
		out_literal(out, "X:0 ");
		return;
	}
	while (shift && !(place >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		out_char(out, digits[place >> shift & 15]);
	out_char(out, ' ');
}

static void put_edges(struct out *out, struct edges *edges)
{
	size_t kept = 0;

	for (size_t i = 0; i < edges->slot_count; i++)
		if (edges->slots[i].kind && !edges->slots[i].is_stub)
			edges->slots[kept++] = edges->slots[i];
	if (kept)
		qsort(edges->slots, kept, sizeof(*edges->slots), by_kind_and_place);
	for (size_t i = 0; i < kept; i++) {
		const struct edge *edge = &edges->slots[i];

		out_char(out, letters[edge->kind]);
		out_char(out, ' ');
		put_place(out, edge->from);
		put_place(out, edge->to);
		out_u64(out, edge->count);
		if (edge->kind == EDGE_BRANCH)
			out_literal(out, " 0"); /* it is unknown which were predicted */
		out_char(out, '\n');
	}
}

int export_bolt(struct export *export)
{
	struct edges edges = { .landed = OUTSIDE };
	struct taken_sink sink = { branch, cut, program_find, &edges };

	for (size_t i = 0; i < export->thread_count && !edges.error; i++) {
		const struct export_thread *thread = &export->threads[i];

		if (thread->range.first == thread->range.end)
			continue;
		edges.process = &export->processes[thread->process];
		edges.program = NULL;
		edges.is_found = 0;
		edges.why = 0;
		edges.error = taken_walk(export, thread, &sink);
		if (!edges.error && !edges.is_found)
			edges.error = edges.why;
	}
	if (!edges.error)
		put_edges(export->out, &edges);
	free(edges.slots);
	return edges.error;
}
