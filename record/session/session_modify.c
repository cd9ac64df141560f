/* SPDX-License-Identifier: MIT */
/* Replace a watch of a session while it runs. */
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/watch/change_watch.h"
#include "target/process/call.h"

#include <errno.h>
#include <string.h>

static int find_watch(const struct wm_session *session, const char *spec, size_t *index)
{
	for (*index = 0; *index < session->specs->count; ++*index)
		if (session->specs->all[*index].watch &&
		    !strcmp(session->specs->all[*index].text, spec))
			return 0;
	return -ENOENT;
}

int wm_session_modify(struct wm_session *session, const char *spec, const char *to,
		      struct wm_kevent_gap *gap)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_kevent_gap reported = { .size = gap ? gap->size : 0 };
	size_t index;
	int err = spec && to ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	session->detail[0] = 0;
	if (gap && gap->size < sizeof(gap->size))
		return session_fail(session, -EINVAL, "gap.size: %zu", gap->size);
	if (!session->running)
		return session_fail(session, -EINVAL, "the session does not run");
	if (find_watch(session, spec, &index))
		return session_fail(session, -ENOENT, "%s", spec);
	err = change_watch(session, index, to, &reported);
	if (gap)
		memcpy(gap, &reported,
		       reported.size < sizeof(reported) ? reported.size : sizeof(reported));
	return err;
}
