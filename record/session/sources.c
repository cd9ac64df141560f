/* SPDX-License-Identifier: MIT */
#include "record/session/sources.h"

#include "record/session/session.h"
#include "record/spec/spec.h"

/*
 * In the order in which they begin: the kernel's events first, so that there are switches for all
 * that threads record; handlers before what they judge; watches once libc's guards (abi/detour.h)
 * are placed; a trail last, since its recorder has to know what is armed.
 */
const struct source *const sources[SOURCES] = { &kernel_source, &handler_source, &marker_source,
						&probe_source,	&watch_source,	 &trail_source };

const struct source *source_of(const struct spec *spec)
{
	FOR_SOURCES(source, owns)
		if (source->owns(spec))
			return source;
	return NULL;
}

size_t sources_wait(const struct wm_session *session, struct pollfd *list, size_t room)
{
	size_t count = 0;

	FOR_SOURCES(source, waits)
		count += source->waits(session, count < room ? list + count : NULL,
				       count < room ? room - count : 0);
	return count;
}

int sources_alive(const struct wm_session *session)
{
	int count = 0;

	FOR_SOURCES(source, alive)
		count += source->alive(session);
	return count;
}

int sources_running(const struct wm_session *session, pid_t pid)
{
	int count = 0;

	FOR_SOURCES(source, running)
		count += source->running(session, pid);
	return count;
}

int sources_need_agent(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct source *source = source_of(&session->specs->all[i]);

		if (source && source->has_agent)
			return 1;
	}
	return 0;
}
