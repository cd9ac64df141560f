/* SPDX-License-Identifier: MIT */
/* Two sessions that watch one word: what is one's is the other's, too. */
#include "inside/watch/testing/fixture.h"

#include "base/syscall.h"

#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OTHER_LANE (TRIAL_LANE + 1)
#define OTHER_MAGIC (SAMPLE_MAGIC + 1)

static uint64_t word[4] __attribute__((aligned(64)));
static struct watch_table *other_table;

/*
 * What another session asks for, of the very word, by that number: counted, and its gate is open.
 */
static void add_other(struct control_watch about, uint32_t number)
{
	int fd;

	about.magic = OTHER_MAGIC;
	about.number = about.event = (uint16_t)number;
	about.flags = WATCH_COUNT_ONLY;
	cr_assert_eq(watch_add(OTHER_LANE, &about, NULL, 0, getpid(), &fd), 0);
	if (fd < 0)
		return;
	other_table = mmap(NULL, sizeof *other_table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(other_table, MAP_FAILED);
	close(fd);
	other_table->rows[number].gate = WATCH_GATE(0, WATCH_ON);
}

static __attribute__((noinline)) void passed(void)
{
	__asm__ volatile("");
}

/*
 * One signal comes for both events, and no instruction shows by what it wrote that it belongs to
 * both.
 */
Test(watch_shared, two_sessions_with_events_of_one_place_are_both_told, .timeout = 30)
{
	struct control_watch about = sample_about(0, (const void *)(uintptr_t)passed, 8), other;
	int fd;

	about.on = WATCH_ON_EXECUTE;
	about.flags = WATCH_COUNT_ONLY;
	sample_begin();
	sample_arm(&about);
	add_other(about, 3);
	other = about;
	other.magic = OTHER_MAGIC;
	other.number = 3;
	fd = sample_open(&other, 0);
	cr_assert_eq(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	for (int i = 0; i < 10; i++)
		passed();
	cr_assert_eq(sample_counted(0), 10);
	cr_assert_eq(sample_table->rows[0].taken, 10);
	cr_assert_eq(other_table->rows[3].taken, 10);
	close(fd);
	sample_end(0);
	watch_release(OTHER_LANE, 0);
}

static int other_event;

/* Two sessions, each with an event of its own. */
static void arm_both(const void *first, const void *second)
{
	struct control_watch about = sample_about(0, first, 8);
	struct control_watch other = sample_about(0, second, 8);

	sample_arm(&about);
	add_other(other, 3);
	other.magic = OTHER_MAGIC;
	other.number = 3;
	other_event = sample_open(&other, 0);
	cr_assert_eq(ioctl(other_event, PERF_EVENT_IOC_ENABLE, 0), 0);
}

static void end_first(void)
{
	sample_end(0);
}

static void end_other(void)
{
	close(other_event);
	watch_remove(OTHER_LANE, 3, 3);
}

static __attribute__((noinline)) void store_pair(void)
{
	__asm__ volatile("movdqu %%xmm0, (%0)" : : "r"(word) : "memory");
}

/* One store hits both, and the kernel sends one signal, for either. In one of the rounds it is that
 * of the session that ends. */
Test(watch_shared, pending_signal_of_ended_watch_counts_for_other_session, .timeout = 30)
{
	sample_begin();
	for (int round = 0; round < 2; round++) {
		const struct watch_row *row;
		sigset_t trap, before;

		arm_both(word, word);
		row = round ? &other_table->rows[3] : &sample_table->rows[0];
		sigemptyset(&trap);
		sigaddset(&trap, SIGTRAP);
		/* past libc: its guard would let SIGTRAP through */
		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, &before, 8);
		store_pair();
		(round ? end_first : end_other)();
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
		cr_assert_eq(row->taken, 1, "round %d", round);
		(round ? end_other : end_first)();
	}
}

Test(watch_shared, store_to_two_words_counts_beside_a_shut_watch, .timeout = 30)
{
	sample_begin();
	for (int round = 0; round < 2; round++) {
		struct watch_row *shut, *row;

		arm_both(word, word + 1);
		shut = round ? &sample_table->rows[0] : &other_table->rows[3];
		row = round ? &other_table->rows[3] : &sample_table->rows[0];
		shut->gate = WATCH_OFF;
		store_pair();
		cr_assert_eq(row->taken, 1, "round %d", round);
		end_first();
		end_other();
	}
}

Test(watch_shared, access_by_agent_is_own_of_each_session, .timeout = 30)
{
	sample_begin();
	arm_both(word, word);
	watch_own_code((uintptr_t)store_pair, (uintptr_t)store_pair + 64);
	store_pair();
	watch_own_code(0, 0);
	cr_assert_eq(sample_table->rows[0].own, 1);
	cr_assert_eq(sample_table->rows[0].taken, 1);
	cr_assert_eq(other_table->rows[3].own, 1);
	cr_assert_eq(other_table->rows[3].taken, 1);
	end_first();
	end_other();
}
