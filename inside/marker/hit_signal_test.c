/* SPDX-License-Identifier: MIT */
/* Hits that interrupt hits, on whatever stack, and hits that are never finished. */
#include "inside/marker/testing/fixture.h"
#include "inside/store/arena.h"

#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { PAIR = 1, SIGNAL = 40 };

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 12;
}

static __attribute__((noinline)) void hit_pair(int a, uint64_t b)
{
	WAYMARK(hit, pair, a, b);
}

static void count_depths(const struct fixture_event *event, void *data)
{
	((uint64_t *)data)[event->depth]++;
}

/* volatile: the compiler sees no reader of it in a function with a marker */
static void set_inside(uintptr_t sp)
{
	*(volatile uintptr_t *)&writer_self->inside[0] = sp;
}

static uintptr_t get_inside(void)
{
	return *(volatile uintptr_t *)&writer_self->inside[0];
}

static __attribute__((noinline)) uintptr_t hit_deep(void)
{
	volatile char frame[2000];
	volatile uintptr_t at = (uintptr_t)frame;

	frame[0] = 1;
	hit_pair(frame[0], 0);
	return at;
}

Test(hit_signal, a_nested_hit_goes_to_a_stream_of_its_own)
{
	uint64_t depths[DEPTH_MAX] = { 0 };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	hit_pair(0, 0);
	/* as if a signal had come in the middle of a hit: its frame is above the handler's */
	set_inside((uintptr_t)__builtin_frame_address(0) + 64);
	hit_pair(1, 1);
	hit_pair(2, 2);
	set_inside(0);
	hit_pair(3, 3);
	fixture_read(0, width, count_depths, depths);
	cr_assert_eq(depths[0], 2);
	cr_assert_eq(depths[1], 2);
}

/* Two signals, each in the middle of a hit. */
Test(hit_signal, hit_within_a_nested_hit_is_discarded_and_counted)
{
	uint64_t depths[DEPTH_MAX] = { 0 };
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	hit_pair(0, 0);
	set_inside(frame + 128);
	*(volatile uintptr_t *)&writer_self->inside[1] = frame + 64;
	hit_pair(1, 1);
	*(volatile uintptr_t *)&writer_self->inside[1] = 0;
	hit_pair(2, 2);
	set_inside(0);
	cr_assert_eq(fixture_read(0, width, count_depths, depths), 2);
	cr_assert_eq(depths[0], 1);
	cr_assert_eq(depths[1], 1);
	cr_assert_eq(fixture_discarded(0), 1);
}

Test(hit_signal, a_hit_that_a_longjmp_left_is_forgotten)
{
	uint64_t depths[DEPTH_MAX] = { 0 };

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	set_inside(hit_deep());
	hit_pair(1, 1);
	cr_assert_eq(get_inside(), 0);
	fixture_read(0, width, count_depths, depths);
	cr_assert_eq(depths[0], 2);
}

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	WAYMARK(hit, handler, signal, (uint64_t)signals);
	signals++;
}

Test(hit_signal, signals_at_any_point_lose_nothing)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct timespec interval = { .tv_nsec = 100000 };
	struct itimerspec every = { interval, interval };
	static char alternate[65536];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	uint64_t hits = 0;
	timer_t timer;

	fixture_make(64 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	fixture_arm("hit:handler", SIGNAL, 1);
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	for (int on_alternate = 0; on_alternate < 2; on_alternate++) {
		action.sa_flags = on_alternate ? SA_ONSTACK : 0;
		sigaction(SIGALRM, &action, NULL);
		timer_create(CLOCK_MONOTONIC, NULL, &timer);
		timer_settime(timer, 0, &every, NULL);
		for (int until = signals + 300; signals < until; hits++)
			hit_pair(1, 2);
		timer_delete(timer);
	}
	cr_assert_eq(fixture_read(0, width, NULL, NULL) + fixture_discarded(0),
		     hits + (uint64_t)signals);
}

static char tiny[4096] __attribute__((aligned(4096)));

static void *hit_on_tiny_stack(void *data)
{
	/* no more than a signal frame's worth: the kernel wants more where AVX-512 is */
	stack_t stack = { .ss_sp = tiny, .ss_size = sizeof tiny };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	(void)data;
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	return NULL;
}

Test(hit_signal, first_hit_on_a_tiny_stack_is_recorded)
{
	pthread_t thread;

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:handler", SIGNAL, 1);
	cr_assert_eq(pthread_create(&thread, NULL, hit_on_tiny_stack, NULL), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(signals, 1);
	cr_assert_eq(fixture_read(0, width, NULL, NULL), 1);
	cr_assert_eq(fixture_discarded(0), 0);
}

static sigjmp_buf back;

static void leave_by_jump(int signal)
{
	hit_pair(signal, 0);
	siglongjmp(back, 1);
}

Test(hit_signal, handlers_that_jump_out_strand_nothing)
{
	struct sigaction action = { .sa_handler = leave_by_jump };
	struct timespec interval = { .tv_nsec = 200000 };
	struct itimerspec every = { interval, interval };
	static volatile int jumps;
	timer_t timer;

	fixture_make(16 << 20, STORE_CYCLIC);
	fixture_arm("hit:pair", PAIR, 1);
	sigaction(SIGALRM, &action, NULL);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &every, NULL);
	if (sigsetjmp(back, 1))
		jumps++;
	while (jumps < 1000)
		hit_pair(1, 2);
	timer_delete(timer);
	hit_pair(3, 4);
	cr_assert_eq(get_inside(), 0);
	fixture_read(0, width, NULL, NULL); /* every page is well formed */
}

/* Of a watch: its work is done on another stack, and `sp` is where it came from. */
Test(hit_signal, nested_hit_off_alternate_stack_keeps_outer_hit)
{
	static char alternate[65536];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof alternate };
	uintptr_t outer = (uintptr_t)alternate + sizeof alternate / 2;

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	hit_pair(1, 2); /* this thread has a writer from then on */
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	cr_assert_eq(writer_nest(writer_self, outer), DEPTH_ELSEWHERE);
	cr_expect_eq(writer_nest(writer_self, outer - 8192), DEPTH_ELSEWHERE + 1);
	cr_expect_eq(*(volatile uintptr_t *)&writer_self->inside[DEPTH_ELSEWHERE], outer);
	cr_expect_eq(get_inside(), 0);
	for (int depth = DEPTH_ELSEWHERE; depth < DEPTH_MAX; depth++)
		*(volatile uintptr_t *)&writer_self->inside[depth] = 0;
}

/* A hit that is above one that was left, on the same page; a nested one is below. */
Test(hit_signal, hit_left_elsewhere_gives_its_depth_back)
{
	static char page[4096] __attribute__((aligned(4096)));
	uintptr_t sp = (uintptr_t)page;

	fixture_make(1 << 20, STORE_DISCARD);
	fixture_arm("hit:pair", PAIR, 1);
	hit_pair(1, 2);
	for (int i = 0; i < 5; i++)
		cr_expect_eq(writer_nest(writer_self, sp + 1024), DEPTH_ELSEWHERE);
	cr_expect_eq(writer_nest(writer_self, sp + 512), DEPTH_ELSEWHERE + 1);
	cr_expect_eq(writer_nest(writer_self, sp + 256), -1);
	cr_expect_eq(writer_nest(writer_self, sp + 2048), DEPTH_ELSEWHERE);
	for (int depth = DEPTH_ELSEWHERE; depth < DEPTH_MAX; depth++)
		*(volatile uintptr_t *)&writer_self->inside[depth] = 0;
}

/* Each thread that comes may have a writer that none had, and need depths elsewhere. */
Test(hit_signal, every_writer_may_have_deeper_lanes)
{
	fixture_make(1 << 20, STORE_DISCARD);
	for (int i = 0; i < WRITERS_MAX; i++)
		cr_assert(arena_lanes_new(), "%d", i);
}
