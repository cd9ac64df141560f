/* SPDX-License-Identifier: MIT */
#include "inside/watch/take.h"

#include "arch/access_decode.h"
#include "arch/trap_frame.h"
#include "base/condition.h"
#include "base/syscall.h"
#include "inside/detour/moved.h"
#include "inside/marker/careful.h"
#include "inside/marker/hit.h"
#include "inside/store/thread_writer.h"
#include "inside/unwind/boundary.h"
#include "inside/watch/follow.h"
#include "inside/watch/frame.h"
#include "inside/watch/trap.h"
#include "inside/unwind/unwind.h"
#include "inside/watch/watch_entry.h"

#define PAYLOAD_WORDS 16u

struct watch_entry watch_entries[WATCH_ROWS_MAX];
uint64_t watch_live;
uint32_t watch_inside;
uint32_t watch_past[WATCH_PAST_MAX];
uintptr_t watch_own_start, watch_own_end;

/* One signal. */
struct hit {
	ucontext_t *context;
	struct access_decode decode;
	int is_late;
	uint8_t generation;
	uintptr_t sp;
	uintptr_t met;	/* what the kernel says was watched there; 0: not known */
	uint64_t moves; /* entries whose pointers may lead elsewhere now, a bit each */
};

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static struct watch_entry *find(uint32_t magic, uint32_t number)
{
	/* acquire: pairs with watch.c's release */
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];

		if (entry->about.magic == magic && entry->about.number == number)
			return entry;
	}
	return NULL;
}

static int is_past(uint32_t magic)
{
	/* a program's own events may say nothing there, as a row that is free does */
	for (unsigned int i = 0; magic && i < WATCH_PAST_MAX; i++) {
		if (__atomic_load_n(&watch_past[i], __ATOMIC_RELAXED) == magic)
			return 1;
	}
	return 0;
}

/* ---- the instruction ---- */

/* The code page of the instruction that has just run is mapped. */
static const uint8_t *code_at(void *data, uint64_t address, size_t bytes, int has_run,
			      uint8_t *room)
{
	(void)data;
	if (has_run)
		return (const uint8_t *)address; /* NOLINT(performance-no-int-to-ptr) */
	return careful_read(room, address, bytes) ? NULL : room;
}

static unsigned int before(void *data, uint64_t end, int *is_start)
{
	(void)data;
	return boundary_before(end, is_start);
}

static int memory_at(void *data, void *to, uint64_t from, size_t bytes)
{
	(void)data;
	return careful_read(to, from, bytes);
}

/* As libc has it there. */
static uint64_t thread_at(void)
{
	uint64_t base;

	__asm__("movq %%fs:0, %0" : "=r"(base));
	return base;
}

static int is_own_code(uintptr_t address)
{
	return address >= watch_own_start && address < watch_own_end;
}

static void look_at_code(struct hit *hit, const struct control_watch *about)
{
	const struct access_decode_reads reads = { .code = code_at,
						   .before = before,
						   .memory = memory_at,
						   .moved = moved_from,
						   .thread = thread_at };

	hit->decode.ip = trap_pc(hit->context);
	if (is_own_code(hit->decode.ip - 1)) { /* late: the program's place is not known */
		hit->decode.ip = 0;
		hit->decode.how |= WATCH_IP_UNKNOWN;
	}
	if (about->on != WATCH_ON_EXECUTE && !hit->is_late)
		access_decode_find(&hit->decode, about, hit->context, &reads);
	access_decode_copied(&hit->decode, memory_at);
}

/*
 * ---- the chain of a watched word's values (abi/watch.h, "New and old value") ----
 *
 * Each hit's old value is the new value of the hit before.
 *
 * A locked addition reveals what it added, and not the value before. Threads in here publish what
 * they added. So the caller compares the chain with memory less the additions of the others: if the
 * two agree, the value is exact. A thread between its addition and here makes them differ; then the
 * caller tries again for some microseconds.
 */

/* What one watch makes of a hit. */
struct linked {
	struct access_decode_values values;
	uint64_t ticks;
};

#define NOBODY_KNOWS UINT64_MAX
#define ADD_TRIES 32u /* until other threads' signals come: some microseconds */

/* Store both words if they are as expected; else put the current ones into *value and *ticks. */
static int exchange_pair(struct watch_row *row, uint64_t *value, uint64_t *ticks, uint64_t now,
			 uint64_t when)
{
	uint8_t is_done;

	__asm__ volatile("lock cmpxchg16b %1\n\tsetz %0"
			 : "=q"(is_done), "+m"(row->last), "+a"(*value), "+d"(*ticks)
			 : "b"(now), "c"(when)
			 : "cc", "memory");
	return is_done;
}

/*
 * Other threads have added to the word and have yet to come here: memory is ahead of the chain by
 * what they added. The threads in here have published how much. For the others, the caller tries
 * again.
 */
static void leave_out_others(const struct watch_entry *entry, uint64_t added,
			     struct access_decode_known *known)
{
	unsigned int unused = 64 - 8 * entry->about.bytes;

	known->memory -= __atomic_load_n(&entry->adding, __ATOMIC_ACQUIRE) - added;
	known->memory = known->memory << unused >> unused;
}

/*
 * Find the values, and link them in. One operation stores value and time, so the chain of values is
 * in the order of its times, even if another thread comes between reading the clock and here.
 */
static void linked_take(struct watch_entry *entry, const struct access_decode *reported,
			struct linked *seen)
{
	const struct control_watch *about = &entry->about;
	struct watch_row *row = entry->row;
	uint64_t added = 0, value, ticks, when;
	int adds = access_decode_adds(reported, about, &added), has_memory = 0;
	unsigned int tries = adds ? ADD_TRIES : 0;
	int is_whole = access_decode_is_whole(reported, about), is_done = 0;
	uint64_t memory = 0;

	if (adds)
		__atomic_fetch_add(&entry->adding, added, __ATOMIC_ACQ_REL);
	while (!is_done) {
		struct access_decode_known known = { 0 };

		value = __atomic_load_n(&row->last.value, __ATOMIC_RELAXED);
		ticks = __atomic_load_n(&row->last.ticks, __ATOMIC_RELAXED);
		if (!is_whole && (adds || !has_memory))
			has_memory = !careful_read(&memory, about->address, about->bytes);
		*seen = (struct linked){ .values.how = reported->how };
		known.memory = memory;
		known.has_memory = has_memory;
		known.before = value;
		known.has_before = ticks != NOBODY_KNOWS;
		known.is_before_uncertain = (ticks & WATCH_UNCERTAIN) != 0;
		if (adds)
			leave_out_others(entry, added, &known);
		access_decode_judge(reported, about, &known, &seen->values);
		if (tries && known.has_before && !(seen->values.how & WATCH_NEW_EXACT)) {
			tries--;
			__builtin_ia32_pause();
			continue;
		}
		seen->ticks = clock_ticks(entry->clock);
		if (known.has_before && seen->ticks <= (ticks & ~WATCH_UNCERTAIN))
			seen->ticks = (ticks & ~WATCH_UNCERTAIN) + 1;
		when = seen->values.how & WATCH_NEW_UNKNOWN ? NOBODY_KNOWS
		       : seen->values.how & WATCH_NEW_EXACT ? seen->ticks
							    : seen->ticks | WATCH_UNCERTAIN;
		is_done = exchange_pair(row, &value, &ticks, seen->values.link, when);
	}
	if (adds)
		__atomic_fetch_sub(&entry->adding, added, __ATOMIC_ACQ_REL);
}

/* ---- the event ---- */

static unsigned char *put(unsigned char *to, const void *from, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = ((const unsigned char *)from)[i];
	return to + bytes;
}

static void report(const struct hit *hit, const struct watch_entry *entry,
		   const struct linked *seen)
{
	const struct control_watch *about = &entry->about;
	uint64_t payload[PAYLOAD_WORDS], callers[WATCH_CALLERS_MAX];
	unsigned char *to = (unsigned char *)payload;
	unsigned int width = about->flags & WATCH_WITH_OFFSET ? 8 : about->bytes;

	to = put(to, &hit->decode.ip, sizeof hit->decode.ip);
	if (about->on != WATCH_ON_EXECUTE) {
		uint64_t old = watch_field_value(about, seen->values.old);
		uint64_t now = watch_field_value(about, seen->values.now);

		to = put(to, &old, width);
		to = put(to, &now, width);
		to = put(to, &seen->values.how, sizeof seen->values.how);
	}
	if (about->flags & WATCH_WITH_OFFSET)
		to = put(to, &about->offset, sizeof about->offset);
	if (about->callers) {
		unwind_callers(hit->context, callers, about->callers);
		put(to, callers, 8u * about->callers);
	}
	hit_stamped(entry->event, payload, hit->sp, seen->ticks);
}

static int is_wanted(const struct watch_entry *entry, const struct linked *seen)
{
	const struct control_watch *about = &entry->about;
	int is_left_out = 0, any_uncertain = 0;
	int32_t tid = 0;

	for (unsigned int i = 0; i < WATCH_CONDITIONS_MAX; i++) {
		const struct watch_condition *condition = &about->conditions[i];
		int doubt = condition_is_uncertain(condition, seen->values.how), holds;

		if (condition->of == WATCH_OF_TID && !tid)
			tid = (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
		holds = condition_holds(condition, seen->values.old, seen->values.now, about->bytes,
					tid);
		if (!holds && !doubt)
			return 0;
		is_left_out |= !holds;
		any_uncertain |= doubt;
	}
	if (any_uncertain)
		count(&entry->row->uncertain);
	if (is_left_out)
		count(&entry->row->uncertain_filtered);
	return !is_left_out;
}

static void raise_signal(const struct watch_entry *entry)
{
	long pid = syscall_raw(SYS_getpid, 0, 0, 0, 0), tid = syscall_raw(SYS_gettid, 0, 0, 0, 0);

	count(&entry->row->signalled);
	syscall_raw(SYS_tgkill, pid, tid, entry->about.signal, 0);
}

/* Whether what is watched is still what was meant: memory is used again. */
static int is_there(const struct watch_entry *entry)
{
	const struct control_watch *about = &entry->about;
	uint32_t number = 0;

	if (__atomic_load_n(&entry->is_gone, __ATOMIC_RELAXED))
		return 0;
	return !about->owner || (!careful_read(&number, about->owner, sizeof number) &&
				 number == about->owner_number);
}

__attribute__((noinline)) void take_keep(void)
{
	__asm__ volatile(""); /* so that the compiler keeps its calls */
}

static void hit_take(const struct hit *hit, struct watch_entry *entry)
{
	struct watch_row *row = entry->row;
	struct linked seen = { .values.how = hit->decode.how };

	count(&row->taken);
	if (access_decode_is_masked(&hit->decode, &entry->about)) {
		count(&row->masked);
		return;
	}
	if (hit->is_late)
		count(&row->late);
	if (hit->decode.how & WATCH_SHARED)
		count(&row->shared);
	if (entry->about.on == WATCH_ON_EXECUTE)
		seen.ticks = clock_ticks(entry->clock);
	else
		linked_take(entry, &hit->decode, &seen);
	if (entry->about.on != WATCH_ON_EXECUTE && !(seen.values.how & WATCH_NEW_EXACT))
		count(&row->inexact);
	if (!is_wanted(entry, &seen)) {
		count(&row->filtered);
		return;
	}
	if (entry->about.flags & WATCH_COUNT_ONLY)
		count(&row->counted);
	else
		report(hit, entry, &seen);
	if (entry->about.flags & WATCH_KEEPS_TRAIL)
		take_keep();
	if (entry->about.signal)
		raise_signal(entry);
}

/*
 * Whether a watch had kernel events when `first` was hit: generations are those of one set; others
 * have some unless they leave.
 */
static int was_armed(const struct hit *hit, const struct watch_entry *first,
		     const struct watch_entry *entry)
{
	uint32_t gate = __atomic_load_n(&entry->row->gate, __ATOMIC_ACQUIRE);

	if (entry->about.magic != first->about.magic || entry->about.set != first->about.set)
		return WATCH_GATE_STATE(gate) == WATCH_ON;
	return WATCH_GATE_TAKES(gate, hit->generation);
}

static int is_open(const struct watch_entry *entry)
{
	return WATCH_GATE_STATE(__atomic_load_n(&entry->row->gate, __ATOMIC_ACQUIRE)) == WATCH_ON;
}

/* What a frame's watch is of may be another place by now than where it was hit. */
static int is_same_word(const struct hit *hit, const struct watch_entry *first,
			const struct watch_entry *other)
{
	uintptr_t address = first->about.flags & WATCH_MOVES ? hit->met : first->about.address;

	return address == other->about.address && first->about.bytes == other->about.bytes &&
	       first->about.on == other->about.on;
}

/* Whether the word has changed since the last hit. */
static int has_changed(const struct watch_entry *entry)
{
	const struct control_watch *about = &entry->about;
	uint64_t memory = 0, value = __atomic_load_n(&entry->row->last.value, __ATOMIC_RELAXED);

	return !careful_read(&memory, about->address, about->bytes) &&
	       (memory ^ value) << (64 - 8 * about->bytes) != 0;
}

/* Whether the kernel met the entry's own word, as far as that is known without `first`. */
static int is_met_word(const struct hit *hit, const struct watch_entry *entry)
{
	return hit->met == entry->about.address &&
	       (entry->about.on == WATCH_ON_EXECUTE || !hit->decode.is_told);
}

/*
 * Whether a hit of `first` is one of this entry's: it is the very word, or the instruction is known
 * to have met it. For a word in a frame only the second is certain: the hit may belong to what was
 * at that place before. If it is unknown how far the instruction wrote, it wrote each word that
 * changed. `first` is NULL if its entry is free by now.
 */
static int is_hit_too(const struct hit *hit, const struct watch_entry *first,
		      const struct watch_entry *entry)
{
	const struct control_watch *about = &entry->about;

	if (!(about->flags & WATCH_OF_FRAME) &&
	    (first ? is_same_word(hit, first, entry) : is_met_word(hit, entry)))
		return 1;
	if (about->on == WATCH_ON_EXECUTE)
		return 0;
	return access_decode_covers(&hit->decode, about) ||
	       (access_decode_may_cover(&hit->decode, about) && has_changed(entry));
}

/* A push to where a living frame has a variable is how the frame was given room, not a value. */
static int is_push(const struct hit *hit)
{
	uint8_t code[2];

	if (!hit->decode.is_told || hit->decode.written.address != trap_stack(hit->context) ||
	    careful_read(code, hit->decode.ip, sizeof code))
		return 0;
	return (code[code[0] == 0x41] & 0xf8) == 0x50 || code[0] == 0x68 || code[0] == 0x6a ||
	       (code[0] == 0xff && (code[1] & 0x38) == 0x30);
}

/* The signal's address is in a frame: the variable there may have ended. */
static void take_in_frame(struct hit *hit, struct watch_entry *entry)
{
	enum frame_hit of = frame_hold(entry, hit->context, hit->met);

	look_at_code(hit, &entry->about);
	if (of == FRAME_HIT && is_push(hit)) {
		frame_is_outside(entry);
		count(&entry->row->dropped);
	} else if (of == FRAME_HIT) {
		hit_take(hit, entry);
	} else if (of == FRAME_PAST) {
		count(&entry->row->dropped);
	} else {
		count(&entry->row->taken);
		count(&entry->row->own);
	}
	frame_leave(entry);
}

/* Likewise of what was written beside; whether it was met is known only while the frame is held. */
static void take_other_in_frame(struct hit *hit, const struct watch_entry *first,
				struct watch_entry *entry)
{
	enum frame_hit of = frame_hold(entry, hit->context, 0);

	if (!is_hit_too(hit, first, entry))
		;
	else if (of == FRAME_HIT && !is_push(hit))
		hit_take(hit, entry);
	else
		count(&entry->row->dropped);
	frame_leave(entry);
}

/* A register of an expression that is followed was hit, or may have been when it was elsewhere. */
static void judge_followed(struct hit *hit, struct watch_entry *entry, enum follow_place place,
			   int is_armed)
{
	if (!is_armed || (place != FOLLOW_THERE && entry->about.flags & WATCH_FOLLOWED)) {
		count(&entry->row->dropped);
		if (entry->about.flags & WATCH_FOLLOWED)
			follow_is_astray(entry, place);
	} else {
		hit_take(hit, entry);
	}
	if (entry->about.flags & WATCH_LEADS || place == FOLLOW_ELSEWHERE)
		hit->moves |= UINT64_C(1) << (entry - watch_entries);
}

static void take_followed(struct hit *hit, const struct watch_entry *first,
			  struct watch_entry *entry)
{
	int is_armed = first ? was_armed(hit, first, entry) : is_open(entry);
	const struct control_watch about = follow_about(entry, hit->met);
	enum follow_place place;

	if (first == entry)
		look_at_code(hit, &about);
	place = follow_hold(entry, first == entry ? hit->met : 0, &hit->decode);
	if (first == entry || ((place == FOLLOW_THERE || entry->about.flags & WATCH_LEADS) &&
			       is_hit_too(hit, first, entry)))
		judge_followed(hit, entry, place, is_armed);
	else if (is_armed && access_decode_is_masked(&hit->decode, &entry->about))
		count(&entry->row->beside);
	if (place == FOLLOW_THERE)
		follow_leave(entry);
}

/* A function with watched variables begins. */
static void take_entry(const struct hit *hit, struct watch_entry *entry, int is_shared)
{
	count(&entry->row->taken);
	count(&entry->row->counted);
	if (is_shared)
		count(&entry->row->shared);
	frame_enter(entry, hit->context);
}

static void take_other(struct hit *hit, const struct watch_entry *first, struct watch_entry *entry)
{
	if (!is_there(entry))
		count(&entry->row->dropped);
	else if (entry->about.flags & WATCH_OF_FRAME)
		take_other_in_frame(hit, first, entry);
	else if (entry->about.flags & WATCH_FRAME_ENTRY)
		take_entry(hit, entry, 1);
	else
		hit_take(hit, entry);
}

/*
 * What else the instruction met: the second signal of one instruction finds the first one pending
 * and is dropped. Either all threads are watched or none, so the kernel has counted those, too.
 * Also what another session watches through `first`.
 */
static void take_others(struct hit *hit, const struct watch_entry *first)
{
	hit->decode.how |= WATCH_SHARED;
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];

		if (entry != first && entry->about.flags & WATCH_FOLLOWS)
			take_followed(hit, first, entry);
		else if (entry == first || !was_armed(hit, first, entry))
			continue;
		else if (is_hit_too(hit, first, entry))
			take_other(hit, first, entry);
		else if (entry->about.on != WATCH_ON_EXECUTE &&
			 access_decode_is_masked(&hit->decode, &entry->about))
			count(&entry->row->beside);
	}
}

/*
 * The watch whose signal it is has ended: `ended`, or NULL if its entry is free by now. The
 * instruction may have hit other watches, of this session or another. Their signals found this one
 * pending, so the kernel dropped them.
 */
static void take_past(struct hit *hit, const struct watch_entry *ended)
{
	/* the kernel says only where the event is */
	const struct control_watch about = { .address = hit->met,
					     .bytes = WATCH_BYTES_MAX,
					     .on = WATCH_ON_ACCESS };

	hit->decode.how = WATCH_SHARED | (hit->is_late ? WATCH_LATE : 0);
	look_at_code(hit, ended ? &ended->about : &about);
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];

		if (entry != ended && entry->about.flags & WATCH_FOLLOWS)
			take_followed(hit, ended, entry);
		else if (entry == ended || !(ended ? was_armed(hit, ended, entry) : is_open(entry)))
			continue;
		else if (is_hit_too(hit, ended, entry))
			take_other(hit, ended, entry);
	}
}

/*
 * A signal may belong to a hit that was made before its event was changed: it has the event's data
 * of the time when the kernel sent it, except for the address. NULL: the watch that it belongs to
 * has gone.
 */
static struct watch_entry *find_met(struct watch_entry *entry, uintptr_t met)
{
	if (!met || met == entry->about.address || entry->about.flags & WATCH_MOVES)
		return entry;
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *other = &watch_entries[__builtin_ctzll(live)];

		if (other->about.magic == entry->about.magic &&
		    other->about.set == entry->about.set && other->about.address == met &&
		    !(other->about.flags & WATCH_MOVES) &&
		    WATCH_GATE_STATE(__atomic_load_n(&other->row->gate, __ATOMIC_ACQUIRE)) !=
			    WATCH_OFF)
			return other;
	}
	return NULL;
}

/*
 * The place of an access that is no event: dead memory below the stack, where this handler's
 * frames are; errno, which we restore; or the engine's work in the program's place. The place of
 * a late hit does not reveal who wrote: one of our guards may have unblocked SIGTRAP.
 */
static int is_own(const struct hit *hit, uint32_t flags)
{
	return trap_is_nested(hit->sp) || flags & WATCH_BY_ENGINE ||
	       (!hit->is_late && is_own_code(trap_pc(hit->context) - 1));
}

/* Each session with an event there counted it. `first`: whose signal it is; NULL: it has ended. */
static void take_own(const struct hit *hit, const struct watch_entry *first)
{
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];
		int is_there_too = !(entry->about.flags & WATCH_OF_FRAME) && hit->met &&
				   entry->about.address == hit->met;

		if (entry != first && !(is_there_too && is_open(entry)))
			continue;
		count(&entry->row->taken);
		count(&entry->row->own);
	}
}

static void take_live(struct hit *hit, struct watch_entry *entry)
{
	struct watch_entry *whose = find_met(entry, hit->met);

	if (!whose || !is_there(whose) || (whose == entry && !was_armed(hit, entry, entry))) {
		if (entry->about.flags & WATCH_FOLLOWS)
			judge_followed(hit, entry, FOLLOW_MOVING, 0);
		else
			count(&entry->row->dropped);
		take_past(hit, whose);
		return;
	}
	entry = whose;
	hit->decode.how = hit->is_late ? WATCH_LATE : 0;
	if (entry->about.flags & WATCH_OF_FRAME)
		take_in_frame(hit, entry);
	else if (entry->about.flags & WATCH_FOLLOWS)
		take_followed(hit, entry, entry);
	else
		look_at_code(hit, &entry->about);
	if (!(entry->about.flags & (WATCH_MOVES | WATCH_FRAME_ENTRY)))
		hit_take(hit, entry);
	take_others(hit, entry);
	/* the thread waits here: other threads' reports come first */
	if (entry->about.flags & WATCH_FRAME_ENTRY)
		take_entry(hit, entry, 0);
}

static void take_hit(struct hit *hit, uint64_t cookie, uint32_t flags)
{
	struct watch_entry *entry = find(WATCH_COOKIE_MAGIC(cookie), WATCH_COOKIE_NUMBER(cookie));
	int is_shut = entry && WATCH_GATE_STATE(__atomic_load_n(&entry->row->gate,
								__ATOMIC_ACQUIRE)) == WATCH_OFF;

	if (is_shut)
		count(&entry->row->dropped);
	if (is_own(hit, flags))
		take_own(hit, is_shut ? NULL : entry);
	else if (entry && !is_shut)
		take_live(hit, entry);
	else
		take_past(hit, entry);
}

int take_signal(const siginfo_t *info, ucontext_t *context, uintptr_t sp)
{
	struct hit hit = { .context = context, .sp = sp, .met = (uintptr_t)info->si_addr };
	uint64_t cookie;
	uint32_t flags;
	int is_ours;

	if (info->si_code != TAKE_TRAP_PERF)
		return 0;
	__builtin_memcpy(&cookie, (const char *)info + TAKE_PERF_DATA_AT, sizeof cookie);
	__builtin_memcpy(&flags, (const char *)info + TAKE_PERF_FLAGS_AT, sizeof flags);
	hit.is_late = flags & TAKE_PERF_ASYNC;
	hit.generation = WATCH_COOKIE_GENERATION(cookie);
	/*
	 * a full barrier, before an entry is looked at; pairs with watch.c's, between taking it
	 * down and looking here
	 */
	__atomic_fetch_add(&watch_inside, 1, __ATOMIC_SEQ_CST);
	is_ours = find(WATCH_COOKIE_MAGIC(cookie), WATCH_COOKIE_NUMBER(cookie)) ||
		  is_past(WATCH_COOKIE_MAGIC(cookie));
	if (is_ours)
		take_hit(&hit, cookie, flags);
	follow_ask(hit.moves, hit.is_late);
	__atomic_fetch_sub(&watch_inside, 1, __ATOMIC_SEQ_CST);
	return is_ours;
}
