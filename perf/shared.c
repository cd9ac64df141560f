/* SPDX-License-Identifier: MIT */
/*
 * Sources that another's events serve, for lack of registers (claim/ledger.h, claim_row_is_same()).
 * The agent shows the caller that the other is there, and notifies it when the other goes; then the
 * caller takes them over.
 *
 *	not opened -> served by another -> taken over, by an object of its own
 */
#include "claim/ledger.h"
#include "perf/object_own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct shared_sources *shared_new(const struct event_object *object)
{
	struct shared_sources *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->count = object->request.source_count;
	memcpy(shared->what, object->what, sizeof(shared->what));
	for (unsigned int i = 0; i < shared->count; i++) {
		shared->all[i] = object->sources[i];
		shared->all[i].what = shared->what[i][0] ? shared->what[i] : NULL;
		shared->own[i] = (int)i;
	}
	return shared;
}

/* The object's own sources are those that no other serves, in their order. */
static void keep_own(struct event_object *object)
{
	struct shared_sources *shared = object->shared;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < shared->count; i++) {
		if (shared->own[i] < 0)
			continue;
		object->what[kept][0] = '\0';
		object_source_set(object, kept, &shared->all[i]);
		shared->own[i] = (int)kept++;
	}
	object->request.source_count = kept;
}

static void claim_share(struct event_object *object, unsigned int source)
{
	struct claim claim;
	uint64_t *id = &object->shared->claims[source];

	if (!object->request.ledger)
		return;
	claims_fill(&claim, object, &object->shared->all[source]);
	claim.flags |= CLAIM_SHARES;
	claim.count = 0;
	if (!ledger_claim(object->request.ledger, &claim, 1, id))
		ledger_confirm(object->request.ledger, id, 1);
}

static void unclaim_share(struct event_object *object, unsigned int source)
{
	if (object->shared->claims[source])
		ledger_remove(object->request.ledger, &object->shared->claims[source], 1);
	object->shared->claims[source] = 0;
}

int event_object_share(struct event_object *object, unsigned int source)
{
	if (object->state != EVENT_PREPARING || object->request.scope != EVENT_PROCESS ||
	    !(object->request.flags & EVENT_SIGNAL))
		return -EINVAL;
	if (!object->shared)
		object->shared = shared_new(object);
	if (!object->shared)
		return -ENOMEM;
	if (source >= object->shared->count || object->shared->own[source] < 0)
		return -EINVAL;
	object->shared->own[source] = -1;
	keep_own(object);
	claim_share(object, source);
	return 0;
}

int event_object_holder(const struct event_object *object, unsigned int source,
			struct claim_owner *owner)
{
	long uid = target_status_number(object->request.pid, "Uid");
	struct claim_list list = { 0 };
	struct claim claim;
	int found = 0;

	if (uid < 0 || source >= EVENT_SOURCES_MAX)
		return -ENOENT;
	claims_fill(&claim, object, &event_object_sources(object)[source]);
	claim_list_read(&list, (uid_t)uid, object->request.pid);
	for (size_t i = 0; i < list.count && !found; i++) {
		found = list.rows[i].owner.pid != getpid() &&
			claim_row_is_same(&list.rows[i], &claim);
		*owner = list.rows[i].owner;
	}
	claim_list_release(&list);
	return found ? 0 : -ENOENT;
}

int event_object_take_over(struct event_object *object, unsigned int source,
			   int (*settle)(void *data, uint8_t generation), void *data,
			   struct detail detail)
{
	struct shared_sources *shared = object->shared;
	struct event_request request = object->request;
	struct event_object *taken;
	int err;

	if (object->state != EVENT_ARMED || object->disarmed_ns || !shared ||
	    source >= shared->count || shared->own[source] >= 0)
		return -EINVAL;
	if (shared->taken[source])
		return 0;
	request.sources = &shared->all[source];
	request.source_count = 1;
	request.settle = settle;
	request.settle_data = data;
	err = event_object_new(&taken, &request, detail);
	if (!err)
		err = event_object_arm(taken, detail);
	if (err) {
		event_object_release(taken);
		return err;
	}
	shared->taken[source] = taken;
	/* behind the claim of what was opened: never neither */
	unclaim_share(object, source);
	return 0;
}

void shared_quiet(struct event_object *object)
{
	for (unsigned int i = 0; object->shared && i < object->shared->count; i++)
		if (object->shared->taken[i])
			event_object_quiet(object->shared->taken[i]);
}

void shared_disarm(struct event_object *object)
{
	for (unsigned int i = 0; object->shared && i < object->shared->count; i++) {
		if (object->shared->taken[i])
			event_object_disarm(object->shared->taken[i]);
		unclaim_share(object, i);
	}
}

void shared_release(struct event_object *object)
{
	for (unsigned int i = 0; object->shared && i < object->shared->count; i++)
		event_object_release(object->shared->taken[i]);
	free(object->shared);
	object->shared = NULL;
}

int shared_count(struct event_object *object, unsigned int source, uint64_t *hits)
{
	struct shared_sources *shared = object->shared;

	if (source >= shared->count)
		return -EINVAL;
	return shared->taken[source] ? event_object_count(shared->taken[source], 0, hits)
				     : -ENODATA;
}
