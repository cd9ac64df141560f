/* SPDX-License-Identifier: MIT */
#include "inside/control/patching.h"

#include "base/kernel.h"
#include "inside/marker/marker.h"
#include "inside/runtime/lock.h"

#include <errno.h>

#define WAIT_MS 4000 /* for the lock, and for a thread that takes a module away */

int patching_lock(const struct text *text, int strict)
{
	uint64_t begin_ns = lock_now_ns();

	for (;;) {
		uint64_t waited_ms = (lock_now_ns() - begin_ns) / 1000000;
		unsigned int left_ms = waited_ms < WAIT_MS ? (unsigned int)(WAIT_MS - waited_ms)
							   : 0;
		int error = lock_take(&agent_lock, strict ? 0 : left_ms);

		if (error)
			return error;
		if (!registry_is_frozen(text))
			return 0;
		lock_release(&agent_lock);
		if (strict || !left_ms)
			return -EBUSY;
		kernel_sleep_ns(1000000);
	}
}
