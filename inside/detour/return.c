/* SPDX-License-Identifier: MIT */
/*
 * On the hit path: no libc, no lock. A signal handler may come in between anywhere and make calls
 * of its own, so each list changes by one compare-and-exchange, with a tag against a list that
 * changed and changed back.
 */
#include "inside/detour/return.h"

#include "base/syscall.h"
#include "inside/detour/detour.h"
#include "inside/marker/hit.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/store/clock.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>

#define KEEPS_REGISTERS __attribute__((no_caller_saved_registers))
/* Beside the stubs: return_is_code(). */
#define IN_PLACE __attribute__((section("waymark_return_text")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define STUB_BYTES 16u
#define STUB_RETURN_BYTES 5u /* from its call to where that returns to */
#define PAGE_UNITS 256u
#define REFILL 16u
#define CHAINED 1u /* for an address: on no stack of its own */
#define NEAR_BYTES 8192u
#define LOCAL_MAX 64u

#define ARCH_SHADOW_STACK_STATUS 0x5005 /* asm/prctl.h, Linux 6.6: ARCH_SHSTK_STATUS */

extern __attribute__((visibility("hidden"))) const unsigned char __start_waymark_return_text[],
	__stop_waymark_return_text[];
extern struct return_cell {
	uintptr_t original;
	uint64_t begun; /* writer.h. A stub and its cell are as far apart in all of a page */
} return_cells[RETURN_UNITS] __attribute__((visibility("hidden")));
extern __attribute__((visibility("hidden"))) const unsigned char return_go_plain[];
void hit_enter_return(void);
void return_replaced(void);
void return_replaced_void(void);
void return_replaced_float(void);

static struct unit {
	uintptr_t address; /* of the return address on the stack; 0: free */
	const struct detour *detour;
	uint32_t next;	/* in a list of free ones */
	uint32_t chain; /* live, without a stub: the tail call before this one, returning with it */
	int32_t owner;	/* thread id */
	uint32_t is_left; /* perhaps: see return_look_for_left() */
} units[RETURN_UNITS];

struct kept *return_kept;
static uint64_t pool;	    /* tag and first unit */
static uint32_t fresh = 1;  /* units from here on were never used */
static uint32_t is_stopped; /* return_stop() was called */
static uint32_t unit_limit = RETURN_UNITS;
static intptr_t errno_at; /* from a thread's pointer to the errno of its libc */

/* ---- lists: a tag in the upper half, a unit's number or 0 in the lower ---- */

/* Of one thread: no lock prefix, since only its own handlers come in between. */
IN_PLACE static int swap_local(uint64_t *list, uint64_t *old, uint64_t new)
{
	uint8_t done;

	__asm__ volatile("cmpxchgq %3, %1\n\tsete %2"
			 : "+a"(*old), "+m"(*list), "=q"(done)
			 : "r"(new)
			 : "memory", "cc");
	return done;
}

IN_PLACE static int swap_shared(uint64_t *list, uint64_t *old, uint64_t new)
{
	return __atomic_compare_exchange_n(list, old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

typedef int swap_fn(uint64_t *, uint64_t *, uint64_t);

static inline __attribute__((always_inline)) uint32_t pop(uint64_t *list, swap_fn *swap)
{
	uint64_t old = __atomic_load_n(list, __ATOMIC_ACQUIRE);
	uint32_t unit;

	do {
		unit = (uint32_t)old;
		if (!unit)
			return 0;
	} while (!swap(list, &old,
		       ((old >> 32) + 1) << 32 |
			       __atomic_load_n(&units[unit].next, __ATOMIC_RELAXED)));
	return unit;
}

static inline __attribute__((always_inline)) void push(uint64_t *list, uint32_t unit, swap_fn *swap)
{
	uint64_t old = __atomic_load_n(list, __ATOMIC_ACQUIRE);

	do
		__atomic_store_n(&units[unit].next, (uint32_t)old, __ATOMIC_RELAXED);
	while (!swap(list, &old, ((old >> 32) + 1) << 32 | unit));
}

/* The first of each page is no stub. */
IN_PLACE static int is_unit(uint32_t number)
{
	return number % PAGE_UNITS;
}

IN_PLACE static uint32_t take_fresh(void)
{
	uint32_t unit;

	do {
		if (__atomic_load_n(&fresh, __ATOMIC_RELAXED) >= unit_limit)
			return 0;
		unit = __atomic_fetch_add(&fresh, 1, __ATOMIC_RELAXED);
		if (unit >= unit_limit)
			return 0;
	} while (!is_unit(unit));
	return unit;
}

IN_PLACE static uint32_t take_shared(void)
{
	uint32_t unit = pop(&pool, swap_shared);

	return unit ? unit : take_fresh();
}

/* Whether no other thread can be at the writer's own list: on its own stack. */
static inline __attribute__((always_inline)) int is_alone(const struct writer *writer)
{
	return writer &&
	       (uintptr_t)__builtin_frame_address(0) - writer->stack.low < writer->stack.bytes;
}

IN_PLACE static uint32_t take(struct writer *writer)
{
	uint32_t unit;

	if (unlikely(!is_alone(writer)))
		return take_shared();
	unit = pop(&writer->returns, swap_local);
	if (likely(unit)) {
		writer->return_count--;
		return unit;
	}
	for (uint32_t i = 0; i < REFILL; i++) {
		unit = take_shared();
		if (!unit)
			break;
		push(&writer->returns, unit, swap_local);
		writer->return_count++;
	}
	unit = pop(&writer->returns, swap_local);
	writer->return_count -= unit != 0;
	return unit;
}

IN_PLACE static int stopped(void)
{
	return unlikely(__atomic_load_n(&is_stopped, __ATOMIC_RELAXED));
}

/* A handler in between may cost the count one: it only says when to share. */
IN_PLACE static void give(struct writer *writer, uint32_t unit)
{
	if (stopped())
		return; /* a copy of the stack may return to it again */
	__atomic_store_n(&units[unit].address, 0, __ATOMIC_RELEASE);
	if (!is_alone(writer) || writer->return_count >= LOCAL_MAX) {
		push(&pool, unit, swap_shared);
		return;
	}
	push(&writer->returns, unit, swap_local);
	writer->return_count++;
}

/* The thread is ending: its free units go to the pool. */
static void end_writer(struct writer *writer)
{
	uint32_t unit;

	while ((unit = pop(&writer->returns, swap_local)))
		push(&pool, unit, swap_shared);
	writer->return_count = 0;
	for (unsigned int i = 0; i < RETURN_PLACES; i++)
		writer->return_places[i] = 0;
}

uint32_t return_live(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < RETURN_UNITS; i++)
		count += __atomic_load_n(&units[i].address, __ATOMIC_RELAXED) != 0;
	return count;
}

/* ---- units that were left ---- */

static uintptr_t stub_of(uint32_t unit)
{
	return (uintptr_t)return_stubs + unit * STUB_BYTES + STUB_RETURN_BYTES;
}

/* Whether the unit's stub is no longer where it was put; there may be no memory there any more. */
static int is_gone(int32_t pid, uint32_t unit)
{
	uintptr_t address = __atomic_load_n(&units[unit].address, __ATOMIC_RELAXED), found;
	struct iovec local = { &found, sizeof found };
	struct iovec remote = { (void *)address, sizeof found };

	if (address <= CHAINED)
		return 0;
	return syscall_raw6(SYS_process_vm_readv, pid, (long)&local, 1, (long)&remote, 1, 0) !=
		       sizeof found ||
	       found != stub_of(unit);
}

uint32_t return_look_for_left(int32_t pid)
{
	uint32_t used = __atomic_load_n(&fresh, __ATOMIC_RELAXED), left = 0, live;

	if (used < unit_limit / 2 || stopped())
		return 0;
	live = return_live();
	if (live < unit_limit / 2)
		return 0;
	for (uint32_t i = 1; i < used && i < unit_limit; i++) {
		units[i].is_left = is_unit(i) && is_gone(pid, i);
		left += units[i].is_left;
	}
	/* many are in calls that just are so deep: then a stop would gain little */
	return left > live / 8 ? left : 0;
}

/*
 * A thread in our own code may be about to put a stub on its stack, or may have just taken it off.
 * The place is near its stack pointer.
 */
static int is_near(const struct return_near *near, uintptr_t address)
{
	for (uint32_t i = 0; i < near->count; i++) {
		if (address - near->of[i] + NEAR_BYTES < 2 * NEAR_BYTES)
			return 1;
	}
	return 0;
}

void return_free_left(int32_t pid, const struct return_near *near)
{
	if (near->count == RETURN_NEAR_MAX || stopped())
		return;
	for (uint32_t i = 1; i < unit_limit; i++) {
		uint32_t unit = i;

		if (!units[i].is_left || is_near(near, units[i].address) || !is_gone(pid, i))
			continue;
		while (unit) {
			uint32_t next = units[unit].chain;

			units[unit].is_left = 0;
			give(NULL, unit);
			unit = next;
		}
	}
}

int return_is_code(uintptr_t pc)
{
	return pc >= (uintptr_t)__start_waymark_return_text &&
	       pc < (uintptr_t)__stop_waymark_return_text;
}

/* ---- a call ---- */

IN_PLACE static struct writer *find_writer(uintptr_t sp)
{
	struct writer *writer = writer_self;

	if (likely(writer && sp - writer->stack.low < writer->stack.bytes))
		return writer;
	return writer_find(sp);
}

IN_PLACE static uint16_t *place_of(struct writer *writer, uintptr_t address)
{
	return &writer->return_places[address / 16 % RETURN_PLACES];
}

/*
 * The unit of an earlier call of this thread with its return address in the same place: that call
 * has been left without returning, for its return address is no longer there.
 */
IN_PLACE static uint32_t take_over(struct writer *writer, uintptr_t address)
{
	uint32_t unit = *place_of(writer, address);

	if (!unit || units[unit].address != address || units[unit].owner != writer->tid)
		return 0;
	while (units[unit].chain) {
		uint32_t chained = units[unit].chain;

		units[unit].chain = units[chained].chain;
		give(writer, chained);
	}
	return unit;
}

/* ---- a call's entry ---- */

/* Which sessions recorded the begin that precedes: writer.h. */
IN_PLACE static uint64_t begun_of(const struct writer *writer, const struct detour *detour)
{
	uint64_t begun = *(const volatile uint64_t *)&writer->begun;

	if (likely(*(const struct marker *const volatile *)&writer->begun_at ==
		   &detour->events[0].hit))
		return begun;
	return PLAN_BEGUN_ALL;
}

/* Some session has the begin, or lost it; else each has rejected it. */
#define BEGUN_ANY (UINT64_C(0xff) << PLAN_LOST_SHIFT | UINT64_C(0xff))
/* No lane has it: all that are there have lost the begin. */
#define BEGUN_LOST (UINT64_C(0xff) << PLAN_LOST_SHIFT | UINT64_C(0xffffff00))
#define KEPT_SPAN_BYTES 512u /* from an entry's payload up to its return address, at most */

/*
 * Move what the entry kept to the unit. Returns `begun`; BEGUN_LOST if a signal handler came in
 * between, and the kept is that of its own call.
 */
IN_PLACE static uint64_t kept_take(struct writer *writer, uint32_t unit, uintptr_t slot,
				   uint64_t begun)
{
	const volatile struct kept *from = &writer->kept;
	uint32_t fills = from->fills;
	uintptr_t at = from->at;
	struct kept *to = &return_kept[unit];

	if (begun == PLAN_BEGUN_ALL || !at || slot - at >= KEPT_SPAN_BYTES)
		return BEGUN_LOST;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < sizeof *to / sizeof(uint64_t); i++)
		((uint64_t *)(void *)to)[i] = ((const uint64_t *)(const void *)&writer->kept)[i];
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return from->fills == fills ? begun : BEGUN_LOST;
}

static inline int is_once(const struct detour *detour)
{
	return unlikely(detour->record->flags & DETOUR_ONCE);
}

/*
 * A tail call: the function returns to the stub of the one that jumped to it. One stub serves both,
 * so that there are never two frames without size on each other.
 */
IN_PLACE static uintptr_t chain(struct writer *writer, const struct detour *detour, uintptr_t stub,
				uintptr_t address, uint64_t begun)
{
	uint32_t first = (uint32_t)((stub - (uintptr_t)return_stubs) / STUB_BYTES), unit;

	if (units[first].address != address)
		return 0; /* not as it was left: hands off */
	unit = take(writer);
	if (!unit)
		return 0;
	/* it returns before those that called it: between the first and what is chained to it */
	units[unit].detour = units[first].detour;
	return_cells[unit].begun = return_cells[first].begun;
	if (is_once(units[first].detour))
		return_kept[unit] = return_kept[first];
	units[unit].chain = units[first].chain;
	units[unit].owner = writer->tid;
	__atomic_store_n(&units[unit].address, CHAINED, __ATOMIC_RELAXED);
	units[first].detour = detour;
	return_cells[first].begun = is_once(detour) ? kept_take(writer, first, address, begun)
						    : begun;
	__atomic_store_n(&units[first].chain, unit, __ATOMIC_RELEASE);
	return (uintptr_t)return_go_plain;
}

/* The kept texts in place of the pointers that the entry had. */
IN_PLACE static void texts_put(struct kept *kept, const struct control_detour *record)
{
	unsigned char *to = (unsigned char *)kept->payload;
	unsigned int texts = 0;

	for (unsigned int i = 0; i < 16 && record->types[0][i]; i++) {
		uint64_t word;

		if (record->types[0][i] == WM_TYPE_STR) {
			__builtin_memcpy(&word, to, sizeof word);
			if (word > KEPT_UNREADABLE)
				word = (uintptr_t)kept->texts[texts];
			texts++;
			__builtin_memcpy(to, &word, sizeof word);
		}
		to += field_payload_bytes[record->types[0][i]];
	}
}

/* A result shorter than an int is extended to one: clang's callers rely on that. */
IN_PLACE static uint64_t extended(uint64_t value, uint8_t type)
{
	if (type == WM_TYPE_I8 || type == WM_TYPE_CHAR)
		return (uint32_t)(int8_t)value;
	return type == WM_TYPE_I16 ? (uint32_t)(int16_t)value : value;
}

/*
 * The handler of a call that has just been diverted may replace it (DETOUR_REPLACE). Returns
 * DETOUR_GO_BYTES less than the address at which the call continues. That is `site` if the function
 * runs: then its return is no event.
 */
IN_PLACE static uintptr_t __attribute__((noinline))
replacement(const struct detour *detour, uintptr_t stub, uintptr_t sp, uintptr_t site)
{
	uint32_t unit = (uint32_t)((stub - (uintptr_t)return_stubs) / STUB_BYTES);
	const struct control_detour *record = detour->record;
	uint64_t *begun = &return_cells[unit].begun, result = 0;
	struct kept *kept = &return_kept[unit];
	uint32_t lanes = (uint32_t)*begun & UINT8_MAX, replaced;
	uint8_t type;

	texts_put(kept, record);
	replaced = lanes ? hit_replaces(&detour->events[1].hit, kept->payload, sp, lanes, &result)
			 : 0;
	*begun = (*begun & ~(uint64_t)UINT8_MAX) | replaced;
	if (!replaced)
		return site;
	if (record->flags & DETOUR_VOID)
		return (uintptr_t)return_replaced_void - DETOUR_GO_BYTES;
	type = record->types[1][types_count(record->types[0])];
	kept->result = extended(result, type);
	site = type == WM_TYPE_F32 || type == WM_TYPE_F64 ? (uintptr_t)return_replaced_float
							  : (uintptr_t)return_replaced;
	return site - DETOUR_GO_BYTES;
}

/* By what runs in the function's place: what it returns, for this stub. */
IN_PLACE uint64_t return_result(uintptr_t stub) KEEPS_REGISTERS;
uint64_t return_result(uintptr_t stub)
{
	return return_kept[(stub - (uintptr_t)return_stubs) / STUB_BYTES].result;
}

/* Returns how the function is gone into; 0: not diverted. */
IN_PLACE static uintptr_t divert(struct writer *writer, const struct detour *detour,
				 uintptr_t *slot, uint64_t begun)
{
	uintptr_t address = (uintptr_t)slot, original = *slot;
	uint32_t unit;

	if (stopped())
		return 0;
	if (unlikely(return_is_stub(original)))
		return chain(writer, detour, original, address, begun);
	unit = take_over(writer, address);
	if (likely(!unit))
		unit = take(writer);
	if (unlikely(!unit))
		return 0;
	units[unit].detour = detour;
	units[unit].chain = 0;
	units[unit].owner = writer->tid;
	return_cells[unit].original = original;
	return_cells[unit].begun = is_once(detour) ? kept_take(writer, unit, address, begun)
						   : begun;
	*place_of(writer, address) = (uint16_t)unit;
	__atomic_store_n(&units[unit].address, address, __ATOMIC_RELAXED);
	/* all is there before anybody can return to it, or unwind through it */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*(volatile uintptr_t *)slot = stub_of(unit);
	return stub_of(unit) - STUB_RETURN_BYTES;
}

/* Only frame_returned() learns of its returns. */
static struct control_detour frame_record;
static const struct detour frame_detour = { .record = &frame_record };

IN_PLACE uintptr_t return_put(uintptr_t *slot, uintptr_t sp)
{
	struct writer *writer = find_writer(sp);

	return writer && divert(writer, &frame_detour, slot, PLAN_BEGUN_ALL)
		       ? *(volatile uintptr_t *)slot
		       : 0;
}

uintptr_t return_original(uintptr_t address)
{
	return return_is_stub(address)
		       ? return_cells[(address - (uintptr_t)return_stubs) / STUB_BYTES].original
		       : 0;
}

/*
 * Called by hit_enter_return, with what the trampoline pushed. In its place below the slot it
 * leaves where the trampoline goes with the return address taken off the stack, and where that goes
 * on behind it.
 */
IN_PLACE void return_enter(long rdi, long rsi, long rdx, long rcx, long r8, long r9, uint64_t flags,
			   uintptr_t site, const struct detour *detour,
			   uintptr_t stack) KEEPS_REGISTERS;
void return_enter(long rdi, long rsi, long rdx, long rcx, long r8, long r9, uint64_t flags,
		  uintptr_t site, const struct detour *detour, uintptr_t stack)
{
	const struct marker *marker = &detour->events[1].hit;
	uintptr_t sp = (uintptr_t)&site, go = (uintptr_t)return_go_plain;
	uintptr_t *slot;
	struct writer *writer;

	(void)rdi, (void)rsi, (void)rdx, (void)rcx, (void)r8, (void)r9, (void)flags;
	/* the two words are our own parameters: read once, here */
	__asm__("" : "+r"(site), "+r"(detour), "+r"(stack));
	slot = (uintptr_t *)(stack + (detour->record->stack_bytes
					      ? detour->record->stack_bytes + DETOUR_SAVED_BYTES
					      : 0));
	if (likely(!reentrancy_guard_covers(sp) &&
		   __atomic_load_n(&marker->plan, __ATOMIC_RELAXED))) {
		uintptr_t way = 0;

		uint64_t begun;

		writer = find_writer(sp);
		begun = writer ? begun_of(writer, detour) : PLAN_BEGUN_ALL;
		if (likely(writer && begun & BEGUN_ANY))
			way = divert(writer, detour, slot, begun);
		if (likely(way)) {
			go = way;
			if (unlikely(detour->record->flags & DETOUR_REPLACE))
				site = replacement(detour, *(volatile uintptr_t *)slot, sp, site);
		} else if (begun & BEGUN_ANY) {
			hit_discard(marker, sp);
		}
	}
	((volatile uintptr_t *)slot)[-1] = site + DETOUR_GO_BYTES;
	((volatile uintptr_t *)slot)[-2] = go;
}

/* ---- its return ---- */

/* errno, where the result says that the call failed (DETOUR_RETURN_ERRNO). */
IN_PLACE static inline __attribute__((always_inline)) void errors_put(uint64_t words[3],
								      uint64_t rax)
{
	uint64_t error = *(const uint32_t *)((uintptr_t)__builtin_thread_pointer() + errno_at);

	words[0] = (uint32_t)rax == UINT32_MAX ? error : 0;
	words[1] = rax == UINT64_MAX ? error : 0;
	words[2] = rax ? 0 : error;
}

/* The return's fields from number `i` on, up to number `end`. Returns past them. */
IN_PLACE static inline __attribute__((always_inline)) unsigned char *
parts_put(unsigned char *to, const struct control_detour *record, unsigned int i, unsigned int end,
	  uint64_t words[DETOUR_RETURN_BYTES / 8])
{
	/* nothing here has a vector register */
	__asm__("movq %%xmm1, %0" : "=r"(words[3]));
	errors_put(words + DETOUR_RETURN_ERRNO / 8, words[0]);
	for (; i < end; i++) {
		const unsigned char *from = (const unsigned char *)words + record->return_at[i];

		for (unsigned int n = field_payload_bytes[record->types[1][i]]; n; n--)
			*to++ = *from++;
	}
	return to;
}

/* The number of fields of the return's event, without a callchain, which no payload has. */
IN_PLACE static inline unsigned int returns_count(const struct control_detour *record)
{
	unsigned int count = 0;

	while (count < 16 && record->types[1][count] &&
	       record->types[1][count] != WM_TYPE_ADDRESSES)
		count++;
	return count;
}

/* A structure's members, from the registers that it comes back in; what went wrong. */
IN_PLACE static void __attribute__((noinline))
hit_parts(struct writer *writer, const struct detour *detour, uint64_t rax, uint64_t rdx,
	  uint64_t xmm0, uintptr_t sp, uint64_t begun)
{
	uint64_t words[DETOUR_RETURN_BYTES / 8] = { rax, rdx, xmm0 }, payload[16];

	parts_put((unsigned char *)payload, detour->record, 0, returns_count(detour->record),
		  words);
	hit_ended(writer, &detour->events[1].hit, payload, sp, begun);
}

/*
 * The one event of a call: the entry's fields, the return's, the duration. It is composed in the
 * unit, where the entry's are. So the unit stays taken until the event is written: is_gone() finds
 * the stub's address in `held`.
 */
IN_PLACE static void __attribute__((noinline))
hit_once(struct writer *writer, uint32_t unit, uint64_t rax, uint64_t rdx, uint64_t xmm0,
	 uintptr_t sp)
{
	const struct detour *detour = units[unit].detour;
	const struct control_detour *record = detour->record;
	struct kept *kept = &return_kept[unit];
	uint64_t words[DETOUR_RETURN_BYTES / 8] = { rax, rdx, xmm0 };
	uint64_t ns = clock_ns(clock_ticks(STORE_CLOCK_TSC) - kept->ticks);
	unsigned char *to = (unsigned char *)kept->payload;
	volatile uintptr_t held = stub_of(unit);
	unsigned int i = 0;

	__atomic_store_n(&units[unit].address, (uintptr_t)&held, __ATOMIC_RELEASE);
	texts_put(kept, record);
	for (; i < 16 && record->types[0][i]; i++)
		to += field_payload_bytes[record->types[0][i]];
	to = parts_put(to, record, i, returns_count(record) - 1, words);
	__builtin_memcpy(to, &ns, sizeof ns);
	hit_ended(writer, &detour->events[1].hit, kept->payload, sp, return_cells[unit].begun);
}

/*
 * Called by return_common, which has put the return address back already. A unit that is chained to
 * another returns after it, with the same result.
 */
IN_PLACE void return_hit(long rdi, long rsi, long rdx, long rcx, long r8, long r9, uint64_t unit,
			 uint64_t xmm0, uint64_t flags, uint64_t saved_rcx,
			 uint64_t rax) KEEPS_REGISTERS;
void return_hit(long rdi, long rsi, long rdx, long rcx, long r8, long r9, uint64_t unit,
		uint64_t xmm0, uint64_t flags, uint64_t saved_rcx, uint64_t rax)
{
	uintptr_t sp = (uintptr_t)&unit;
	struct writer *writer = find_writer(sp);
	uint32_t at = (uint32_t)unit / STUB_BYTES;
	uintptr_t slot = units[at].address;

	(void)rdi, (void)rsi, (void)rcx, (void)r8, (void)r9, (void)flags, (void)saved_rcx;
	while (at) {
		const struct detour *detour = units[at].detour;
		const uint64_t *payload = detour->record->flags & DETOUR_RETURN_FLOAT ? &xmm0
										      : &rax;
		uint64_t begun = return_cells[at].begun;
		uint32_t next = units[at].chain;

		if (is_once(detour)) {
			if (!reentrancy_guard_covers(sp))
				hit_once(writer, at, rax, (uint64_t)rdx, xmm0, sp);
			give(writer, at);
			at = next;
			continue;
		}
		give(writer, at);
		if (unlikely(detour == &frame_detour))
			frame_returned(slot);
		else if (unlikely(reentrancy_guard_covers(sp)))
			;
		else if (unlikely(detour->record->flags & DETOUR_RETURN_PARTS))
			hit_parts(writer, detour, rax, (uint64_t)rdx, xmm0, sp, begun);
		else
			hit_ended(writer, &detour->events[1].hit, payload, sp, begun);
		at = next;
	}
}

/*
 * Only the thread that forked lives on, and only what it has on its stack; the lists were in memory
 * that is wiped, or in the middle of a change.
 */
void return_forked(int32_t parent_tid, int32_t tid)
{
	pool = 0;
	for (uint32_t i = 1; i < RETURN_UNITS && i < fresh; i++) {
		if (!is_unit(i))
			continue;
		if (units[i].address && units[i].owner == parent_tid) {
			units[i].owner = tid;
			continue;
		}
		units[i].address = 0;
		push(&pool, i, swap_shared);
	}
}

uint64_t return_entry(void)
{
	return (uintptr_t)hit_enter_return;
}

void return_stop(void)
{
	__atomic_store_n(&is_stopped, 1, __ATOMIC_RELAXED);
}

void return_limit(uint32_t limit)
{
	unit_limit = limit;
}

int return_check(void)
{
	uint64_t features = 0;

	if (!syscall_raw(SYS_arch_prctl, ARCH_SHADOW_STACK_STATUS, (long)&features, 0, 0) &&
	    features & 1)
		return -ENOTSUP;
	if (stopped())
		return -WM_E_STACKS_COPIED;
	errno_at = (intptr_t)&errno - (intptr_t)__builtin_thread_pointer();
	__atomic_store_n(&writer_ends, end_writer, __ATOMIC_RELEASE);
	return 0;
}
