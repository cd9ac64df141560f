/* SPDX-License-Identifier: MIT */
/* A library that is loaded late: its constructor's and destructor's own markers count too. */
#include <waymark/marker.h>

#include <stdint.h>

/* Until plugin_count() says where to. */
static uint64_t own, *counter = &own;

static uint64_t count_here(void)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static __attribute__((constructor)) void begin(void)
{
	WAYMARK(in, loaded, count_here());
}

void plugin_count(uint64_t *to)
{
	counter = to;
	__atomic_add_fetch(to, __atomic_exchange_n(&own, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* How many were emitted until plugin_count(). */
uint64_t plugin_own(void)
{
	return own;
}

int plugin_hit(int times)
{
	for (int i = 0; i < times; i++)
		WAYMARK(in, plugin, count_here(), i, "from a plugin");
	return times;
}

static __attribute__((destructor)) void end(void)
{
	WAYMARK(in, unloaded, count_here());
}
