/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "inside/marker/testing/fixture.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define PAIR 1
#define HITS 20000

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 12;
}

static __attribute__((noinline)) void hit_pair(int a, uint64_t b)
{
	WAYMARK(store, pair, a, b);
}

static void *hit_three(void *data)
{
	for (int i = 0; i < 3; i++)
		hit_pair(i, (uintptr_t)data);
	return NULL;
}

static uint32_t slots_in(uint32_t state)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stores[0].slot_count; i++)
		count += stores[0].slots[i].state == state;
	return count;
}

static uint32_t pages_in(uint32_t state)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < stores[0].page_count; i++)
		count += stores[0].pages[i].state == state;
	return count;
}

Test(store, quiet_threads_take_a_page_each_and_end_their_streams)
{
	pthread_t threads[100];

	fixture_make(100 * STORE_PAGE_BYTES, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	for (uintptr_t i = 0; i < 100; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, hit_three, (void *)i), 0);
	for (int i = 0; i < 100; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(slots_in(SLOT_ENDED), 100);
	cr_assert_eq(slots_in(SLOT_LIVE), 0);
	cr_assert_eq(pages_in(PAGE_FULL), 100);
	cr_assert_eq(pages_in(PAGE_OPEN), 0);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 300);
	cr_assert_eq(fixture_discarded(0), 0);
}

Test(store, memfd_of_a_store_opens_for_no_one_else)
{
	struct store_options options = { .buffer_bytes = 1 << 20 };
	struct stat about;
	int fd;

	cr_assert_eq(store_open(0, &options, &fd), 0);
	cr_assert_eq(fstat(fd, &about), 0);
	cr_assert_eq(about.st_mode & 0777, 0);
}

static void *hit_for_ever(void *data)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		(*(volatile uint64_t *)data)++, hit_pair(1, 2);
	return NULL;
}

Test(store, a_cancelled_thread_leaves_whole_pages)
{
	fixture_make(64 << 20, STORE_CYCLIC);
	fixture_arm("store:pair", PAIR, 1);
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t hits = 0;
		pthread_t thread;

		cr_assert_eq(pthread_create(&thread, NULL, hit_for_ever, &hits), 0);
		/* at moments that differ: the last ones are behind the thread's first page */
		cr_assert(AWAIT(*(volatile uint64_t *)&hits > i * 100));
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	store_sweep();
	cr_assert_eq(slots_in(SLOT_LIVE), 0);
	fixture_read(0, width, NULL, NULL);
}

Test(store, what_was_given_back_is_taken_before_what_was_never_used)
{
	static const unsigned char zeros[64];
	uint32_t used = 0;

	fixture_make(4 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	for (int round = 0; round < 40; round++) {
		for (uint64_t i = 0; i < STORE_PAGE_BYTES / 20; i++)
			hit_pair(1, i);
		fixture_drain(0);
	}
	for (uint32_t i = 0; i < stores[0].page_count; i++) {
		const unsigned char *middle = stores[0].data + (size_t)i * STORE_PAGE_BYTES +
					      STORE_PAGE_BYTES / 2;

		used += memcmp(middle, zeros, sizeof zeros) != 0;
	}
	cr_assert_geq(used, 1);
	cr_assert_leq(used, 3);
	cr_assert_eq(stores[0].head->discarded, 0);
}

static void *leave_by_syscall(void *data)
{
	hit_three(data);
	syscall(SYS_exit, 0);
	return NULL;
}

Test(store, a_thread_that_leaves_without_a_word_is_swept)
{
	pthread_t thread;

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	cr_assert_eq(pthread_create(&thread, NULL, leave_by_syscall, NULL), 0);
	cr_assert(AWAIT((store_sweep(), slots_in(SLOT_ENDED) == 1)));
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 3);
}

static int in_child(int (*child)(void))
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int hit_in_child(void)
{
	for (int i = 0; i < HITS; i++)
		hit_pair(9, 9);
	return 7;
}

static int reopen_in_child(void)
{
	struct store_options options = { .buffer_bytes = 1 << 20 };
	int fd;

	store_forked(0);
	fixture_disarm("store:pair");
	if (store_open(0, &options, &fd))
		return 1;
	fixture_arm("store:pair", PAIR, 1);
	hit_three(NULL);
	if (fixture_read(0, width, NULL, NULL) != 3)
		return 2;
	return stores[0].slots[0].tid == (uint32_t)getpid() ? 7 : 3;
}

static int share_in_child(void)
{
	store_forked(1);
	if (!store_is_shared(0) || store_is_over(0))
		return 1;
	stores[0].head->closed = 1; /* as the tool does it */
	return store_is_over(0) ? 7 : 2;
}

static void check_parent(uint64_t hits)
{
	for (uint64_t i = 0; i < hits; i++)
		hit_pair(1, 1);
}

Test(store, a_child_never_writes_to_its_parents_pages)
{
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	check_parent(10);
	cr_assert_eq(in_child(hit_in_child), 7);
	cr_assert_eq(in_child(reopen_in_child), 7);
	check_parent(10);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 20);
}

#define TRAP_FLAG 0x100

static volatile int in_forked;
static long forked, failed;

static uint32_t bytes_in_open_page(void)
{
	for (uint32_t i = 0; i < stores[0].page_count; i++)
		if (stores[0].pages[i].state == PAGE_OPEN)
			return (uint32_t)stores[0].pages[i].word;
	return 0;
}

/* After each instruction: a handler that forks, and returns in the child too. */
static void fork_at_step(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	pid_t pid = fork();
	int status;

	(void)number, (void)info;
	if (!pid) {
		in_forked = 1;
		store_forked(0);
		context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
		return;
	}
	waitpid(pid, &status, 0);
	forked++;
	failed += status != 0;
}

static __attribute__((noinline)) void hit_stepped(void)
{
	__asm__ volatile("pushf\n\torq %0, (%%rsp)\n\tpopf" ::"i"(TRAP_FLAG) : "memory", "cc");
	hit_pair(2, 2);
	__asm__ volatile("pushf\n\tandq %0, (%%rsp)\n\tpopf" ::"i"(~TRAP_FLAG) : "memory", "cc");
	if (!in_forked)
		return;
	hit_pair(3, 3);
	_exit(0);
}

/* The first hit, which takes a slot and a page; then one that needs another page. */
Test(store, handler_may_fork_at_any_instruction_of_a_hit)
{
	struct sigaction action = { .sa_sigaction = fork_at_step, .sa_flags = SA_SIGINFO };

	fixture_make(4 * STORE_PAGE_BYTES, STORE_CYCLIC);
	fixture_arm("store:pair", PAIR, 1);
	cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
	hit_stepped();
	cr_expect_gt(forked, 100);
	while (bytes_in_open_page() < STORE_PAGE_BYTES - LANE_SLACK - 48)
		hit_pair(1, 1);
	for (int i = 0; i < 16 && pages_in(PAGE_FULL) < 1; i++)
		hit_stepped();
	cr_expect_eq(pages_in(PAGE_FULL), 1);
	cr_expect_eq(failed, 0, "%ld of %ld", failed, forked);
}

Test(store, child_leaves_parents_store_when_tool_closes_it)
{
	fixture_make(1 << 20, STORE_DISCARD);
	stores[0].head->tool_pid = (uint32_t)getpid();
	/* as root's is not */
	stores[0].is_alone = 0;
	madvise(stores[0].head, stores[0].bytes, MADV_DOFORK);
	cr_assert_eq(in_child(share_in_child), 7);
}

/* It counts what it loses, until its fork handler is over; then its counts are its own. */
static int count_in_child(void)
{
	store_forked(1);
	if (store_is_shared(0))
		return 1;
	stores[0].head->discarded++;
	store_forked_end();
	stores[0].head->discarded += 100;
	return store_close(0) || stores[0].head ? 2 : 7;
}

Test(store, child_of_a_process_with_rights_shares_nothing)
{
	fixture_make(1 << 20, STORE_DISCARD);
	stores[0].head->tool_pid = (uint32_t)getpid();
	/* as root's is */
	if (!store_is_alone())
		stores[0].is_alone = 1;
	else
		cr_assert_eq(store_forking(1, 1), 1);
	cr_assert_eq(in_child(count_in_child), 7);
	store_forking_end();
	cr_assert_eq(stores[0].head->discarded, 1);
}

/* Without the agent's lock, another thread may take the page back that its child got. */
Test(store, fork_without_the_lock_lends_nothing)
{
	if (!store_is_alone())
		cr_skip_test("children of a process without privileges share its store");
	fixture_make(1 << 20, STORE_DISCARD);
	cr_assert_eq(store_forking(1, 0), 0);
	cr_assert_eq(stores[0].head->unreached_error, -EBUSY);
}

static int clone_bare(int (*child)(void))
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	if (!pid)
		syscall(SYS_exit_group, child());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static unsigned char *mapped; /* by the child, where its parent has the store */

static int reopen_and_keep(void)
{
	int result = reopen_in_child();

	return *mapped == 77 ? result : 3;
}

/* It makes another child, by libc, and stays out of what it does not have. */
static int lack_store(void)
{
	void *head = stores[0].head;

	if (!msync(head, sizeof(struct wm_store), MS_ASYNC) || errno != ENOMEM)
		return 1;
	hit_in_child();
	mapped = mmap(head, sizeof(struct wm_store), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (store_forking(1, 1) || mapped != head)
		return 2;
	*mapped = 77;
	return in_child(reopen_and_keep);
}

Test(store, child_of_a_bare_clone_has_none_of_a_privileged_store)
{
	if (!store_is_alone())
		cr_skip_test("children of a process without privileges share its store");
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	check_parent(10);
	cr_assert_eq(clone_bare(lack_store), 7);
	cr_assert_eq(store_forking(1, 1), 1);
	store_forking_end();
	cr_assert_eq(clone_bare(lack_store), 7);
	check_parent(10);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 20);
	cr_assert_eq(fixture_discarded(0), 0);
}

Test(store, nor_does_the_child_of_a_bare_fork)
{
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	check_parent(10);
	cr_assert_eq(clone_bare(hit_in_child), 7);
	check_parent(10);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 20);
}

Test(store, a_vfork_child_harms_nothing)
{
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	for (int i = 0; i < 100; i++) {
		pid_t pid = vfork();

		if (!pid) {
			hit_pair(5, 5);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		hit_pair(1, 1);
	}
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 200);
}

static int bare_thread(void *data)
{
	for (int i = 0; i < HITS; i++)
		hit_pair(i, 3);
	__atomic_fetch_add((int *)data, 1, __ATOMIC_RELEASE);
	syscall(SYS_exit, 0);
	return 0;
}

/*
 * Threads made by clone() alone run on their maker's thread-local storage, at the same time. Their
 * hits are lost, but where they run on the CPU that their maker ran on last.
 */
Test(store, bare_threads_that_share_a_tls_never_write_at_once)
{
	const size_t stack_bytes = 256 * 1024;
	pid_t tids[3];
	int done = 0;

	fixture_make(64 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	for (int i = 0; i < 3; i++) {
		char *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

		tids[i] = clone(bare_thread, stack + stack_bytes,
				CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
					CLONE_SYSVSEM,
				&done);
		cr_assert_gt(tids[i], 0);
	}
	for (int i = 0; i < HITS; i++)
		hit_pair(i, 1);
	cr_assert(AWAIT(__atomic_load_n(&done, __ATOMIC_ACQUIRE) == 3));
	cr_assert_eq(fixture_read(0, width, NULL, NULL) + fixture_discarded(0), 4 * HITS);
	cr_assert_geq(fixture_read(0, width, NULL, NULL), HITS);
	for (int i = 0; i < 3; i++)
		cr_assert(AWAIT(tgkill(getpid(), tids[i], 0) && errno == ESRCH));
}

static void *hit_on(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		hit_pair(4, 4);
	return NULL;
}

Test(store, quiet_ends_every_stream_while_threads_go_on_hitting)
{
	pthread_t threads[4];
	int stop = 0;

	fixture_make(4 << 20, STORE_CYCLIC);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hit_on, &stop);
	for (int i = 0; i < 50; i++) {
		fixture_arm("store:pair", PAIR, 1);
		cr_assert(AWAIT(slots_in(SLOT_LIVE) == 4), "not all threads have hit");
		fixture_disarm("store:pair");
		cr_assert_eq(store_quiet(0, 2000), 0);
		cr_assert_eq(pages_in(PAGE_OPEN), 0);
		cr_assert_eq(slots_in(SLOT_LIVE), 0);
		fixture_read(0, width, NULL, NULL);
		/* the outside's part: nothing is left of it */
		fixture_drain(0);
		for (uint32_t s = 0; s < stores[0].slot_count; s++)
			stores[0].slots[s].state = SLOT_FREE;
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(store_close(0), 0);
}

/* A reader derives from these what was overwritten (abi/page.h). */
Test(store, pages_of_a_flight_recorder_say_where_in_their_stream_they_stand)
{
	const struct wm_slot *slot;
	uint64_t first = UINT64_MAX, held = 0;

	fixture_make(4 * STORE_PAGE_BYTES, STORE_CYCLIC);
	fixture_arm("store:pair", PAIR, 1);
	for (int i = 0; i < 100000; i++)
		hit_pair(i, 0);
	fixture_disarm("store:pair");
	cr_assert_eq(store_quiet(0, 2000), 0);
	for (uint32_t i = 0; i < stores[0].page_count; i++) {
		const struct wm_page *page = &stores[0].pages[i];

		if (page->state != PAGE_FULL)
			continue;
		first = page->before < first ? page->before : first;
		held += page->events;
	}
	slot = &stores[0].slots[0];
	cr_assert_eq(slot->written, 100000);
	cr_assert_eq(slot->discarded, 0);
	cr_assert_gt(first, 0);
	cr_assert_eq(first + held, 100000, "the pages lie side by side");
	cr_assert_eq(stores[0].head->overwritten, first);
}

static __attribute__((noinline)) void hit_other(int a, uint64_t b)
{
	WAYMARK(store, other, a, b);
}

static void *hit_both(void *data)
{
	for (int i = 0; !*(volatile int *)data; i++) {
		hit_pair(i, 0);
		for (int j = 0; j < 100; j++)
			hit_other(i, 0);
	}
	return NULL;
}

Test(store, a_session_can_be_closed_while_threads_are_busy_for_another)
{
	pthread_t threads[4];
	int stop = 0;

	fixture_make(4 << 20, STORE_CYCLIC);
	fixture_store(1, 4 << 20, STORE_CYCLIC);
	fixture_arm("store:other", PAIR, 2);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hit_both, &stop);
	for (int i = 0; i < 50; i++) {
		fixture_arm("store:pair", PAIR, 1);
		cr_assert(AWAIT(slots_in(SLOT_LIVE) == 4), "not all threads have hit");
		fixture_disarm("store:pair");
		cr_assert_eq(store_quiet(0, 2000), 0);
		cr_assert_eq(store_close(0), 0);
		fixture_store(0, 4 << 20, STORE_CYCLIC);
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

Test(store, quiesce_waits_for_threads_that_have_no_writer)
{
	struct writer *stranger;

	fixture_make(1 << 20, STORE_DISCARD);
	stranger = writer_stranger_enter(4096);
	cr_assert_eq(store_quiesce(50, 0), -ETIMEDOUT);
	writer_stranger_leave(stranger, 4096);
	cr_assert_eq(store_quiesce(50, 0), 0);
}

Test(store, quiesce_waits_for_more_threads_without_a_writer_than_there_are_records_for)
{
	struct writer *strangers[STRANGERS_MAX];

	fixture_make(1 << 20, STORE_DISCARD);
	for (int i = 0; i < STRANGERS_MAX; i++) {
		strangers[i] = writer_stranger_enter(4096);
		cr_assert_not_null(strangers[i]);
	}
	cr_assert_null(writer_stranger_enter(4096));
	for (int i = 0; i < STRANGERS_MAX; i++)
		writer_stranger_leave(strangers[i], 4096);
	cr_assert_eq(store_quiesce(50, 0), -ETIMEDOUT);
	writer_stranger_leave(NULL, 4096);
	cr_assert_eq(store_quiesce(50, 0), 0);
	/* as in a forked child, which began with none */
	writer_stranger_leave(NULL, 4096);
	cr_assert_eq(store_quiesce(50, 0), 0);
}

static void *stay_a_stranger(void *data)
{
	(void)data;
	writer_stranger_enter(4096);
	return NULL;
}

Test(store, a_thread_that_died_without_a_writer_is_not_waited_for)
{
	pthread_t thread;

	fixture_make(1 << 20, STORE_DISCARD);
	pthread_create(&thread, NULL, stay_a_stranger, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(store_quiesce(50, 0), -ETIMEDOUT);
	store_sweep();
	cr_assert_eq(store_quiesce(50, 0), 0);
}

Test(store, quiesce_says_when_a_thread_does_not_leave)
{
	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	hit_pair(1, 1);
	cr_assert_eq(store_quiesce(1000, 0), 0);
	writer_self->inside[0] = 1;
	cr_assert_eq(store_quiesce(50, 0), -ETIMEDOUT);
	cr_assert_eq(store_quiesce(50, 1), 0);
	cr_assert_eq(store_quiet(0, 50), -ETIMEDOUT);
	cr_assert_eq(store_close(0), -EBUSY);
	writer_self->inside[0] = 0;
	cr_assert_eq(store_quiet(0, 50), 0);
	cr_assert_eq(store_close(0), 0);
}

Test(store, the_memfd_can_neither_shrink_nor_grow)
{
	struct store_options options = { .buffer_bytes = 1 << 20 };
	int fd;

	cr_assert_eq(store_init(), 0);
	cr_assert_eq(store_open(0, &options, &fd), 0);
	cr_assert_eq(ftruncate(fd, 4096), -1);
	cr_assert_eq(ftruncate(fd, 1 << 30), -1);
	cr_assert_eq(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

Test(store, a_buffer_past_a_limit_is_refused)
{
	struct store_options options = { .buffer_bytes = 64 << 20 };
	struct rlimit limit = { 1 << 20, 1 << 20 };
	int fd;

	cr_assert_eq(store_init(), 0);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(store_open(0, &options, &fd), -WM_E_MEMORY_LIMIT);
	options.buffer_bytes = 0;
	cr_assert_eq(store_open(0, &options, &fd), -EINVAL);
}

Test(store, errno_is_left_alone)
{
	fixture_make(STORE_PAGE_BYTES, STORE_DISCARD);
	fixture_arm("store:pair", PAIR, 1);
	errno = 123;
	for (int i = 0; i < HITS; i++)
		hit_pair(1, 1);
	cr_assert_eq(errno, 123);
}
