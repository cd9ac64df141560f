/* SPDX-License-Identifier: MIT */
/* Calling a program's own handlers from a hit. */
#ifndef INSIDE_MARKER_HANDLER_CALL_H
#define INSIDE_MARKER_HANDLER_CALL_H

struct writer;
struct plan;

struct probe_call {
	struct writer *writer;
	const struct plan *plan;
	const unsigned char *payload;
	int depth;
};

/*
 * Call each probe of call->plan, except those that this thread is running already. Ordinary code
 * that calls ordinary code: by way of vectors_call(), with the probe_call as its argument. Returns
 * 0.
 */
long handler_probe_call(void *call);

/*
 * ThreadSanitizer does not see how a handler comes to run. These two report the order to it: the
 * code before wm_probe_add() happens before the handler, and the handler happens before
 * wm_probe_remove() returns.
 */
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));
extern char probe_added, probe_ran; /* their addresses alone */

static inline void probe_order_before(char *address)
{
	if (__tsan_release)
		__tsan_release(address);
}

static inline void probe_order_after(char *address)
{
	if (__tsan_acquire)
		__tsan_acquire(address);
}

#endif
