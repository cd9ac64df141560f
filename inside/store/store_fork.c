/* SPDX-License-Identifier: MIT */
/* What becomes of stores at fork: of whose children write to them, and of those that may not. */
#include "base/kernel.h"
#include "inside/runtime/lock.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <time.h>

#define COUNTING_MS 10000 /* without a look by the tool */

int store_is_alone(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { 0 };
	uint32_t user[3], group[3];

	if (kernel_call(SYS_getresuid, (long)&user[0], (long)&user[1], (long)&user[2], 0) ||
	    kernel_call(SYS_getresgid, (long)&group[0], (long)&group[1], (long)&group[2], 0) ||
	    kernel_call(SYS_capget, (long)&head, (long)caps, 0, 0))
		return 1;
	return user[0] != user[1] || user[0] != user[2] || group[0] != group[1] ||
	       group[0] != group[2] || caps[0].permitted || caps[1].permitted;
}

/* Where a child of fork counts what it loses, while its store is alone; by lane. */
static struct wm_store *counted_in[SESSIONS_MAX];

int store_is_counted_in(const struct wm_store *head)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		if (counted_in[i] == head)
			return 1;
	return 0;
}

static int is_drained_no_more(const struct wm_store *head, unsigned int ms)
{
	uint64_t drained_ns = __atomic_load_n(&head->drained_ns, __ATOMIC_RELAXED);

	return (int64_t)(lock_now_ns() - drained_ns) > (int64_t)ms * 1000000;
}

/* The process can't get its privileges back, and its children have no others. */
static void share_again(struct store *store)
{
	struct wm_store *head = store->head;

	if (!store->is_alone || store_is_alone() || madvise(head, store->bytes, MADV_DOFORK))
		return;
	store->is_alone = 0;
}

/* Whether the child of this fork will have the store, or its first page. */
static int lend(struct store *store, int is_locked)
{
	if (!store->head || arena_lacks(store))
		return 0;
	share_again(store);
	if (!store->is_alone)
		return 1;
	/* without the lock: another thread's fork may be in progress, and take the page back */
	if (!is_locked || madvise(store->head, sizeof *store->head, MADV_DOFORK)) {
		store_unreached((unsigned int)(store - stores), -EBUSY);
		return 0;
	}
	/* after the page is lent, so that a clone which sees this has the page */
	__atomic_store_n(&store->is_lent, 1, __ATOMIC_RELEASE);
	return 1;
}

uint32_t store_forking(uint32_t lanes, int is_locked)
{
	uint32_t lent = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (!(lanes & 1u << i) || !lend(&stores[i], is_locked))
			continue;
		__atomic_fetch_add(&stores[i].head->forks, 1, __ATOMIC_RELAXED);
		lent |= 1u << i;
	}
	return lent;
}

void store_forking_end(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (!stores[i].is_lent)
			continue;
		/* before the page is taken back: see lend() */
		__atomic_store_n(&stores[i].is_lent, 0, __ATOMIC_RELEASE);
		madvise(stores[i].head, sizeof *stores[i].head, MADV_DONTFORK);
	}
}

int store_is_silent(uint32_t lanes, unsigned int ms)
{
	int is_any = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (!(lanes & 1u << i) || !stores[i].head || !stores[i].is_alone)
			continue;
		if (!__atomic_load_n(&stores[i].head->drained_ns, __ATOMIC_RELAXED) ||
		    !is_drained_no_more(stores[i].head, ms))
			return 0;
		is_any = 1;
	}
	return is_any;
}

int store_any_is_alone(uint32_t lanes)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		if (lanes & 1u << i && stores[i].head && stores[i].is_alone)
			return 1;
	return 0;
}

/*
 * In a new PID namespace the child has a number that the tool cannot look it up by: it does not
 * share.
 */
static int share(struct store *store)
{
	pid_t pid = (pid_t)kernel_getpid();

	return store->slot_count && !store->is_alone &&
	       __atomic_load_n(&store->head->tool_pid, __ATOMIC_RELAXED) && pid != 1 &&
	       kernel_getppid() && !lane_share(store, (uint32_t)pid);
}

/*
 * What the child keeps of a store of its parent's: all of it, or the first page, where it may not
 * write to the rest. Every hit ends at `discarded` in a store without slots and pages. The rest
 * becomes private memory: a signal handler that forked in the middle of a hit returns into that hit
 * in the child too.
 */
static void keep(struct store *store, int is_kept)
{
	struct wm_store *head = store->head;
	uint64_t kept = 0;

	if (is_kept) {
		store->share = store->closing = 0;
		is_kept = share(store);
		kept = is_kept ? store->bytes : sizeof *head;
		/* pairs with drain_is_shared() of the outside, which waits for it */
		__atomic_fetch_add(&head->forked, 1, __ATOMIC_SEQ_CST);
	}
	if (is_kept)
		return;
	/* of one that is alone it is free, and may be another library's or the program's by now */
	if (store->bytes > kept)
		kernel_map((char *)head + kept, store->bytes - kept, PROT_READ | PROT_WRITE,
			   MAP_NORESERVE | (store->is_alone ? MAP_FIXED_NOREPLACE : MAP_FIXED));
	if (kept && store->is_alone)
		counted_in[store - stores] = head;
	*store = (struct store){ .head = kept ? head : NULL,
				 .bytes = kept,
				 .clock = kept ? store->clock : 0 };
}

void store_forked(uint32_t lanes)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (stores[i].head)
			keep(&stores[i], (lanes & 1u << i) != 0);
	}
	for (unsigned int i = 0; i < STRANGERS_MAX; i++)
		writer_strangers[i].inside[0] = 0;
	writer_strangers_more = 0;
	arena_forked();
}

void store_forked_end(void)
{
	static struct wm_store counts;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (!counted_in[i])
			continue;
		counts = *counted_in[i];
		if (kernel_map(counted_in[i], sizeof counts, PROT_READ | PROT_WRITE, MAP_FIXED) !=
		    MAP_FAILED)
			*counted_in[i] = counts;
	}
}

int store_is_shared(unsigned int lane)
{
	return stores[lane].head && stores[lane].share;
}

int store_is_over(unsigned int lane)
{
	const struct wm_store *head = stores[lane].head;
	uint32_t tool;

	if (!head || __atomic_load_n(&head->closed, __ATOMIC_RELAXED))
		return 1;
	tool = __atomic_load_n(&head->tool_pid, __ATOMIC_RELAXED);
	/* who only counts may know the tool by another number */
	return stores[lane].share ? syscall_raw(SYS_kill, (long)tool, 0, 0, 0) == -ESRCH
				  : is_drained_no_more(head, COUNTING_MS);
}
