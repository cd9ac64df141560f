/* SPDX-License-Identifier: MIT */
/* The program's own probes: on a variant, and those that wait for their marker to come. */
#include "inside/marker/marker.h"
#include "inside/marker/plan.h"
#include "inside/runtime/heap.h"
#include "inside/store/thread_writer.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <waymark/handler.h>

struct pending {
	struct pending *next;
	char *name;
	size_t name_bytes;
	char kind;
	uint8_t types[16];
	struct plan_probe probe;
};

static struct pending *pending;

static int is_same(const struct plan_probe *a, const struct plan_probe *b)
{
	return a->call == b->call && a->fn == b->fn && a->data == b->data;
}

int probelist_has(const struct variant *variant, const struct plan_probe *probe)
{
	for (uint32_t i = 0; i < variant->probe_count; i++)
		if (is_same(&variant->probes[i], probe))
			return 1;
	return 0;
}

static struct plan_probe *copy(const struct plan_probe *from, uint32_t count, uint32_t room)
{
	struct plan_probe *to = heap_alloc(room * sizeof *to);

	if (to && count)
		memcpy(to, from, count * sizeof *to);
	return to;
}

static void drop_next(struct variant *variant)
{
	if (variant->probes_next != variant->probes)
		heap_free(variant->probes_next,
			  variant->probe_count_next * sizeof *variant->probes);
	variant->probes_next = variant->probes;
	variant->probe_count_next = variant->probe_count;
}

static void set_next(struct variant *variant, struct plan_probe *next, uint32_t count)
{
	drop_next(variant);
	variant->probes_next = next;
	variant->probe_count_next = count;
}

int probelist_with(struct variant *variant, const struct plan_probe *probe)
{
	uint32_t count = variant->probe_count_next;
	struct plan_probe *next;

	next = copy(variant->probes_next, count, count + 1);
	if (!next)
		return -ENOMEM;
	next[count] = *probe;
	set_next(variant, next, count + 1);
	return 0;
}

int probelist_without(struct variant *variant, const struct plan_probe *probe)
{
	uint32_t count = variant->probe_count_next, i = 0;
	struct plan_probe *next = NULL;

	while (i < count && !is_same(&variant->probes_next[i], probe))
		i++;
	if (i == count)
		return -ENOENT;
	if (count > 1) {
		next = heap_alloc((count - 1) * sizeof *next);
		if (!next)
			return -ENOMEM;
		memcpy(next, variant->probes_next, i * sizeof *next);
		memcpy(next + i, variant->probes_next + i + 1, (count - 1 - i) * sizeof *next);
	}
	set_next(variant, next, count - 1);
	return 0;
}

int probelist_copy(struct variant *variant, const struct variant *from)
{
	struct plan_probe *next = copy(from->probes_next, from->probe_count_next,
				       from->probe_count_next);

	if (!next)
		return -ENOMEM;
	set_next(variant, next, from->probe_count_next);
	return 0;
}

void probelist_settle(struct variant *variant, int accepted)
{
	if (!accepted) {
		drop_next(variant);
		return;
	}
	if (variant->probes_next != variant->probes)
		heap_free(variant->probes, variant->probe_count * sizeof *variant->probes);
	variant->probes = variant->probes_next;
	variant->probe_count = variant->probe_count_next;
}

int probelist_pending_add(const char *name, char kind, const uint8_t types[16],
			  const struct plan_probe *probe)
{
	struct pending *waits = heap_alloc(sizeof *waits);

	if (!waits)
		return -ENOMEM;
	waits->name_bytes = strlen(name) + 1;
	waits->name = heap_copy(name, waits->name_bytes);
	if (!waits->name) {
		heap_free(waits, sizeof *waits);
		return -ENOMEM;
	}
	waits->kind = kind;
	memcpy(waits->types, types, sizeof waits->types);
	waits->probe = *probe;
	waits->next = pending;
	pending = waits;
	return 0;
}

static void unlink_pending(struct pending **link)
{
	struct pending *gone = *link;

	*link = gone->next;
	heap_free(gone->name, gone->name_bytes);
	heap_free(gone, sizeof *gone);
}

int probelist_pending_remove(const char *name, char kind, const struct plan_probe *probe)
{
	for (struct pending **link = &pending; *link; link = &(*link)->next) {
		if ((*link)->kind == kind && is_same(&(*link)->probe, probe) &&
		    !strcmp((*link)->name, name)) {
			unlink_pending(link);
			return 0;
		}
	}
	return -ENOENT;
}

static int is_for(const struct pending *waits, const struct variant *variant)
{
	return waits->kind == variant->kind && !strcmp(waits->name, variant->name) &&
	       !memcmp(waits->types, variant->types, sizeof waits->types);
}

int probelist_pending_claim(struct variant *variant)
{
	for (const struct pending *waits = pending; waits; waits = waits->next) {
		int error;

		if (!is_for(waits, variant))
			continue;
		error = probelist_with(variant, &waits->probe);
		if (error)
			return error;
	}
	return 0;
}

static int is_taken(const struct pending *waits)
{
	const struct variant *variant = NULL;

	while ((variant = registry_next_named(variant, waits->name)))
		if (is_for(waits, variant) && probelist_has(variant, &waits->probe))
			return 1;
	return 0;
}

void probelist_pending_settle(void)
{
	struct pending **link = &pending;

	while (*link) {
		if (is_taken(*link))
			unlink_pending(link);
		else
			link = &(*link)->next;
	}
}

int probelist_pending_any(void)
{
	return pending != NULL;
}

/* ---- calling them from a hit ---- */

char probe_added, probe_ran;

static int is_running(const struct writer *writer, const struct plan_probe *probe, int depth)
{
	for (int i = 0; i < depth; i++) {
		if (writer->inside[i] && writer->running_fn[i] == probe->fn &&
		    writer->running[i] == probe->data)
			return 1;
	}
	return 0;
}

long probelist_judge(void *data)
{
	const struct handler_call *call = data;
	const struct plan_probe probe = { .fn = (void (*)(void))call->handler };
	struct writer *writer = call->writer;
	int saved_errno = errno, takes;

	if (is_running(writer, &probe, call->depth))
		return 0;
	writer->running[call->depth] = NULL;
	writer->running_fn[call->depth] = probe.fn;
	takes = call->handler(call->payload, call->result) ==
		(call->result ? WM_REPLACE : WM_RECORD);
	writer->running_fn[call->depth] = NULL;
	if (!call->result || !takes)
		errno = saved_errno; /* that of a replaced call is the program's */
	return takes;
}

/* A handler that passes its own marker is not called again for it: that would never end. */
long probelist_call(void *data)
{
	const struct probe_call *call = data;
	struct writer *writer = call->writer;
	int saved_errno = errno;

	for (unsigned int i = 0; i < call->plan->probe_count; i++) {
		const struct plan_probe *probe = &call->plan->probes[i];

		if (is_running(writer, probe, call->depth))
			continue;
		writer->running[call->depth] = probe->data;
		writer->running_fn[call->depth] = probe->fn;
		probe_order_after(&probe_added);
		probe->call(probe->fn, probe->data, call->payload);
		probe_order_before(&probe_ran);
		writer->running_fn[call->depth] = NULL;
	}
	errno = saved_errno;
	return 0;
}
