/* SPDX-License-Identifier: MIT */
/*
 * What a trail's memory is charged against: RLIMIT_MEMLOCK, as the kernel does it, or a cap of the
 * caller's.
 */
#include "record/trail/trail.h"

#include "base/notify.h"
#include "target/claim/limits.h"
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

static pthread_mutex_t cap_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t capped_bytes; /* of all trails with a cap */

static int cap_take(struct wm_trail *trail)
{
	uint64_t cap = trail->options.cap_bytes, bytes = trail->options.bytes, used;

	pthread_mutex_lock(&cap_lock);
	used = capped_bytes;
	if (used <= cap && bytes <= cap - used) {
		capped_bytes += bytes;
		trail->capped_bytes = bytes;
	}
	pthread_mutex_unlock(&cap_lock);
	if (trail->capped_bytes)
		return 0;
	return trail_fail(trail, -WM_E_MEMORY_LIMIT,
			  "%" PRIu64 " bytes asked for, cap_bytes allows %" PRIu64
			  "; other trails have %" PRIu64,
			  bytes, cap, used);
}

static void cap_give(struct wm_trail *trail)
{
	pthread_mutex_lock(&cap_lock);
	capped_bytes -= trail->capped_bytes;
	trail->capped_bytes = 0;
	pthread_mutex_unlock(&cap_lock);
}

/* Locked memory, in the ledger; and whether the administrator's limits allow it. */
static int claim_take(struct wm_trail *trail)
{
	char words[TRAIL_DETAIL_BYTES] = "";
	uint64_t id;
	int err = ledger_new(&trail->ledger);

	if (!err)
		err = claim_locked_bytes(trail->ledger, trail->options.bytes, "trail", &id,
					 (struct detail){ words, sizeof(words) });
	if (!err)
		ledger_confirm(trail->ledger, &id, 1);
	return err ? trail_fail(trail, err, "%s", words) : 0;
}

static void claim_give(struct wm_trail *trail)
{
	ledger_free(trail->ledger);
	trail->ledger = NULL;
}

/* Why mlock(2) said no: its limit, or that there is no memory. */
static int refused(struct wm_trail *trail, int err)
{
	uint64_t bytes = trail->options.bytes;
	uint64_t locked = (uint64_t)target_status_number(getpid(), "VmLck") * 1024;
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (err != -EPERM && (limit.rlim_cur == RLIM_INFINITY || locked + bytes <= limit.rlim_cur))
		return trail_fail(trail, -ENOMEM, "%" PRIu64 " bytes of memory", bytes);
	return trail_fail(trail, -WM_E_MEMORY_LIMIT,
			  "%" PRIu64 " bytes asked for, RLIMIT_MEMLOCK allows %" PRIu64 "; %" PRIu64
			  " are in use",
			  bytes, (uint64_t)limit.rlim_cur, locked);
}

/* Called under the lock, in the thread that puts the record. */
static void reached(void *data)
{
	struct wm_trail *trail = data;
	if (trail->options.policy == WM_POLICY_NOTIFY)
		notify_send(trail->options.notify_fd, trail->options.notify_signal);
}

int trail_memory_take(struct wm_trail *trail)
{
	struct trail_store_options options = {
		.bytes = trail->options.bytes,
		.policy = trail->options.policy,
		.watermark_bytes = trail->options.bytes / 100 * trail->options.watermark_percent,
		.reached = reached,
		.data = trail,
		.is_locked = !trail->options.cap_bytes,
	};
	int err = trail->options.cap_bytes ? cap_take(trail) : claim_take(trail);

	if (err) {
		claim_give(trail);
		return err;
	}
	err = trail_store_open(&trail->store, &options);
	if (!err)
		return 0;
	claim_give(trail);
	if (options.is_locked)
		return refused(trail, err);
	cap_give(trail);
	return trail_fail(trail, err, "%" PRIu64 " bytes of memory", trail->options.bytes);
}

void trail_memory_give(struct wm_trail *trail)
{
	trail_store_close(trail->store);
	trail->store = NULL;
	cap_give(trail);
	claim_give(trail);
}
