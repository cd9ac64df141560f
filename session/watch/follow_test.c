/* SPDX-License-Identifier: MIT */
#include "session/watch/follow.h"
#include "base/testing/await.h"
#include "session/watch/watching_own.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The watched process is this one. No register has to move, so none is needed. */
static struct watch_table table;
static struct follow_chain *const chain = &table.follows[0];
static struct watching watching;
static void *pointer;
static unsigned int naps;

/* The linker puts it in the place of nanosleep(2). */
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __real_nanosleep(const struct timespec *time, struct timespec *left);

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (gettid() != getpid()) /* the server's, not the test's own */
		__atomic_fetch_add(&naps, 1, __ATOMIC_RELAXED);
	return __real_nanosleep(time, left);
}

/* There is no object: it counts as armed. */
enum event_state __wrap_event_object_state(const struct event_object *object);

enum event_state __wrap_event_object_state(const struct event_object *object)
{
	(void)object;
	return EVENT_ARMED;
}

static void begin(void)
{
	watching.table = &table;
	watching.pid = getpid();
	watching.plan.pointers = 1;
	watching.plan.start = (uintptr_t)&pointer;
	cr_assert_eq(follow_begin(&watching), 0);
	cr_assert_eq(follow_settle(&watching, 0), 0);
	cr_assert_eq(follow_serve(&watching), 0);
}

/* As a thread that wrote a pointer asks for the move. */
static void ask(void)
{
	__atomic_add_fetch(&chain->asked, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &chain->asked, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int has_moved(void)
{
	return __atomic_load_n(&chain->done, __ATOMIC_SEQ_CST) == chain->asked;
}

Test(follow, server_sleeps_while_a_thread_is_stopped_in_a_hit)
{
	begin();
	chain->inside = 1;
	ask();
	cr_expect(AWAIT(__atomic_load_n(&naps, __ATOMIC_RELAXED) > 1));
	cr_expect_not(has_moved());
	__atomic_store_n(&chain->inside, 0, __ATOMIC_SEQ_CST);
	cr_expect(AWAIT(has_moved()));
	follow_release(watching.follow);
}

Test(follow, writers_wait_again_only_after_a_move_in_time)
{
	const struct timespec late = { .tv_sec = FOLLOW_WAIT_MS / 1000, .tv_nsec = 100000000 };

	begin();
	chain->inside = 1;
	ask();
	__real_nanosleep(&late, NULL);
	__atomic_store_n(&chain->is_late, 1,
			 __ATOMIC_RELAXED); /* as the writer does, which waited in vain */
	__atomic_store_n(&chain->inside, 0, __ATOMIC_SEQ_CST);
	cr_assert(AWAIT(has_moved()));
	cr_expect(__atomic_load_n(&chain->is_late, __ATOMIC_SEQ_CST));
	ask();
	cr_assert(AWAIT(has_moved()));
	cr_expect_not(__atomic_load_n(&chain->is_late, __ATOMIC_SEQ_CST));
	follow_release(watching.follow);
}

Test(follow, threads_do_not_wait_after_stop)
{
	begin();
	cr_expect_not(chain->is_late);
	follow_stop(watching.follow);
	cr_expect(chain->is_late);
	cr_expect_eq(chain->done, chain->asked);
	follow_release(watching.follow);
}
