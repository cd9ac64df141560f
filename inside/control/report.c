/* SPDX-License-Identifier: MIT */
#include "inside/control/report.h"

#include "base/debug_trace.h"
#include "inside/control/message.h"
#include "inside/control/queue.h"
#include "inside/control/session_table.h"
#include "inside/marker/cost.h"
#include "inside/marker/predicates.h"
#include "inside/marker/sums.h"
#include "inside/store/arena.h"
#include "inside/watch/watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct {
	unsigned int lane; /* whose request is served; SESSIONS_MAX: none */
	uint32_t serial;
} request = { .lane = SESSIONS_MAX };

static uint8_t deaf[SESSIONS_MAX];
/* How long each may still keep us waiting, in what is done now. */
static uint64_t patience_ns[SESSIONS_MAX];

void report_lane_new(unsigned int lane)
{
	deaf[lane] = 0;
}

int report_is_deaf(unsigned int lane)
{
	return deaf[lane];
}

void report_renew(void)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		patience_ns[lane] = MESSAGE_PATIENCE_NS;
}

void report_begin(unsigned int lane, uint32_t serial)
{
	report_renew();
	request.lane = lane;
	request.serial = serial;
}

int report_is_serving(unsigned int lane)
{
	return request.lane == lane;
}

int report_end(void)
{
	unsigned int lane = request.lane;

	report_flush();
	request.lane = SESSIONS_MAX;
	return lane < SESSIONS_MAX && deaf[lane] ? -EPIPE : 0;
}

void report_forked(void)
{
	request.lane = SESSIONS_MAX;
	queue_forked();
}

static unsigned int lane_of_fd(int fd)
{
	unsigned int lane = 0;

	while (lane < SESSIONS_MAX && session_fd(lane) != fd)
		lane++;
	return lane;
}

/* What came of sending to `fd`: one that missed a message is dropped soon. */
static void note_sent(int fd, int error)
{
	unsigned int lane = error ? lane_of_fd(fd) : SESSIONS_MAX;

	if (lane < SESSIONS_MAX)
		deaf[lane] = 1;
}

uint32_t report_flush(void)
{
	int fd = queue_fd();
	uint32_t lanes = 0;

	note_sent(fd, queue_flush());
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		lanes |= (uint32_t)deaf[lane] << lane;
	return lanes;
}

static int report(unsigned int lane, uint16_t type, const void *body, size_t bytes,
		  const void *more, size_t more_bytes)
{
	struct queue_peer peer = { session_fd(lane), &patience_ns[lane] };
	int before = queue_fd();

	/* one that missed a message can make no sense of the rest */
	if (peer.fd < 0 || deaf[lane])
		return -EPIPE;
	note_sent(before, queue_put(&peer, type, lane == request.lane ? request.serial : 0, body,
				    bytes, more, more_bytes));
	return deaf[lane] ? -EPIPE : 0;
}

static void report_event(unsigned int lane, uint32_t id, const struct variant *variant)
{
	static char text[SITE_TEXT_MAX + COST_TEXT_BYTES + SUMS_TEXT_BYTES];
	struct control_event event = { .id = id };
	size_t bytes = variant->sites->text_bytes;
	const struct sum_field *fields;
	struct plan_sums sums;
	int summed = predicates_sums(variant, lane, &fields);

	memcpy(event.types, variant->types, sizeof event.types);
	memcpy(text, variant->sites->text, bytes);
	if (summed >= 0 && !sums_bind(variant, lane, fields, (unsigned int)summed, &sums))
		bytes = sums_declare(&sums, fields, variant->sites->text, event.types, text);
	/* the text of a detour's event has them */
	else if (!variant->record)
		bytes = cost_declare(variant->costs[lane], variant->callers[lane], event.types,
				     text, bytes);
	report(lane, CONTROL_EVENT, &event, sizeof event, text, bytes);
}

static void report_refused(unsigned int lane, const struct refusal *refusal)
{
	static char texts[2 * SITE_TEXT_MAX];
	struct control_refused body = {
		.error = refusal->error,
		.address = refusal->whole ? 0 : refusal->site->address,
	};
	size_t bytes = refusal->site->text_bytes;

	DEBUG_TRACE("agent/report", "lane %d: refused %x: error %d", lane, refusal->site->address,
		    refusal->error);
	memcpy(body.expected, refusal->expected, sizeof refusal->expected);
	memcpy(body.found, refusal->found, sizeof refusal->found);
	memcpy(texts, refusal->site->text, bytes);
	if (refusal->other) {
		memcpy(texts + bytes, refusal->other->text, refusal->other->text_bytes);
		bytes += refusal->other->text_bytes;
	}
	report(lane, CONTROL_REFUSED, &body, sizeof body, texts, bytes);
}

static void report_foreign(unsigned int lane, uint32_t id, uint64_t begin_ns, uint64_t end_ns)
{
	struct control_foreign held = { .id = id, .begin_ns = begin_ns, .end_ns = end_ns };

	DEBUG_TRACE("agent/report", "lane %d: another tool's byte at event %d: ended %d", lane, id,
		    end_ns != 0);
	report(lane, CONTROL_FOREIGN, &held, sizeof held, NULL, 0);
}

/* A module's markers can't be used: say so in the shape of a site's text. */
static void report_unusable(unsigned int lane, const char *path, int error)
{
	struct control_refused refused = { .error = error };
	char text[SITE_TEXT_MAX / 2];
	int bytes = snprintf(text, sizeof text, "mj\n?\n?\n%s\n0\n", path);

	DEBUG_TRACE("agent/report", "lane %d: no markers of %s: error %d", lane, (long)path, error);
	report(lane, CONTROL_REFUSED, &refused, sizeof refused, text, (size_t)bytes + 1);
}

static int unscanned; /* why the modules could not be looked at, the last time; 0: they could */

void report_scanned(int error)
{
	int before = unscanned;

	unscanned = error == -ENOMEM ? error : 0;
	for (unsigned int lane = 0; unscanned && !before && lane < SESSIONS_MAX; lane++)
		if (session_is_open(lane))
			report_unusable(lane, "?", unscanned);
}

static void report_module_to(unsigned int lane, const struct module *module, int gone)
{
	struct control_module body = {
		.base = module->base,
		.build_id_bytes = module->build_id_bytes,
		.gone = (uint8_t)gone,
		.came_ns = module->came_ns,
	};

	DEBUG_TRACE("agent/report", "lane %d: module %s at %x: gone %d, %d sites, error %d", lane,
		    (long)module->path, module->base, gone, module->site_count, module->error);
	memcpy(body.build_id, module->build_id, sizeof body.build_id);
	report(lane, CONTROL_MODULE, &body, sizeof body, module->path, module->path_bytes);
	if (module->error && !gone)
		report_unusable(lane, module->path, module->error);
}

static void report_module(const struct module *module, int gone)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		int follows = session_follows_modules(lane);

		if (!session_is_open(lane) || (!follows && !module->site_count && !module->error))
			continue;
		report_module_to(lane, module, gone);
		if (follows && !gone)
			sessions[lane].unseen++;
	}
}

static void report_watch_lost(unsigned int lane, int error)
{
	struct control_watch_lost body = { .error = error };

	DEBUG_TRACE("agent/report", "lane %d: watches lost: error %d", lane, error);
	report(lane, CONTROL_WATCH_LOST, &body, sizeof body, NULL, 0);
	report_flush();
}

void report_watches(void)
{
	watch_lost = report_watch_lost;
}

_Static_assert(CONTROL_HITS_UNKNOWN == UINT64_MAX, "what arena_hits() says");

const struct registry_listener report_listener = {
	.event = report_event,
	.refused = report_refused,
	.held = report_foreign,
	.module = report_module,
	.flush = report_flush,
};

void report_modules_to(unsigned int lane)
{
	for (const struct module *module = registry_modules(); module; module = module->next) {
		/* the last in the list is the program: it was found first */
		if (module->site_count || module->error || !module->next)
			report_module_to(lane, module, 0);
	}
	if (unscanned)
		report_unusable(lane, "?", unscanned);
}

/* One line for each module that has the marker. Sites of a module follow each other. */
static int report_marker(unsigned int lane, const struct variant *variant)
{
	static char texts[SITE_TEXT_MAX + 4096];
	const struct site *site = variant->sites;
	uint64_t hits = variant->number && site ? arena_hits(variant->number - 1) : 0;
	int error = 0;

	while (site && !error) {
		const struct site *first = site;
		const struct module *module = site->module;
		struct control_marker body = { .hits = hits };
		size_t bytes = first->text_bytes;
		size_t path_bytes = module->path_bytes < 4096 ? module->path_bytes : 4096;

		for (; site && site->module == module; site = site->next) {
			body.sites++;
			/* the end of a scope has no site: it is live when its marker is */
			body.armed += site->armed || (!site->address && variant->lanes);
		}
		memcpy(body.types, variant->types, sizeof body.types);
		memcpy(texts, first->text, bytes);
		memcpy(texts + bytes, module->path, path_bytes);
		error = report(lane, CONTROL_MARKER, &body, sizeof body, texts, bytes + path_bytes);
	}
	return error;
}

int report_list(unsigned int lane)
{
	int error = 0;

	for (const struct variant *variant = registry_first(); variant && !error;
	     variant = variant->next)
		if (!variant->begin)
			error = report_marker(lane, variant);
	return error;
}
