/* SPDX-License-Identifier: MIT */
#include "agent/control/detours.h"

#include "agent/marker/careful.h"
#include "agent/store/store.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LET_GO_MS 300

static void tell_refused(unsigned int lane, const struct detour_refusal *refusal)
{
	struct site site = {
		.address = refusal->point,
		.text = refusal->text,
		.text_bytes = (uint32_t)strlen(refusal->text) + 1,
	};
	struct refusal told = { .error = refusal->error, .site = &site };

	memcpy(told.expected, refusal->expected, sizeof told.expected);
	memcpy(told.found, refusal->found, sizeof told.found);
	if (registry_listener)
		registry_listener->refused(lane, &told);
}

/* ---- whether strings may be read ---- */

static int is_filtered(int tasks, const char *name)
{
	char text[2048], path[64];
	const char *line;
	ssize_t got;
	int fd;

	snprintf(path, sizeof path, "%s/status", name);
	fd = (int)kernel_call(SYS_openat, tasks, (long)path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return 0; /* it has ended */
	got = kernel_read(fd, text, sizeof text - 1);
	kernel_close(fd);
	text[got > 0 ? got : 0] = 0;
	line = strstr(text, "\nSeccomp:\t");
	return line && line[10] != '0';
}

/* Threads may have filters of their own. One that gets one is noticed at the next tick. */
static int any_is_filtered(void)
{
	static char list[8192] __attribute__((aligned(8)));
	int tasks = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int found = tasks < 0;
	long bytes;

	while (!found &&
	       (bytes = kernel_call(SYS_getdents64, tasks, (long)list, sizeof list, 0)) > 0) {
		for (long at = 0; at < bytes && !found;) {
			const struct dirent64 *entry = (const void *)(list + at);

			if (entry->d_name[0] != '.')
				found = is_filtered(tasks, entry->d_name);
			at += entry->d_reclen;
		}
	}
	if (tasks >= 0)
		kernel_close(tasks);
	return found;
}

void detours_tick(const struct text *text)
{
	if (detour_any_strings())
		careful_allow(any_is_filtered() ? 0 : kernel_getpid());
	detour_tick(text);
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
	for (uint32_t i = 0; i < place.count; i++) {
		const struct control_detour *record = (const void *)(body + at);
		struct detour_refusal refusal;

		if (detour_place(text, lane, record, record->bytes, &refusal)) {
			change->refused++;
			tell_refused(lane, &refusal);
		} else {
			change->markers++;
		}
		at += record->bytes;
	}
	return 0;
}

static void take_result(struct change *change, const struct detour_result *result,
			unsigned int lane)
{
	change->markers += result->markers;
	change->sites += result->sites;
	change->refused += result->refused;
	if (result->done_ns)
		change->done_ns = result->done_ns;
	change->ticks = store_ticks(lane);
}

int detours_commit(unsigned int lane, const struct text *text, struct change *change)
{
	struct detour_result result = { 0 };
	int error;

	if (detour_any_strings())
		careful_allow(any_is_filtered() ? 0 : kernel_getpid());
	error = detour_commit(text, lane, &result);
	take_result(change, &result, lane);
	return error;
}

void detours_adopted(void)
{
	if (detour_any_strings())
		careful_allow(any_is_filtered() ? 0 : kernel_getpid());
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
