/* SPDX-License-Identifier: MIT */
#include "inside/control/detours.h"

#include "base/kernel.h"
#include "inside/control/stopper_client.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/marker/careful.h"
#include "inside/marker/cost.h"
#include "inside/runtime/seccomp_yield.h"
#include "inside/runtime/tasks.h"
#include "inside/store/event_store.h"
#include "inside/watch/watch.h"

#include <waymark/error.h>

#include <string.h>

#define LET_GO_MS 300

static void report_refused(unsigned int lane, const struct detour_refusal *refusal)
{
	struct site site = {
		.address = refusal->point,
		.text = refusal->text,
		.text_bytes = (uint32_t)strlen(refusal->text) + 1,
	};
	struct refusal reported = { .error = refusal->error, .site = &site };

	memcpy(reported.expected, refusal->expected, sizeof reported.expected);
	memcpy(reported.found, refusal->found, sizeof reported.found);
	if (registry_listener)
		registry_listener->refused(lane, &reported);
}

/* ---- whether strings and counts may be read ---- */

/* Threads may have filters of their own. One that gets one is noticed at the next tick. */
static int is_filtered(const char *status)
{
	const char *mode = tasks_value(status, "\nSeccomp:");

	return *mode && *mode != '0';
}

/* Than the tool, which tried what counts need. */
static int has_more_filters(const char *status)
{
	const char *number = tasks_value(status, "\nSeccomp_filters:");

	if (!*number) /* before Linux 5.9 */
		return is_filtered(status);
	return tasks_last_number(number) > (long)cost_filters();
}

void detours_allow(void)
{
	seccomp_yield_forget();
	careful_allow(seccomp_yield_is_asked() || tasks_any(is_filtered) ? 0 : kernel_getpid());
	cost_allow(cost_kinds() && !seccomp_yield_is_asked() && !tasks_any(has_more_filters));
}

void detours_tick(const struct text *text)
{
	if (detour_any_careful() || watch_any() || cost_any())
		detours_allow();
	watch_tick();
	detour_tick(text);
	stopper_tick();
}

/* Whether the message is its records, one behind the other: else nothing of it is placed. */
static int are_whole(const char *body, size_t bytes, uint32_t count)
{
	size_t at = sizeof(struct control_place);

	for (uint32_t i = 0; i < count; i++) {
		const struct control_detour *record = (const void *)(body + at);

		if (bytes - at < sizeof *record || record->bytes < sizeof *record ||
		    record->bytes % 8 || record->bytes > bytes - at)
			return 0;
		at += record->bytes;
	}
	return at == bytes;
}

int detours_place(unsigned int lane, const struct text *text, const char *body, size_t bytes,
		  struct change *change)
{
	struct control_place place;
	size_t at = sizeof place;

	if (bytes < sizeof place)
		return -WM_E_PROTOCOL;
	memcpy(&place, body, sizeof place);
	if (!are_whole(body, bytes, place.count))
		return -WM_E_PROTOCOL;
	for (uint32_t i = 0; i < place.count;) {
		const struct control_detour *records = (const void *)(body + at), *record = records;
		struct detour_refusal refusal;
		unsigned int count = 0;

		/* one event's choices */
		do {
			at += record->bytes;
			record = (const void *)(body + at);
			count++;
		} while (i + count < place.count && record->flags & DETOUR_ELSE);
		i += count;
		if (detour_place(text, lane, records, count, &refusal)) {
			change->refused++;
			report_refused(lane, &refusal);
		} else {
			change->markers++;
		}
	}
	return 0;
}

static void take_result(struct change *change, const struct detour_result *result,
			unsigned int lane)
{
	change->markers += result->markers;
	change->sites += result->sites;
	change->refused += result->refused;
	change->unsafe += result->unsafe;
	if (result->done_ns)
		change->done_ns = result->done_ns;
	change->ticks = store_ticks(lane);
}

int detours_commit(unsigned int lane, const struct text *text, struct change *change)
{
	struct detour_result result = { 0 };
	int error;

	if (detour_any_careful())
		detours_allow();
	error = detour_commit(text, lane, &result);
	take_result(change, &result, lane);
	return error;
}

void detours_adopted(const struct text *text)
{
	if (detour_any_careful())
		detours_allow();
	/*
	 * another tool's byte may be in place since the fork, and the child may end before the next
	 * look
	 */
	foreign_bytes_look(text);
}

void detours_let_go(unsigned int lane, const struct text *text, struct change *change)
{
	struct detour_result result = { 0 };

	detour_release(lane);
	detour_disarm_idle(text, LET_GO_MS, &result);
	change->sites += result.sites;
	if (result.done_ns)
		change->done_ns = result.done_ns;
}
