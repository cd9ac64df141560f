/* SPDX-License-Identifier: MIT */
#include "inside/watch/masks.h"

#include "base/kernel.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/tasks.h"
#include "inside/watch/trap.h"

static char own_text[TASKS_STATUS_BYTES];
static int any_blocked; /* at the last look for filters */

/* The last number of a line: in its own, innermost namespace. */
static int has_signal(const char *status, const char *name)
{
	const char *at = tasks_value(status, name);
	uint64_t mask = 0;

	for (; *at && *at != '\n'; at++)
		mask = mask << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	return (mask & TRAP_SIGNAL_BIT) != 0;
}

/* Told by the number that the innermost namespace has for it. */
static int is_ours(const char *status)
{
	int32_t tid = tasks_last_number(tasks_value(status, "\nNSpid:"));

	return tid == kernel_gettid() || tid == control_keeper;
}

static int blocks(const char *status)
{
	return !is_ours(status) && has_signal(status, "\nSigBlk:");
}

static int is_line_equal(const char *a, const char *b)
{
	while (*a == *b && *a && *a != '\n') {
		a++;
		b++;
	}
	return *a == *b;
}

/* Its filters may be released already; it runs no more code. */
static int has_ended(const char *status)
{
	char state = *tasks_value(status, "\nState:");

	return state == 'Z' || state == 'X';
}

static int is_filtered(const char *status)
{
	static const char *const names[] = { "\nSeccomp:", "\nSeccomp_filters:" };

	if (is_ours(status) || has_ended(status))
		return 0;
	any_blocked |= has_signal(status, "\nSigBlk:");
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (!is_line_equal(tasks_value(status, names[i]), tasks_value(own_text, names[i])))
			return 1;
	}
	return 0;
}

int masks_any_blocks(void)
{
	return tasks_any(blocks);
}

int masks_any_blocked(void)
{
	return any_blocked;
}

int masks_any_filtered(void)
{
	any_blocked = 0;
	return tasks_read_status(AT_FDCWD, "/proc/thread-self", own_text) || tasks_any(is_filtered);
}
