/* SPDX-License-Identifier: MIT */
#include "agent/control/wait.h"

#include "abi/control.h"
#include "agent/control/lock.h"

#define MS_NS UINT64_C(1000000)
#define REGAINED_PART 10 /* of the time that the loader is let alone */

/* Written by the control thread alone. */
static uint64_t renewed_until_ns;
static uint64_t load_until_ns;
static uint64_t load_spent_ns; /* of what a process may be made to wait in the loader */
static uint64_t load_over_ns;  /* when the last such wait ended */

static uint64_t read_ns(const uint64_t *ns)
{
	return __atomic_load_n(ns, __ATOMIC_RELAXED);
}

static void write_ns(uint64_t *ns, uint64_t value)
{
	__atomic_store_n(ns, value, __ATOMIC_RELAXED);
}

static uint64_t end_ns(uint64_t begin_ns, unsigned int usual_ms, uint64_t renewed_ns,
		       uint64_t most_ns)
{
	uint64_t usual_ns = begin_ns + usual_ms * MS_NS, last_ns = begin_ns + most_ns;
	uint64_t until_ns = renewed_ns > usual_ns ? renewed_ns : usual_ns;

	return until_ns < last_ns ? until_ns : last_ns;
}

static void renew(uint64_t *until_ns, unsigned int ms)
{
	uint64_t more_ns;

	if (ms > CONTROL_WAIT_MAX_MS)
		ms = CONTROL_WAIT_MAX_MS;
	more_ns = lock_now_ns() + ms * MS_NS;
	if (more_ns > read_ns(until_ns))
		write_ns(until_ns, more_ns);
}

void wait_renew(unsigned int ms)
{
	renew(&renewed_until_ns, ms);
}

uint64_t wait_end_ns(uint64_t begin_ns, unsigned int usual_ms, unsigned int most_ms)
{
	return end_ns(begin_ns, usual_ms, read_ns(&renewed_until_ns), most_ms * MS_NS);
}

void wait_load_begin(uint64_t begin_ns)
{
	uint64_t regained_ns = begin_ns > load_over_ns ? (begin_ns - load_over_ns) / REGAINED_PART
						       : 0;

	write_ns(&load_until_ns, 0);
	write_ns(&load_spent_ns, load_spent_ns > regained_ns ? load_spent_ns - regained_ns : 0);
}

void wait_load_renew(unsigned int ms)
{
	renew(&load_until_ns, ms);
}

void wait_load_over(uint64_t begin_ns)
{
	uint64_t waited_ns;

	load_over_ns = lock_now_ns();
	waited_ns = load_over_ns - begin_ns;
	if (waited_ns > CONTROL_LOAD_FREE_MS * MS_NS)
		write_ns(&load_spent_ns, load_spent_ns + waited_ns);
}

uint64_t wait_load_end_ns(uint64_t begin_ns)
{
	uint64_t all_ns = CONTROL_LOAD_ALL_MS * MS_NS, spent_ns = read_ns(&load_spent_ns);
	uint64_t left_ns = spent_ns < all_ns ? all_ns - spent_ns : 0;
	uint64_t most_ns = CONTROL_LOAD_MAX_MS * MS_NS;

	return end_ns(begin_ns, CONTROL_SEEN_WAIT_MS, read_ns(&load_until_ns),
		      left_ns < most_ns ? left_ns : most_ns);
}

void wait_forked(void)
{
	renewed_until_ns = load_until_ns = load_spent_ns = load_over_ns = 0;
}
