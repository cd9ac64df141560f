/* SPDX-License-Identifier: MIT */
/*
 * Pages as the kernel would write them where there is a counter, and real pages of a software
 * event, which has none.
 */
#include "inside/marker/cost_counters.h"

#include "base/cost_event.h"
#include "inside/marker/cost.h"
#include "inside/marker/marker.h"
#include "inside/runtime/control_life.h"
#include "inside/store/event_store.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CYCLES (1u << COST_CYCLES)
#define MISSES (1u << COST_CACHE_MISSES)
#define UNCOUNTED (1u << COST_UNCOUNTED)
#define CLOCK (1u << COST_TASK_CLOCK)
#define PAGES 100

/* ---- reading ---- */

static struct perf_event_mmap_page cycles, misses;
static struct cost_counters hand;
static struct writer writer;

static uint64_t counter(uint32_t number)
{
	return number == 1 ? 7 : 70;
}

static void by_hand(void)
{
	cycles = (struct perf_event_mmap_page){ .index = 2, .offset = 1000, .pmc_width = 48 };
	cycles.cap_user_rdpmc = 1;
	misses = cycles;
	misses.index = 5;
	cycles.time_enabled = 500;
	cycles.time_running = 400;
	hand = (struct cost_counters){
		.births = 3, .pages = { [0] = &cycles, [COST_CACHE_MISSES - COST_CYCLES] = &misses }
	};
	writer = (struct writer){ .births = 3, .counters = &hand };
	cost_counter = counter;
	cost_allow(0);
}

Test(cost_counters, counts_are_of_their_pages_and_gaps_add_up, .init = by_hand)
{
	uint64_t values[COST_KINDS_COUNT];

	cr_assert_eq(cost_read(&writer, CLOCK | CYCLES | MISSES | UNCOUNTED, values), 4);
	cr_assert_eq(values[0], COST_UNAVAILABLE, "a system call");
	cr_assert_eq(values[1], 1007);
	cr_assert_eq(values[2], 1070);
	cr_assert_eq(values[3], 100);
	cr_assert_eq(cost_read(&writer, MISSES | UNCOUNTED, values), 2);
	cr_assert_eq(values[0], 1070);
	cr_assert_eq(values[1], 0);
}

static void expect_none(unsigned int kinds)
{
	uint64_t values[COST_KINDS_COUNT];
	unsigned int count = cost_read(&writer, kinds | UNCOUNTED, values);

	for (unsigned int i = 0; i < count; i++)
		cr_assert_eq(values[i], COST_UNAVAILABLE);
}

Test(cost_counters, without_one_of_them_there_is_no_value, .init = by_hand)
{
	misses.index = 0;
	expect_none(CYCLES | MISSES);
	misses.index = 5;
	misses.cap_user_rdpmc = 0;
	expect_none(CYCLES | MISSES);
	expect_none(CYCLES | 1u << COST_BRANCHES);
	writer.births++; /* they are of the thread before */
	expect_none(CYCLES);
	writer.counters = NULL;
	expect_none(CYCLES);
}

/* ---- asking ---- */

static int ends, fails, left; /* descriptors of the control thread */

static long open_faults(unsigned int kind, int32_t tid)
{
	struct perf_event_attr attr = cost_event_attr(kind);
	long fd;

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_PAGE_FAULTS;
	fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fails ? -EMFILE : fd < 0 ? -errno : fd;
}

/* How many mappings of perf events there are; and descriptors that are open. */
static int mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	while (fgets(line, sizeof line, maps))
		count += strstr(line, "perf_event") != NULL;
	fclose(maps);
	return count;
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/thread-self/fd");
	int count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void *control(void *data)
{
	control_block_signals();
	cr_assert_eq(control_unshare_descriptors(), 0);
	control_life.state = CONTROL_RUNNING;
	__atomic_store_n(&control_life.tid, gettid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
		cost_counters_serve();
		usleep(100);
	}
	left = descriptors();
	return data;
}

static pthread_t control_thread;

static void begin(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof attr,
					.config = PERF_COUNT_SW_PAGE_FAULTS,
					.exclude_kernel = 1 };
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

	if (fd < 0)
		cr_skip_test("the kernel counts nothing here: %s", strerror(errno));
	close((int)fd);
	cr_assert_eq(store_init(), 0);
	cost_counters_open = open_faults;
	cr_assert_eq(cost_add(0, "db:query", CYCLES | MISSES | UNCOUNTED, 0), 0);
	cost_allow(1);
	pthread_create(&control_thread, NULL, control, NULL);
	while (!__atomic_load_n(&control_life.tid, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void end(void)
{
	if (ends)
		return;
	__atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
	pthread_join(control_thread, NULL);
}

static struct writer *self(void)
{
	struct writer *mine = writer_find((uintptr_t)__builtin_frame_address(0));

	cr_assert(mine);
	return mine;
}

static void touch_pages(void)
{
	volatile char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise((void *)pages, PAGES * 4096, MADV_NOHUGEPAGE);
	for (int i = 0; i < PAGES; i++)
		pages[i * 4096] = 1;
	munmap((void *)pages, PAGES * 4096);
	usleep(1000); /* the kernel writes the page at the thread's next turn */
}

/* The event is the thread's own, no descriptor is left, and errno stays. */
static void *asks(void *data)
{
	struct writer *mine = self();
	int before = descriptors();
	int64_t faults;

	errno = EDOM;
	cost_prepare(mine);
	cr_assert_eq(errno, EDOM);
	cr_assert(cost_counters_of(mine), "no answer within its time");
	cr_assert_eq(cost_counters_of(mine)->tid, gettid());
	cr_assert(cost_counters_of(mine)->pages[0] &&
		  cost_counters_of(mine)->pages[COST_CACHE_MISSES - COST_CYCLES]);
	cr_assert_not(cost_counters_of(mine)->pages[COST_BRANCHES - COST_CYCLES]);
	cr_assert_eq(descriptors(), before);
	usleep(1000);
	faults = cost_counters_of(mine)->pages[0]->offset;
	touch_pages();
	faults = cost_counters_of(mine)->pages[0]->offset - faults;
	cr_assert(faults >= PAGES && faults < 2 * PAGES, "%ld faults", (long)faults);
	writer.counters = mine->counters;
	writer.births = mine->births;
	expect_none(CYCLES); /* no counter: index 0 */
	return data;
}

Test(cost_counters, thread_gets_its_own_at_its_first_hit, .init = begin, .fini = end)
{
	struct text text = { .fd = -1 };
	struct change change = { 0 };
	pthread_t thread;

	asks(NULL);
	cr_assert_eq(mappings(), 2);
	pthread_create(&thread, NULL, asks, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(mappings(), 4);
	cost_counters_reap(1000);
	cr_assert_eq(mappings(), 2, "those of a thread that has ended are unmapped");
	pthread_create(&thread, NULL, asks, NULL); /* with the writer of the one before */
	pthread_join(thread, NULL);
	cr_assert_eq(registry_rule(&text, 0, NULL, 0, 0, &change), 0);
	cost_counters_reap(1000);
	cr_assert_eq(mappings(), 0, "no session wants any");
	cr_assert_not(cost_counters_of(self()));
	cost_add(0, "db:query", MISSES | UNCOUNTED, 0);
	cost_prepare(self());
	cr_assert_eq(mappings(), 1, "the next session has them again");
	cost_add(1, "db:query", CYCLES | UNCOUNTED, 0);
	cost_counters_extend();
	cr_assert_eq(mappings(), 2, "another session wants more");
	end();
	cr_assert_eq(left, 3, "two entries of the folder, and that of its list");
}

Test(cost_counters, hit_that_reads_them_keeps_them, .init = begin, .fini = end)
{
	asks(NULL);
	self()->inside[0] = (uintptr_t)__builtin_frame_address(0);
	cost_clear(0);
	cost_counters_reap(1);
	cr_assert_eq(mappings(), 2);
	self()->inside[0] = 0;
	cost_counters_reap(1000);
	cr_assert_eq(mappings(), 0);
}

Test(cost_counters, thread_that_can_have_none_asks_once, .init = begin, .fini = end)
{
	fails = 1;
	cost_prepare(self());
	cr_assert(cost_counters_of(self()), "it was answered");
	cr_assert_eq(mappings(), 0);
	writer = *self();
	expect_none(CYCLES);
	cr_assert_eq(self()->counters_asked, self()->births);
}

/* The kernel has no such page in a child. */
Test(cost_counters, child_of_fork_has_none, .init = begin, .fini = end)
{
	int status;
	void *page;
	pid_t child;

	asks(NULL);
	page = (void *)(uintptr_t)self()->counters->pages[0];
	child = fork();
	if (!child) {
		uint64_t values[COST_KINDS_COUNT];
		int is_wrong = mappings() != 0;

		/* the program's, where the page was */
		is_wrong |= mmap(page, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
				 0) != page;
		cost_counters_forked();
		control_life.tid = 0;
		store_forked(0);
		cost_prepare(self());
		is_wrong |= self()->counters_asked != 0;
		cost_read(self(), CYCLES, values);
		cost_clear(0);
		cost_counters_reap(1000);
		is_wrong |= msync(page, 4096, MS_ASYNC) != 0;
		_exit(is_wrong || values[0] != COST_UNAVAILABLE);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}
