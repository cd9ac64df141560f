/* SPDX-License-Identifier: MIT */
#include "agent/control/patching.h"

#include "agent/control/lock.h"
#include "agent/marker/marker.h"
#include "base/kernel.h"

#include <errno.h>

#define LOCK_MS 2000
#define FROZEN_MS 1000

int patching_lock(const struct text *text, int strict)
{
	for (unsigned int waited_ms = 0;; waited_ms++) {
		int error = lock_take(&agent_lock, strict ? 0 : LOCK_MS);

		if (error)
			return error;
		if (!registry_is_frozen(text))
			return 0;
		lock_release(&agent_lock);
		if (strict || waited_ms >= FROZEN_MS)
			return -EBUSY;
		kernel_sleep_ns(1000000);
	}
}
