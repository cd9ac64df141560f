/* SPDX-License-Identifier: MIT */
/* Calling a program's own handlers from a hit. */
#ifndef AGENT_PROBE_CALL_H
#define AGENT_PROBE_CALL_H

struct writer;
struct plan;

struct probe_call {
	struct writer *writer;
	const struct plan *plan;
	const unsigned char *payload;
	int depth;
};

/*
 * Call each probe of call->plan, but for those that this thread is running already. Ordinary code that
 * calls ordinary code: by way of vectors_call(), with the probe_call as its argument. Returns 0.
 */
long probe_call(void *call);

#endif
