/* SPDX-License-Identifier: MIT */
/* Drain the stores of a session's processes into its trace. */
#include "record/drain/watermark.h"
#include "record/handler/handler_file.h"
#include "record/probe/probes.h"
#include "record/session/adopt.h"
#include "record/session/life.h"
#include "record/session/process.h"
#include "record/session/triggers.h"
#include "record/session/unrecorded.h"
#include "record/watch/watching.h"
#include "trace/writer.h"

#include <errno.h>
#include <poll.h>
#include <waymark/error.h>

#define IDLE_NS_MIN 1000000u

struct receiver {
	struct wm_session *session;
	struct process *process;
};

static int packet_write(struct drain_packet *packet, void *data)
{
	struct receiver *to = data;
	struct wm_session *session = to->session;
	int err = session->trace_error;

	if (!session->writer)
		return -ECANCELED;
	/* the messages that declare its events were not all read */
	if (to->process->is_dropped && packet->events &&
	    !trace_packet_is_declared(session->writer, to->process->trace, packet->content,
				      packet->bytes))
		return -WM_E_GONE;
	if (!err)
		err = process_trace(session, to->process);
	if (!err)
		err = adopt_declare(session, to->process);
	if (!err)
		err = trace_packet_write(session->writer, to->process->trace, packet->head,
					 packet->content, packet->bytes, packet->events);
	if (err < 0 && err != -WM_E_GONE && !session->trace_error)
		session->trace_error = err;
	if (err >= 0)
		triggers_look(session, to->process->trace, packet->content, packet->bytes);
	return err < 0 ? err : 0;
}

/*
 * A flight recorder takes no page before its end. But its passes free the slots of ended threads:
 * a store has few, and a recording may last for days.
 */
static int session_sweeps(const struct wm_session *session)
{
	return session->writer && session->options.policy == WM_POLICY_CYCLIC && session->parts_due;
}

static int session_drains(const struct wm_session *session)
{
	if (!session->writer || session->options.policy == WM_POLICY_CYCLIC)
		return 0;
	return session->options.policy != WM_POLICY_NOTIFY || watermark_told(session->watermark);
}

/* Drain a process's store; `reach` as for drain_scan(). */
static int session_drain(struct wm_session *session, struct process *process,
			 enum drain_reach reach)
{
	struct receiver receiver = { session, process };
	struct drain_sink sink = { packet_write, &receiver };
	int err;

	if (reach == DRAIN_READY && session->parts_due)
		reach = DRAIN_PARTS;
	process->is_drained = 1;
	/*
	 * an agent declares event ids before it writes them: read these messages before taking the
	 * pages
	 */
	if (drain_scan(process->drain, reach) || reach != DRAIN_READY)
		messages_pump(session, process);
	err = drain_take(process->drain, &sink);
	process->is_drained = 0;
	return session->writer ? err : 0;
}

int drain_session_finish(struct wm_session *session, struct process *process)
{
	struct receiver receiver = { session, process };
	struct drain_sink sink = { packet_write, &receiver };
	int err = 0, more;

	watching_end(session, process);
	life_end(session, process);
	if (session->writer && process->trace >= 0)
		trace_process_over(session->writer, process->trace);
	if (process->drain) {
		unrecorded_add_unreached(session, process);
		drain_expect_end(process->drain);
		err = session_drain(session, process, DRAIN_ALL);
		probe_ended(session, process);
		handlers_ended(session, process);
		more = drain_finish(process->drain, &sink);
		if (err >= 0)
			err = session->writer ? more : 0;
		drain_count_add(process->drain, &session->past);
		if (session->watermark)
			watermark_remove(session->watermark, process->drain);
		drain_free(process->drain);
		process->drain = NULL;
	}
	return err < 0 ? err : 0;
}

/* Whether there may be unread messages, which might declare ids that are in the process's pages. */
static int has_said_more(const struct process *process)
{
	struct pollfd ready = { .fd = process->link.fd, .events = POLLIN };

	return process->is_pumped || (process->link.fd >= 0 && poll(&ready, 1, 0) != 0);
}

void drain_session_aside(struct wm_session *session, struct process *process)
{
	struct receiver receiver = { session, process };
	struct drain_sink sink = { packet_write, &receiver };

	if (!session_drains(session) || process->is_drained)
		return;
	drain_scan(process->drain, DRAIN_READY);
	if (!has_said_more(process))
		drain_take(process->drain, &sink);
}

/*
 * For how long to leave a store alone that gave `taken` bytes in the last `elapsed_ns`: at that
 * rate, an eighth of it fills meanwhile.
 */
static uint64_t rest_ns(const struct drain *drain, uint64_t taken, uint64_t elapsed_ns)
{
	uint64_t eighth = drain_buffer_bytes(drain) / 8;
	double rest;

	if (taken > eighth)
		return 0;
	rest = (double)elapsed_ns * (double)eighth / (double)taken;
	return rest < IDLE_NS_MIN	    ? IDLE_NS_MIN
	       : rest < SESSION_IDLE_NS_MAX ? (uint64_t)rest
					    : SESSION_IDLE_NS_MAX;
}

int drain_session_all(struct wm_session *session)
{
	uint64_t now_ns = ticks_monotonic_ns(), elapsed_ns = now_ns - session->drained_ns;
	uint64_t idle_ns = session->idle_ns * 2 < SESSION_IDLE_NS_MAX
				   ? session->idle_ns * 2 + IDLE_NS_MIN / 4
				   : SESSION_IDLE_NS_MAX;
	int drains = session_drains(session), took = 0;

	session->parts_due = now_ns - session->parts_ns >= SESSION_PARTS_NS;
	if (session->parts_due)
		session->parts_ns = now_ns;
	for (struct process *p = session->processes; p; p = p->next) {
		struct drain_counts before, after;
		uint64_t rest;

		if (!p->drain)
			continue;
		/* without a folder, wm_session_read() takes what a dead process left */
		if (session_is_final(session, p) && session->writer) {
			drain_session_finish(session, p);
			p->state = PROCESS_OVER; /* HUNG_UP -> OVER */
			took = 1;
			continue;
		}
		if (session_sweeps(session))
			session_drain(session, p, DRAIN_READY);
		if (!drains)
			continue;
		drain_count(p->drain, &before);
		session_drain(session, p, p->arming == PROCESS_QUIET ? DRAIN_ALL : DRAIN_READY);
		drain_count(p->drain, &after);
		if (after.bytes == before.bytes)
			continue;
		took = 1;
		rest = rest_ns(p->drain, after.bytes - before.bytes, elapsed_ns);
		idle_ns = rest < idle_ns ? rest : idle_ns;
	}
	if (drains && session->watermark)
		watermark_wind(session->watermark);
	session->idle_ns = idle_ns;
	session->drained_ns = now_ns;
	return took;
}
