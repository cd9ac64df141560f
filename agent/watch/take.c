/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/watch/take.h"

#include "agent/detour/moved.h"
#include "agent/marker/careful.h"
#include "agent/marker/hit.h"
#include "agent/store/writer.h"
#include "agent/trail/insn.h"
#include "agent/watch/boundary.h"
#include "agent/watch/condition.h"
#include "agent/watch/frame.h"
#include "agent/watch/written.h"
#include "arch/trap.h"
#include "base/syscall.h"

#define OWN_STACK_BYTES 65536u
#define STACK_FAR_BYTES (1u << 20) /* from one frame to the next */
#define PAYLOAD_WORDS 16u
#define PAGE_BYTES 4096u
#define UNKNOWN_BYTES 4096u /* as far as one may reach that doesn't say: xsave */
#define NOBODY_KNOWS UINT64_MAX

struct watch_entry watch_entries[WATCH_ROWS_MAX];
uint64_t watch_live;
uint32_t watch_inside;
uint32_t watch_past[TAKE_PAST_MAX];

/* The stack pointer of this thread's handler while it is in here; stale if it was another thread's (clone(2)). */
static __thread uintptr_t taking __attribute__((tls_model("initial-exec")));

/* One signal. */
struct hit {
	ucontext_t *context;
	struct written written;
	int is_told; /* `written` is */
	int is_late;
	uintptr_t met; /* what was watched, as the kernel says; 0: it does not */
	uintptr_t ip, sp;
	uint16_t how;
};

/* What one watch makes of it. */
struct seen {
	uint64_t old, now, ticks;
	uint16_t how;
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
	for (unsigned int i = 0; i < TAKE_PAST_MAX; i++) {
		if (__atomic_load_n(&watch_past[i], __ATOMIC_RELAXED) == magic)
			return 1;
	}
	return 0;
}

/* ---- the instruction ---- */

static int covers(const struct written *written, const struct control_watch *about)
{
	return written->address < about->address + about->bytes &&
	       written->address + (written->bytes ? written->bytes : UNKNOWN_BYTES) >
		       about->address;
}

/* Whether it can be the instruction that met the watched bytes. */
static int is_it(const struct written *written, const struct control_watch *about)
{
	return covers(written, about) &&
	       (written->way != WRITTEN_NOT || about->on == WATCH_ON_ACCESS);
}

/* A repeated one is told while it stands at `at` still. `bytes`: of the one in front, where that is known. */
static int tell_repeated(struct written *written, uintptr_t at, unsigned int bytes,
			 const ucontext_t *context)
{
	uint8_t code[INSN_BYTES_MAX];
	const void *from = code;

	/* what is on the page of code that has just run is there */
	if (bytes && (at - 1) / PAGE_BYTES == (at + sizeof code - 1) / PAGE_BYTES)
		from = (const void *)at; /* NOLINT(performance-no-int-to-ptr) */
	else if (careful_read(code, at, sizeof code))
		return -1;
	return written_tell_repeated(written, from, sizeof code, context);
}

/* `end` is where a function begins: whether the call that led there met the watched bytes, and which it is. */
static int tell_call(struct hit *hit, const struct control_watch *about, uintptr_t end)
{
	greg_t *registers = hit->context->uc_mcontext.gregs;
	uintptr_t stack = trap_stack(hit->context), back = 0, target = 0;
	struct written *written = &hit->written;
	struct insn insn;
	unsigned int bytes;
	int is_start, err;

	if (careful_read(&back, stack, sizeof back))
		return -1;
	bytes = boundary_before(back, &is_start);
	if (!bytes || insn_decode(&insn, (const uint8_t *)back - bytes, bytes, back - bytes, 0) ||
	    (insn.kind == TRAIL_CALL && insn.target != end) ||
	    (insn.kind != TRAIL_CALL && insn.kind != TRAIL_CALL_INDIRECT))
		return -1;
	hit->ip = back - bytes;
	*written = (struct written){ .address = stack, .bytes = 8, .way = WRITTEN_NEW };
	__builtin_memcpy(written->value, &back, sizeof back);
	if (is_it(written, about))
		return 0;
	registers[REG_RIP] = (greg_t)back;
	registers[REG_RSP] = (greg_t)(stack + sizeof back);
	err = written_tell(written, (const uint8_t *)back - bytes, bytes, hit->context);
	registers[REG_RIP] = (greg_t)end;
	registers[REG_RSP] = (greg_t)stack;
	written->bytes = 8;
	if (err || !is_it(written, about) ||
	    careful_read(&target, written->address, sizeof target) || target != end)
		return -1;
	return 0;
}

/* Whether behind that instruction control comes from elsewhere, if at all, or it met no memory. */
static int is_led_away(const uint8_t *code, unsigned int bytes)
{
	struct insn insn;

	return bytes && !insn_decode(&insn, code, bytes, 0, 0) && insn.kind != TRAIL_FALL;
}

static void look_at_code(struct hit *hit, const struct watch_entry *entry)
{
	const struct control_watch *about = &entry->about;
	uintptr_t end = trap_pc(hit->context), begin, original, repeats_at = end, at;
	int is_start = 0, is_entered, is_before, is_repeated;
	struct written repeated;
	unsigned int bytes;

	hit->ip = end;
	if (about->on == WATCH_ON_EXECUTE || hit->is_late)
		return;
	if (!moved_from(end, &begin, &original)) {
		bytes = end - begin <= INSN_BYTES_MAX ? (unsigned int)(end - begin) : 0;
		if (moved_from(end + 1, &at, &repeats_at) || at != end)
			repeats_at = original + bytes;
	} else {
		bytes = boundary_before(end, &is_start);
		begin = original = end - bytes;
	}
	is_entered = is_led_away((const uint8_t *)begin, bytes);
	is_before = bytes && !is_entered &&
		    !written_tell(&hit->written, (const uint8_t *)begin, bytes, hit->context) &&
		    is_it(&hit->written, about);
	is_repeated = !tell_repeated(&repeated, end, bytes, hit->context) &&
		      is_it(&repeated, about);
	hit->is_told = is_before != is_repeated;
	if (hit->is_told && is_repeated)
		hit->written = repeated;
	if (hit->is_told) {
		hit->ip = is_before ? original : repeats_at;
	} else if (!is_before && is_start && !tell_call(hit, about, end)) {
		hit->is_told = 1;
	} else if (!is_before && (is_start || is_entered)) {
		hit->ip = 0;
		hit->how |= WATCH_IP_UNKNOWN;
	} else {
		hit->ip = original + bytes - 1;
		hit->how |= WATCH_IP_BEHIND;
	}
}

/* ---- values ---- */

static uint64_t mask_of(const struct control_watch *about)
{
	return about->bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * about->bytes) - 1;
}

/* The part of the watched bytes that the instruction wrote, as a mask; 0: all of it is unknown. */
static uint64_t written_mask(const struct hit *hit, const struct control_watch *about)
{
	uint64_t mask = 0;

	if (!hit->is_told || !hit->written.bytes)
		return 0;
	for (unsigned int i = 0; i < about->bytes; i++) {
		if (about->address + i - hit->written.address < hit->written.bytes)
			mask |= UINT64_C(0xff) << 8 * i;
	}
	return mask;
}

static uint64_t written_value(const struct hit *hit, const struct control_watch *about)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < about->bytes; i++) {
		uint64_t at = about->address + i - hit->written.address;

		if (at < hit->written.bytes && at < WRITTEN_BYTES_MAX)
			value |= (uint64_t)hit->written.value[at] << 8 * i;
	}
	return value;
}

/* `memory` as it is now, if it could be read; `before` as the chain has it, if anybody knows. */
struct known {
	uint64_t memory, before;
	int has_memory, has_before;
};

static void judge_new(const struct hit *hit, const struct control_watch *about,
		      const struct known *known, struct seen *seen)
{
	uint64_t all = mask_of(about), mask = written_mask(hit, about);
	int is_all = mask == all, way = hit->is_told ? hit->written.way : WRITTEN_SOMEHOW;

	if (way == WRITTEN_NEW && mask) {
		uint64_t rest = known->has_memory ? known->memory : known->before;

		seen->now = (written_value(hit, about) & mask) | (rest & ~mask);
		/* what it did not write is as it was, unless somebody else wrote that too */
		if (is_all || (known->has_memory && known->has_before &&
			       !((known->memory ^ known->before) & ~mask)))
			seen->how |= WATCH_NEW_EXACT;
		else if (!known->has_memory && !known->has_before)
			seen->how |= WATCH_NEW_UNKNOWN;
		return;
	}
	seen->now = known->memory;
	if (way == WRITTEN_CHANGED && is_all && hit->written.address == about->address &&
	    hit->written.bytes == about->bytes && known->has_before) {
		uint64_t now = written_change(&hit->written, known->before) & all;

		if (known->has_memory && now == known->memory)
			seen->how |= WATCH_NEW_EXACT;
	}
	if (way == WRITTEN_NOT) {
		seen->how |= WATCH_READ;
		if (known->has_memory && known->has_before && known->memory == known->before)
			seen->how |= WATCH_NEW_EXACT;
	}
	if (!known->has_memory)
		seen->how |= WATCH_NEW_UNKNOWN;
}

static void judge_old(const struct hit *hit, const struct control_watch *about,
		      const struct known *known, struct seen *seen)
{
	uint64_t all = mask_of(about), shift = 8 * (about->address - hit->written.address);

	if (hit->is_told && hit->written.has_old && written_mask(hit, about) == all) {
		seen->old = hit->written.old >> shift & all;
		seen->how |= WATCH_OLD_EXACT;
		return;
	}
	seen->old = known->before;
	if (!known->has_before)
		seen->how |= WATCH_OLD_UNKNOWN;
}

/* Both words, if they are still as expected; else *value and *ticks are what they are. */
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
 * Value and time are stored as one, so that the chain of values is in the order of its times, whoever comes between
 * reading the clock and here.
 */
static void link_in(const struct hit *hit, const struct watch_entry *entry, struct seen *seen)
{
	const struct control_watch *about = &entry->about;
	struct watch_row *row = entry->row;
	uint64_t value = __atomic_load_n(&row->last.value, __ATOMIC_RELAXED);
	uint64_t ticks = __atomic_load_n(&row->last.ticks, __ATOMIC_RELAXED);
	struct known known = { 0 };

	if (!hit->is_told || hit->written.way != WRITTEN_NEW ||
	    written_mask(hit, about) != mask_of(about))
		known.has_memory = !careful_read(&known.memory, about->address, about->bytes);
	do {
		*seen = (struct seen){ .how = hit->how };
		known.before = value & mask_of(about);
		known.has_before = ticks != NOBODY_KNOWS;
		judge_new(hit, about, &known, seen);
		judge_old(hit, about, &known, seen);
		seen->ticks = clock_ticks(entry->clock);
		if (known.has_before && seen->ticks <= ticks)
			seen->ticks = ticks + 1;
	} while (!exchange_pair(row, &value, &ticks, seen->now,
				seen->how & WATCH_NEW_UNKNOWN ? NOBODY_KNOWS : seen->ticks));
}

/* ---- the event ---- */

/* Return addresses, by the chain of frame pointers as far as it is one. */
static void find_callers(const struct hit *hit, uint64_t *callers, unsigned int wanted)
{
	uint64_t frame[2] = { (uint64_t)hit->context->uc_mcontext.gregs[REG_RBP], 0 };
	uint64_t at = trap_stack(hit->context) - sizeof frame[0];

	for (unsigned int i = 0; i < wanted; i++) {
		uint64_t next = frame[0];

		callers[i] = 0;
		if (next <= at || next - at > STACK_FAR_BYTES || next % 8 ||
		    careful_read(frame, next, sizeof frame) || !boundary_is_code(frame[1])) {
			frame[0] = 0;
			continue;
		}
		at = next;
		callers[i] = frame[1];
	}
}

static unsigned char *put(unsigned char *to, const void *from, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = ((const unsigned char *)from)[i];
	return to + bytes;
}

static void tell(const struct hit *hit, const struct watch_entry *entry, const struct seen *seen)
{
	const struct control_watch *about = &entry->about;
	uint64_t payload[PAYLOAD_WORDS], callers[WATCH_CALLERS_MAX];
	unsigned char *to = (unsigned char *)payload;
	unsigned int width = about->flags & WATCH_WITH_OFFSET ? 8 : about->bytes;

	to = put(to, &hit->ip, sizeof hit->ip);
	if (about->on != WATCH_ON_EXECUTE) {
		to = put(to, &seen->old, width);
		to = put(to, &seen->now, width);
		to = put(to, &seen->how, sizeof seen->how);
	}
	if (about->flags & WATCH_WITH_OFFSET)
		to = put(to, &about->offset, sizeof about->offset);
	if (about->callers) {
		find_callers(hit, callers, about->callers);
		put(to, callers, 8u * about->callers);
	}
	hit_stamped(entry->event, payload, hit->sp, seen->ticks);
}

static int is_wanted(const struct control_watch *about, const struct seen *seen)
{
	int32_t tid = 0;

	for (unsigned int i = 0; i < WATCH_CONDITIONS_MAX; i++) {
		const struct watch_condition *condition = &about->conditions[i];

		if (condition->of == WATCH_OF_TID && !tid)
			tid = (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
		if (!condition_holds(condition, seen->old, seen->now, about->bytes, tid))
			return 0;
	}
	return 1;
}

static void raise_signal(const struct watch_entry *entry)
{
	long pid = syscall_raw(SYS_getpid, 0, 0, 0, 0), tid = syscall_raw(SYS_gettid, 0, 0, 0, 0);

	count(&entry->row->signalled);
	syscall_raw(SYS_tgkill, pid, tid, entry->about.signal, 0);
}

static void take(const struct hit *hit, struct watch_entry *entry)
{
	struct watch_row *row = entry->row;
	struct seen seen = { .how = hit->how };

	count(&row->taken);
	if (hit->is_late)
		count(&row->late);
	if (hit->how & WATCH_SHARED)
		count(&row->shared);
	if (entry->about.on == WATCH_ON_EXECUTE)
		seen.ticks = clock_ticks(entry->clock);
	else
		link_in(hit, entry, &seen);
	if (entry->about.on != WATCH_ON_EXECUTE && !(seen.how & WATCH_NEW_EXACT))
		count(&row->inexact);
	if (!is_wanted(&entry->about, &seen)) {
		count(&row->filtered);
		return;
	}
	if (entry->about.flags & WATCH_COUNT_ONLY)
		count(&row->counted);
	else
		tell(hit, entry, &seen);
	if (entry->about.signal)
		raise_signal(entry);
}

/* A push to where a living frame has a variable is how the frame was given room, not a value. */
static int is_push(const struct hit *hit)
{
	uint8_t code[2];

	if (!hit->is_told || hit->written.address != trap_stack(hit->context) ||
	    careful_read(code, hit->ip, sizeof code))
		return 0;
	return (code[code[0] == 0x41] & 0xf8) == 0x50 || code[0] == 0x68 || code[0] == 0x6a ||
	       (code[0] == 0xff && (code[1] & 0x38) == 0x30);
}

/* What the signal is of lies in a frame: it may be the variable's no more. */
static void take_in_frame(struct hit *hit, struct watch_entry *entry)
{
	enum frame_hit of = frame_hold(entry, hit->context, hit->met);

	look_at_code(hit, entry);
	if (of == FRAME_HIT && is_push(hit)) {
		frame_is_outside(entry);
		count(&entry->row->dropped);
	} else if (of == FRAME_HIT) {
		take(hit, entry);
	} else if (of == FRAME_PAST) {
		count(&entry->row->dropped);
	} else {
		count(&entry->row->taken);
		count(&entry->row->own);
	}
	frame_leave(entry);
}

/* Likewise of what was written beside; whether it was met is known only while the frame is held. */
static void take_other_in_frame(struct hit *hit, struct watch_entry *entry)
{
	enum frame_hit of = frame_hold(entry, hit->context, 0);

	if (!covers(&hit->written, &entry->about))
		;
	else if (of == FRAME_HIT && !is_push(hit))
		take(hit, entry);
	else
		count(&entry->row->dropped);
	frame_leave(entry);
}

/*
 * What else the instruction wrote: the second signal of one instruction finds the first pending, and is none. Threads
 * are all watched or none, so those have been counted by the kernel, too.
 */
static void take_others(struct hit *hit, const struct watch_entry *first)
{
	if (!hit->is_told || !hit->written.bytes)
		return;
	hit->how |= WATCH_SHARED;
	for (uint64_t live = __atomic_load_n(&watch_live, __ATOMIC_ACQUIRE); live;
	     live &= live - 1) {
		struct watch_entry *entry = &watch_entries[__builtin_ctzll(live)];
		const struct control_watch *about = &entry->about;

		if (entry == first || about->on == WATCH_ON_EXECUTE ||
		    !covers(&hit->written, about) ||
		    (hit->written.way == WRITTEN_NOT && about->on == WATCH_ON_WRITE) ||
		    (__atomic_load_n(&entry->row->gate, __ATOMIC_ACQUIRE) & 0xffu) != WATCH_ON)
			continue;
		if (!(about->flags & WATCH_OF_FRAME))
			take(hit, entry);
		else
			take_other_in_frame(hit, entry);
	}
}

static void take_live(struct watch_entry *entry, uint64_t cookie, uint32_t flags,
		      ucontext_t *context, uintptr_t met, uintptr_t sp)
{
	struct hit hit = {
		.context = context, .sp = sp, .met = met, .is_late = flags & TAKE_PERF_ASYNC
	};

	/* memory below the stack that nobody has any more, and this handler's frames lie there */
	if (taking && taking - sp < OWN_STACK_BYTES) {
		count(&entry->row->taken);
		count(&entry->row->own);
		return;
	}
	if (__atomic_load_n(&entry->row->gate, __ATOMIC_ACQUIRE) !=
	    WATCH_GATE(WATCH_COOKIE_GENERATION(cookie), WATCH_ON)) {
		count(&entry->row->dropped);
		return;
	}
	if (entry->about.flags & WATCH_FRAME_ENTRY) {
		count(&entry->row->taken);
		count(&entry->row->counted);
		frame_enter(entry, context);
		return;
	}
	taking = sp;
	hit.how = hit.is_late ? WATCH_LATE : 0;
	if (entry->about.flags & WATCH_OF_FRAME) {
		take_in_frame(&hit, entry);
	} else {
		look_at_code(&hit, entry);
		take(&hit, entry);
	}
	take_others(&hit, entry);
	taking = 0;
}

int take_signal(const siginfo_t *info, ucontext_t *context)
{
	struct watch_entry *entry;
	uint64_t cookie;
	uint32_t flags;
	int is_ours;

	if (info->si_code != TAKE_TRAP_PERF)
		return 0;
	__builtin_memcpy(&cookie, (const char *)info + TAKE_PERF_DATA_AT, sizeof cookie);
	__builtin_memcpy(&flags, (const char *)info + TAKE_PERF_FLAGS_AT, sizeof flags);
	/* a full barrier, before an entry is looked at; pairs with watch.c's, between taking it down and looking here */
	__atomic_fetch_add(&watch_inside, 1, __ATOMIC_SEQ_CST);
	entry = find(WATCH_COOKIE_MAGIC(cookie), WATCH_COOKIE_NUMBER(cookie));
	is_ours = entry || is_past(WATCH_COOKIE_MAGIC(cookie));
	if (entry)
		take_live(entry, cookie, flags, context, (uintptr_t)info->si_addr,
			  (uintptr_t)__builtin_frame_address(0));
	__atomic_fetch_sub(&watch_inside, 1, __ATOMIC_SEQ_CST);
	return is_ours;
}
