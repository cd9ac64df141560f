/* SPDX-License-Identifier: MIT */
/* What a session's watches came to besides their counts, in words. */
#include "record/session/findings.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "record/watch/watches.h"

#include <signal.h>
#include <string.h>
#include <waymark/error.h>

/* A watch was armed, or is to be: how. */
static void begin_findings(const struct spec *spec, const struct watched_spec *watched,
			   struct findings *list)
{
	if (!watched)
		finding_add(list, "watch-waits", FINDING_NOTE,
			    "waits: no module that is called so is loaded yet")
			->subject = strdup(spec->text);
	if (watched && watched->waits)
		finding_add(list, "watch-waits", FINDING_NOTE, "waiting for %s", watched->waits_for)
			->subject = strdup(spec->text);
	if (watched && watched->outside && watched->why)
		finding_add(list, "watch-outside", FINDING_NOTE, "watched from outside: %s",
			    wm_error_text(watched->why))
			->subject = strdup(spec->text);
	if (spec->watch->options.signal == SIGSTOP) {
		struct finding *finding = finding_add(list, "watch-stops", FINDING_NOTE,
						      "stops the program at each hit");

		finding->subject = strdup(spec->text);
		finding->remedy = "variables and registers there: gdb -p PID, in the frame behind "
				  "<signal handler called>\n  continue it: kill -CONT PID";
	}
}

static void end_findings(const struct watched_list *watches, struct findings *list)
{
	int any = 0;

	for (size_t i = 0; i < watches->count; i++) {
		const struct watched_spec *watched = watches_of(watches, i);

		any |= watched && !watched->is_code && !watched->sees_kernel;
	}
	if (any)
		finding_add(
			list, "watch-kernel", FINDING_NOTE,
			"what the kernel itself writes, as for read(2), is not seen, but by watch:EXPR/kernel/");
	finding_counted(list, "unwatched", watches->unwatched, "process",
			"went on with something unwatched that came later; the first: %s%s%s",
			watches->unwatched_detail, *watches->unwatched_detail ? ": " : "",
			wm_error_text(watches->unwatched_error));
}

void watch_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	const struct watched_list *watches = session->watched;

	if (is_over)
		end_findings(watches, list);
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];
		const struct watched_spec *watched = watches_of(watches, i);
		int error = i < watches->count ? watches->all[i].error : 0;

		if (!spec->watch)
			continue;
		if (!is_over)
			begin_findings(spec, watched, list);
		else if (!watched || !watched->processes)
			finding_add(list, "unwatched", FINDING_FAILURE, "was armed nowhere: %s",
				    error ? wm_error_text(error)
					  : "the program ended before, or went on without")
				->subject = strdup(spec->text);
	}
}
