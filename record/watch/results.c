/* SPDX-License-Identifier: MIT */
/* The results of a session's watches: the agent's counts compared with the kernel's. */
#include "record/watch/watching_own.h"

#include "base/array.h"
#include "record/spec/spec.h"
#include "record/watch/follow_serve.h"
#include "record/watch/watches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct watched_spec *watched_result(struct wm_session *session, size_t spec)
{
	struct watched_list *list = session->watched;
	const struct spec *about = &session->specs->all[spec];
	struct watched_spec *one;

	/* specs may have been added since an earlier run of the session */
	if (list->count < session->specs->count) {
		struct watched_spec *more = reallocarray(list->all, session->specs->count,
							 sizeof(*more));

		if (!more)
			return NULL;
		memset(more + list->count, 0,
		       (session->specs->count - list->count) * sizeof(*more));
		list->all = more;
		list->count = session->specs->count;
	}
	one = &list->all[spec];
	if (!one->text)
		one->text = strdup(about->text);
	if (!one->words) {
		one->words = strdup(about->watch->words);
		one->is_code = about->watch->kind == WATCH_EXECUTE;
	}
	return one->text && one->words ? one : NULL;
}

/* The number of the type that a process has. */
static uint32_t type_index(const struct watched_spec *one, uint32_t process)
{
	for (size_t i = one->of_count; i--;)
		if (one->of[i].process == process)
			return one->of[i].type;
	return 0;
}

const struct watch_type *watched_type(const struct watched_spec *one, uint32_t process)
{
	return one->type_count ? one->types[type_index(one, process)] : NULL;
}

/* Find the type in types[], or add it. Takes it over, except on an error. 0 or -ENOMEM. */
static int type_place(struct watched_spec *one, struct watch_type *type, uint32_t *index)
{
	struct watch_type *kept;

	for (*index = 0; *index < one->type_count; ++*index) {
		if (!expression_type_is_same(one->types[*index], type))
			continue;
		expression_type_release(type);
		return 0;
	}
	if (array_grow(&one->types, &one->type_room, one->type_count + 1, sizeof(*one->types)))
		return -ENOMEM;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	*kept = *type;
	one->types[one->type_count++] = kept;
	return 0;
}

int watched_type_take(struct watched_spec *one, uint32_t process, struct watch_type *type)
{
	uint32_t index;
	int err = type_place(one, type, &index);

	if (err)
		expression_type_release(type);
	*type = (struct watch_type){ 0 };
	if (err || index == type_index(one, process))
		return err;
	err = array_grow(&one->of, &one->of_room, one->of_count + 1, sizeof(*one->of));
	if (!err)
		one->of[one->of_count++] = (struct watched_type){ process, index };
	return err;
}

void watched_spec_release(struct watched_spec *one)
{
	for (size_t i = 0; i < one->type_count; i++) {
		expression_type_release(one->types[i]);
		free(one->types[i]);
	}
	free(one->types);
	free(one->of);
	free(one->text);
	free(one->words);
	free(one->library);
}

void watched_list_release(struct watched_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		watched_spec_release(&list->all[i]);
	free(list->all);
	*list = (struct watched_list){ 0 };
}

void watch_counts_add(struct watch_counts *to, const struct watch_row *row, uint64_t hits)
{
	/* the target may write these meanwhile: each is read once */
	uint64_t taken = __atomic_load_n(&row->taken, __ATOMIC_RELAXED),
		 dropped = __atomic_load_n(&row->dropped, __ATOMIC_RELAXED),
		 own_masked = __atomic_load_n(&row->masked, __ATOMIC_RELAXED),
		 beside = __atomic_load_n(&row->beside, __ATOMIC_RELAXED);
	uint64_t missed = hits > taken + dropped ? hits - taken - dropped : 0, masked;

	/* hits without their own signal: that of another watch of the store was pending */
	beside = missed < beside ? missed : beside;
	masked = own_masked + beside;

	to->hits += hits > masked ? hits - masked : 0;
	to->masked += masked;
	to->taken += taken - own_masked;
	to->filtered += row->filtered;
	to->counted += row->counted;
	to->own += row->own;
	to->dropped += dropped;
	to->late += row->late;
	to->inexact += row->inexact;
	to->unknown += row->unknown;
	to->uncertain += row->uncertain;
	to->uncertain_filtered += row->uncertain_filtered;
	to->shared += row->shared;
	to->missed += missed - beside;
}

void watched_count(const struct watching *watching, unsigned int source, struct watch_counts *to)
{
	const struct watched *one = &watching->all[source];
	const struct watch_row *row = &watching->table->rows[one->number];
	uint64_t hits = 0, reported = row->taken + row->dropped;

	follow_lock(watching->follow);
	perf_object_count(watching->object, source, &hits);
	follow_unlock(watching->follow);
	/* another session's event woke the handler after ours had stopped counting */
	if (hits < reported)
		hits = reported;
	if (one->is_pointer)
		to->follow.unseen += hits - reported;
	else
		watch_counts_add(to, row, hits);
	if (!source)
		follow_count(watching->follow, to);
}

int watching_is_told(const struct watching *watching)
{
	struct watch_counts counts = { 0 };

	for (unsigned int i = 0; i < watching->count; i++)
		watched_count(watching, i, &counts);
	return !counts.missed;
}

const struct watched_spec *watches_of(const struct watched_list *list, size_t spec)
{
	const struct watched_spec *one = spec < list->count ? &list->all[spec] : NULL;

	return one && one->processes ? one : NULL;
}
