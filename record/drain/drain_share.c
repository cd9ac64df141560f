/* SPDX-License-Identifier: MIT */
/* Forked children that write to their parent's store: which there are, and which are alive. */
#include "record/drain/drain_state.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHILDREN_LOOK_NS 20000000u
#define SHARED_LOOK_NS 50000000u
/* After its fork a child may wait this long for a CPU. A later one is recorded when it connects. */
#define FORK_NS 1000000000u

void drain_share(struct drain *drain)
{
	drain->is_unshared = 0;
	__atomic_store_n(&drain->map.store->closed, 0, __ATOMIC_RELAXED);
}

void drain_unshare(struct drain *drain)
{
	drain->is_unshared = 1;
	/* before drain_is_shared() looks at the slots; pairs with lane_share() in the child */
	__atomic_store_n(&drain->map.store->closed, 1, __ATOMIC_SEQ_CST);
}

int drain_is_childs(const struct drain *drain, uint32_t slot)
{
	return slot < drain->map.slot_count && !drain->streams[slot].is_dead &&
	       __atomic_load_n(&drain->map.slots[slot].pid, __ATOMIC_RELAXED);
}

int drain_is_left(const struct drain *drain, uint32_t slot)
{
	return slot < drain->map.slot_count && drain->streams[slot].is_dead;
}

/* Whether the process is dead, also as a zombie. 0: it is alive, or its number was reused. */
static int is_gone(uint32_t pid)
{
	struct pollfd end = { .events = POLLIN };
	int gone;

	end.fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (end.fd < 0) /* other errors, such as too few descriptors, prove nothing */
		return errno == ESRCH || errno == EINVAL || errno == ENOENT;
	gone = poll(&end, 1, 0) == 1;
	close(end.fd);
	return gone;
}

/* The pid of the child that uses this slot; 0: none. */
static uint32_t child_of(const struct drain *drain, uint32_t slot)
{
	const struct wm_slot *at = &drain->map.slots[slot];

	if (__atomic_load_n(&at->state, __ATOMIC_SEQ_CST) != SLOT_LIVE)
		return 0;
	return __atomic_load_n(&at->pid, __ATOMIC_RELAXED);
}

void drain_look_at_children(struct drain *drain, int now)
{
	uint32_t used = drain_slots_used(drain);
	uint64_t now_ns = ticks_monotonic_ns();

	if (!now && now_ns < drain->children_due_ns)
		return;
	drain->children_due_ns = now_ns + CHILDREN_LOOK_NS;
	for (uint32_t slot = 0; slot < used; slot++) {
		uint32_t pid = child_of(drain, slot);

		if (pid && !drain->streams[slot].is_dead && is_gone(pid))
			drain_stream_of(drain, slot)->is_dead = 1;
	}
}

static int any_child(const struct drain *drain, int (*maps)(pid_t pid, void *data), void *data)
{
	uint32_t used = drain_slots_used(drain);

	for (uint32_t slot = 0; slot < used; slot++) {
		uint32_t pid = child_of(drain, slot);

		if (pid && drain->map.slots[slot].depth == SLOT_SHARES && !is_gone(pid) &&
		    maps((pid_t)pid, data))
			return 1;
	}
	return 0;
}

int drain_is_forking(const struct drain *drain)
{
	const struct wm_store *store = drain->map.store;

	return __atomic_load_n(&store->forked, __ATOMIC_SEQ_CST) <
	       __atomic_load_n(&store->forks, __ATOMIC_RELAXED);
}

int drain_is_shared(struct drain *drain, int (*maps)(pid_t pid, void *data), void *data)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (now_ns < drain->shared_due_ns)
		return drain->is_shared;
	if (!drain->shared_since_ns)
		drain->shared_since_ns = now_ns;
	drain->is_shared = (drain_is_forking(drain) && now_ns - drain->shared_since_ns < FORK_NS) ||
			   any_child(drain, maps, data);
	if (!drain->is_shared && !drain->is_unshared) {
		/* no child joins after this store; look again for one that joined before it */
		__atomic_store_n(&drain->map.store->closed, 1, __ATOMIC_SEQ_CST);
		drain->is_shared = any_child(drain, maps, data);
		if (drain->is_shared)
			__atomic_store_n(&drain->map.store->closed, 0, __ATOMIC_RELAXED);
	}
	drain->shared_due_ns = now_ns + SHARED_LOOK_NS;
	return drain->is_shared;
}

uint32_t drain_unreached(const struct drain *drain, int *error)
{
	/* acquire: pairs with the agent's release */
	uint32_t count = __atomic_load_n(&drain->map.store->unreached, __ATOMIC_ACQUIRE);

	*error = __atomic_load_n(&drain->map.store->unreached_error, __ATOMIC_RELAXED);
	return count;
}
