/* SPDX-License-Identifier: MIT */
/*
 * What an object takes, in the ledger: written ahead of it, removed behind it
 * (target/claim/ledger.h). Rows are in this order: one for each source (on CPUs: for each source on
 * each), then what comes with them: descriptors, SIGTRAP, locked memory.
 */
#include "record/perf/cpus.h"
#include "record/perf/object_own.h"
#include "target/claim/holder.h"
#include "target/claim/ledger.h"
#include "target/claim/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define HOLDER_BYTES 512
#define BESIDE_MAX 3

static void say_what(struct claim *claim, const struct event_source *from)
{
	if (from->what)
		snprintf(claim->what, sizeof(claim->what), "%s", from->what);
	else
		snprintf(claim->what, sizeof(claim->what), "watch:0x%llx/%u",
			 (unsigned long long)from->address, from->bytes);
}

static void source_fill(struct claim *claim, const struct perf_object *object,
			const struct event_source *from)
{
	*claim = (struct claim){
		.resource = CLAIM_DEBUG_REGISTER,
		.scope = object->request.scope == EVENT_THREAD ? CLAIM_OF_THREAD : CLAIM_OF_PROCESS,
		.target = object->request.pid,
		.count = 1,
		.address = from->address,
		.bytes = from->bytes,
	};
	say_what(claim, from);
}

/* Row i is source i % sources; on CPUs, of one after the other. */
static void register_fill(struct claim *claim, const struct perf_object *object, size_t row)
{
	unsigned int sources = object->request.source_count;

	source_fill(claim, object, &object->sources[row % sources]);
	if (!object->claim_cpus)
		return;
	claim->scope = CLAIM_OF_CPU;
	claim->target = (int32_t)object->claim_cpus[row / sources];
}

/* Whichever CPUs there are now. */
static int cpus_of(const struct perf_object *object, unsigned int **cpus, size_t *count)
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

static void descriptors_fill(struct claim *claim, const struct perf_object *object, size_t count)
{
	*claim = (struct claim){ .resource = CLAIM_DESCRIPTORS,
				 .scope = CLAIM_OF_PROCESS,
				 .target = getpid(),
				 .count = count };
	say_what(claim, &object->sources[0]);
}

static void memory_fill(struct claim *claim, const struct perf_object *object, uint64_t bytes)
{
	*claim = (struct claim){ .resource = CLAIM_LOCKED_MEMORY,
				 .scope = CLAIM_OF_USER,
				 .target = (int32_t)geteuid(),
				 .count = bytes };
	say_what(claim, &object->sources[0]);
}

/* Fill in the claims beside the registers; returns how many. */
static size_t beside_fill(struct claim *claims, const struct perf_object *object,
			  const struct event_needs *needs)
{
	size_t count = 0;

	descriptors_fill(&claims[count++], object, needs->descriptors);
	if (object->request.flags & EVENT_SIGNAL) {
		claims[count] = (struct claim){ .resource = CLAIM_SIGTRAP,
						.scope = CLAIM_OF_PROCESS,
						.target = object->request.pid,
						.count = 1 };
		say_what(&claims[count++], &object->sources[0]);
	}
	if (needs->rings)
		memory_fill(&claims[count++], object,
			    rings_locked_bytes(needs->rings, needs->ring_bytes));
	return count;
}

int claims_write(struct perf_object *object, const struct event_needs *needs, struct detail detail)
{
	size_t places = 1;
	struct claim *all;
	int err = 0;

	if (!object->request.ledger)
		return 0;
	if (!perf_object_is_threads(object))
		err = cpus_of(object, &object->claim_cpus, &places);
	if (err)
		return err;
	object->claim_sources = object->claim_count = places * object->request.source_count;
	object->claims = calloc(object->claim_count + BESIDE_MAX, sizeof(*object->claims));
	all = calloc(object->claim_count + BESIDE_MAX, sizeof(*all));
	for (size_t i = 0; all && i < object->claim_sources; i++)
		register_fill(&all[i], object, i);
	if (all)
		object->claim_count += beside_fill(all + object->claim_sources, object, needs);
	err = all && object->claims
		      ? limits_claim(object->request.ledger, all, object->claim_count,
				     object->claims, perf_object_reserved(object), detail)
		      : -ENOMEM;
	free(all);
	if (err)
		claims_remove(object);
	return err;
}

/* In front of what comes with the registers. */
int claims_add(struct perf_object *object, unsigned int cpu)
{
	unsigned int sources = object->request.source_count, *cpus;
	struct claim all[EVENT_SOURCES_MAX];
	uint64_t ids[EVENT_SOURCES_MAX], *claims;
	size_t rows = object->claim_sources;
	int err;

	if (!object->claims || cpus_has(object->claim_cpus, rows / sources, cpu))
		return 0;
	claims = reallocarray(object->claims, object->claim_count + sources, sizeof(*claims));
	if (claims)
		object->claims = claims;
	cpus = reallocarray(object->claim_cpus, rows / sources + 1, sizeof(*cpus));
	if (cpus)
		object->claim_cpus = cpus;
	if (!claims || !cpus)
		return -ENOMEM;
	cpus[rows / sources] = cpu;
	for (unsigned int i = 0; i < sources; i++)
		register_fill(&all[i], object, rows + i);
	err = limits_claim(object->request.ledger, all, sources, ids, 0, (struct detail){ 0 });
	if (err)
		return err;
	ledger_confirm(object->request.ledger, ids, sources);
	claims += rows;
	memmove(claims + sources, claims, (object->claim_count - rows) * sizeof(*claims));
	memcpy(claims, ids, sources * sizeof(*ids));
	object->claim_sources += sources;
	object->claim_count += sources;
	return 0;
}

void claims_confirm(struct perf_object *object)
{
	struct claim claim;

	if (!object->claims)
		return;
	/* threads came and went since it was reckoned, and there may have been less memory */
	descriptors_fill(&claim, object, object->extent.count + object->rings.count);
	ledger_change(object->request.ledger, object->claims[object->claim_sources], &claim);
	if (object->rings.count) {
		memory_fill(&claim, object, rings_memory(&object->rings));
		ledger_change(object->request.ledger, object->claims[object->claim_count - 1],
			      &claim);
	}
	ledger_confirm(object->request.ledger, object->claims, object->claim_count);
}

void claims_change(struct perf_object *object)
{
	struct claim claim;

	if (!object->claims)
		return;
	for (size_t i = 0; i < object->claim_sources; i++) {
		register_fill(&claim, object, i);
		ledger_change(object->request.ledger, object->claims[i], &claim);
	}
}

void claims_disarmed(struct perf_object *object)
{
	size_t kept = object->rings.count ? 1 : 0;

	if (!object->claims)
		return;
	ledger_remove(object->request.ledger, object->claims, object->claim_count - kept);
}

void claims_remove(struct perf_object *object)
{
	if (object->claims)
		ledger_remove(object->request.ledger, object->claims, object->claim_count);
	free(object->claims);
	free(object->claim_cpus);
	object->claims = NULL;
	object->claim_cpus = NULL;
	object->claim_count = object->claim_sources = 0;
}

void claims_name_holder(const struct perf_object *object, int err, struct detail detail)
{
	pid_t tid = object->refused.tid > 0 ? object->refused.tid : 0;
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, tid, tid ? -1 : object->refused.cpu };
	char text[HOLDER_BYTES] = "";
	size_t used = detail.text ? strnlen(detail.text, detail.bytes) : detail.bytes;

	uint64_t taken = err == -WM_E_EVENT_TAKEN ? object->refused_taken : 0;

	if (err == -WM_E_NO_DESCRIPTORS)
		wanted = (struct claim_wanted){ CLAIM_DESCRIPTORS, getpid(), -1 };
	else if (err == -WM_E_MEMORY_LIMIT)
		wanted = (struct claim_wanted){ CLAIM_LOCKED_MEMORY, 0, -1 };
	else if (err != -WM_E_EVENT_TAKEN)
		return;
	if (used + 1 >= detail.bytes || !claim_holder_text_of(&wanted, taken, text, sizeof(text)))
		return;
	snprintf(detail.text + used, detail.bytes - used, "%s%s", used ? "; " : "", text);
}
