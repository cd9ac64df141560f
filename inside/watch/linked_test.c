/* SPDX-License-Identifier: MIT */
/* Values that several threads change at once, and conditions on values that are not exact. */
#include "inside/watch/testing/fixture.h"
#include "inside/watch/watch_entry.h"

#include <criterion/criterion.h>
#include <pthread.h>

#define THREADS 4
#define ADDITIONS 500

static uint64_t word __attribute__((aligned(64)));

static void add_locked(uint64_t value)
{
	__asm__ volatile("lock addq %1, %0" : "+m"(word) : "r"(value) : "cc");
}

/* Two other threads have added 6, and are in their handlers: the chain is at 3, and memory at 9. */
Test(linked, addition_leaves_out_what_others_add, .timeout = 30)
{
	const struct control_watch about = sample_about(0, &word, 8);

	word = 9;
	sample_begin();
	sample_arm(&about);
	sample_table->rows[0].last.value = 3;
	watch_entries[0].adding = 6;
	add_locked(1);
	cr_assert_eq(sample_collect(8), 1);
	cr_assert_eq(sample_told[0].old, 3);
	cr_assert_eq(sample_told[0].now, 4, "%lu", sample_told[0].now);
	cr_assert_eq(sample_told[0].how, WATCH_NEW_EXACT, "how %x", sample_told[0].how);
	cr_assert_eq(watch_entries[0].adding, 6);
	sample_end(0);
}

static void *add_at_once(void *data)
{
	for (int i = 0; i < ADDITIONS; i++)
		add_locked(1);
	return data;
}

/* A value is one more than the one before, or it is marked. */
Test(linked, additions_at_once_are_right_or_uncertain, .timeout = 60)
{
	const struct control_watch about = sample_about(0, &word, 8);
	pthread_t threads[THREADS];
	unsigned int exact = 0;

	sample_begin();
	sample_arm(&about);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, add_at_once, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(sample_collect(8), THREADS * ADDITIONS);
	for (unsigned int i = 0; i < sample_told_count; i++) {
		const struct sample_told *one = &sample_told[i];

		if (!(one->how & WATCH_NEW_EXACT) || one->how & WATCH_OLD_UNCERTAIN)
			continue;
		exact++;
		cr_assert_eq(one->now, one->old + 1, "%u: %lu -> %lu", i, one->old, one->now);
	}
	cr_assert_gt(exact, 0);
	cr_assert_eq(watch_entries[0].adding, 0);
	sample_end(0);
}

static uint8_t met[THREADS * ADDITIONS + 1];

/* The operand is gone from the register, and the instruction before shows it. */
static void *fetch_at_once(void *data)
{
	for (int i = 0; i < ADDITIONS; i++) {
		uint64_t old;

		__asm__ volatile("mov $1, %k0\n\tlock xadd %0, %1"
				 : "=&r"(old), "+m"(word)
				 :
				 : "cc", "memory");
	}
	return data;
}

/* Each thread reports its own addition, in any order. */
Test(linked, fetched_additions_at_once_are_their_threads_or_uncertain, .timeout = 60)
{
	const struct control_watch about = sample_about(0, &word, 8);
	pthread_t threads[THREADS];
	unsigned int exact = 0;

	sample_begin();
	sample_arm(&about);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, fetch_at_once, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(sample_collect(8), THREADS * ADDITIONS);
	for (unsigned int i = 0; i < sample_told_count; i++) {
		const struct sample_told *one = &sample_told[i];

		cr_assert(one->how & WATCH_OLD_EXACT);
		cr_assert_lt(one->old, THREADS * ADDITIONS);
		cr_assert(!met[one->old]++, "%lu twice", one->old);
		if (!(one->how & WATCH_NEW_EXACT))
			continue;
		exact++;
		cr_assert_eq(one->now, one->old + 1, "%u: %lu -> %lu", i, one->old, one->now);
	}
	cr_log_info("%u of %u are exact", exact, sample_told_count);
	cr_assert_gt(exact, 0);
	cr_assert_eq(sample_table->rows[0].last.value, word);
	cr_assert_eq(watch_entries[0].adding, 0);
	sample_end(0);
}

Test(linked, condition_on_uncertain_value_is_counted_apart, .timeout = 30)
{
	struct control_watch about = sample_about(0, &word, 8);
	const struct watch_row *row;

	about.conditions[0] = (struct watch_condition){
		.operand = 1, .of = WATCH_OF_NEW, .by = WATCH_BY_EQUAL, .as = WATCH_AS_UNSIGNED
	};
	sample_begin();
	sample_arm(&about);
	row = &sample_table->rows[0];
	*(volatile uint64_t *)&word = 1; /* exact: it is met */
	*(volatile uint64_t *)&word = 2; /* exact: it is not */
	cr_assert_eq(row->uncertain, 0);
	cr_assert_eq(row->filtered, 1);
	__asm__ volatile("shrq $1, %0" : "+m"(word)); /* 1 */
	cr_assert_eq(row->uncertain, 1);
	cr_assert_eq(row->uncertain_filtered, 0);
	__asm__ volatile("shlq $3, %0" : "+m"(word));
	cr_assert_eq(row->uncertain, 2);
	cr_assert_eq(row->uncertain_filtered, 1);
	cr_assert_eq(row->filtered, 2);
	cr_assert_eq(sample_collect(8), 2);
	sample_end(0);
}
