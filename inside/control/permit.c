/* SPDX-License-Identifier: MIT */
#include "inside/control/permit.h"

#include "base/kernel.h"
#include "inside/runtime/tasks.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"

#include <fcntl.h>
#include <stdio.h>

#define AGAIN_MS_MIN 1
#define AGAIN_MS_MAX 16 /* while no thread asks: 60 wakes a second, under the block policy alone */

struct round {
	int tasks;
	int asked;
};

/* By its number in its own namespace, whatever /proc counts in. */
static int is_free_of_filters(const struct round *round, int32_t tid)
{
	static char status[TASKS_STATUS_BYTES];
	const char *mode;
	char name[16];

	snprintf(name, sizeof name, "%d", (int)tid);
	if (tasks_read_status(round->tasks, name, status))
		return 0;
	mode = tasks_value(status, "\nSeccomp:");
	return mode[0] == '0' && mode[1] == '\n' &&
	       tasks_last_number(tasks_value(status, "\nNSpid:")) == tid;
}

static void answer(struct writer *writer, void *data)
{
	uint32_t permit = __atomic_load_n(&writer->permit, __ATOMIC_ACQUIRE);
	struct round *round = data;
	int is_free;

	if ((permit & PERMIT_STATE) != PERMIT_ASKED)
		return;
	round->asked++;
	if (round->tasks < 0)
		round->tasks = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_free = round->tasks >= 0 && is_free_of_filters(round, writer->tid);
	__atomic_compare_exchange_n(&writer->permit, &permit,
				    permit - PERMIT_ASKED +
					    (is_free ? PERMIT_GIVEN : PERMIT_REFUSED),
				    0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

int permits_give(void)
{
	static int again_ms = AGAIN_MS_MAX;
	struct round round = { .tasks = -1 };

	if (!store_any_blocks())
		return -1;
	arena_each(answer, &round);
	if (round.tasks >= 0)
		kernel_close(round.tasks);
	again_ms = round.asked ? AGAIN_MS_MIN : again_ms * 2;
	again_ms = again_ms < AGAIN_MS_MAX ? again_ms : AGAIN_MS_MAX;
	return again_ms;
}
