/* SPDX-License-Identifier: MIT */
/*
 * Kill owners at each of their steps and at any moment. No claim of a dead owner is reported, no
 * claim of a live owner is missing, and none is reported half.
 *
 * Descriptors of eventfd(2) replace the scarce resource, as a perf event is a descriptor too.
 * /proc/PID/fd shows how many an owner holds, whatever the owner itself says. An owner's claim has
 * its number in every member, so a row made of two would show.
 */
#include "target/claim/ledger_file.h"
#include "target/claim/testing/fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OWNERS 6
#define UNITS 24 /* of an owner */
#define ROUNDS 150

/* What each owner says of itself, in memory that all share. */
static struct said {
	volatile uint64_t held[UNITS]; /* the number of a claim whose unit is open */
	volatile uint64_t number;
	volatile uint32_t hits[LEDGER_STEPS];
} * said;

TestSuite(ledger_killed, .init = fixture_setup, .fini = fixture_teardown, .timeout = 110);

static struct claim claim_of(uint64_t number)
{
	struct claim claim = fixture_claim((pid_t)(number & 0x3fffffff), number, number, "");

	claim.scope = CLAIM_OF_CPU; /* a process of that number might have its own user's ledger */
	claim.bytes = number * 5;
	snprintf(claim.what, sizeof(claim.what), "watch:%lu.%0100lu", number, number);
	return claim;
}

/* The user may have a ledger elsewhere, with claims that are not this test's. */
static int is_of_this_test(const struct claim_row *row)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	return !strcmp(row->owner.comm, name);
}

static int is_whole(const struct claim *claim)
{
	struct claim should = claim_of(claim->address);

	return claim->target == should.target && claim->count == should.count &&
	       claim->bytes == should.bytes && !strcmp(claim->what, should.what);
}

/* Less `base`, which are Criterion's own. */
static int units_of(pid_t pid, int base)
{
	struct dirent *entry;
	char path[64];
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		char target[64] = "";

		if (readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1) > 0)
			count += !strcmp(target, "anon_inode:[eventfd]");
	}
	if (dir)
		closedir(dir);
	return count > base ? count - base : 0;
}

static int owner; /* which of them this process is */
static enum ledger_step last_step;
static uint32_t last_hit;

static void die_there(enum ledger_step step)
{
	if (step == last_step && ++said[owner].hits[step] == last_hit)
		raise(SIGKILL);
}

/*
 * Take units and give them back, for ever, by the rule: written before they are open, removed when
 * they are closed.
 */
static void live(void)
{
	struct {
		int fd;
		uint64_t id;
	} units[UNITS] = { 0 };
	struct ledger *ledger;

	srandom((unsigned int)getpid());
	if (ledger_new(&ledger))
		_exit(1);
	for (int round = 0;; round++) {
		int i = (int)(random() % UNITS);
		struct claim claim = claim_of(++said[owner].number << 8 | (unsigned int)owner);

		if (!units[i].id) {
			ledger_claim(ledger, &claim, 1, &units[i].id);
			units[i].fd = eventfd(0, EFD_CLOEXEC);
			said[owner].held[i] = claim.address;
			ledger_confirm(ledger, &units[i].id, 1);
		} else if (random() % 4 == 0) {
			/* either is true meanwhile */
			said[owner].held[i] = 0;
			ledger_change(ledger, units[i].id, &claim);
			said[owner].held[i] = claim.address;
		} else {
			said[owner].held[i] = 0;
			close(units[i].fd);
			ledger_remove(ledger, &units[i].id, 1);
			units[i].id = 0;
		}
		/* now and then, all at once */
		if (round % 200 == 199) {
			for (int k = 0; k < UNITS; k++) {
				said[owner].held[k] = 0;
				if (units[k].id)
					close(units[k].fd);
				units[k].id = 0;
			}
			ledger_free(ledger);
			if (ledger_new(&ledger))
				_exit(1);
		}
	}
}

static pid_t start(int which)
{
	pid_t pid, parent = getpid();

	memset((void *)&said[which], 0, sizeof(said[which]));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		owner = which;
		live();
	}
	return pid;
}

/*
 * Call it while all owners wait: compare the reported claims with the real ones. Returns how many
 * claims there were.
 */
static size_t compare(const pid_t *pids, const char *when)
{
	struct claim_list list = { 0 };
	int base = units_of(getpid(), 0);
	size_t all = 0;

	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	cr_assert_eq(list.damaged, 0, "%s: half a row", when);
	for (int o = 0; o < OWNERS; o++) {
		size_t rows = 0, units = (size_t)(pids[o] ? units_of(pids[o], base) : 0);

		for (size_t i = 0; i < list.count; i++)
			rows += list.rows[i].owner.pid == pids[o];
		cr_assert_leq(units, rows, "%s: %zu units of %d, %zu rows", when, units, pids[o],
			      rows);
		/*
		 * one that is about to be taken, or was just given; or all, when it gives all at
		 * once
		 */
		for (int u = 0; u < UNITS && pids[o]; u++) {
			size_t found = 0;

			for (size_t i = 0; i < list.count; i++)
				found += list.rows[i].claim.address == said[o].held[u];
			cr_assert(!said[o].held[u] || found == 1, "%s: %zu rows for unit %d", when,
				  found, u);
		}
	}
	for (size_t i = 0; i < list.count; i++) {
		int is_living = 0;

		if (!is_of_this_test(&list.rows[i]))
			continue;
		all++;
		for (int o = 0; o < OWNERS; o++)
			is_living |= pids[o] && list.rows[i].owner.pid == pids[o];
		cr_assert(is_living, "%s: a claim of %d, who is dead", when,
			  list.rows[i].owner.pid);
		cr_assert(is_whole(&list.rows[i].claim), "%s: a row made of two: %s", when,
			  list.rows[i].claim.what);
	}
	claim_list_release(&list);
	return all;
}

static void stop_all(const pid_t *pids, int signal)
{
	for (int o = 0; o < OWNERS; o++) {
		if (!pids[o])
			continue;
		kill(pids[o], signal);
		if (signal == SIGSTOP)
			waitpid(pids[o], NULL, WUNTRACED);
	}
}

static void share(void)
{
	said = mmap(NULL, sizeof(*said) * OWNERS, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(said, MAP_FAILED);
}

Test(ledger_killed, at_any_moment_of_several_at_once)
{
	pid_t pids[OWNERS];
	size_t all = 0;

	share();
	srandom(42);
	for (int o = 0; o < OWNERS; o++)
		pids[o] = start(o);
	for (int round = 0; round < ROUNDS; round++) {
		int victim = (int)(random() % OWNERS);

		/* the moment is the subject */
		nanosleep(&(struct timespec){ .tv_nsec = random() % 2000000 }, NULL);
		fixture_kill(pids[victim]);
		pids[victim] = 0;
		stop_all(pids, SIGSTOP);
		all += compare(pids, "at any moment");
		stop_all(pids, SIGCONT);
		pids[victim] = start(victim);
	}
	for (int o = 0; o < OWNERS; o++)
		fixture_kill(pids[o]);
	memset(pids, 0, sizeof(pids));
	cr_expect_eq(compare(pids, "at the end"), 0);
	cr_expect_gt(all, ROUNDS);
}

/* Others write and die meanwhile; what is read is whole all the same. */
Test(ledger_killed, what_is_read_while_it_is_written_is_whole)
{
	pid_t pids[OWNERS];
	size_t rows = 0;

	share();
	for (int o = 0; o < OWNERS; o++)
		pids[o] = start(o);
	for (int round = 0; round < 1500; round++) {
		struct claim_list list = { 0 };

		cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
		cr_assert_eq(list.damaged, 0);
		for (size_t i = 0; i < list.count; i++) {
			if (!is_of_this_test(&list.rows[i]))
				continue;
			cr_assert(is_whole(&list.rows[i].claim));
			rows++;
		}
		claim_list_release(&list);
		if (round % 50 == 49) {
			fixture_kill(pids[round % OWNERS]);
			pids[round % OWNERS] = start(round % OWNERS);
		}
	}
	cr_expect_gt(rows, 1000);
	for (int o = 0; o < OWNERS; o++)
		fixture_kill(pids[o]);
}

/*
 * Each named step, the first, the third and the twentieth time that it is come to, while others
 * live on.
 */
Test(ledger_killed, at_each_step)
{
	static const uint32_t hits[] = { 1, 3, 20 };
	pid_t pids[OWNERS] = { 0 };
	size_t all = 0;

	share();
	for (int o = 1; o < 3; o++)
		pids[o] = start(o);
	ledger_at = die_there;
	for (unsigned int step = 0; step < LEDGER_STEPS; step++) {
		for (size_t h = 0; h < sizeof(hits) / sizeof(hits[0]); h++) {
			char when[64];
			int status;

			snprintf(when, sizeof(when), "step %u, time %u", step, hits[h]);
			last_step = step;
			last_hit = hits[h];
			pids[0] = start(0);
			waitpid(pids[0], &status, 0);
			cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			pids[0] = 0;
			stop_all(pids, SIGSTOP);
			all += compare(pids, when);
			stop_all(pids, SIGCONT);
		}
	}
	ledger_at = NULL;
	cr_expect_gt(all, LEDGER_STEPS);
	for (int o = 1; o < 3; o++)
		fixture_kill(pids[o]);
}
