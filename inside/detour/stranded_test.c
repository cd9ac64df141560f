/* SPDX-License-Identifier: MIT */
/* Hits that a jump left, in threads of all kinds, found with the thread stopped. */
#include "inside/detour/janitor.h"
#include "inside/detour/stranded.h"
#include "inside/detour/testing/fixture.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES (256 * 1024)
#define CODE 0x400000u
#define CODE_END 0x500000u
#define TID 77

/* volatile: the compiler sees no reader of it */
static void set_inside(int depth, uintptr_t sp)
{
	*(volatile uintptr_t *)&writer_self->inside[depth] = sp;
}

/* A hit, and where on the stack it was. */
static __attribute__((noinline)) uintptr_t hit_deep(void)
{
	volatile char frame[2000];
	volatile uintptr_t at = (uintptr_t)frame;

	frame[0] = 1;
	trial_victim(frame[0]);
	return at;
}

/* As a handler's jump leaves it. */
static void leave_hit(void)
{
	set_inside(0, hit_deep());
}

/* ---- real threads ---- */

static pthread_barrier_t at_left, at_end;

static void wait_there(void)
{
	pthread_barrier_wait(&at_left);
	pthread_barrier_wait(&at_end);
}

static void *leave_and_wait(void *data)
{
	(void)data;
	leave_hit();
	wait_there();
	return NULL;
}

static void begin(unsigned int threads)
{
	trial_begin();
	trial_arm_detour(&trial_victim_wish);
	pthread_barrier_init(&at_left, NULL, threads + 1);
	pthread_barrier_init(&at_end, NULL, threads + 1);
}

static void expect_one_forgotten(void *(*run)(void *), pthread_attr_t *attributes)
{
	pthread_t thread;

	begin(1);
	cr_assert_eq(pthread_create(&thread, attributes, run, NULL), 0);
	pthread_barrier_wait(&at_left);
	cr_assert_eq(store_quiesce(10, 0), -ETIMEDOUT);
	cr_assert_eq(janitor_forget_stranded(&trial_text), 1);
	cr_assert_eq(store_quiesce(1000, 0), 0);
	pthread_barrier_wait(&at_end);
	pthread_join(thread, NULL);
}

Test(stranded, a_hit_left_in_a_thread_is_forgotten)
{
	expect_one_forgotten(leave_and_wait, NULL);
}

Test(stranded, a_hit_left_on_a_stack_that_the_program_gave_is_forgotten)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	cr_assert_eq(pthread_attr_setstack(&attributes, stack, STACK_BYTES), 0);
	expect_one_forgotten(leave_and_wait, &attributes);
}

Test(stranded, a_hit_left_in_the_main_thread_is_forgotten)
{
	begin(0);
	leave_hit();
	cr_assert_eq(janitor_forget_stranded(&trial_text), 1);
	cr_assert_eq(writer_self->inside[0], 0);
}

static ucontext_t own, other;

static void leave_and_wait_there(void)
{
	leave_hit();
	wait_there();
}

static void leave_and_go_back(void)
{
	leave_hit();
	swapcontext(&other, &own);
}

static void *with_coroutine(void (*coroutine)(void))
{
	static char *stack;

	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	getcontext(&other);
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = STACK_BYTES;
	other.uc_link = &own;
	makecontext(&other, coroutine, 0);
	swapcontext(&own, &other);
	return NULL;
}

static void *leave_in_coroutine(void *data)
{
	(void)data;
	return with_coroutine(leave_and_wait_there);
}

static void *leave_behind_in_coroutine(void *data)
{
	(void)data;
	with_coroutine(leave_and_go_back);
	wait_there();
	return NULL;
}

Test(stranded, a_hit_left_on_a_coroutines_stack_is_forgotten)
{
	expect_one_forgotten(leave_in_coroutine, NULL);
}

Test(stranded, a_hit_on_a_coroutines_stack_that_nobody_stands_on_may_go_on)
{
	pthread_t thread;

	begin(1);
	pthread_create(&thread, NULL, leave_behind_in_coroutine, NULL);
	pthread_barrier_wait(&at_left);
	cr_assert_eq(janitor_forget_stranded(&trial_text), 0);
	cr_assert_eq(store_quiesce(10, 0), -ETIMEDOUT);
	pthread_barrier_wait(&at_end);
	pthread_join(thread, NULL);
}

static void *leave_all_and_wait(void *data)
{
	(void)data;
	leave_hit();
	for (int depth = 1; depth < DEPTH_MAX; depth++)
		set_inside(depth, hit_deep());
	wait_there();
	return NULL;
}

Test(stranded, all_hits_that_a_thread_left_are_forgotten_at_once)
{
	pthread_t thread;

	begin(1);
	pthread_create(&thread, NULL, leave_all_and_wait, NULL);
	pthread_barrier_wait(&at_left);
	cr_assert_eq(janitor_forget_stranded(&trial_text), DEPTH_MAX);
	cr_assert_eq(store_quiesce(1000, 0), 0);
	pthread_barrier_wait(&at_end);
	pthread_join(thread, NULL);
}

Test(stranded, more_threads_than_one_look_takes_are_found_by_the_next)
{
	enum { THREADS = STRANDED_MAX + 10 };
	pthread_t threads[THREADS];

	begin(THREADS);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, leave_and_wait, NULL), 0);
	pthread_barrier_wait(&at_left);
	cr_assert_eq(janitor_forget_stranded(&trial_text), STRANDED_MAX);
	cr_assert_eq(janitor_forget_stranded(&trial_text), THREADS - STRANDED_MAX);
	cr_assert_eq(store_quiesce(1000, 0), 0);
	pthread_barrier_wait(&at_end);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* Hits of threads that have no writer. */
static void *leave_stranger_and_wait(void *data)
{
	(void)data;
	writer_stranger_enter(hit_deep());
	wait_there();
	return NULL;
}

Test(stranded, a_hit_left_by_a_thread_that_has_no_writer_is_forgotten)
{
	expect_one_forgotten(leave_stranger_and_wait, NULL);
}

/* ---- what is known of one thread ---- */

static struct writer writer = { .tid = TID, .state = WRITER_LIVE };
static struct stranded stranded;

/* One hit, of a thread on a stack that ends at 0x9000. */
static void one_hit(uintptr_t frame)
{
	memset(&stranded, 0, sizeof stranded);
	stranded.code_start = CODE;
	stranded.code_end = CODE_END;
	stranded.count = 1;
	stranded.of[0].writer = &writer;
	stranded.of[0].tid = TID;
	writer.inside[0] = frame;
}

static uint32_t end(void)
{
	stranded_stack(&stranded, stranded.sp, 0x9000);
	stranded_end(&stranded);
	return stranded.forgotten;
}

Test(stranded, a_hit_goes_on_where_the_thread_is_in_the_agents_code_below_it)
{
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, CODE, 0x8000, 0));
	cr_assert_eq(end(), 0);
	cr_assert_eq(writer.inside[0], 0x8000);

	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, CODE_END - 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
	/* what is above it is another call of the agent's */
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, CODE, 0x7000, 0));
	stranded.places[0].sp = 0x8008;
	cr_assert_eq(end(), 1);
	cr_assert_eq(writer.inside[0], 0);
	/* and what is not the agent's is the program's */
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, CODE_END, 0x7000, 0));
	cr_assert_eq(end(), 1);
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, CODE - 1, 0x7000, 0));
	cr_assert_eq(end(), 1);
}

Test(stranded, a_hit_goes_on_to_which_a_signals_frame_leads_back)
{
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, 1, 0x6000, 0));
	stranded_place(&stranded, CODE + 16, 0x7000);
	cr_assert_eq(end(), 0);
}

Test(stranded, a_hit_goes_on_whose_handler_is_the_programs_own)
{
	one_hit(0x8000);
	writer.running_fn[0] = leave_hit;
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
	writer.running_fn[0] = NULL;
}

Test(stranded, a_hit_goes_on_where_there_are_more_places_than_are_kept)
{
	one_hit(0x8000);
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	for (unsigned int i = 1; i < STRANDED_PLACES_MAX; i++)
		stranded_place(&stranded, 1, 0x7000);
	cr_assert_not_null(stranded.writer);
	stranded_place(&stranded, 1, 0x7000);
	cr_assert_eq(end(), 0);
}

Test(stranded, a_hit_goes_on_that_lies_on_no_stack_that_was_read)
{
	one_hit(0x9000);
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
	one_hit(0x6ff8);
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
}

Test(stranded, a_hit_below_the_thread_on_its_own_stack_is_over)
{
	one_hit(0x5000);
	stranded.of[0].area_start = 0x4000;
	stranded.of[0].area_end = 0x9000;
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0x9000));
	cr_assert_eq(end(), 1);
	/* what is above it is on its stack still, though that could not be read so far */
	one_hit(0x8000);
	stranded.of[0].area_start = 0x4000;
	stranded.of[0].area_end = 0x9000;
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0x9000));
	stranded_stack(&stranded, 0x7000, 0x7800);
	stranded_end(&stranded);
	cr_assert_eq(stranded.forgotten, 0);
	/* not where that stack is another area */
	one_hit(0x5000);
	stranded.of[0].area_start = 0x4000;
	stranded.of[0].area_end = 0x6000;
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0x9000));
	cr_assert_eq(end(), 0);
	/* nor where it is not known to be its own */
	one_hit(0x5000);
	stranded.of[0].area_start = 0x4000;
	stranded.of[0].area_end = 0x9000;
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
}

Test(stranded, a_hit_below_the_thread_on_pages_that_it_was_seen_on_is_over)
{
	one_hit(0x5000);
	writer.elsewhere = (struct writer_stack){ .low = 0x5000, .bytes = 0x3000 };
	cr_assert(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 1);
	one_hit(0x5000);
	cr_assert(stranded_begin(&stranded, TID, 1, 0x8000, 0));
	cr_assert_eq(end(), 0);
	writer.elsewhere.bytes = 0;
}

Test(stranded, only_the_hits_own_thread_is_looked_at)
{
	one_hit(0x8000);
	cr_assert_not(stranded_begin(&stranded, TID + 1, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
	/* its writer has become another's */
	one_hit(0x8000);
	writer.tid = TID + 1;
	cr_assert_not(stranded_begin(&stranded, TID, 1, 0x7000, 0));
	cr_assert_eq(end(), 0);
}
