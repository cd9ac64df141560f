/* SPDX-License-Identifier: MIT */
/* What an object takes, in the ledger: written ahead of it, removed behind it (session/claim/ledger.h). */
#include "session/claim/holder.h"
#include "session/claim/ledger.h"
#include "session/event/object_own.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDER_BYTES 512

static void claim_fill(struct claim *claim, const struct event_object *object, unsigned int source)
{
	static const uint32_t types[] = {
		[EVENT_WRITE] = HW_BREAKPOINT_W,
		[EVENT_READ_WRITE] = HW_BREAKPOINT_RW,
		[EVENT_EXECUTE] = HW_BREAKPOINT_X,
	};
	const struct event_source *from = &object->sources[source];

	*claim = (struct claim){
		.resource = CLAIM_DEBUG_REGISTER,
		.scope = object->request.scope == EVENT_THREAD ? CLAIM_OF_THREAD : CLAIM_OF_PROCESS,
		.target = object->request.pid,
		.flags = types[from->kind],
		.count = 1,
		.cookie = from->sig_data,
		.address = from->address,
		.bytes = from->bytes,
	};
	if (from->what)
		snprintf(claim->what, sizeof(claim->what), "%s", from->what);
	else
		snprintf(claim->what, sizeof(claim->what), "watch:0x%llx/%u",
			 (unsigned long long)from->address, from->bytes);
}

/* Whichever CPUs there are now. */
static int cpus_of(const struct event_object *object, unsigned int **cpus, size_t *count)
{
	if (object->request.scope == EVENT_SYSTEM)
		return cpus_online(cpus, count);
	*count = object->request.cpu_count;
	*cpus = malloc(*count * sizeof(**cpus));
	if (!*cpus)
		return -ENOMEM;
	memcpy(*cpus, object->request.cpus, *count * sizeof(**cpus));
	return 0;
}

int claims_write(struct event_object *object)
{
	unsigned int sources = object->request.source_count, *cpus = NULL;
	size_t places = 1;
	struct claim *all;
	int err = 0;

	if (!object->request.ledger)
		return 0;
	if (!object_is_threads(object))
		err = cpus_of(object, &cpus, &places);
	if (err)
		return err;
	object->claim_count = places * sources;
	object->claims = calloc(object->claim_count, sizeof(*object->claims));
	all = calloc(object->claim_count, sizeof(*all));
	for (size_t i = 0; all && i < object->claim_count; i++) {
		claim_fill(&all[i], object, (unsigned int)(i % sources));
		if (cpus) {
			all[i].scope = CLAIM_OF_CPU;
			all[i].target = (int32_t)cpus[i / sources];
		}
	}
	err = all && object->claims ? ledger_claim(object->request.ledger, all, object->claim_count,
						   object->claims)
				    : -ENOMEM;
	free(all);
	free(cpus);
	if (err)
		claims_remove(object);
	return err;
}

int claims_add(struct event_object *object, int cpu)
{
	unsigned int sources = object->request.source_count;
	struct claim all[EVENT_SOURCES_MAX];
	uint64_t *claims;
	int err;

	if (!object->claims)
		return 0;
	claims = reallocarray(object->claims, object->claim_count + sources, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	object->claims = claims;
	for (unsigned int i = 0; i < sources; i++) {
		claim_fill(&all[i], object, i);
		all[i].scope = CLAIM_OF_CPU;
		all[i].target = cpu;
	}
	err = ledger_claim(object->request.ledger, all, sources, claims + object->claim_count);
	if (err)
		return err;
	ledger_confirm(object->request.ledger, claims + object->claim_count, sources);
	object->claim_count += sources;
	return 0;
}

void claims_confirm(struct event_object *object)
{
	if (object->claims)
		ledger_confirm(object->request.ledger, object->claims, object->claim_count);
}

void claims_change(struct event_object *object)
{
	struct claim claim;

	if (!object->claims || !object_is_threads(object))
		return;
	for (size_t i = 0; i < object->claim_count; i++) {
		claim_fill(&claim, object, (unsigned int)i);
		ledger_change(object->request.ledger, object->claims[i], &claim);
	}
}

void claims_remove(struct event_object *object)
{
	if (object->claims)
		ledger_remove(object->request.ledger, object->claims, object->claim_count);
	free(object->claims);
	object->claims = NULL;
	object->claim_count = 0;
}

void claims_name_holder(const struct event_object *object, struct detail detail)
{
	struct claim_wanted wanted = {
		.resource = CLAIM_DEBUG_REGISTER,
		.tid = object->refused.tid > 0 ? object->refused.tid : 0,
		.cpu = object->refused.tid > 0 ? -1 : object->refused.cpu,
	};
	char text[HOLDER_BYTES] = "";
	size_t used = detail.text ? strnlen(detail.text, detail.bytes) : detail.bytes;

	if (used + 1 >= detail.bytes || !claim_holder_text(&wanted, text, sizeof(text)))
		return;
	snprintf(detail.text + used, detail.bytes - used, "; %s", text);
}
