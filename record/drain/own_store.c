/* SPDX-License-Identifier: MIT */
#include "record/drain/own_store.h"

#include "target/process/mapping.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LANES 4096u
#define SLOTS (2 * LANES) /* more than lanes, since ended ones wait for the drain */
#define PAGES_MIN 16u
#define MEMORY_PAGE_BYTES 4096u
#define NO_PAGE UINT32_MAX

/*
 * A thread that writes. The low bits of its tid choose the lane; another thread with the same bits
 * replaces it.
 */
struct lane {
	pid_t tid; /* 0: unused */
	uint32_t slot;
	uint32_t page; /* its open one, or NO_PAGE */
	uint64_t last_ticks;
};

struct own_store {
	int fd;
	pid_t pid;
	char comm[16]; /* the process's name, for threads that have ended */
	struct mapping map;
	struct ticks_track track;
	uint32_t next_slot, next_page;
	uint32_t open, left; /* pages that are open; that are free, at least */
	struct lane lanes[LANES];
};

static uint64_t round_up(uint64_t value)
{
	return (value + MEMORY_PAGE_BYTES - 1) / MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES;
}

int own_store_new(struct own_store **out, pid_t pid, uint64_t bytes, enum store_policy policy)
{
	struct own_store *store = *out = calloc(1, sizeof(*store));
	uint64_t fit = bytes / STORE_PAGE_BYTES;
	uint32_t pages = fit < PAGES_MIN ? PAGES_MIN : (uint32_t)fit;
	struct wm_store head = { .magic = STORE_MAGIC,
				 .version = STORE_VERSION,
				 .pid = (uint32_t)pid,
				 .policy = policy,
				 .clock = STORE_CLOCK_TSC,
				 .slot_count = SLOTS,
				 .page_count = pages,
				 .slots_offset = sizeof(head) };
	int err = 0;

	if (!store)
		return -ENOMEM;
	head.taken_offset = round_up(head.slots_offset + SLOTS * sizeof(struct wm_slot));
	head.pages_offset = round_up(head.taken_offset + pages * sizeof(uint32_t));
	head.data_offset = round_up(head.pages_offset + (uint64_t)pages * sizeof(struct wm_page));
	head.bytes = head.data_offset + (uint64_t)pages * STORE_PAGE_BYTES;
	store->pid = pid;
	target_comm(pid, pid, store->comm);
	store->fd = memfd_create("waymark-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* no one else is to open it, by /proc/PID/fd */
	if (store->fd < 0 || fchmod(store->fd, 0) || ftruncate(store->fd, (off_t)head.bytes) ||
	    pwrite(store->fd, &head, sizeof(head), 0) != sizeof(head) ||
	    fcntl(store->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err = errno ? -errno : -EIO;
	if (!err)
		err = mapping_open(&store->map, store->fd);
	if (!err)
		return 0;
	own_store_free(store);
	*out = NULL;
	return err;
}

void own_store_free(struct own_store *store)
{
	if (!store)
		return;
	mapping_release(&store->map);
	if (store->fd >= 0)
		close(store->fd);
	free(store);
}

int own_store_fd(const struct own_store *store)
{
	return store->fd;
}

/* ---- pages ---- */

/* Take a page. Returns its number, or NO_PAGE if there is none. */
static uint32_t page_take(struct own_store *store)
{
	for (uint32_t i = 0; i < store->map.page_count; i++) {
		uint32_t number = (store->next_page + i) % store->map.page_count;

		if (store->map.taken[number])
			continue;
		store->map.taken[number] = 1;
		store->left -= store->left != 0;
		store->next_page = (number + 1) % store->map.page_count;
		return number;
	}
	return NO_PAGE;
}

int own_store_has_room(struct own_store *store)
{
	uint32_t free_pages = 0;

	for (uint32_t i = 0; !store->left && i < store->map.page_count; i++)
		free_pages += !store->map.taken[i];
	store->left += free_pages;
	return store->left || store->map.policy == STORE_CYCLIC;
}

/* Cyclic policy: drop the full page that began first. Returns whether there was one. */
static int drop_oldest(struct own_store *store)
{
	uint32_t oldest = NO_PAGE;
	struct wm_page *pages = store->map.pages, *page;

	for (uint32_t i = 0; i < store->map.page_count; i++)
		if (pages[i].state == PAGE_FULL &&
		    (oldest == NO_PAGE || pages[i].begin_ticks < pages[oldest].begin_ticks))
			oldest = i;
	if (oldest == NO_PAGE)
		return 0;
	page = &pages[oldest];
	store->map.slots[page->slot].pages--;
	store->map.store->overwritten += page->events;
	page->slot = PAGE_NO_SLOT;
	page->word = 0;
	page->state = PAGE_FREE;
	store->map.taken[oldest] = 0;
	return 1;
}

static void page_close(struct own_store *store, struct lane *lane)
{
	struct wm_page *page = &store->map.pages[lane->page];

	if (lane->page == NO_PAGE)
		return;
	store->map.slots[lane->slot].written = page->before + page->events;
	page->state = PAGE_FULL; /* OPEN -> FULL */
	lane->page = NO_PAGE;
	store->open--;
}

void own_store_quiet(struct own_store *store)
{
	for (unsigned int i = 0; i < LANES; i++)
		if (store->lanes[i].tid)
			page_close(store, &store->lanes[i]);
}

/* Returns 0; -1: no room. */
static int page_open(struct own_store *store, struct lane *lane, uint64_t ticks, uint64_t time_ns)
{
	struct wm_slot *slot = &store->map.slots[lane->slot];
	struct ticks_point now;
	uint32_t number;

	/* threads that have ended would keep theirs: a drain takes none that is open */
	if (store->open >= store->map.page_count / 2)
		own_store_quiet(store);
	number = page_take(store);
	if (number == NO_PAGE && store->map.policy == STORE_CYCLIC && drop_oldest(store))
		number = page_take(store);
	if (number == NO_PAGE)
		return -1;
	ticks_now(STORE_CLOCK_TSC, &now);
	store->map.pages[number] = (struct wm_page){
		.slot = lane->slot,
		.commit = PAGE_HEAD_BYTES,
		.end_ticks = ticks,
		.begin_ticks = ticks,
		.seq = slot->next_seq++,
		.discarded = slot->discarded,
		.monotonic_ns = time_ns,
		.monotonic_raw_ns = now.monotonic_raw_ns - (now.monotonic_ns - time_ns),
		.realtime_ns = now.realtime_ns - (now.monotonic_ns - time_ns),
		.before = slot->written,
	};
	slot->pages++;
	store->map.pages[number].state = PAGE_OPEN;
	lane->page = number;
	store->open++;
	return 0;
}

/* ---- threads ---- */

/* The thread's name, or the process's; or the CPU's. */
static void name_slot(const struct own_store *store, const struct lane *lane, struct wm_slot *slot)
{
	if (store->pid) {
		target_comm(store->pid, lane->tid, slot->comm);
		if (!slot->comm[0])
			memcpy(slot->comm, store->comm, sizeof(slot->comm));
		return;
	}
	if (lane->tid == OWN_STORE_NO_CPU) {
		slot->tid = UINT32_MAX;
		snprintf(slot->comm, sizeof(slot->comm), "cpus");
		return;
	}
	slot->tid = (uint32_t)(lane->tid - 1) % OWN_STORE_APART;
	snprintf(slot->comm, sizeof(slot->comm), "cpu%u%s", (uint16_t)slot->tid,
		 lane->tid > OWN_STORE_APART ? PACKET_WAKES : "");
}

/* FREE -> LIVE. Returns 0; -1: none is free. */
static int slot_take(struct own_store *store, struct lane *lane)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t at = (store->next_slot + i) % SLOTS;
		struct wm_slot *slot = &store->map.slots[at];

		if (slot->state != SLOT_FREE)
			continue;
		*slot = (struct wm_slot){ .tid = (uint32_t)lane->tid };
		slot->instance = store->map.store->next_instance++;
		name_slot(store, lane, slot);
		slot->state = SLOT_LIVE;
		lane->slot = at;
		store->next_slot = (at + 1) % SLOTS;
		return 0;
	}
	return -1;
}

/* The lane of a thread. NULL: no slot is free for it. */
static struct lane *lane_of(struct own_store *store, pid_t tid)
{
	struct lane *lane = &store->lanes[(uint32_t)tid % LANES];

	if (lane->tid == tid)
		return lane;
	if (lane->tid) {
		page_close(store, lane);
		store->map.slots[lane->slot].state = SLOT_ENDED; /* LIVE -> ENDED */
	}
	*lane = (struct lane){ .tid = tid, .page = NO_PAGE };
	if (!slot_take(store, lane))
		return lane;
	lane->tid = 0;
	return NULL;
}

/* ---- events ---- */

void own_store_lose(struct own_store *store, pid_t tid, uint64_t count)
{
	const struct lane *lane = tid ? lane_of(store, tid) : NULL;

	if (lane)
		store->map.slots[lane->slot].discarded += count;
	else
		store->map.store->discarded += count;
}

/* The header of an event, `since` ticks after the one before. Returns its bytes. */
static size_t head_put(unsigned char *to, uint32_t id, uint64_t ticks, uint64_t since)
{
	uint32_t word = id | (uint32_t)ticks << 5;

	if (id < EVENT_EXTENDED && since < UINT64_C(1) << EVENT_TICK_BITS) {
		memcpy(to, &word, sizeof(word));
		return EVENT_COMPACT_BYTES;
	}
	*to = EVENT_EXTENDED;
	memcpy(to + 1, &id, sizeof(id));
	memcpy(to + 5, &ticks, sizeof(ticks));
	return EVENT_EXTENDED_BYTES;
}

void own_store_write(struct own_store *store, pid_t tid, uint64_t time_ns, uint32_t id,
		     const void *fields, size_t bytes)
{
	struct lane *lane = lane_of(store, tid);
	size_t all = EVENT_EXTENDED_BYTES + bytes;
	uint64_t ticks = ticks_track_at(&store->track, time_ns);
	struct wm_page *page;
	unsigned char *begin, *to;

	if (!lane || bytes > OWN_STORE_FIELDS_MAX) {
		own_store_lose(store, 0, 1);
		return;
	}
	ticks = ticks > lane->last_ticks ? ticks : lane->last_ticks;
	page = lane->page == NO_PAGE ? NULL : &store->map.pages[lane->page];
	if (page && page->commit + all > STORE_PAGE_BYTES) {
		page_close(store, lane);
		page = NULL;
	}
	if (!page && page_open(store, lane, ticks, time_ns)) {
		store->map.slots[lane->slot].discarded++;
		store->map.store->crowded_out++;
		return;
	}
	page = &store->map.pages[lane->page];
	begin = store->map.data + (size_t)lane->page * STORE_PAGE_BYTES;
	to = begin + page->commit;
	to += head_put(to, id, ticks, ticks - page->end_ticks);
	memcpy(to, fields, bytes);
	to += bytes;
	page->end_ticks = lane->last_ticks = ticks;
	page->word = PAGE_WORD((uint32_t)(to - begin), page->events + 1);
}
