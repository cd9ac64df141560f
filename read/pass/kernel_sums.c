/* SPDX-License-Identifier: MIT */
#include "read/pass/kernel_sums.h"

#include "base/array.h"
#include "trace/packet_walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "count:"
#define PREFIX_BYTES (sizeof(PREFIX) - 1)
#define THREAD_BYTES 8 /* a pid and a tid are the first two fields */

/* count:A+B+...: a value of each, then the two times. */
static int is_count(const struct trace_class *class)
{
	if (strncmp(class->name, PREFIX, PREFIX_BYTES) != 0 || !class->has_thread ||
	    class->count < 2 + KERNEL_COUNT_VALUES)
		return 0;
	for (uint8_t i = 2; i < class->count; i++)
		if (class->types[i] != WM_TYPE_U64)
			return 0;
	return 1;
}

static int is_throttled(const struct trace_class *class)
{
	return class->has_thread && class->count == 3 && class->types[2] == WM_TYPE_STR &&
	       !strcmp(class->name, "kernel:throttled");
}

int kernel_sums_has(const struct trace_class *class)
{
	return is_count(class) || is_throttled(class);
}

static int is_clock(const char *name, size_t bytes)
{
	const char *modifiers = memchr(name, ':', bytes);

	bytes = modifiers ? (size_t)(modifiers - name) : bytes;
	return (bytes == 9 && !strncmp(name, "cpu-clock", bytes)) ||
	       (bytes == 10 && !strncmp(name, "task-clock", bytes));
}

/* The row of a count; NULL: no room. They take turns, so the next one is likely the one after. */
static struct kernel_count *count_of(struct kernel_sums *sums, const char *name, size_t bytes,
				     uint32_t pid)
{
	struct kernel_count *added;

	if (bytes >= sizeof(added->name))
		bytes = sizeof(added->name) - 1;
	for (size_t i = 0; i < sums->count; i++) {
		struct kernel_count *count = &sums->counts[(sums->next + i) % sums->count];

		if (count->pid != pid || strncmp(count->name, name, bytes) != 0 ||
		    count->name[bytes])
			continue;
		sums->next = (size_t)(count - sums->counts) + 1;
		return count;
	}
	if (sums->count == KERNEL_SUMS_MAX)
		return NULL;
	added = &sums->counts[sums->count++];
	*added = (struct kernel_count){ .pid = pid, .is_time = is_clock(name, bytes) };
	memcpy(added->name, name, bytes);
	return added;
}

/* times: enabled and running. */
static void count_take(struct kernel_count *count, const uint8_t *value, const uint8_t *times)
{
	uint64_t now[KERNEL_COUNT_VALUES];

	memcpy(now, value, sizeof(*now));
	memcpy(now + 1, times, sizeof(now) - sizeof(*now));
	/* it began again: a session that was started twice */
	for (int i = 0; now[1] < count->last[1] && i < KERNEL_COUNT_VALUES; i++)
		count->before[i] += count->last[i];
	memcpy(count->last, now, sizeof(now));
	count->count = count->before[0] + now[0];
	count->enabled_ns = count->before[1] + now[1];
	count->running_ns = count->before[2] + now[2];
}

static void throttle_take(struct kernel_sums *sums, const char *event)
{
	struct kernel_throttle *all = sums->throttles;
	size_t i = 0;

	while (i < sums->throttle_count &&
	       strncmp(all[i].event, event, sizeof(all[i].event) - 1) != 0)
		i++;
	if (i == KERNEL_SUMS_MAX)
		return;
	if (i == sums->throttle_count) {
		all[i] = (struct kernel_throttle){ .times = 0 };
		snprintf(all[sums->throttle_count++].event, sizeof(all[i].event), "%s", event);
	}
	all[i].times++;
}

int kernel_sums_add(struct kernel_sums *sums, const struct trace_class *class,
		    const uint8_t *fields)
{
	const char *name = class->name + PREFIX_BYTES;
	const uint8_t *value = fields + THREAD_BYTES, *times;
	size_t values;

	if (is_throttled(class)) {
		if (array_grow(&sums->throttles, &sums->throttle_room, sums->throttle_count + 1,
			       sizeof(*sums->throttles)))
			return -ENOMEM;
		throttle_take(sums, (const char *)fields + THREAD_BYTES + 1);
		return 0;
	}
	values = class->count - (size_t)KERNEL_COUNT_VALUES - 1;
	times = value + values * sizeof(uint64_t);
	if (array_grow(&sums->counts, &sums->room, sums->count + values, sizeof(*sums->counts)))
		return -ENOMEM;
	for (; value < times; value += sizeof(uint64_t)) {
		size_t bytes = strcspn(name, "+");
		struct kernel_count *count = count_of(sums, name, bytes, load_u32(fields));

		if (count)
			count_take(count, value, times);
		name += bytes + (name[bytes] == '+');
	}
	return 0;
}

int kernel_count_is_scaled(const struct kernel_count *count)
{
	return count->running_ns < count->enabled_ns;
}

double kernel_count_scaled(const struct kernel_count *count)
{
	if (!kernel_count_is_scaled(count))
		return (double)count->count;
	if (!count->running_ns)
		return -1;
	return (double)count->count * ((double)count->enabled_ns / (double)count->running_ns);
}

void kernel_sums_release(struct kernel_sums *sums)
{
	free(sums->counts);
	free(sums->throttles);
	*sums = (struct kernel_sums){ 0 };
}
