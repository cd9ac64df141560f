/* SPDX-License-Identifier: MIT */
#include "inside/store/event_store.h"

#include "arch/vectors.h"
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/runtime/lock.h"
#include "inside/store/arena.h"
#include "inside/store/clock.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_MAX 65536u
#define SLOTS_MIN 64u
#define QUIESCE_STEP_NS 20000
#define BARRIER_NS 1000000
#define QUIESCE_LOOKS 2000
#define MEMORY_PAGE_BYTES 4096u
#define NAME_LOOKS 4

struct store stores[SESSIONS_MAX];

/*
 * membarrier(2)'s kinds, in the order in which they are tried: what a patch needs has registered
 * the first. Each registering waits for an RCU grace period where there are threads, seconds on a
 * machine with more to do than it can, so the second is for when the first can't be had.
 */
static const struct {
	int call, enrol;
} barriers[] = {
	{ MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0 },
	{ MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED },
	{ MEMBARRIER_CMD_GLOBAL, 0 },
};

static uint64_t round_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) / step * step;
}

/* Every thread that runs passes a full barrier before this returns. */
static void barrier_everywhere(void)
{
	for (unsigned int i = 0; i < sizeof barriers / sizeof barriers[0]; i++) {
		if (!kernel_call(SYS_membarrier, barriers[i].call, 0, 0, 0))
			return;
		if (barriers[i].enrol && !kernel_call(SYS_membarrier, barriers[i].enrol, 0, 0, 0) &&
		    !kernel_call(SYS_membarrier, barriers[i].call, 0, 0, 0))
			return;
	}
	kernel_interrupt_cores();
	/* where that does nothing: no store stays in a core's buffer for a millisecond */
	kernel_sleep_ns(BARRIER_NS);
}

static void layout(struct wm_store *head, const struct store_options *options)
{
	uint64_t pages = round_up(options->buffer_bytes, STORE_PAGE_BYTES) / STORE_PAGE_BYTES;
	/* no more streams than pages can be open, twice over */
	uint64_t slots = pages * 2;

	slots = slots < SLOTS_MIN ? SLOTS_MIN : slots > SLOTS_MAX ? SLOTS_MAX : slots;
	*head = (struct wm_store){
		.magic = STORE_MAGIC,
		.version = STORE_VERSION,
		.pid = (uint32_t)getpid(),
		.policy = options->policy,
		.clock = options->clock,
		.slot_count = (uint32_t)slots,
		.page_count = (uint32_t)pages,
		.block_ns = options->block_ns,
		.tool_pid = options->tool_pid,
	};
	head->slots_offset = sizeof *head;
	head->taken_offset = round_up(head->slots_offset + slots * sizeof(struct wm_slot),
				      MEMORY_PAGE_BYTES);
	head->pages_offset = round_up(head->taken_offset + pages * sizeof(uint32_t),
				      MEMORY_PAGE_BYTES);
	head->data_offset = round_up(head->pages_offset + pages * sizeof(struct wm_page),
				     STORE_PAGE_BYTES);
	head->bytes = head->data_offset + pages * STORE_PAGE_BYTES;
}

/* ftruncate past RLIMIT_FSIZE would not only fail but raise SIGXFSZ (ftruncate(2)). */
static int check_limits(uint64_t bytes)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return -WM_E_MEMORY_LIMIT;
	return 0;
}

static uint32_t openings;

uint32_t store_openings(void)
{
	return openings;
}

int store_open(unsigned int lane, const struct store_options *options, int *fd)
{
	struct store *store = &stores[lane];
	struct wm_store head;
	unsigned char *map;
	int error, alone;

	*fd = -1;
	if (!options->buffer_bytes || options->buffer_bytes > UINT64_C(1) << 40 ||
	    options->policy > STORE_NOTIFY || options->clock > STORE_CLOCK_ORDERED)
		return -EINVAL;
	layout(&head, options);
	error = check_limits(head.bytes);
	if (error)
		return error;
	*fd = kernel_memfd_sized("waymark-store", head.bytes);
	if (*fd < 0)
		return -errno;
	map = mmap(NULL, head.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
	if (map == MAP_FAILED) {
		error = errno == ENOMEM ? -WM_E_MEMORY_LIMIT : -errno;
		kernel_close(*fd);
		*fd = -1;
		return error;
	}
	memcpy(map, &head, sizeof head);
	alone = store_is_alone();
	/* store_forking() lends the first page to children of fork */
	if (alone)
		madvise(map, head.bytes, MADV_DONTFORK);
	*store = (struct store){
		.slots = (void *)(map + head.slots_offset),
		.taken = (void *)(map + head.taken_offset),
		.pages = (void *)(map + head.pages_offset),
		.data = map + head.data_offset,
		.bytes = head.bytes,
		.block_ns = head.block_ns,
		.slot_count = head.slot_count,
		.page_count = head.page_count,
		.policy = head.policy,
		.clock = head.clock,
		.opening = ++openings,
		.is_alone = (uint32_t)alone,
	};
	__atomic_store_n(&store->head, (struct wm_store *)map, __ATOMIC_RELEASE);
	DEBUG_TRACE("agent/store", "lane %d: opened at %x, %d bytes, policy %d", lane, (long)map,
		    head.bytes, head.policy);
	return 0;
}

static int is_inside(const struct writer *writer)
{
	for (int i = 0; i < DEPTH_MAX; i++) {
		if (__atomic_load_n(&writer->inside[i], __ATOMIC_ACQUIRE))
			return 1;
	}
	return 0;
}

struct wait {
	const struct writer *self;
	uint64_t end_ns;
	int failed;
};

/* Until this writer was outside once, or the time is over. */
static void wait_outside(struct writer *writer, void *data)
{
	struct wait *wait = data;

	if (writer == wait->self)
		return;
	for (unsigned int turn = 0; is_inside(writer) && writer->state == WRITER_LIVE; turn++) {
		/* a thread in a tight loop of hits is outside between any two: look often first */
		if (turn < QUIESCE_LOOKS)
			continue;
		if (lock_now_ns() >= wait->end_ns) {
			wait->failed = 1;
			return;
		}
		kernel_sleep_ns(QUIESCE_STEP_NS);
	}
}

/* Wait until each thread without a writer has been seen outside a hit. */
static void wait_strangers(struct wait *wait)
{
	for (unsigned int i = 0; i < STRANGERS_MAX; i++)
		wait_outside(&writer_strangers[i], wait);
	while (__atomic_load_n(&writer_strangers_more, __ATOMIC_ACQUIRE)) {
		if (lock_now_ns() >= wait->end_ns) {
			wait->failed = 1;
			return;
		}
		kernel_sleep_ns(QUIESCE_STEP_NS);
	}
}

/*
 * A hit stores inside[] and then loads the plan. The barrier here, on every core, comes between the
 * caller's change of the plan and our loads of inside[]: a hit that we see outside will load the
 * new plan. One that we saw inside and later see outside has left, whatever it does next.
 */
int store_quiesce(unsigned int timeout_ms, int self_ok)
{
	struct wait wait = { .self = self_ok ? writer_self : NULL,
			     .end_ns = lock_now_ns() + timeout_ms * UINT64_C(1000000) };

	barrier_everywhere();
	arena_each(wait_outside, &wait);
	wait_strangers(&wait);
	return wait.failed ? -ETIMEDOUT : 0;
}

int store_self_is_inside(void)
{
	return writer_self && is_inside(writer_self);
}

struct ending {
	unsigned int session;
	int spare_inside; /* some thread did not leave its hit in time */
};

static void end_lanes(struct writer *writer, void *data)
{
	const struct ending *ending = data;
	unsigned int session = ending->session;

	/*
	 * One that did not leave in time keeps its page; the drain copies what it committed. When
	 * all have left, any hit in flight began later, under plans that don't name this lane.
	 */
	if (ending->spare_inside && is_inside(writer))
		return;
	arena_ending_take(writer);
	if (writer->state == WRITER_LIVE)
		writer_lanes_each(writer, session, lane_end);
	arena_ending_drop(writer);
}

int store_quiet(unsigned int lane, unsigned int timeout_ms)
{
	struct ending ending = { .session = lane };
	int error;

	if (!stores[lane].head)
		return 0;
	/* pairs with the load in wait_for_page(): threads that wait for room give up */
	__atomic_store_n(&stores[lane].closing, 1, __ATOMIC_RELEASE);
	error = store_quiesce(timeout_ms, 0);
	ending.spare_inside = error != 0;
	arena_each(end_lanes, &ending);
	__atomic_store_n(&stores[lane].closing, 0, __ATOMIC_RELEASE);
	return error;
}

/* ---- rows ---- */

/* A pass over the rows of all threads. */
struct rows_pass {
	void (*visit)(struct rows *rows, unsigned int session);
	int spare_inside; /* some thread did not leave its hit in time */
};

/* Pages that turns may still take: with fewer left, threads keep what they have. */
static uint32_t rows_budgets[SESSIONS_MAX];

static void rows_budget(void)
{
	for (unsigned int session = 0; session < SESSIONS_MAX; session++) {
		const struct store *store = &stores[session];
		uint32_t free_pages = 0;

		for (uint32_t i = 0; store->head && i < store->page_count; i++)
			free_pages += !__atomic_load_n(&store->taken[i], __ATOMIC_RELAXED);
		rows_budgets[session] = free_pages / 2;
	}
}

static void rows_turn(struct rows *rows, unsigned int session)
{
	uint32_t turn = rows->turn;

	/* unless the last turn's page is still to be closed */
	if (!rows_budgets[session] || !rows->of[turn].lane.page || rows->of[!turn].lane.page)
		return;
	rows_budgets[session]--;
	__atomic_store_n(&rows->turn, !turn, __ATOMIC_RELAXED);
}

static void rows_close(struct rows *rows, unsigned int session)
{
	lane_close(&rows->of[!rows->turn].lane, session);
}

static void rows_each(struct writer *writer, void *data)
{
	const struct rows_pass *pass = data;

	/* one that is outside now began no hit before the turn */
	if (pass->spare_inside && is_inside(writer))
		return;
	arena_ending_take(writer);
	for (int depth = 0; writer->state == WRITER_LIVE && depth < DEPTH_MAX; depth++) {
		for (unsigned int session = 0; session < SESSIONS_MAX; session++) {
			if (writer->rows[depth][session])
				pass->visit(writer->rows[depth][session], session);
		}
	}
	arena_ending_drop(writer);
}

void store_rows_turn(unsigned int timeout_ms)
{
	struct rows_pass pass = { .visit = rows_turn };

	if (!arena_rows_any())
		return;
	rows_budget();
	arena_each(rows_each, &pass);
	/* a hit in flight may use the page that it found; later ones use the other */
	pass.visit = rows_close;
	pass.spare_inside = store_quiesce(timeout_ms, 0) != 0;
	arena_each(rows_each, &pass);
}

static int lanes_left;

static void lane_is_left(struct lane *lane, unsigned int session)
{
	(void)session;
	lanes_left |= lane->slot != 0;
}

static void any_lane_left(struct writer *writer, void *data)
{
	writer_lanes_each(writer, *(const unsigned int *)data, lane_is_left);
}

int store_close(unsigned int lane)
{
	struct store *store = &stores[lane];
	struct wm_store *head = store->head;

	if (!head)
		return 0;
	lanes_left = 0;
	arena_each(any_lane_left, &lane);
	if (lanes_left)
		return -EBUSY;
	lane_unshare(store);
	__atomic_store_n(&store->head, NULL, __ATOMIC_RELEASE);
	/* a child of fork replaces what it counts in, perhaps now */
	if (!store_is_counted_in(head))
		kernel_munmap(head, store->bytes);
	return 0;
}

/*
 * tkill(2) with signal 0 asks whether the thread is there. Not tgkill: a bare clone's thread may be
 * of another thread group that shares our memory. Between the question and the answer the writer
 * may have been freed and taken by a new thread: then `births` has changed.
 */
static void end_if_dead(struct writer *writer, void *data)
{
	uint32_t births = __atomic_load_n(&writer->births, __ATOMIC_ACQUIRE);
	int32_t tid;

	(void)data;
	if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) != WRITER_LIVE)
		return;
	tid = __atomic_load_n(&writer->tid,
			      __ATOMIC_RELAXED); /* of these births, or of later ones */
	if (tid > 0 && syscall_raw(SYS_tkill, tid, 0, 0, 0) == -ESRCH)
		arena_writer_end_dead(writer, births);
}

/* A thread that has no writer any more, nor anything else. */
static void end_dead_stranger(struct writer *stranger)
{
	uintptr_t inside = __atomic_load_n(&stranger->inside[0], __ATOMIC_ACQUIRE);
	int32_t tid = __atomic_load_n(&stranger->tid, __ATOMIC_ACQUIRE);

	if (inside && tid > 0 && syscall_raw(SYS_tkill, tid, 0, 0, 0) == -ESRCH &&
	    __atomic_load_n(&stranger->tid, __ATOMIC_ACQUIRE) == tid)
		__atomic_compare_exchange_n(&stranger->inside[0], &inside, 0, 0, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED);
}

/* Threads name themselves soon after they start, if ever; the store's slots follow. */
static void name_slots(struct writer *writer, void *data)
{
	uint32_t births = __atomic_load_n(&writer->births, __ATOMIC_ACQUIRE);
	char path[64], name[16] = "";
	ssize_t got;

	(void)data;
	if (writer->name_looks >= NAME_LOOKS)
		return;
	writer->name_looks++;
	snprintf(path, sizeof path, "/proc/self/task/%d/comm", writer->tid);
	got = kernel_read_text(AT_FDCWD, path, name, sizeof name);
	if (got <= 0)
		return;
	if (name[got - 1] == '\n')
		name[got - 1] = 0;
	if (!memcmp(name, writer->comm, sizeof name))
		return;
	/* its thread may be leaving: what is not its slot any more is not touched */
	arena_ending_take(writer);
	if (writer->state == WRITER_LIVE && writer->births == births) {
		memcpy(writer->comm, name, sizeof name);
		for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
			uint32_t slot = __atomic_load_n(&writer->lanes.of[i].slot,
							__ATOMIC_RELAXED);

			if (stores[i].head && slot)
				memcpy(stores[i].slots[slot - 1].comm, name, sizeof name);
		}
	}
	arena_ending_drop(writer);
}

int store_any_blocks(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (stores[i].head && stores[i].policy == STORE_BLOCK)
			return 1;
	}
	return 0;
}

void store_sweep(void)
{
	clock_renew();
	lane_find_restorer();
	arena_each(end_if_dead, NULL);
	for (unsigned int i = 0; i < STRANGERS_MAX; i++)
		end_dead_stranger(&writer_strangers[i]);
	arena_each(name_slots, NULL);
}

void store_unreached(unsigned int lane, int error)
{
	struct wm_store *head = stores[lane].head;

	if (!head)
		return;
	__atomic_store_n(&head->unreached_error, error, __ATOMIC_RELAXED);
	/* release: pairs with the acquire of the outside, which then reads the error */
	__atomic_fetch_add(&head->unreached, 1, __ATOMIC_RELEASE);
}

uint32_t store_clock(unsigned int lane)
{
	return stores[lane].clock;
}

uint64_t store_ticks(unsigned int lane)
{
	return clock_ticks(stores[lane].clock);
}

int store_init(void)
{
	vectors_init();
	clock_init();
	return arena_init();
}
