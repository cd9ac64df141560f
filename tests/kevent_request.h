/* SPDX-License-Identifier: MIT */
/* Requests of the tests of kernel event objects, on words of the test's own. */
#ifndef KEVENT_REQUEST_H
#define KEVENT_REQUEST_H

#include "failures.h"

#include <stdint.h>
#include <sys/types.h>
#include <waymark/error.h>
#include <waymark/session.h>

static volatile uint64_t words[8] __attribute__((aligned(64)));

static inline void answers(const char *what, int got, int wanted, const char *detail)
{
	if (got != wanted)
		wrong("%s: %s (%s), expected %s", what, wm_error_text(got), detail,
		      wm_error_text(wanted));
}

static inline struct wm_kevent_source source(enum wm_kevent_kind kind, unsigned int word,
					     uint32_t bytes)
{
	return (struct wm_kevent_source){ .size = sizeof(struct wm_kevent_source),
					  .kind = kind,
					  .bytes = bytes,
					  .address = (uint64_t)(uintptr_t)&words[word],
					  .what = "watch:words" };
}

static inline struct wm_kevent_request request(pid_t pid, const struct wm_kevent_source *sources,
					       unsigned int count, uint32_t flags)
{
	return (struct wm_kevent_request){ .size = sizeof(struct wm_kevent_request),
					   .scope = WM_KEVENT_SCOPE_PROCESS,
					   .flags = flags,
					   .pid = pid,
					   .source_count = count,
					   .sources = sources };
}

#endif
