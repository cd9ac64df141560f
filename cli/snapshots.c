/* SPDX-License-Identifier: MIT */
#include "cli/snapshots.h"

#include "base/quantity.h"
#include "base/signal_name.h"
#include "cli/cli.h"
#include "cli/folders.h"
#include "record/session/session.h"
#include "record/session/triggers.h"
#include "record/spec/spec.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define HOUR_NS 3600000000000u
#define BYTES_MIN (1u << 20)
/* A burst of triggers may use up so much of what an hour allows; then some time has to go by. */
#define BURST_PARTS 6

static const char *const signal_texts[] = { "signal:USR1", "signal:USR2" };
static volatile sig_atomic_t signals; /* that have come, of snapshots.signal */

static void on_signal(int signal)
{
	(void)signal;
	signals = signals + 1;
}

/* ---- the command line ---- */

int snapshots_read_limit(const char *text, uint64_t min_ns, uint64_t *ns, uint64_t *bytes)
{
	size_t length = strlen(text);

	/* 2m is two minutes, as for every other option, and 2M two megabytes */
	if (length && isupper((unsigned char)text[length - 1]))
		return quantity_size(text, BYTES_MIN, UINT64_MAX, bytes);
	return quantity_time(text, min_ns, ns) ? quantity_size(text, BYTES_MIN, UINT64_MAX, bytes)
					       : 0;
}

int snapshots_read_last(struct snapshots *snapshots, const char *text)
{
	if (!snapshots_read_limit(text, 1, &snapshots->last_ns, &snapshots->last_bytes))
		return CLI_FINE;
	return complain_usage("record",
			      "--last takes a time, as 30s, or a size of 1M or more, as 256M, "
			      "not %s",
			      text);
}

static int read_one(struct snapshots *snapshots, const char *text, int has_command)
{
	static const char of_signal[] = "signal:";

	if (!strcmp(text, "exit")) {
		snapshots->at_exit = 1;
		return CLI_FINE;
	}
	if (!strcmp(text, "crash")) {
		snapshots->at_crash = 1;
		return has_command ? CLI_FINE
				   : complain_usage("record",
						    "--on crash is for a program that is started: "
						    "how another ended is unknown");
	}
	if (strncmp(text, of_signal, strlen(of_signal)) != 0)
		return command_line_text(text, &snapshots->specs) ? CLI_FAILED : CLI_FINE;
	if (snapshots->signal)
		return complain_usage("record", "--on signal: can be given once");
	snapshots->signal = signal_name_read(text + strlen(of_signal));
	return snapshots->signal == SIGUSR1 || snapshots->signal == SIGUSR2
		       ? CLI_FINE
		       : complain_usage(
				 "record",
				 "with --last, --on signal: takes USR1 or USR2, which are sent "
				 "to waymark itself, not %s",
				 text + strlen(of_signal));
}

int snapshots_read_on(struct snapshots *snapshots, const struct command_texts *on, int has_command)
{
	struct sigaction action = { .sa_handler = on_signal };

	if (!snapshots->per_hour)
		snapshots->per_hour = SNAPSHOTS_AN_HOUR;

	for (size_t i = 0; i < on->count; i++) {
		int status = read_one(snapshots, on->all[i], has_command);

		if (status != CLI_FINE)
			return status;
	}
	snapshots->at_exit |= !on->count;
	if (snapshots->signal)
		sigaction(snapshots->signal, &action, NULL);
	return CLI_FINE;
}

/* ---- the recording ---- */

int snapshots_begin(struct snapshots *snapshots, struct wm_session *session)
{
	int err = 0;

	for (size_t i = 0; i < snapshots->specs.count && !err; i++)
		err = session_trigger_add(session, snapshots->specs.all[i]);
	return err ? err
		   : wm_session_keep(session,
				     snapshots->last_bytes ? snapshots->last_bytes
							   : SNAPSHOTS_BYTES,
				     snapshots->last_ns);
}

static const char *text_of(const struct wm_session *session, unsigned int trigger)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (session->specs->all[i].trigger == trigger)
			return session->specs->all[i].text;
	return "";
}

/* Whether fewer than `most` were taken in the last `time_ns`; most 0: any. */
static int has_room(const struct snapshots *snapshots, uint64_t most, uint64_t time_ns,
		    uint64_t now_ns)
{
	uint64_t before_ns;

	if (!most || snapshots->taken < most)
		return 1;
	before_ns = snapshots->taken_ns[(snapshots->taken - most) % SNAPSHOTS_AN_HOUR_MAX];
	return now_ns - before_ns >= time_ns;
}

const char *snapshots_due(struct snapshots *snapshots, const struct wm_session *session)
{
	uint64_t now_ns = ticks_monotonic_ns(),
		 fresh = session->triggers->hits - snapshots->hits_seen;
	int count = signals - snapshots->signals_seen;

	snapshots->hits_seen += fresh;
	snapshots->signals_seen += count;
	fresh += (uint64_t)count;
	if (!fresh)
		return NULL;
	if (!has_room(snapshots, snapshots->per_hour, HOUR_NS, now_ns) ||
	    !has_room(snapshots, (snapshots->per_hour + BURST_PARTS - 1) / BURST_PARTS,
		      HOUR_NS / BURST_PARTS, now_ns)) {
		snapshots->passed_over += fresh;
		return NULL;
	}
	snapshots->passed_over += fresh - 1;
	snapshots->taken_ns[snapshots->taken++ % SNAPSHOTS_AN_HOUR_MAX] = now_ns;
	return count ? signal_texts[snapshots->signal == SIGUSR2]
		     : text_of(session, session->triggers->last);
}

int snapshots_write(struct snapshots *snapshots, struct folders *folders,
		    struct wm_session *session, const char *why)
{
	const char *name = folders_next(folders);
	uint64_t kept_ns = session_kept_ns(session);
	int err = wm_session_snapshot(session, name);

	if (err) {
		snapshots->failed++;
		folders_failed(folders);
		complain(err, "%s: the snapshot %s", why, wm_session_detail(session));
		return err;
	}
	folders_took(folders);
	folders_prune(folders);
	complain_words("waymark: %s: the last %.1f s are in %s\n", why, (double)kept_ns / 1e9,
		       name);
	return 0;
}

int snapshots_at_end(const struct snapshots *snapshots, int has_crashed)
{
	return snapshots->at_exit || (snapshots->at_crash && has_crashed);
}
