/* SPDX-License-Identifier: MIT */
#include "agent/control/wait.h"

#include "abi/control.h"
#include "agent/control/lock.h"

#define MS_NS UINT64_C(1000000)

static uint64_t renewed_until_ns; /* written by the control thread alone */

void wait_renew(unsigned int ms)
{
	uint64_t until_ns;

	if (ms > CONTROL_WAIT_MAX_MS)
		ms = CONTROL_WAIT_MAX_MS;
	until_ns = lock_now_ns() + ms * MS_NS;
	if (until_ns > __atomic_load_n(&renewed_until_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&renewed_until_ns, until_ns, __ATOMIC_RELAXED);
}

uint64_t wait_end_ns(uint64_t begin_ns, unsigned int usual_ms)
{
	uint64_t renewed_ns = __atomic_load_n(&renewed_until_ns, __ATOMIC_RELAXED);
	uint64_t last_ns = begin_ns + CONTROL_WAIT_MAX_MS * MS_NS;
	uint64_t end_ns = begin_ns + usual_ms * MS_NS;

	if (renewed_ns > end_ns)
		end_ns = renewed_ns;
	return end_ns < last_ns ? end_ns : last_ns;
}

void wait_forked(void)
{
	renewed_until_ns = 0;
}
