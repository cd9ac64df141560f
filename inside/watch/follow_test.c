/* SPDX-License-Identifier: MIT */
/*
 * A chain of two pointers, head->next->value, and hits of it: no register is armed, the test moves
 * the chain as a session would (abi/follow.h).
 */
#include "inside/watch/follow.h"

#include "base/syscall.h"
#include "inside/marker/careful.h"

#include <criterion/criterion.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define CHAIN 1 /* not the first: each watch names its own */
#define VALUE_AT 16

struct node {
	struct node *next;
	uint64_t unused, value;
};

static struct watch_table table;
static struct follow_chain *const chain = &table.follows[CHAIN];
static struct watch_entry *const pointer = &watch_entries[3], *const value = &watch_entries[5];
static struct node first, second, third, *head = &first;

/* What a hit's instruction was: none is known. */
static struct access_decode unknown;

static uintptr_t place(void)
{
	return (uintptr_t)&second;
}

static void put_entry(struct watch_entry *entry, unsigned int number, uint8_t flags, uint8_t frame)
{
	entry->about = (struct control_watch){ .number = number,
					       .bytes = 8,
					       .on = WATCH_ON_WRITE,
					       .flags = flags,
					       .group = CHAIN,
					       .frame = frame };
	entry->row = &table.rows[number];
	watch_live |= UINT64_C(1) << (entry - watch_entries);
}

/* The registers are at &head, &first.next and second.value. */
static void begin(void)
{
	careful_allow(getpid());
	first.next = &second;
	second.next = &third;
	chain->start = (uintptr_t)&head;
	chain->count = 2;
	chain->at[0] = (uintptr_t)&head;
	chain->at[1] = (uintptr_t)&first;
	chain->at[2] = place();
	chain->asked = chain->done = 7;
	put_entry(pointer, 2, WATCH_LEADS, 1);
	put_entry(value, 4, WATCH_FOLLOWED, 2);
	value->about.offset = VALUE_AT;
}

static enum follow_place hold(struct watch_entry *entry, uintptr_t met)
{
	enum follow_place got = follow_hold(entry, met, &unknown);

	cr_assert_eq(chain->inside, got == FOLLOW_THERE);
	return got;
}

/* ---- where an entry is ---- */

Test(follow, entry_is_where_its_chain_is)
{
	begin();
	cr_assert_eq(follow_start(value), (uintptr_t)&head);
	cr_assert_eq(follow_about(pointer, 0).address, (uintptr_t)&first);
	cr_assert_eq(follow_about(value, 0).address, (uintptr_t)&second.value);
}

Test(follow, entry_is_where_the_kernel_met_it)
{
	begin();
	cr_assert_eq(follow_about(value, 0x1000).address, 0x1000);
}

Test(follow, parked_entry_has_no_address)
{
	begin();
	chain->at[2] = 0;
	cr_assert_eq(follow_about(value, 0).address, 0);
}

/* ---- hits ---- */

Test(follow, hit_at_the_chains_place_is_there)
{
	begin();
	cr_assert_eq(hold(value, 0), FOLLOW_THERE);
	cr_assert_eq(value->about.address, (uintptr_t)&second.value);
	follow_leave(value);
	cr_assert_eq(chain->inside, 0);
	cr_assert_eq(hold(value, (uintptr_t)&second.value), FOLLOW_THERE);
}

Test(follow, hit_at_another_place_is_of_a_move)
{
	begin();
	cr_assert_eq(hold(value, (uintptr_t)&third.value), FOLLOW_MOVING);
}

Test(follow, hit_while_a_move_is_asked_for_is_moving)
{
	begin();
	chain->asked++;
	cr_assert_eq(hold(value, 0), FOLLOW_MOVING);
	cr_assert_eq(hold(pointer, 0), FOLLOW_MOVING);
	chain->done++;
	cr_assert_eq(hold(value, 0), FOLLOW_THERE);
}

Test(follow, hit_of_a_parked_entry_is_moving)
{
	begin();
	chain->at[2] = 0;
	cr_assert_eq(hold(value, 0), FOLLOW_MOVING);
}

Test(follow, pointer_that_changed_without_a_hit_leads_elsewhere)
{
	begin();
	first.next = &third;
	cr_assert_eq(hold(value, 0), FOLLOW_ELSEWHERE);
	first.next = &second;
	head = &second;
	cr_assert_eq(hold(value, 0), FOLLOW_ELSEWHERE);
}

Test(follow, pointer_that_leads_nowhere_leads_elsewhere)
{
	begin();
	head = NULL;
	cr_assert_eq(hold(value, 0), FOLLOW_ELSEWHERE);
	head = (struct node *)8; /* no memory is there */
	cr_assert_eq(hold(value, 0), FOLLOW_ELSEWHERE);
	head = NULL;
	chain->offsets[0] = (int64_t)&first;
	cr_assert_eq(hold(value, 0), FOLLOW_ELSEWHERE);
}

/* Whether the pointers before it lead there is the value's concern. */
Test(follow, hit_of_a_pointer_is_there_whatever_leads_to_it)
{
	begin();
	head = NULL;
	cr_assert_eq(hold(pointer, 0), FOLLOW_THERE);
	cr_assert_eq(pointer->about.address, (uintptr_t)&first);
}

Test(follow, offsets_are_added_step_by_step)
{
	begin();
	chain->offsets[0] = offsetof(struct node, unused);
	first.unused = (uintptr_t)&third;
	chain->at[1] = (uintptr_t)&first.unused;
	chain->offsets[1] = -8;
	chain->at[2] = (uintptr_t)&third - 8;
	cr_assert_eq(hold(value, 0), FOLLOW_THERE);
	cr_assert_eq(value->about.address, (uintptr_t)&third - 8 + VALUE_AT);
}

/* Before the instruction the pointer led to the chain's place. */
Test(follow, pointer_that_the_hit_itself_wrote_led_there)
{
	struct access_decode own = { .is_told = 1 };

	begin();
	own.written.address = (uintptr_t)&first.next;
	own.written.bytes = 8;
	own.written.way = WRITTEN_NEW;
	first.next = &third;
	cr_assert_eq(follow_hold(value, 0, &own), FOLLOW_THERE);
	follow_leave(value);
	own.written.way = WRITTEN_NOT; /* it read alone */
	cr_assert_eq(follow_hold(value, 0, &own), FOLLOW_ELSEWHERE);
}

Test(follow, astray_hits_are_counted_and_elsewhere_is_late)
{
	begin();
	follow_is_astray(value, FOLLOW_MOVING);
	cr_assert_eq(chain->astray, 1);
	cr_assert_eq(chain->late, 0);
	follow_is_astray(value, FOLLOW_ELSEWHERE);
	cr_assert_eq(chain->astray, 2);
	cr_assert_eq(chain->late, 1);
	cr_assert_eq(table.follows[0].astray, 0);
}

/* ---- moves ---- */

static long futex(uint32_t *word, int what, uint32_t number)
{
	return syscall_raw6(SYS_futex, (long)word, what, number, 0, 0, 0);
}

/* The session: waits until it is asked, then has moved. */
static void *move(void *unused)
{
	while (__atomic_load_n(&chain->asked, __ATOMIC_SEQ_CST) == 7)
		futex(&chain->asked, FUTEX_WAIT, 7);
	__atomic_store_n(&chain->done, 8, __ATOMIC_SEQ_CST);
	futex(&chain->done, FUTEX_WAKE, INT32_MAX);
	return unused;
}

static uint64_t bit_of(const struct watch_entry *entry)
{
	return UINT64_C(1) << (entry - watch_entries);
}

Test(follow, thread_that_waited_in_vain_counts_late, .timeout = 30)
{
	begin();
	follow_ask(bit_of(pointer), 0);
	cr_assert_eq(chain->asked, 8);
	cr_assert_eq(chain->late, 1);
	cr_assert(chain->is_late);
}

/* Ask, while a session would move the registers in time. */
static void ask_session(uint64_t entries, int is_late)
{
	pthread_t session;

	cr_assert_eq(pthread_create(&session, NULL, move, NULL), 0);
	follow_ask(entries, is_late);
	pthread_join(session, NULL);
	cr_assert_eq(chain->asked, 8);
}

Test(follow, thread_that_asks_waits_for_the_move, .timeout = 30)
{
	begin();
	ask_session(bit_of(pointer), 0);
	cr_assert_eq(chain->done, 8);
	cr_assert_eq(chain->late, 0);
	cr_assert_not(chain->is_late);
}

/* No one would serve it: the session was late before, and has not caught up. */
Test(follow, chain_that_is_late_is_not_waited_for, .timeout = 30)
{
	begin();
	chain->is_late = 1;
	ask_session(bit_of(pointer), 0);
	cr_assert_eq(chain->late, 1);
}

Test(follow, change_before_a_blocked_signal_is_late_once, .timeout = 30)
{
	begin();
	ask_session(bit_of(pointer), 1);
	cr_assert_eq(chain->late, 1);
	cr_assert_not(chain->is_late);
	chain->is_late = 1;
	follow_ask(bit_of(pointer), 1);
	cr_assert_eq(chain->late, 2);
}

Test(follow, entry_that_has_ended_is_not_waited_for, .timeout = 30)
{
	begin();
	watch_live = 0;
	ask_session(bit_of(pointer), 0);
	cr_assert_eq(chain->late, 1);
}

Test(follow, each_entry_asks_its_own_chain, .timeout = 30)
{
	begin();
	value->about.group = 0;
	watch_live = 0;
	follow_ask(bit_of(pointer) | bit_of(value), 0);
	cr_assert_eq(chain->asked, 8);
	cr_assert_eq(table.follows[0].asked, 1);
}
