/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(ledger, .init = fixture_setup, .fini = fixture_teardown, .timeout = 60);

static uint64_t realtime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

Test(ledger, a_claim_is_told_as_it_was_made)
{
	struct claim claim = { .resource = CLAIM_DEBUG_REGISTER,
			       .scope = CLAIM_OF_THREAD,
			       .target = getpid(),
			       .pid = getpid(),
			       .count = 2,
			       .address = UINT64_C(0x7fff12345678),
			       .bytes = 16,
			       .what = "watch:counter" };
	struct ledger *ledger;
	struct claim_list list;
	const struct claim_row *row;
	uint64_t id;

	cr_assert_eq(ledger_new(&ledger), 0);
	cr_assert_eq(ledger_claim(ledger, &claim, 1, &id), 0);
	cr_assert_neq(id, 0);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1);
	row = &list.rows[0];
	cr_expect_eq(row->state, CLAIM_WANTED);
	cr_expect_eq(row->claim.resource, claim.resource);
	cr_expect_eq(row->claim.scope, claim.scope);
	cr_expect_eq(row->claim.target, claim.target);
	cr_expect_eq(row->claim.pid, claim.pid);
	cr_expect_eq(row->claim.count, claim.count);
	cr_expect_eq(row->claim.address, claim.address);
	cr_expect_eq(row->claim.bytes, claim.bytes);
	cr_expect_str_eq(row->claim.what, claim.what);
	cr_expect_eq(row->owner.uid, geteuid());
	cr_expect_str_eq(row->owner.comm, "claim_ledger_te");
	cr_expect(!row->is_left && !row->is_foreign);
	cr_expect_lt(realtime_ns() - row->since_ns, UINT64_C(60000000000));
	claim_list_release(&list);

	ledger_confirm(ledger, &id, 1);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1);
	cr_expect_eq(list.rows[0].state, CLAIM_HELD);
	cr_expect_eq(list.damaged, 0);
	claim_list_release(&list);

	ledger_remove(ledger, &id, 1);
	cr_expect_eq(fixture_count_of(getpid()), 0);
	ledger_free(ledger);
}

/* Its target is 0 for root. */
Test(ledger, a_claim_of_a_user_is_written)
{
	struct claim claim = { .resource = CLAIM_LOCKED_MEMORY,
			       .scope = CLAIM_OF_USER,
			       .target = (int32_t)geteuid(),
			       .count = 4096 };
	struct ledger *ledger;
	uint64_t id;

	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, &claim, 1, &id);
	cr_expect(ledger_has(ledger, id));
	cr_expect_eq(fixture_count_of(getpid()), 1);
	ledger_free(ledger);
}

Test(ledger, what_is_too_long_is_cut_and_says_so)
{
	struct claim claim = fixture_claim(getpid(), 1, 1, "");
	struct ledger *ledger;
	struct claim_list list;
	uint64_t id;

	memset(claim.what, 'x', sizeof(claim.what));
	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, &claim, 1, &id);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1);
	cr_expect_eq(strlen(list.rows[0].claim.what), CLAIM_WHAT_BYTES - 1);
	cr_expect_str_eq(list.rows[0].claim.what + CLAIM_WHAT_BYTES - 5, "x...");
	claim_list_release(&list);
	ledger_free(ledger);
	cr_expect_eq(fixture_count_of(getpid()), 0, "freed, and its claims stand");
}

Test(ledger, a_change_keeps_state_and_place)
{
	struct claim claim = fixture_claim(getpid(), 1, 1, "watch:old");
	struct ledger *ledger;
	struct claim_list list;
	uint64_t id, none = 99;

	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, &claim, 1, &id);
	ledger_confirm(ledger, &id, 1);
	claim = fixture_claim(getpid(), 2, 2, "watch:new");
	cr_expect_eq(ledger_change(ledger, id, &claim), 0);
	cr_expect_eq(ledger_change(ledger, none, &claim), -ENOENT);
	list = fixture_rows_of(getpid());
	cr_assert_eq(list.count, 1);
	cr_expect_eq(list.rows[0].state, CLAIM_HELD);
	cr_expect_str_eq(list.rows[0].claim.what, "watch:new");
	cr_expect_eq(list.rows[0].claim.count, 2);
	claim_list_release(&list);
	ledger_free(ledger);
}

#define MANY 1000

/* Which of MANY are there, by address. */
static void look_for(const char *there)
{
	struct claim_list list = fixture_rows_of(getpid());
	char found[MANY] = { 0 };

	for (size_t i = 0; i < list.count; i++)
		found[list.rows[i].claim.address]++;
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(found[i], there[i], "claim %d: %d times", i, found[i]);
	cr_assert_eq(list.damaged, 0);
	claim_list_release(&list);
}

Test(ledger, a_thousand_come_and_go_in_any_order)
{
	static struct claim claims[MANY];
	static uint64_t ids[MANY];
	static char there[MANY];
	struct ledger *ledger;

	srandom(7);
	cr_assert_eq(ledger_new(&ledger), 0);
	for (int i = 0; i < MANY; i++)
		claims[i] = fixture_claim(getpid(), 1, (uint64_t)i, "watch:x");
	cr_assert_eq(ledger_claim(ledger, claims, MANY, ids), 0);
	memset(there, 1, sizeof(there));
	look_for(there);
	for (int round = 0; round < 3000; round++) {
		int i = (int)(random() % MANY);

		if (there[i])
			ledger_remove(ledger, &ids[i], 1);
		else
			ledger_claim(ledger, &claims[i], 1, &ids[i]);
		there[i] = !there[i];
		if (round % 200 == 0)
			look_for(there);
	}
	look_for(there);
	ledger_remove(ledger, ids, MANY);
	cr_expect_eq(fixture_count_of(getpid()), 0);
	ledger_free(ledger);
}

static struct ledger *shared;

static void *come_and_go(void *number)
{
	for (int i = 0; i < 200; i++) {
		struct claim claim = fixture_claim(getpid(), 1, (uint64_t)(uintptr_t)number,
						   "watch:x");
		uint64_t id;

		ledger_claim(shared, &claim, 1, &id);
		ledger_confirm(shared, &id, 1);
		if (i != 199)
			ledger_remove(shared, &id, 1);
	}
	return NULL;
}

Test(ledger, threads_may_use_one_hand_at_once)
{
	pthread_t threads[4];
	struct claim_list list;

	cr_assert_eq(ledger_new(&shared), 0);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, come_and_go, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	list = fixture_rows_of(getpid());
	cr_expect_eq(list.count, 4);
	claim_list_release(&list);
	ledger_free(shared);
}

static void claim_three(struct ledger *ledger)
{
	struct claim claims[3];
	uint64_t ids[3];

	for (uint64_t i = 0; i < 3; i++)
		claims[i] = fixture_claim(getppid(), 1, i, "watch:x");
	ledger_claim(ledger, claims, 3, ids);
}

Test(ledger, an_owner_that_is_killed_has_no_claims)
{
	pid_t owner = fixture_owner(claim_three), other = fixture_owner(claim_three);

	cr_expect_eq(fixture_count_of(owner), 3);
	cr_expect_eq(fixture_count_of(other), 3);
	fixture_kill(owner);
	cr_expect_eq(fixture_count_of(owner), 0);
	cr_expect_eq(fixture_count_of(other), 3, "another's are gone too");
	cr_expect_eq(fixture_files(), 2, "the dead one's file is there still");

	/* the next one removes it */
	owner = fixture_owner(claim_three);
	cr_expect_eq(fixture_count_of(owner), 3);
	cr_expect_eq(fixture_files(), 2);
	fixture_kill(owner);
	fixture_kill(other);
}

#define CROWD 200

/* Each makes its file while others sweep. */
Test(ledger, two_hundred_at_once_lose_no_claim)
{
	static pid_t owners[CROWD];
	int ends[2];
	char byte;

	cr_assert_eq(pipe(ends), 0);
	for (int i = 0; i < CROWD; i++) {
		owners[i] = fork();
		if (!owners[i]) {
			struct ledger *ledger;
			char path[256];

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (ledger_new(&ledger))
				_exit(1);
			claim_three(ledger);
			if (ledger_trouble(ledger, path, sizeof(path)))
				_exit(1);
			if (write(ends[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
	}
	close(ends[1]);
	for (int i = 0; i < CROWD; i++)
		cr_assert_eq(read(ends[0], &byte, 1), 1, "an owner failed");
	for (int i = 0; i < CROWD; i++)
		cr_assert_eq(fixture_count_of(owners[i]), 3);
	cr_expect_eq(fixture_files(), CROWD);
	for (int i = 0; i < CROWD; i++)
		fixture_kill(owners[i]);
	close(ends[0]);
}

Test(ledger, a_forked_child_has_no_part_in_it)
{
	struct claim claim = fixture_claim(getpid(), 1, 1, "watch:x");
	struct ledger *ledger;
	uint64_t id, more;
	int status;
	pid_t pid;

	cr_assert_eq(ledger_new(&ledger), 0);
	ledger_claim(ledger, &claim, 1, &id);
	pid = fork();
	if (!pid) {
		ledger_claim(ledger, &claim, 1, &more);
		ledger_remove(ledger, &id, 1);
		ledger_free(ledger);
		_exit(fixture_count_of(getppid()) != 1);
	}
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	cr_expect_eq(fixture_count_of(getpid()), 1);
	ledger_free(ledger);
}

static pid_t *grandchild; /* in memory that all share */

static void claim_and_fork(struct ledger *ledger)
{
	pid_t child;

	claim_three(ledger);
	child = fork();
	if (!child) {
		alarm(30);
		for (;;)
			pause();
	}
	*grandchild = child;
}

Test(ledger, claims_live_as_long_as_a_child_has_the_descriptors)
{
	struct claim_list list;
	pid_t owner;

	grandchild = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(grandchild, MAP_FAILED);
	owner = fixture_owner(claim_and_fork);
	list = fixture_rows_of(owner);
	cr_expect_eq(list.count, 3);
	cr_expect(!list.rows[0].is_left);
	claim_list_release(&list);
	fixture_kill(owner);
	list = fixture_rows_of(owner);
	cr_assert_eq(list.count, 3, "its child may have the units");
	cr_expect(list.rows[0].is_left);
	claim_list_release(&list);
	kill(*grandchild, SIGKILL);
	cr_expect(AWAIT(!fixture_count_of(owner)));
}

Test(ledger, rows_are_weighed_as_the_kernel_does)
{
	struct claim_row row = { .state = CLAIM_HELD, .since_boot_ns = UINT64_MAX };
	pid_t me = getpid(), other = getppid();
	static const struct {
		enum claim_scope scope;
		int is_mine, cpu;
		int of_thread, of_cpu0, of_cpu1;
	} cases[] = {
		{ CLAIM_OF_THREAD, 1, 0, 1, 1, 1 },  { CLAIM_OF_THREAD, 0, 0, 0, 1, 1 },
		{ CLAIM_OF_PROCESS, 1, 0, 1, 1, 1 }, { CLAIM_OF_PROCESS, 0, 0, 0, 1, 1 },
		{ CLAIM_OF_CPU, 0, 0, 1, 1, 0 },     { CLAIM_OF_CPU, 0, 1, 1, 0, 1 },
	};

	row.claim.resource = CLAIM_DEBUG_REGISTER;
	row.claim.count = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		row.claim.scope = cases[i].scope;
		row.claim.target = row.claim.scope == CLAIM_OF_CPU ? cases[i].cpu
				   : cases[i].is_mine		   ? me
								   : other;
		cr_expect_eq(claim_row_weighs(&row, CLAIM_DEBUG_REGISTER, me, me, -1),
			     cases[i].of_thread, "case %zu", i);
		cr_expect_eq(claim_row_weighs(&row, CLAIM_DEBUG_REGISTER, 0, 0, 0),
			     cases[i].of_cpu0, "case %zu", i);
		cr_expect_eq(claim_row_weighs(&row, CLAIM_DEBUG_REGISTER, 0, 0, 1),
			     cases[i].of_cpu1, "case %zu", i);
		cr_expect_eq(claim_row_weighs(&row, CLAIM_SIGTRAP, me, me, -1), 0);
	}
}

Test(ledger, a_number_that_was_used_again_is_another)
{
	struct claim_row row = { .claim = fixture_claim(getpid(), 1, 1, "watch:x"),
				 .state = CLAIM_HELD,
				 .since_boot_ns = UINT64_MAX };

	cr_expect_eq(claim_row_weighs(&row, CLAIM_DEBUG_REGISTER, getpid(), getpid(), -1), 1);
	row.since_boot_ns = 1; /* when this process had not begun */
	cr_expect_eq(claim_row_weighs(&row, CLAIM_DEBUG_REGISTER, getpid(), getpid(), -1), 0);
}
