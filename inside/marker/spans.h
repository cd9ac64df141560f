/* SPDX-License-Identifier: MIT */
/*
 * Spans of markers that are one event, at their end, with the begin's fields, the end's and the
 * duration: for a session one of whose specs names `duration`. Such an event is a variant of its
 * own, whose site has no address. Begin and end are armed with it. A begin leaves its fields and
 * its time in the thread's struct spans, and the end of the same name that comes next takes the
 * last of them. That gives the pairs that a reader would make, but of the SPANS_OPEN_MAX last
 * begins. Under the agent's lock.
 */
#ifndef INSIDE_MARKER_SPANS_H
#define INSIDE_MARKER_SPANS_H

struct variant;

#define SPAN_KIND 'S' /* of the variant; no site has it */

/*
 * Make the variants of all spans whose begins and ends are known and which some spec of the session
 * wants as one event. 0 or -ENOMEM.
 */
int spans_make(unsigned int lane);

/*
 * Whether this is a begin or an end whose span the session wants as one event: then it is armed for
 * that alone, or it is an event too, which other specs want.
 */
enum span_half { SPAN_NO_HALF, SPAN_HALF, SPAN_HALF_TOO };
enum span_half span_half(const struct variant *variant, unsigned int lane);

/* Whether begin, end and duration have room in an event and in struct kept. 0 or -ENOTSUP. */
int span_check(const struct variant *span, unsigned int lane);

#endif
