/* SPDX-License-Identifier: MIT */
/* What a hit does with predicates: no libc, no vector registers; nothing is written to a page. */
#include "arch/cpu_number.h"
#include "base/condition.h"
#include "base/text_glob.h"
#include "inside/marker/caller_modules.h"
#include "inside/marker/careful.h"
#include "inside/marker/predicates.h"
#include "inside/store/thread_writer.h"

#include <stddef.h>

#define WINDOW_BYTES 192u
/* A glob looks back by no more than its own length: text_glob.h. */
#define BEHIND_BYTES PREDICATE_TEXT_BYTES

struct text {
	uintptr_t from;
	int is_careful;
	uint32_t start, have; /* of the text, what is in the window */
	unsigned char window[WINDOW_BYTES];
};

/* As far as an event has it: what is past FIELD_BYTES_MAX is cut there, too. */
static int byte_at(void *data, uint32_t at)
{
	struct text *text = data;
	long got;

	if (at >= FIELD_BYTES_MAX)
		return 0;
	if (!text->is_careful)
		return *(const volatile unsigned char *)(text->from + at);
	if (at - text->start >= text->have) {
		text->start = at > BEHIND_BYTES ? at - BEHIND_BYTES : 0;
		text->have = 0;
		got = careful_read_some(text->window, text->from + text->start, WINDOW_BYTES);
		if (got <= (long)(at - text->start))
			return -1;
		text->have = (uint32_t)got;
	}
	return text->window[at - text->start];
}

/* 1, 0; -1: it can't be read. NULL is no text: nothing holds for it. */
static int text_holds(const struct plan_test *test, uintptr_t from, int is_careful)
{
	struct text text;
	int matches;

	if (!from)
		return 0;
	text.from = from;
	text.is_careful = is_careful;
	text.start = text.have = 0;
	matches = text_glob_match(test->glob, byte_at, &text);
	return matches < 0 ? -1 : matches == (test->condition.by == WATCH_BY_EQUAL);
}

/* Of inside/detour/return.h, which is above; a test of this room alone links without it. */
extern uintptr_t return_original(uintptr_t address) __attribute__((weak, visibility("hidden")));

/* Whether the function returns into code of the modules: the call is before that address. */
static int caller_is_in(const struct plan_test *test, uintptr_t address)
{
	uintptr_t behind = return_original ? return_original(address) : 0;

	return caller_modules_have(test->callers, (behind ? behind : address) - 1) ==
	       (test->condition.by == WATCH_BY_EQUAL);
}

static int test_holds(const struct writer *writer, const struct plan_test *test,
		      const unsigned char *payload, int is_careful)
{
	uint64_t value;

	switch (test->of) {
	case PREDICATE_OF_tid:
		value = (uint32_t)writer->tid;
		break;
	case PREDICATE_OF_cpu:
		value = cpu_number();
		break;
	case PREDICATE_OF_pid:
		value = (uint32_t)writer->pid;
		break;
	case PREDICATE_OF_comm:
		return text_holds(test, (uintptr_t)writer->comm, 0);
	default:
		/* may read past the payload, but never past the stack that holds it */
		__builtin_memcpy(&value, payload + test->offset, sizeof value);
	}
	if (test->of == PREDICATE_OF_caller)
		return caller_is_in(test, (uintptr_t)value);
	if (test->is_text)
		return text_holds(test, (uintptr_t)value, is_careful);
	if (test->is_range)
		return plan_range_holds(&test->range, value);
	if (test->bytes < 8)
		value &= (UINT64_C(1) << 8 * test->bytes) - 1;
	return condition_holds(&test->condition, 0, value, test->bytes, 0);
}

int predicates_hold(const struct writer *writer, const struct plan *plan,
		    const struct plan_consumer *consumer, const unsigned char *payload)
{
	const struct plan_test *test = plan->tests + consumer->first_test;
	int all = 1, unreadable = 0;
	struct wm_store *head;

	for (unsigned int i = 0; i < consumer->test_count; i++, test++) {
		int holds = all ? test_holds(writer, test, payload, plan->is_careful) : 0;

		unreadable |= holds < 0;
		all = holds > 0;
		if (!test->is_last)
			continue;
		if (all)
			return 1;
		all = 1; /* the next spec's begin */
	}
	if (!unreadable)
		return 0;
	/* none in a child that a handler forked, and that returned here */
	head = __atomic_load_n(&stores[consumer->lane].head, __ATOMIC_RELAXED);
	if (head)
		__atomic_fetch_add(&head->unreadable, 1, __ATOMIC_RELAXED);
	return 0;
}
