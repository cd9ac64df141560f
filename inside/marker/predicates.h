/* SPDX-License-Identifier: MIT */
/*
 * Predicates (abi/predicate.h) of events: which session wants which at a marker, their binding to
 * the fields of one event, and how a hit tests them.
 */
#ifndef INSIDE_MARKER_PREDICATES_H
#define INSIDE_MARKER_PREDICATES_H

#include "abi/predicate.h"
#include "inside/marker/plan.h"

#include <stdint.h>

struct variant;

/*
 * A spec of a session: at the markers that its glob matches it wants the hits for which all of
 * these hold; without any, all hits. It wants events, or with sum_count >= 0 their sums. The glob
 * was checked (rule.h), the predicates and sums too. 0, -ENOMEM, or -E2BIG past
 * PREDICATE_RULES_MAX. Under the agent's lock, as all that concerns rules.
 */
#define PREDICATE_RULES_MAX 4096
int predicates_add(unsigned int lane, const char *glob, const struct predicate *predicates,
		   unsigned int count, const struct sum_field *sums, int sum_count);

void predicates_clear(unsigned int lane);

/*
 * Whether a session wants the marker at all: it has no specs here that take its name, or one of
 * them takes its level, too.
 */
int predicates_want(const struct variant *variant, unsigned int lane);

/*
 * Fill in the tests that a session's hits at an event have to pass. Returns how many; 0: it wants
 * all hits. -WM_E_NO_PARAMETER: a field is not there; -WM_E_FIELD_TYPE: it can't be compared so;
 * -WM_E_EVENT_ROOM: too many specs take this event.
 */
int predicates_bind(const struct variant *variant, unsigned int lane,
		    struct plan_test tests[PLAN_TESTS_MAX]);

/*
 * How many fields of sums a session wants in place of an event, and which. -ENOENT: it wants
 * events; -EEXIST: the event is of another spec of the session, too.
 */
int predicates_sums(const struct variant *variant, unsigned int lane,
		    const struct sum_field **fields);

/*
 * Whether a session wants the span of this begin or end, or this span, as one event: some spec that
 * takes it names `duration`, which is no field of the marker's own (spans.h).
 */
int predicates_span(const struct variant *variant, unsigned int lane);

/* Then: whether no other spec takes the begin or end. */
int predicates_span_alone(const struct variant *variant, unsigned int lane);

/*
 * Whether a hit passes the tests of one session. A string that can't be read passes none, and is
 * counted in the session's store. Hit path.
 */
struct writer;
int predicates_hold(const struct writer *writer, const struct plan *plan,
		    const struct plan_consumer *consumer, const unsigned char *payload)
	__attribute__((no_caller_saved_registers, noinline));

#endif
