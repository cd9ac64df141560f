/* SPDX-License-Identifier: MIT */
#include "agent/trail/places.h"
#include "agent/trail/sys.h"

#define PLACES_MAX 16384u /* what is beyond is not known to be ours */
#define BEING_FILLED 1u

static struct place {
	uint64_t start; /* 0: none */
	uint64_t bytes : 63, is_chosen : 1;
} places[PLACES_MAX];
static uint32_t used; /* none is at or behind it */

void places_add(uint64_t start, uint64_t bytes, int is_chosen)
{
	uint32_t now = __atomic_load_n(&used, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < PLACES_MAX; i++) {
		uint64_t none = 0;

		if (__atomic_load_n(&places[i].start, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&places[i].start, &none, BEING_FILLED, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		places[i].bytes = bytes & INT64_MAX;
		places[i].is_chosen = is_chosen & 1;
		__atomic_store_n(&places[i].start, start, __ATOMIC_RELEASE);
		while (now <= i && !__atomic_compare_exchange_n(&used, &now, i + 1, 0,
								__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		return;
	}
}

static struct place *first_from(uint32_t *i)
{
	uint32_t end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	while (*i < end) {
		struct place *place = &places[(*i)++];

		if (__atomic_load_n(&place->start, __ATOMIC_ACQUIRE) > BEING_FILLED)
			return place;
	}
	return 0;
}

void places_drop(uint64_t start)
{
	struct place *place;
	uint32_t i = 0;

	while ((place = first_from(&i)))
		if (place->start == start)
			__atomic_store_n(&place->start, 0, __ATOMIC_RELEASE);
}

int places_meet(uint64_t start, uint64_t bytes)
{
	const struct place *place;
	uint32_t i = 0;

	while ((place = first_from(&i))) {
		uint64_t at = __atomic_load_n(&place->start, __ATOMIC_RELAXED);

		/* Behind one another, also where the sum goes round. */
		if (at >= start ? at - start < bytes : start - at < place->bytes)
			return 1;
	}
	return 0;
}

int places_begin(uint64_t start)
{
	const struct place *place;
	uint32_t i = 0;

	while (start && (place = first_from(&i)))
		if (__atomic_load_n(&place->start, __ATOMIC_RELAXED) == start)
			return 1;
	return 0;
}

void places_vacate(void)
{
	const struct place *place;
	uint32_t i = 0;

	while ((place = first_from(&i)))
		if (place->is_chosen)
			sys_call3(SYS_munmap, (long)place->start, (long)place->bytes, 0);
}
