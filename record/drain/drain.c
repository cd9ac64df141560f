/* SPDX-License-Identifier: MIT */
#include "record/drain/drain.h"

#include "abi/page.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A page without its predecessor waits for the next pass, since the predecessor may have been
 * filled behind the scan. After so many passes it does not exist.
 */
#define WAIT_PASSES 3
/*
 * How far to look behind the slots that were handed out: threads may be claiming further ones
 * without being counted yet, or have been killed while they did. If a pass misses a live one, the
 * next one finds it.
 */
#define SLOTS_AHEAD 16u
#define SLOTS_AHEAD_LAST 1024u
/* in a pass, so that ten thousand slow threads don't keep us busy; the next pass continues */
#define PARTS_MAX 1000u
#define CHILDREN_LOOK_NS 20000000u
#define SHARED_LOOK_NS 50000000u
/* After its fork a child may wait this long for a CPU. A later one is recorded when it connects. */
#define FORK_NS 1000000000u
#define PART_TRIES 8

/*
 * What a drain knows of a slot's present stream: its position, and its losses. It is private
 * memory, so that the program can't change it.
 *
 * With the cyclic policy, losses are counted here and not where a page is overwritten (abi/page.h).
 * `at` is the number of the stream's events that are accounted for, recorded or lost. If a page
 * begins past `at`, the events between were overwritten. When all pages were taken, the slot's
 * `written` shows the rest in the same way.
 */
struct stream {
	uint64_t instance; /* 0: the slot has not been seen in use */
	uint64_t next_seq;
	uint64_t last_ticks;
	uint64_t discarded; /* the slot's count; it never decreases */
	uint64_t lost;	    /* events of pages that were overwritten or could not be handed on */
	uint64_t reported;  /* discarded + lost, as the last packet has it */
	uint64_t delivered; /* events of the page next_seq that peeks handed out */
	uint64_t at;	    /* cyclic policy: events accounted for */
	/* the page that was written in parts, and up to what time */
	uint64_t part_seq, part_ticks;
	uint32_t part_bytes, part_events; /* how much was written of it */
	/* packets without a page, and further parts of one: added to the pages' sequence numbers */
	uint32_t shift;
	uint32_t pid; /* of a forked child; 0: of the process that has the store */
	uint32_t tid, depth;
	uint8_t is_dead; /* that child has died */
	uint8_t waited;
	uint8_t begun; /* one of its packets was handed on */
	uint8_t kept;  /* one of its pages was left in place for the next read */
};

/* A page that may be taken. */
struct found {
	uint32_t tid, slot, page;
	uint64_t seq;
	uint64_t word, end_ticks; /* of an open page, the part to take; word 0: all of a page */
};

struct drain {
	struct mapping map;
	uint32_t pid;
	enum drain_reach reach;
	uint64_t next_instance;
	struct ticks_point born;
	struct stream *streams; /* one for each slot */
	struct stream homeless; /* of threads without a slot: tid 0 */
	uint32_t slots_named;	/* slots below this were in use at some time */
	struct found *found;
	uint32_t found_count;
	uint32_t parts_from;	      /* parts are taken from this tid on */
	struct drain_counts counts;   /* `discarded`: only of streams that have ended */
	uint64_t live_discarded;      /* of the other streams, at the last sweep */
	uint64_t children_due_ns;     /* when to look for dead children again, CLOCK_MONOTONIC */
	uint64_t shared_due_ns;	      /* when drain_is_shared() looks again */
	uint64_t shared_since_ns;     /* when it looked first */
	int is_shared;		      /* its last result */
	int is_last;		      /* drain_expect_end() */
	int is_unshared;	      /* drain_unshare() was called */
	int any_left;		      /* streams of children that have died */
	uint64_t overwritten;	      /* the part of the store's count that streams count as lost */
	uint64_t overwritten_counted; /* the part that drain_count() includes */
};

static int is_cyclic(const struct drain *drain)
{
	return drain->map.policy == STORE_CYCLIC;
}

/* ---- streams ---- */

/* All its losses that are known so far. */
static uint64_t stream_losses(const struct stream *stream)
{
	return stream->discarded + stream->lost;
}

/* Read the slot's count of losses, or the store's for threads without a slot. */
static void stream_count(struct stream *stream, const uint64_t *discarded)
{
	uint64_t now = __atomic_load_n(discarded, __ATOMIC_RELAXED);

	if (now > stream->discarded)
		stream->discarded = now;
}

/*
 * Cyclic policy: all events up to `position` are taken or overwritten. Count those past `at` as
 * lost, and return how many they are.
 */
static uint64_t stream_skip(struct stream *stream, uint64_t position)
{
	uint64_t skipped = position > stream->at ? position - stream->at : 0;

	stream->lost += skipped;
	stream->at += skipped;
	return skipped;
}

/*
 * Cyclic policy: a page with that many events was taken; `before` of the stream's events precede
 * it.
 */
static void stream_pass(struct stream *stream, uint64_t before, uint64_t events)
{
	if (before + events > stream->at)
		stream->at = before + events;
}

/* The present stream of a slot; begins it if necessary. */
static struct stream *stream_of(struct drain *drain, uint32_t slot)
{
	struct stream *stream = &drain->streams[slot];
	const struct wm_slot *from = &drain->map.slots[slot];

	if (!stream->instance) {
		*stream = (struct stream){
			.instance = drain->next_instance++,
			.pid = __atomic_load_n(&from->pid, __ATOMIC_RELAXED),
			.tid = __atomic_load_n(&from->tid, __ATOMIC_RELAXED),
			.depth = __atomic_load_n(&from->depth, __ATOMIC_RELAXED),
		};
		drain->counts.children += stream->pid && stream->depth == SLOT_SHARES;
	}
	if (slot >= drain->slots_named)
		drain->slots_named = slot + 1;
	return stream;
}

/*
 * Slots are handed out in order; touching those behind would allocate their memory. The program's
 * own count may be wrong: it only limits how far we look, and never excludes a slot that a page has
 * named.
 */
static uint32_t slots_used(const struct drain *drain)
{
	uint64_t claims = __atomic_load_n(&drain->map.store->next_instance, __ATOMIC_RELAXED);
	uint32_t ahead = drain->reach == DRAIN_ALL ? SLOTS_AHEAD_LAST : SLOTS_AHEAD;

	if (claims < drain->slots_named)
		claims = drain->slots_named;
	if (claims >= drain->map.slot_count || drain->map.slot_count - claims < ahead)
		return drain->map.slot_count;
	return (uint32_t)claims + ahead;
}

/* With the block policy, writers stop waiting if this time gets too old. */
static void say_drained(struct drain *drain)
{
	__atomic_store_n(&drain->map.store->drained_ns, ticks_monotonic_ns(), __ATOMIC_RELEASE);
}

int drain_new(struct drain **drain, int fd, uint32_t pid)
{
	struct drain *new = calloc(1, sizeof(*new));
	int err;

	if (!new)
		return -ENOMEM;
	new->pid = pid;
	new->next_instance = 1;
	err = mapping_open(&new->map, fd);
	if (!err) {
		/* room for the worst case, so that no pass fails; untouched memory costs nothing */
		new->streams = calloc(new->map.slot_count, sizeof(*new->streams));
		new->found = calloc(new->map.page_count, sizeof(*new->found));
		if (!new->streams || !new->found)
			err = -ENOMEM;
	}
	if (err) {
		drain_free(new);
		return err;
	}
	say_drained(new);
	ticks_now(new->map.clock, &new->born);
	*drain = new;
	return 0;
}

void drain_free(struct drain *drain)
{
	if (!drain)
		return;
	mapping_release(&drain->map);
	free(drain->streams);
	free(drain->found);
	free(drain);
}

/* ---- forked children that write to their parent's store ---- */

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

/* Whether a slot belongs to a child that may still write; whether it belongs to a dead one. */
static int is_childs(const struct drain *drain, uint32_t slot)
{
	return slot < drain->map.slot_count && !drain->streams[slot].is_dead &&
	       __atomic_load_n(&drain->map.slots[slot].pid, __ATOMIC_RELAXED);
}

static int is_left(const struct drain *drain, uint32_t slot)
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

/* Find children that write here and have died, at most every 20 ms unless `now`. */
static void look_at_children(struct drain *drain, int now)
{
	uint32_t used = slots_used(drain);
	uint64_t now_ns = ticks_monotonic_ns();

	if (!now && now_ns < drain->children_due_ns)
		return;
	drain->children_due_ns = now_ns + CHILDREN_LOOK_NS;
	drain->any_left = 0;
	for (uint32_t slot = 0; slot < used; slot++) {
		uint32_t pid = child_of(drain, slot);

		if (pid && !drain->streams[slot].is_dead && is_gone(pid))
			stream_of(drain, slot)->is_dead = 1;
		drain->any_left |= drain->streams[slot].is_dead;
	}
}

/*
 * Cyclic policy: OPEN -> FULL, where the writer was a child that has died. Else no thread could
 * ever overwrite the page. A thread that is just overwriting a page of that slot has it OPEN, too;
 * but the events of such a page end before `written`, or the page has no event.
 */
static void left_page_close(struct drain *drain, struct wm_page *page)
{
	uint32_t is = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);
	uint64_t before = __atomic_load_n(&page->before, __ATOMIC_ACQUIRE);
	uint64_t events = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE) >> 32;
	/* last: it leaves the slot before it changes */
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_ACQUIRE);
	uint64_t *written;

	if (is != PAGE_OPEN || !events || !is_left(drain, slot))
		return;
	written = &drain->map.slots[slot].written;
	if (__atomic_load_n(written, __ATOMIC_RELAXED) != before)
		return;
	__atomic_store_n(written, before + events, __ATOMIC_RELAXED);
	__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
}

static void left_pages_close(struct drain *drain)
{
	for (uint32_t i = 0; i < drain->map.page_count && drain->any_left; i++)
		if (__atomic_load_n(&drain->map.taken[i], __ATOMIC_ACQUIRE))
			left_page_close(drain, &drain->map.pages[i]);
}

static int any_child(const struct drain *drain, int (*maps)(pid_t pid, void *data), void *data)
{
	uint32_t used = slots_used(drain);

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

/* ---- finding pages ---- */

/*
 * Note the present content of an open page: its ids must be known before it is taken. The time must
 * be that of the last event, or of the one being written, since the next part begins with it.
 * Returns 0 if the writer is too fast; then it fills the page soon.
 */
static int part_find(const struct wm_page *page, struct found *found)
{
	uint64_t word = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&page->state, __ATOMIC_RELAXED) != PAGE_OPEN)
		return 1;
	for (unsigned int i = 0; i < PART_TRIES; i++) {
		uint64_t again;

		found->end_ticks = __atomic_load_n(&page->end_ticks, __ATOMIC_ACQUIRE);
		again = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);
		if (again == word) {
			found->word = word;
			return 1;
		}
		word = again;
	}
	return 0;
}

/* Whether to take only a part of an open page, because a thread still writes to it. */
static int is_in_parts(const struct drain *drain, uint32_t slot)
{
	return !is_left(drain, slot) && (drain->reach == DRAIN_PARTS ||
					 (drain->reach == DRAIN_ALL && is_childs(drain, slot)));
}

static void found_add(struct drain *drain, uint32_t number)
{
	struct wm_page *page = &drain->map.pages[number];
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);

	struct found found = { .page = number };

	/* a page of an unknown slot is invalid; it sorts last and is dropped */
	if (slot >= drain->map.slot_count)
		slot = UINT32_MAX;
	found.tid = slot == UINT32_MAX ? UINT32_MAX : drain->map.slots[slot].tid;
	found.slot = slot;
	found.seq = __atomic_load_n(&page->seq, __ATOMIC_RELAXED);
	if (is_in_parts(drain, slot) && !part_find(page, &found))
		return;
	drain->found[drain->found_count++] = found;
}

static int page_wanted(const struct drain *drain, uint32_t number)
{
	const struct wm_page *page = &drain->map.pages[number];
	/* pairs with the writer's release stores of FULL and of OPEN */
	uint32_t state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);

	if (state != PAGE_OPEN || is_left(drain, slot))
		return state == PAGE_FULL || state == PAGE_OPEN;
	/* rows change as long as someone writes: no part of them is taken */
	if (__atomic_load_n(&page->use, __ATOMIC_RELAXED) == PAGE_ROWS)
		return drain->reach == DRAIN_ALL && (drain->is_last || !is_childs(drain, slot));
	return drain->reach != DRAIN_READY;
}

/* Order by thread, then by stream, then by sequence number. */
static int found_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->page < y->page ? -1 : x->page > y->page;
}

void drain_expect_end(struct drain *drain)
{
	drain->is_last = 1;
}

int drain_scan(struct drain *drain, enum drain_reach reach)
{
	const struct mapping *map = &drain->map;

	drain->reach = reach;
	drain->found_count = 0;
	look_at_children(drain, reach == DRAIN_ALL);
	if (is_cyclic(drain) && reach != DRAIN_ALL) {
		left_pages_close(drain);
		return 0;
	}
	for (uint32_t i = 0; i < map->page_count; i++) {
		if (__atomic_load_n(&map->taken[i], __ATOMIC_ACQUIRE) && page_wanted(drain, i))
			found_add(drain, i);
	}
	qsort(drain->found, drain->found_count, sizeof(*drain->found), found_order);
	return drain->found_count > INT_MAX ? INT_MAX : (int)drain->found_count;
}

/* ---- packets ---- */

/* Fill in the head of a packet without events, except its times. */
static void packet_head(struct drain *drain, struct wm_packet *head, const struct stream *stream)
{
	*head = (struct wm_packet){
		.instance = stream->instance,
		.discarded = stream->reported,
		.pid = stream->pid ? stream->pid : drain->pid,
		.tid = stream->tid,
		.depth = stream->depth,
	};
}

/* Set the packet's begin, in all clocks. The rate is that of the clocks since this drain began. */
static void packet_begin(const struct drain *drain, struct wm_packet *head, uint64_t ticks)
{
	struct ticks_point now;
	uint64_t ns = 0;

	ticks_now(drain->map.clock, &now);
	if (now.ticks > drain->born.ticks && ticks > head->begin_ticks)
		ns = (uint64_t)((double)(ticks - head->begin_ticks) *
				(double)(now.monotonic_ns - drain->born.monotonic_ns) /
				(double)(now.ticks - drain->born.ticks));
	head->begin_ticks = ticks;
	head->monotonic_ns += ns;
	head->monotonic_raw_ns += ns;
	head->realtime_ns += ns;
}

/* Leave out the parts of the page that were written before. */
static void packet_cut(const struct drain *drain, const struct stream *stream, uint64_t seq,
		       struct drain_packet *packet)
{
	if (!stream->part_bytes || stream->part_seq != seq)
		return;
	/* a page that shrank since is damaged: hand on nothing more of it */
	if (packet->bytes < stream->part_bytes || packet->events < stream->part_events) {
		packet->bytes = 0;
		packet->events = 0;
		return;
	}
	packet->content = (const char *)packet->content + stream->part_bytes;
	packet->bytes -= stream->part_bytes;
	packet->events -= stream->part_events;
	packet_begin(drain, packet->head, stream->part_ticks);
	if (packet->head->end_ticks < packet->head->begin_ticks)
		packet->head->end_ticks = packet->head->begin_ticks;
}

/*
 * Make a packet of a page. `word`, as wm_page's, says how much was written, and `end_ticks` up to
 * which time. Returns 0 if the page's content is invalid, else 1.
 */
static int packet_of(struct drain *drain, struct stream *stream, const struct found *found,
		     uint64_t word, uint64_t end_ticks, struct drain_packet *packet)
{
	const struct wm_page *page = &drain->map.pages[found->page];
	uint32_t commit = (uint32_t)word;
	struct wm_slot *slot = &drain->map.slots[found->slot];
	struct wm_packet *head = packet->head;
	uint64_t discarded = __atomic_load_n(&page->discarded, __ATOMIC_RELAXED);

	if (commit < PAGE_HEAD_BYTES || commit > STORE_PAGE_BYTES)
		return 0;
	/* the page has the slot's count of losses from when it was opened */
	stream_count(stream, &slot->discarded);
	if (discarded > stream->discarded)
		discarded = stream->discarded;
	discarded += stream->lost;
	if (discarded > stream->reported && drain->reach != DRAIN_PEEK)
		stream->reported = discarded;

	packet_head(drain, head, stream);
	head->begin_ticks = page->begin_ticks;
	head->end_ticks = end_ticks > head->begin_ticks ? end_ticks : head->begin_ticks;
	head->seq = page->seq + stream->shift;
	head->monotonic_ns = page->monotonic_ns;
	head->monotonic_raw_ns = page->monotonic_raw_ns;
	head->realtime_ns = page->realtime_ns;
	memcpy(head->comm, slot->comm, sizeof(head->comm));
	head->comm[sizeof(head->comm) - 1] = 0;
	packet->content = drain->map.data + (size_t)found->page * STORE_PAGE_BYTES +
			  PAGE_HEAD_BYTES;
	packet->bytes = commit - PAGE_HEAD_BYTES;
	packet->events = word >> 32;
	packet->delivered = &stream->delivered;
	packet->keep = 0;
	packet_cut(drain, stream, found->seq, packet);
	return 1;
}

/* The same, with the page's own word and end_ticks. */
static int packet_of_page(struct drain *drain, struct stream *stream, const struct found *found,
			  struct drain_packet *packet)
{
	const struct wm_page *page = &drain->map.pages[found->page];
	/* acquire: all bytes, counts and times before it are complete (abi/page.h) */
	uint64_t word = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);

	return packet_of(drain, stream, found, word, page->end_ticks, packet);
}

/* ---- taking pages ---- */

/* TAKEN -> FREE, then give it back; then count it in `freed`, for writers that lack room. */
static void page_return(struct drain *drain, uint32_t number, uint32_t slot)
{
	if (slot < drain->map.slot_count)
		__atomic_fetch_sub(&drain->map.slots[slot].pages, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&drain->map.pages[number].state, PAGE_FREE, __ATOMIC_RELAXED);
	/* 1 -> 0; pairs with the acquire of the writer that takes the page next */
	__atomic_store_n(&drain->map.taken[number], 0, __ATOMIC_RELEASE);
	__atomic_fetch_add(&drain->map.store->freed, 1, __ATOMIC_RELEASE);
}

/* Whether no thread writes to this open page any more. */
static int is_abandoned(const struct drain *drain, uint32_t slot)
{
	return is_left(drain, slot) || (drain->reach == DRAIN_ALL && !is_childs(drain, slot));
}

/* FULL -> TAKEN, or OPEN -> TAKEN if no thread writes to it. Returns 0 if it can't be taken. */
static int page_claim(struct drain *drain, uint32_t number, uint32_t slot)
{
	uint32_t *state = &drain->map.pages[number].state;
	uint32_t is = __atomic_load_n(state, __ATOMIC_ACQUIRE);

	if (is != PAGE_FULL && (is != PAGE_OPEN || !is_abandoned(drain, slot)))
		return 0;
	return __atomic_compare_exchange_n(state, &is, PAGE_TAKEN, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/*
 * CTF readers take the losses of a stream's first packet for losses before the trace, and some do
 * not report these. So put an empty packet without losses before it.
 */
static void losses_first(struct drain *drain, struct stream *stream, struct wm_packet *head,
			 const struct drain_sink *sink)
{
	struct wm_packet first = *head;
	struct drain_packet packet = { .head = &first,
				       .content = "",
				       .delivered = &stream->delivered };

	if (stream->begun || !head->discarded)
		return;
	first.discarded = 0;
	first.seq = 0;
	if (drain->born.ticks < first.begin_ticks) {
		first.begin_ticks = drain->born.ticks;
		first.monotonic_ns = drain->born.monotonic_ns;
		first.monotonic_raw_ns = drain->born.monotonic_raw_ns;
		first.realtime_ns = drain->born.realtime_ns;
	}
	first.end_ticks = first.begin_ticks;
	stream->shift++;
	head->seq++;
	/* if it fails, so will the packet after it, which reports the error */
	sink->packet(&packet, sink->data);
}

/* Give a page to a live reader. Take it only if it is full and the reader has seen all of it. */
static int page_peek(struct drain *drain, const struct found *found, const struct drain_sink *sink)
{
	struct stream *stream = stream_of(drain, found->slot);
	uint32_t *state = &drain->map.pages[found->page].state;
	uint32_t is = __atomic_load_n(state, __ATOMIC_ACQUIRE);
	struct wm_packet head;
	struct drain_packet packet = { .head = &head };
	uint64_t before = stream->delivered;
	int err;

	if (is != PAGE_FULL && is != PAGE_OPEN)
		return 0;
	if (!packet_of_page(drain, stream, found, &packet)) {
		if (is == PAGE_OPEN && !is_left(drain, found->slot))
			/* just opened, or invalid: that shows when it is full */
			return 0;
		drain->counts.damaged++;
		packet.bytes = 0;
	}
	err = packet.bytes ? sink->packet(&packet, sink->data) : 0;
	drain->counts.recorded += stream->delivered - before;
	if (err || packet.keep || (is == PAGE_OPEN && !is_left(drain, found->slot)))
		return err;
	if (!__atomic_compare_exchange_n(state, &is, PAGE_TAKEN, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	drain->counts.bytes += packet.bytes;
	stream->delivered = 0;
	stream->next_seq = found->seq + 1;
	page_return(drain, found->page, found->slot);
	return 0;
}

static int page_take(struct drain *drain, const struct found *found, const struct drain_sink *sink)
{
	struct stream *stream = stream_of(drain, found->slot);
	struct wm_page *page = &drain->map.pages[found->page];
	struct wm_packet head;
	struct drain_packet packet = { .head = &head };
	uint64_t before = stream->delivered, events, position;
	uint32_t part = stream->part_seq == found->seq ? stream->part_events : 0;
	int err = 0;

	if (!page_claim(drain, found->page, found->slot))
		return 0;
	events = page->events > part ? page->events - part : 0;
	position = page->before;
	if (is_cyclic(drain))
		stream_skip(stream, position);
	if (!packet_of_page(drain, stream, found, &packet)) {
		drain->counts.damaged++;
		stream->lost += events;
	} else if (packet.bytes) {
		losses_first(drain, stream, &head, sink);
		stream->begun = 1;
		err = sink->packet(&packet, sink->data);
		if (err < 0) {
			stream->lost += events - (before < events ? before : events);
		} else {
			drain->counts.recorded += packet.events > before ? packet.events - before
									 : 0;
			drain->counts.bytes += packet.keep ? 0 : packet.bytes;
			stream->last_ticks = head.end_ticks;
		}
	} else if (part) {
		/* all of the page was written as parts: the next page gets its number */
		stream->shift--;
	}
	if (packet.keep) {
		/*
		 * TAKEN -> FULL: a live reader wants the page again, and no thread writes any more
		 */
		__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
		stream->kept = 1;
		return 0;
	}
	if (is_cyclic(drain))
		stream_pass(stream, position, events);
	stream->delivered = stream->part_bytes = 0;
	stream->part_events = 0;
	stream->next_seq = found->seq + 1;
	page_return(drain, found->page, found->slot);
	return err < 0 ? err : packet.bytes > 0;
}

/* Write the present content of an open page as a separate packet. The writer continues. */
static int page_part(struct drain *drain, const struct found *found, const struct drain_sink *sink)
{
	struct stream *stream = stream_of(drain, found->slot);
	uint64_t position = drain->map.pages[found->page].before;
	struct wm_packet head;
	struct drain_packet packet = { .head = &head };
	int err;

	/* the open page is the stream's newest: no earlier page will follow */
	if (drain->reach == DRAIN_ALL) {
		if (is_cyclic(drain))
			stream_skip(stream, position);
		stream->next_seq = found->seq;
	}
	/* a page before it has not been taken yet */
	if (found->seq != stream->next_seq ||
	    !packet_of(drain, stream, found, found->word, found->end_ticks, &packet) ||
	    !packet.bytes)
		return 0;
	losses_first(drain, stream, &head, sink);
	err = sink->packet(&packet, sink->data);
	if (err < 0 && drain->reach != DRAIN_ALL)
		return err; /* retried in a later pass, with the events until then */
	stream->begun = 1;
	if (err >= 0)
		stream->last_ticks = head.end_ticks;
	stream->part_bytes = stream->part_seq == found->seq ? stream->part_bytes : 0;
	stream->part_events = stream->part_bytes ? stream->part_events : 0;
	stream->part_seq = found->seq;
	stream->part_ticks = head.end_ticks;
	stream->part_bytes += (uint32_t)packet.bytes;
	stream->part_events += (uint32_t)packet.events;
	stream->shift++;
	if (is_cyclic(drain))
		stream_pass(stream, position, packet.events);
	if (err < 0) {
		stream->lost += packet.events;
		return err;
	}
	drain->counts.recorded += packet.events;
	drain->counts.bytes += packet.bytes;
	return 1;
}

/* Whether this page, and the rest of its stream, has to wait for the page before it. */
static int page_must_wait(const struct drain *drain, struct stream *stream, uint64_t seq)
{
	if (is_cyclic(drain) || drain->reach == DRAIN_ALL || seq <= stream->next_seq) {
		stream->waited = 0;
		return 0;
	}
	if (stream->waited < WAIT_PASSES) {
		stream->waited++;
		return 1;
	}
	stream->waited = 0;
	return 0;
}

/* A stream has ended: add its losses to the sum, and free its slot for another thread. */
static void stream_end(struct drain *drain, uint32_t slot)
{
	struct stream *stream = &drain->streams[slot];
	uint32_t ended = SLOT_ENDED;

	drain->counts.discarded += stream_losses(stream);
	drain->counts.rejected += __atomic_load_n(&drain->map.slots[slot].rejected,
						  __ATOMIC_RELAXED);
	*stream = (struct stream){ 0 };
	/* ENDED -> FREE; release: this thread's reads of the slot come before it */
	__atomic_compare_exchange_n(&drain->map.slots[slot].state, &ended, SLOT_FREE, 0,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* If losses are in no packet yet, write them in a packet without events. */
static int losses_write(struct drain *drain, struct stream *stream, const char *comm,
			const struct drain_sink *sink)
{
	struct wm_packet head;
	struct drain_packet packet = { .head = &head,
				       .content = "",
				       .delivered = &stream->delivered };
	struct ticks_point now;

	if (stream_losses(stream) <= stream->reported)
		return 0;
	stream->reported = stream_losses(stream);
	packet_head(drain, &head, stream);
	ticks_now(drain->map.clock, &now);
	head.begin_ticks = now.ticks > stream->last_ticks ? now.ticks : stream->last_ticks;
	head.end_ticks = head.begin_ticks;
	stream->last_ticks = head.end_ticks;
	head.seq = stream->next_seq++ + stream->shift;
	head.monotonic_ns = now.monotonic_ns;
	head.monotonic_raw_ns = now.monotonic_raw_ns;
	head.realtime_ns = now.realtime_ns;
	if (comm) {
		memcpy(head.comm, comm, sizeof(head.comm));
		head.comm[sizeof(head.comm) - 1] = 0;
	}
	losses_first(drain, stream, &head, sink);
	stream->begun = 1;
	return sink->packet(&packet, sink->data);
}

/*
 * Cyclic policy: count as lost what the slot wrote and no page has any more. Returns how many
 * events.
 */
static uint64_t overwritten_by_now(struct drain *drain, uint32_t slot)
{
	return stream_skip(&drain->streams[slot],
			   __atomic_load_n(&drain->map.slots[slot].written, __ATOMIC_RELAXED));
}

/* A slot's thread has ended and its pages are taken: write its losses, free the slot. */
static int slot_retire(struct drain *drain, uint32_t slot, const struct drain_sink *sink)
{
	struct stream *stream = stream_of(drain, slot);
	int err = 0;

	stream_count(stream, &drain->map.slots[slot].discarded);
	if (is_cyclic(drain))
		drain->overwritten += overwritten_by_now(drain, slot);
	if (is_cyclic(drain) && !stream->begun) {
		/* all its events were overwritten: make no file for an empty stream */
		drain->homeless.lost += stream_losses(stream);
		stream->discarded = stream->lost = 0;
	} else {
		err = losses_write(drain, stream, drain->map.slots[slot].comm, sink);
	}
	stream_end(drain, slot);
	return err;
}

/*
 * Overwritten events that no stream counts as lost yet. The writers' count may be wrong by a few
 * pages if threads were killed, so it is only used while they run.
 */
static uint64_t overwritten_since(struct drain *drain)
{
	uint64_t now = __atomic_load_n(&drain->map.store->overwritten, __ATOMIC_RELAXED);

	if (!is_cyclic(drain))
		return 0;
	drain->overwritten_counted = now;
	if (drain->reach == DRAIN_ALL)
		drain->overwritten = now;
	return now > drain->overwritten ? now - drain->overwritten : 0;
}

/* Look at all slots: count losses, and retire ENDED slots without pages. */
static int slots_sweep(struct drain *drain, const struct drain_sink *sink)
{
	const struct mapping *map = &drain->map;
	uint32_t used = slots_used(drain);
	uint64_t live = 0;
	int first = 0;

	for (uint32_t slot = 0; slot < used; slot++) {
		struct wm_slot *from = &map->slots[slot];
		/* pairs with the release store of LIVE -> ENDED: pages and discarded are final */
		uint32_t state = __atomic_load_n(&from->state, __ATOMIC_ACQUIRE);

		/* LIVE -> ENDED: it belongs to a dead child, and all of its pages were taken */
		if (state == SLOT_LIVE && is_left(drain, slot) &&
		    !__atomic_load_n(&from->pages, __ATOMIC_ACQUIRE) &&
		    __atomic_compare_exchange_n(&from->state, &state, SLOT_ENDED, 0,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			state = SLOT_ENDED;
		if (state == SLOT_ENDED && !__atomic_load_n(&from->pages, __ATOMIC_ACQUIRE)) {
			int err = slot_retire(drain, slot, sink);

			if (err < 0 && !first)
				first = err;
		} else if (state == SLOT_LIVE || state == SLOT_ENDED ||
			   drain->streams[slot].instance) {
			struct stream *stream = stream_of(drain, slot);

			stream_count(stream, &from->discarded);
			/* all pages were read, so what is missing is lost */
			if (is_cyclic(drain) && drain->reach == DRAIN_ALL && !stream->kept)
				overwritten_by_now(drain, slot);
			stream->kept = 0;
			live += stream_losses(stream);
		}
	}
	stream_count(&drain->homeless, &map->store->discarded);
	drain->live_discarded = live + stream_losses(&drain->homeless) + overwritten_since(drain);
	return first;
}

int drain_take(struct drain *drain, const struct drain_sink *sink)
{
	int first = 0, packets = 0, err;
	uint32_t waits = UINT32_MAX; /* the slot whose pages have to wait for the next pass */
	uint32_t parts = 0, next_part = 0;

	for (uint32_t i = 0; i < drain->found_count; i++) {
		const struct found *found = &drain->found[i];

		if (found->slot == UINT32_MAX) {
			if (drain->reach != DRAIN_PEEK &&
			    page_claim(drain, found->page, found->slot)) {
				/*
				 * a page without events: a writer was killed while it took the page
				 * over
				 */
				drain->counts.damaged += drain->map.pages[found->page].events != 0;
				page_return(drain, found->page, found->slot);
			}
			continue;
		}
		if (found->slot == waits)
			continue;
		if (found->word) {
			if (parts == PARTS_MAX || found->tid < drain->parts_from)
				continue;
			err = page_part(drain, found, sink);
			if (err > 0 && ++parts == PARTS_MAX)
				next_part = found->tid;
			if (err < 0 && !first)
				first = err;
			packets += err > 0;
			continue;
		}
		if (page_must_wait(drain, stream_of(drain, found->slot), found->seq)) {
			waits = found->slot;
			continue;
		}
		err = drain->reach == DRAIN_PEEK ? page_peek(drain, found, sink)
						 : page_take(drain, found, sink);
		if (drain->reach == DRAIN_PEEK &&
		    drain->streams[found->slot].next_seq <= found->seq)
			/* the page stays, so the later ones of its slot must stay too */
			waits = found->slot;
		if (err > 0)
			packets++;
		else if (err < 0 && !first)
			first = err;
	}
	drain->found_count = 0;
	if (drain->reach == DRAIN_PARTS)
		drain->parts_from = next_part;
	err = slots_sweep(drain, sink);
	say_drained(drain);
	return first ? first : err < 0 ? err : packets;
}

int drain_finish(struct drain *drain, const struct drain_sink *sink)
{
	const struct mapping *map = &drain->map;
	uint32_t used = slots_used(drain);
	int first = 0, err;

	for (uint32_t slot = 0; slot < used; slot++) {
		struct wm_slot *from = &map->slots[slot];
		uint32_t state = __atomic_load_n(&from->state, __ATOMIC_ACQUIRE);

		if (state != SLOT_LIVE && state != SLOT_ENDED && !drain->streams[slot].instance)
			continue;
		stream_count(stream_of(drain, slot), &from->discarded);
		err = losses_write(drain, &drain->streams[slot], from->comm, sink);
		if (err < 0 && !first)
			first = err;
	}
	stream_count(&drain->homeless, &map->store->discarded);
	if (!drain->homeless.instance)
		drain->homeless.instance = drain->next_instance++;
	err = losses_write(drain, &drain->homeless, NULL, sink);
	if (err < 0 && !first)
		first = err;
	slots_sweep(drain, sink);
	return first;
}

/* ---- counts ---- */

static uint64_t page_held(const struct drain *drain, const struct wm_page *page)
{
	uint32_t state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);
	uint64_t events = __atomic_load_n(&page->word, __ATOMIC_RELAXED) >> 32, part = 0;

	if ((state != PAGE_OPEN && state != PAGE_FULL) || slot >= drain->map.slot_count)
		return 0;
	if (drain->streams[slot].part_seq == __atomic_load_n(&page->seq, __ATOMIC_RELAXED))
		part = drain->streams[slot].part_events;
	return events > part ? events - part : 0;
}

uint64_t drain_held(const struct drain *drain)
{
	const struct mapping *map = &drain->map;
	uint64_t overwritten = __atomic_load_n(&map->store->overwritten, __ATOMIC_RELAXED);
	uint64_t held = 0;

	for (uint32_t i = 0; i < map->page_count; i++) {
		if (__atomic_load_n(&map->taken[i], __ATOMIC_ACQUIRE))
			held += page_held(drain, &map->pages[i]);
	}
	if (is_cyclic(drain) && overwritten > drain->overwritten_counted)
		held += overwritten - drain->overwritten_counted;
	return held;
}

/* Losses since the last sweep, as the writers count them. */
static uint64_t discarded_since(const struct drain *drain)
{
	const struct wm_store *store = drain->map.store;
	uint64_t now = __atomic_load_n(&store->discarded, __ATOMIC_RELAXED);
	uint64_t since = now > drain->homeless.discarded ? now - drain->homeless.discarded : 0;
	uint32_t used = slots_used(drain);

	for (uint32_t i = 0; i < used; i++) {
		const struct wm_slot *slot = &drain->map.slots[i];
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		now = __atomic_load_n(&slot->discarded, __ATOMIC_RELAXED);
		if ((state == SLOT_LIVE || state == SLOT_ENDED) &&
		    now > drain->streams[i].discarded)
			since += now - drain->streams[i].discarded;
	}
	return since;
}

/* Hits that predicates rejected, of the streams that have not ended. */
static uint64_t rejected_live(const struct drain *drain)
{
	uint64_t count = __atomic_load_n(&drain->map.store->rejected, __ATOMIC_RELAXED);
	uint32_t used = slots_used(drain);

	for (uint32_t i = 0; i < used; i++) {
		const struct wm_slot *slot = &drain->map.slots[i];
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (state == SLOT_LIVE || state == SLOT_ENDED)
			count += __atomic_load_n(&slot->rejected, __ATOMIC_RELAXED);
	}
	return count;
}

uint32_t drain_handler(const struct drain *drain)
{
	uint32_t used = slots_used(drain), handler = 0;

	for (uint32_t i = 0; i < used && !handler; i++)
		if (__atomic_load_n(&drain->map.slots[i].state, __ATOMIC_ACQUIRE) == SLOT_LIVE)
			handler = __atomic_load_n(&drain->map.slots[i].handler, __ATOMIC_RELAXED);
	return handler;
}

void drain_count(const struct drain *drain, struct drain_counts *counts)
{
	*counts = drain->counts;
	counts->rejected += rejected_live(drain);
	counts->discarded += drain->live_discarded + discarded_since(drain);
	counts->crowded_out = __atomic_load_n(&drain->map.store->crowded_out, __ATOMIC_RELAXED);
	counts->unreadable = __atomic_load_n(&drain->map.store->unreadable, __ATOMIC_RELAXED);
}

void drain_count_add(const struct drain *drain, struct drain_counts *to)
{
	struct drain_counts counts;

	drain_count(drain, &counts);
	to->recorded += counts.recorded;
	to->discarded += counts.discarded;
	to->bytes += counts.bytes;
	to->damaged += counts.damaged;
	to->crowded_out += counts.crowded_out;
	to->rejected += counts.rejected;
	to->unreadable += counts.unreadable;
	to->children += counts.children;
}

uint64_t drain_unread(const struct drain *drain)
{
	uint64_t held = drain_held(drain), delivered = 0;

	for (uint32_t slot = 0; slot < drain->slots_named; slot++)
		delivered += drain->streams[slot].delivered;
	return held > delivered ? held - delivered : 0;
}

uint64_t drain_used_bytes(const struct drain *drain)
{
	uint64_t used = 0;

	for (uint32_t i = 0; i < drain->map.page_count; i++) {
		if (__atomic_load_n(&drain->map.taken[i], __ATOMIC_RELAXED))
			used += STORE_PAGE_BYTES;
	}
	return used;
}

uint64_t drain_buffer_bytes(const struct drain *drain)
{
	return (uint64_t)drain->map.page_count * STORE_PAGE_BYTES;
}

uint32_t drain_clock(const struct drain *drain)
{
	return drain->map.clock;
}
