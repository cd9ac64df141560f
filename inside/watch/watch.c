/* SPDX-License-Identifier: MIT */
#include "inside/watch/watch.h"

#include "base/condition.h"
#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/detour/return.h"
#include "inside/marker/careful.h"
#include "inside/marker/module.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/idle.h"
#include "inside/store/event_store.h"
#include "inside/watch/follow.h"
#include "inside/watch/frame.h"
#include "inside/watch/sigtrap.h"
#include "inside/watch/trap.h"
#include "inside/watch/watch_entry.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define LEAVE_TRIES 100
#define LEAVE_PAUSE_NS 1000000
#define FEARED_MAX 16
#define WATCH_FRAMES (WATCH_FRAME_ENTRY | WATCH_OF_FRAME)

/* Who asked: it has the kernel's events. */
struct owner {
	pid_t pid; /* 0: it can't be named, and so its end is never seen */
	int pidfd;
	int has_pidfd;
	uint32_t magic;
};

/* Of each session. */
static struct tool {
	struct watch_table *table;
	struct owner owner; /* of what asked last */
} tools[SESSIONS_MAX];

/* Owners that hung up and whose events may still come, whichever session has their lane by now. */
static struct owner feared[FEARED_MAX];
static unsigned int feared_count;

_Static_assert(SESSIONS_MAX + FEARED_MAX < WATCH_PAST_MAX, "each one's magic is kept");

static unsigned int magic_hand;

void (*watch_lost)(unsigned int lane, int error);

/* ---- entries ---- */

static uint64_t bit_of(const struct watch_entry *entry)
{
	return UINT64_C(1) << (entry - watch_entries);
}

static int is_live(const struct watch_entry *entry)
{
	return (watch_live & bit_of(entry)) != 0;
}

static struct watch_entry *find(unsigned int lane, uint32_t number)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		struct watch_entry *entry = &watch_entries[i];

		if (is_live(entry) && entry->lane == lane && entry->about.number == number)
			return entry;
	}
	return NULL;
}

/* The first that is free, and its row in the session's table. */
static struct watch_entry *find_free(void)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		if (!watch_entries[i].is_used)
			return &watch_entries[i];
	}
	return NULL;
}

/* Local variables, and be it that somebody is in a hit of theirs still. */
static int has_frames(unsigned int lane)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		if (watch_entries[i].is_used && watch_entries[i].lane == lane &&
		    watch_entries[i].about.flags & WATCH_FRAMES)
			return 1;
	}
	return 0;
}

/* Whether hits with it may come still. */
static int is_held(uint32_t magic)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (tools[i].table && tools[i].owner.magic == magic)
			return 1;
	}
	for (unsigned int i = 0; i < feared_count; i++) {
		if (feared[i].magic == magic)
			return 1;
	}
	return 0;
}

static void learn_magic(uint32_t magic)
{
	for (unsigned int i = 0; i < WATCH_PAST_MAX; i++) {
		if (watch_past[i] == magic)
			return;
	}
	while (is_held(watch_past[magic_hand % WATCH_PAST_MAX]))
		magic_hand++;
	__atomic_store_n(&watch_past[magic_hand++ % WATCH_PAST_MAX], magic, __ATOMIC_RELEASE);
}

/* ---- whether what is asked for is a watch ---- */

#define SIGNALS 64

static int is_size_of(uint8_t type, unsigned int bytes)
{
	switch (type) {
	case WM_TYPE_I8:
	case WM_TYPE_U8:
	case WM_TYPE_BOOL:
	case WM_TYPE_CHAR:
		return bytes == 1;
	case WM_TYPE_I16:
	case WM_TYPE_U16:
		return bytes == 2;
	case WM_TYPE_I32:
	case WM_TYPE_U32:
	case WM_TYPE_F32:
		return bytes == 4;
	case WM_TYPE_I64:
	case WM_TYPE_U64:
	case WM_TYPE_F64:
	case WM_TYPE_PTR:
		return bytes == 8;
	default:
		return 0;
	}
}

static int is_sound_frame(const struct control_watch *about)
{
	if (about->flags & WATCH_FRAME_ENTRY &&
	    (about->on != WATCH_ON_EXECUTE || !(about->flags & WATCH_COUNT_ONLY) ||
	     about->flags & WATCH_OF_FRAME))
		return 0;
	return !(about->flags & WATCH_OF_FRAME && about->on == WATCH_ON_EXECUTE) &&
	       about->group < FRAME_GROUPS_MAX && about->frame < FRAMES_MAX;
}

static int is_sound_follow(const struct control_watch *about)
{
	if (!(about->flags & WATCH_FOLLOWS))
		return 1;
	if (about->flags & WATCH_LEADS && (about->on != WATCH_ON_WRITE || about->bytes != 8 ||
					   !(about->flags & WATCH_COUNT_ONLY)))
		return 0;
	return (about->flags & WATCH_FOLLOWS) != WATCH_FOLLOWS && about->on != WATCH_ON_EXECUTE &&
	       !(about->flags & (WATCH_OF_FRAME | WATCH_FRAME_ENTRY)) &&
	       about->group < FOLLOWS_MAX && about->frame <= FOLLOW_POINTERS_MAX && !about->address;
}

static int is_sound(const struct control_watch *about, const char *text, size_t bytes)
{
	int is_part = (about->flags & WATCH_WITH_OFFSET) != 0;

	if (!about->bytes || about->bytes > WATCH_BYTES_MAX || about->bytes & (about->bytes - 1) ||
	    (about->on != WATCH_ON_EXECUTE && about->address % about->bytes))
		return 0;
	if (about->on < WATCH_ON_WRITE || about->on > WATCH_ON_EXECUTE ||
	    about->flags & ~(WATCH_COUNT_ONLY | WATCH_WITH_OFFSET | WATCH_FRAME_ENTRY |
			     WATCH_MOVES | WATCH_KEEPS_TRAIL))
		return 0;
	if (!is_sound_frame(about) || !is_sound_follow(about))
		return 0;
	if (is_part ? about->type != WM_TYPE_U64 : !is_size_of(about->type, about->bytes))
		return 0;
	if (about->bits && (is_part || about->bit + (unsigned int)about->bits > 8u * about->bytes))
		return 0;
	if (about->signal > SIGNALS || about->signal == SIGTRAP ||
	    about->callers > WATCH_CALLERS_MAX || about->number > UINT16_MAX || !about->magic)
		return 0;
	for (unsigned int i = 0; i < WATCH_CONDITIONS_MAX; i++) {
		const struct watch_condition *condition = &about->conditions[i];

		if (condition->of && !condition_is_sound(condition, about->bytes))
			return 0;
	}
	if (about->event != about->number || about->flags & WATCH_COUNT_ONLY)
		return !bytes;
	return bytes && bytes <= SITE_TEXT_MAX && !text[bytes - 1] && strlen(text) == bytes - 1;
}

/* ---- the table ---- */

static int make_table(struct tool *tool, int *fd)
{
	size_t bytes = sizeof(struct watch_table);
	void *map;
	int error;

	*fd = kernel_memfd_sized("waymark-watches", bytes);
	if (*fd < 0)
		return -errno;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (map == MAP_FAILED) {
		error = -errno;
		kernel_close(*fd);
		*fd = -1;
		return error;
	}
	/* a child of fork has no watches, and is not to write here */
	madvise(map, bytes, MADV_DONTFORK);
	tool->table = map;
	return 0;
}

static void drop_table(unsigned int lane)
{
	struct tool *tool = &tools[lane];

	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		if (watch_entries[i].is_used && watch_entries[i].lane == lane)
			return;
	}
	if (tool->table)
		munmap(tool->table, sizeof *tool->table);
	tool->table = NULL;
}

/* ---- events ---- */

static int make_event(struct watch_entry *entry, const char *text, size_t bytes)
{
	unsigned int lane = entry->lane;
	struct variant *own = &entry->own;

	*own = (struct variant){ .lanes = 1u << lane, .number = own->number };
	watch_field_types(&entry->about, own->types);
	entry->text = heap_copy(text, bytes);
	if (!entry->text)
		return -ENOMEM;
	entry->text_bytes = bytes;
	entry->site = (struct site){ .text = entry->text, .text_bytes = (uint32_t)bytes };
	own->sites = &entry->site;
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		own->ids[i] = EVENT_ID_NONE;
	own->ids[lane] = registry_next_id(lane);
	if (registry_listener)
		registry_listener->event(lane, own->ids[lane], own);
	if (registry_listener && registry_listener->flush() & 1u << lane)
		return -EPIPE;
	return planning_publish(own);
}

static void free_entry(struct watch_entry *entry)
{
	unsigned int lane = entry->lane;

	planning_drop(&entry->own);
	heap_free(entry->text, entry->text_bytes);
	entry->text = NULL;
	entry->text_bytes = 0;
	entry->is_used = 0;
	drop_table(lane);
}

static void owner_forget(struct owner *owner)
{
	if (owner->has_pidfd)
		kernel_close(owner->pidfd);
	*owner = (struct owner){ 0 };
}

/* Gone: readable when all its threads are, and with them its descriptors. */
static int owner_has_ended(struct owner *owner)
{
	struct pollfd end = { .events = POLLIN };

	if (!owner->has_pidfd && owner->pid > 0) {
		owner->pidfd = (int)kernel_call(SYS_pidfd_open, owner->pid, 0, 0, 0);
		owner->has_pidfd = owner->pidfd >= 0;
		if (!owner->has_pidfd)
			return errno == ESRCH;
	}
	end.fd = owner->pidfd;
	return owner->has_pidfd && kernel_poll(&end, 1, 0) > 0;
}

static void owner_note(struct owner *owner, pid_t pid, uint32_t magic)
{
	owner_forget(owner);
	owner->pid = pid;
	owner->magic = magic;
	owner_has_ended(owner); /* opened while it is surely there */
}

/* Leaves out those that have ended. */
static void feared_look(void)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < feared_count; i++) {
		if (owner_has_ended(&feared[i]))
			owner_forget(&feared[i]);
		else
			feared[left++] = feared[i];
	}
	feared_count = left;
}

int watch_add(unsigned int lane, const struct control_watch *about, const char *text, size_t bytes,
	      pid_t tool, int *fd)
{
	struct watch_entry *entry = find_free(), *with = NULL;
	int error;

	*fd = -1;
	if (about->flags == WATCH_FRAME_LIVES) {
		entry = find(lane, about->number);
		if (!entry || !(entry->about.flags & WATCH_FRAME_ENTRY) ||
		    about->frame >= FRAMES_MAX || about->address % sizeof about->address)
			return -WM_E_PROTOCOL;
		frame_lives(entry, about->frame, (int32_t)about->offset, about->address);
		return 0;
	}
	if (!is_sound(about, text, bytes))
		return -WM_E_PROTOCOL;
	if (about->number >= WATCH_ROWS_MAX || !entry)
		return -ENOSPC;
	if (about->event != about->number)
		with = find(lane, about->event);
	if (find(lane, about->number) || (about->event != about->number && !with))
		return -EEXIST;
	feared_look();
	/* there must be room for all, should they hang up */
	if (feared_count + SESSIONS_MAX > FEARED_MAX)
		return -EBUSY;
	/*
	 * without our return addresses the end of a frame is not seen, and without a read of
	 * the stack it is unknown whether the frame lives
	 */
	error = about->flags & WATCH_FRAME_ENTRY ? return_check() : 0;
	if (!error && about->flags & (WATCH_FRAME_ENTRY | WATCH_FOLLOWS) && !careful_is_allowed())
		error = -WM_E_TRAP_FILTER;
	if (!error)
		error = sigtrap_take();
	if (error)
		return error;
	if (!tools[lane].table) {
		error = make_table(&tools[lane], fd);
		if (error)
			return error;
	}
	if (about->flags & WATCH_FRAME_ENTRY && !has_frames(lane))
		frame_begin(lane);
	owner_note(&tools[lane].owner, tool, about->magic);
	learn_magic(about->magic);
	entry->is_used = 1;
	entry->is_gone = 0;
	entry->adding = 0;
	entry->lane = lane;
	entry->clock = store_clock(lane);
	entry->about = *about;
	entry->from_cfa = (int64_t)about->address;
	entry->row = &tools[lane].table->rows[about->number];
	entry->event = with ? with->event : &entry->own.hit;
	if (bytes)
		error = make_event(entry, text, bytes);
	DEBUG_TRACE("agent/watch", "lane %d: watch %d of %x, flags %x: error %d", lane,
		    about->number, about->address, about->flags, error);
	if (error) {
		free_entry(entry);
		return error;
	}
	__atomic_fetch_or(&watch_live, bit_of(entry), __ATOMIC_RELEASE);
	idle_expect_signals(1);
	return 0;
}

/* ---- leaving ---- */

/* Nobody is in the handler who may have seen an entry before. */
static int nobody_is_inside(void)
{
	/* pairs with take_signal()'s barrier */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return !__atomic_load_n(&watch_inside, __ATOMIC_SEQ_CST);
}

static int may_free(void)
{
	for (int tries = 0; !nobody_is_inside(); tries++) {
		if (tries == LEAVE_TRIES)
			return 0;
		kernel_sleep_ns(LEAVE_PAUSE_NS);
	}
	return 1;
}

static void free_left(void)
{
	int is_waited = 0;

	/* a wait delays forks: none is needed while nothing is left */
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		if (!watch_entries[i].is_used || is_live(&watch_entries[i]))
			continue;
		if (!is_waited && !may_free())
			return; /* the next tick */
		is_waited = 1;
		free_entry(&watch_entries[i]);
	}
}

static void settle(void)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (!tools[lane].table)
			owner_forget(&tools[lane].owner);
	}
	if (!watch_any() && !watch_waits())
		sigtrap_restore();
}

void watch_remove(unsigned int lane, uint32_t from, uint32_t to)
{
	uint32_t flags = 0;
	int any = 0;

	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		struct watch_entry *entry = &watch_entries[i];

		if (!is_live(entry) || entry->lane != lane || entry->about.number < from ||
		    entry->about.number > to)
			continue;
		__atomic_fetch_and(&watch_live, ~bit_of(entry), __ATOMIC_SEQ_CST);
		if (entry->about.flags & WATCH_FOLLOWS)
			follow_end(entry);
		flags |= entry->about.flags;
		any = 1;
	}
	/* threads that wait for a frame's watches wait in vain */
	if (flags & WATCH_FRAME_ENTRY)
		frame_release(lane);
	if (any)
		free_left();
	idle_expect_signals(watch_live != 0);
	settle();
}

void watch_release(unsigned int lane, int hung_up)
{
	struct tool *tool = &tools[lane];
	int had = 0;

	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++)
		had |= is_live(&watch_entries[i]) && watch_entries[i].lane == lane;
	if (hung_up && had) {
		feared[feared_count++] = tool->owner;
		tool->owner = (struct owner){ 0 };
	}
	frame_release(lane);
	watch_remove(lane, 0, UINT32_MAX);
}

int watch_any(void)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		if (watch_entries[i].is_used)
			return 1;
	}
	return 0;
}

int watch_waits(void)
{
	feared_look();
	return feared_count != 0;
}

int watch_any_live(void)
{
	return watch_live != 0;
}

void watch_yield(int error)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		int any = 0;

		for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++)
			any |= is_live(&watch_entries[i]) && watch_entries[i].lane == lane;
		if (any && watch_lost)
			watch_lost(lane, error);
	}
}

void watch_tick(void)
{
	int error;

	free_left();
	settle();
	if (!watch_any())
		return;
	error = sigtrap_look();
	if (error)
		watch_yield(error);
}

void watch_own_code(uintptr_t start, uintptr_t end)
{
	watch_own_start = start;
	watch_own_end = end;
}

void watch_begin(void)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		tools[lane].owner.has_pidfd = 0;
	for (unsigned int i = 0; i < feared_count; i++)
		feared[i].has_pidfd = 0;
	idle_expect_signals(0);
}

/* ---- modules, forks ---- */

/* Of a chain, the first pointer: the places behind it change. */
static uintptr_t first_place(const struct watch_entry *entry)
{
	return entry->about.flags & WATCH_FOLLOWS ? follow_start(entry) : entry->about.address;
}

static void leave_segment(const struct segment *segment)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		struct watch_entry *entry = &watch_entries[i];

		if (is_live(entry) && first_place(entry) >= segment->start &&
		    first_place(entry) < segment->end)
			__atomic_store_n(&entry->is_gone, 1, __ATOMIC_RELAXED);
	}
}

void watch_module_gone(const struct module *module)
{
	for (unsigned int i = 0; i < module->segment_count; i++)
		leave_segment(&module->segments[i]);
}

void watch_init(void)
{
	static struct registry_observer observer = { .gone = watch_module_gone };

	registry_observe(&observer);
	sigtrap_init();
}

void watch_forked(void)
{
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		struct watch_entry *entry = &watch_entries[i];

		/*
		 * its text and its plan are left to be: the heap may have been in the middle of
		 * something
		 */
		entry->is_used = 0;
		entry->own.hit.plan = NULL;
		entry->text = NULL;
	}
	memset(tools, 0, sizeof tools);
	feared_count = 0;
	watch_live = 0;
	watch_inside = 0;
	trap_spare_forked();
}
