/* SPDX-License-Identifier: MIT */
#include "inside/engine/places.h"
#include "inside/engine/sys.h"

#define GIVEN_MAX 3u
#define BEING_FILLED 1u /* of `start`: no page, to us and to the tool */

static struct engine_mapping places[PLACES_MAX];
static uint32_t used; /* none is at or behind it */

static struct engine_mapping given[GIVEN_MAX];
static uint32_t given_count;

void places_given(uint64_t start, uint64_t bytes)
{
	if (given_count < GIVEN_MAX)
		given[given_count++] = (struct engine_mapping){ start, bytes };
}

const struct engine_mapping *places_all(void)
{
	return places;
}

void places_add(uint64_t start, uint64_t bytes)
{
	uint32_t now = __atomic_load_n(&used, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < PLACES_MAX; i++) {
		uint64_t none = 0;

		if (__atomic_load_n(&places[i].start, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&places[i].start, &none, BEING_FILLED, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		places[i].bytes = bytes;
		__atomic_store_n(&places[i].start, start, __ATOMIC_RELEASE);
		while (now <= i && !__atomic_compare_exchange_n(&used, &now, i + 1, 0,
								__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		return;
	}
}

/* The next from *i on; it is the one before *i then. */
static struct engine_mapping *next_of(uint32_t *i)
{
	uint32_t end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	while (*i < end) {
		struct engine_mapping *place = &places[(*i)++];

		if (__atomic_load_n(&place->start, __ATOMIC_ACQUIRE) > BEING_FILLED)
			return place;
	}
	return 0;
}

void places_drop(uint64_t start)
{
	struct engine_mapping *place;
	uint32_t i = 0;

	while ((place = next_of(&i)))
		if (place->start == start)
			__atomic_store_n(&place->start, 0, __ATOMIC_RELEASE);
}

/* Behind one another, also where the sum goes round. */
static int is_over(const struct engine_mapping *place, uint64_t start, uint64_t bytes)
{
	uint64_t at = __atomic_load_n(&place->start, __ATOMIC_RELAXED);

	return at >= start ? at - start < bytes : start - at < place->bytes;
}

int places_first(uint64_t start, uint64_t bytes, struct engine_mapping *ours)
{
	const struct engine_mapping *place;
	uint32_t i = 0;

	*ours = (struct engine_mapping){ 0 };
	while ((place = next_of(&i)))
		if (is_over(place, start, bytes) && (!ours->bytes || place->start < ours->start))
			*ours = *place;
	for (i = 0; i < given_count; i++)
		if (is_over(&given[i], start, bytes) &&
		    (!ours->bytes || given[i].start < ours->start))
			*ours = given[i];
	return ours->bytes != 0;
}

int places_meet(uint64_t start, uint64_t bytes)
{
	struct engine_mapping ours;

	return places_first(start, bytes, &ours);
}

int places_begin(uint64_t start)
{
	const struct engine_mapping *place;
	uint32_t i = 0;

	while (start && (place = next_of(&i)))
		if (__atomic_load_n(&place->start, __ATOMIC_RELAXED) == start)
			return 1;
	return 0;
}

void places_vacate(uint64_t kept_bytes)
{
	struct engine_mapping *place;
	uint32_t i = 0;

	while ((place = next_of(&i))) {
		uint64_t start = place->start;

		if (place->bytes == kept_bytes)
			continue;
		__atomic_store_n(&place->start, 0, __ATOMIC_RELEASE);
		sys_call3(SYS_munmap, (long)start, (long)place->bytes, 0);
	}
}
