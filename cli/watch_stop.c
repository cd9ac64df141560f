/* SPDX-License-Identifier: MIT */
#include "cli/watch_stop.h"

#include "cli/cli.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"

#include <signal.h>
#include <string.h>

static int has_stop(const struct wm_session *session, size_t spec)
{
	const struct spec *about = &session->specs->all[spec];

	return about->watch && about->watch->options.signal == SIGSTOP;
}

int watch_stops(const struct wm_session *session, const struct wm_event *event)
{
	const char *words = !strncmp(event->name, "watch:", 6) ? event->name + 6 : event->name;

	for (size_t i = 0; i < session->specs->count; i++)
		if (has_stop(session, i) && !strcmp(session->specs->all[i].watch->words, words))
			return 1;
	return 0;
}

/* The function's name, if a shell and gdb take it as it is; else "". */
static const char *plain_function(const struct where *where)
{
	const char *name = where->spot.count ? where->spot.frames[0].function : NULL;

	return name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_:")]
		       ? name
		       : "";
}

void watch_stop_complain(const struct wm_event *event, const struct where *where)
{
	const char *function = plain_function(where);
	char text[WATCH_WHERE_BYTES];

	complain_words("waymark: %s stopped process %u in %s", event->name, event->pid,
		       watch_where_text(where, text, sizeof(text)));
	fprintf(stderr, "\n  variables and registers there: gdb -p %u", event->pid);
	if (*function)
		fprintf(stderr, " -ex 'frame function %s' -ex 'info locals'", function);
	else
		fputs(", in the frame behind <signal handler called>", stderr);
	fprintf(stderr, "\n  continue it: kill -CONT %u\n", event->pid);
}
