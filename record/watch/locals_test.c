/* SPDX-License-Identifier: MIT */
/*
 * Watches of local variables move to where a target's table says that frames begin: it may say
 * anything, at any time. The kernel's events are the test's own.
 */
#include "record/watch/locals.h"

#include "base/testing/await.h"
#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/spec/spec.h"
#include "record/watch/outside.h"
#include "record/watch/watching_own.h"
#include "target/expression/local_frame.h"
#include "target/process/testing/folder.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define USER_END (UINT64_C(1) << 47)
#define PARKED_END 4096
#define ROUNDS 20000

static struct wm_session *session;
static struct process process;
static struct code_module module;
static struct locals *locals;
static struct finding finding;
static struct watch_trouble trouble;
static char words[256];
static int agent; /* the other end of the process's connection */
static int is_dead;
static unsigned int released, made, moved;
static uint64_t bad_address; /* that a register was moved to; 0: none */

/* ---- the kernel's events ---- */

int __wrap_perf_object_new(struct perf_object **object, const struct event_request *request,
			   struct detail detail);
int __wrap_perf_object_arm(struct perf_object *object, struct detail detail);
int __wrap_perf_object_modify(struct perf_object *object, const struct event_source *sources,
			      enum event_modify how, struct event_gap *gap, struct detail detail);
void __wrap_perf_object_quiet(struct perf_object *object);
void __wrap_perf_object_release(struct perf_object *object);
enum event_state __wrap_perf_object_state(const struct perf_object *object);
int __wrap_perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits);
unsigned int __wrap_perf_object_starved(const struct perf_object *object, unsigned int source);

int __wrap_perf_object_new(struct perf_object **object, const struct event_request *request,
			   struct detail detail)
{
	(void)detail;
	*object = calloc(1, sizeof(**object));
	cr_assert_not_null(*object);
	(*object)->request = *request;
	made++;
	return 0;
}

int __wrap_perf_object_arm(struct perf_object *object, struct detail detail)
{
	(void)detail;
	return object->request.settle(object->request.settle_data, object->generation);
}

/* The kernel takes any address of user space, or below it all. */
int __wrap_perf_object_modify(struct perf_object *object, const struct event_source *sources,
			      enum event_modify how, struct event_gap *gap, struct detail detail)
{
	(void)how;
	(void)gap;
	(void)detail;
	__atomic_fetch_add(&moved, 1, __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < object->request.source_count; i++) {
		if (sources[i].address >= USER_END + PARKED_END &&
		    sources[i].address < UINT64_MAX - PARKED_END)
			__atomic_store_n(&bad_address, sources[i].address, __ATOMIC_SEQ_CST);
		if (sources[i].address % sources[i].bytes)
			return -EINVAL;
	}
	return is_dead ? -EIO
		       : object->request.settle(object->request.settle_data, ++object->generation);
}

void __wrap_perf_object_quiet(struct perf_object *object)
{
	(void)object;
}

void __wrap_perf_object_release(struct perf_object *object)
{
	released += object != NULL;
	free(object);
}

enum event_state __wrap_perf_object_state(const struct perf_object *object)
{
	(void)object;
	return is_dead ? EVENT_DISARMED : EVENT_ARMED;
}

int __wrap_perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits)
{
	(void)object;
	(void)source;
	*hits = 0;
	return 0;
}

unsigned int __wrap_perf_object_starved(const struct perf_object *object, unsigned int source)
{
	(void)object;
	(void)source;
	return 1;
}

/* ---- the variable ---- */

static struct frame_table *frames(void)
{
	return &process.watch.table->frames;
}

static void begin(void)
{
	struct wm_session_options options = { .size = sizeof(options) };
	struct code_file *file;
	int ends[2], err;

	folder_make();
	cr_assert_eq(wm_session_open(&session, &options), 0);
	err = wm_session_add(session, "watch:work::count");
	if (err == -WM_E_BREAKPOINT_DEAD)
		cr_skip_test("%s", wm_session_detail(session));
	cr_assert_eq(err, 0);
	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	code_module_init(&module, file, 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	process.link.fd = ends[0];
	agent = ends[1];
	process.pid = getpid();
	process.pidfd = -1;
	process.watch.magic = 7;
	cr_assert_eq(outside_table(&process.watch.table), 0);
}

static int want(uint64_t offset, uint64_t bytes)
{
	static struct frame_place frame = { .entry = 0x1000,
					    .code = { { 0x1000, 0x1100 } },
					    .code_count = 1 };
	struct watch_place place = { .base = WATCH_IN_FRAME,
				     .module = &module,
				     .start = offset,
				     .frame = &frame,
				     .bytes = bytes,
				     .text = "watch:work::count" };
	int err;

	cr_assert_eq(expression_type_plain(&place.type, bytes), 0);
	err = locals_want(&locals, 0, place.text, session->specs->all[0].watch, &place, &trouble);
	expression_type_release(&place.type);
	return err;
}

static void arm(void)
{
	finding = (struct finding){ .session = session, .process = &process, .locals = locals };
	cr_assert_eq(locals_ask(&finding, 0), 0, "%s", wm_session_detail(session));
	cr_assert_eq(locals_arm(locals, getpid(), process.watch.table, NULL,
				(struct detail){ words, sizeof(words) }),
		     0, "%s", words);
}

static void end(void)
{
	if (locals)
		locals_end(locals, session, &process, 0);
	cr_expect_eq(released, made);
	cr_expect_eq(bad_address, 0, "a register was moved to 0x%llx",
		     (unsigned long long)bad_address);
	code_module_release(&module);
	process_forget_requests(&process);
	watch_state_release(&process.watch);
	wm_session_close(session);
	close(process.link.fd);
	close(agent);
	folder_remove();
}

TestSuite(locals, .init = begin, .fini = end, .timeout = 60);

static void wake(void)
{
	__atomic_fetch_add(&frames()->asked, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &frames()->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint32_t state(unsigned int index)
{
	return __atomic_load_n(&frames()->rows[index].state, __ATOMIC_SEQ_CST);
}

static void set(unsigned int index, uint32_t to, uint64_t cfa)
{
	frames()->rows[index].cfa = cfa;
	__atomic_store_n(&frames()->rows[index].state, to, __ATOMIC_SEQ_CST);
}

/* A thread of the target asks; it waits until the state is another. */
static uint32_t ask(unsigned int index, uint64_t cfa)
{
	set(index, FRAME_NEXT(state(index), FRAME_ASKED), cfa);
	wake();
	cr_assert(AWAIT(FRAME_STEP(state(index)) != FRAME_ASKED));
	return FRAME_STEP(state(index));
}

/* ---- tests ---- */

Test(locals, frame_is_watched_with_the_argument_that_its_caller_stored)
{
	uint64_t stack[4] __attribute__((aligned(16))) = { 1, 2, 3, 4 };
	unsigned int found = 0;

	cr_assert_eq(want(8, 8), 0);
	arm();
	cr_assert_eq(ask(0, (uintptr_t)stack), FRAME_LIVE);
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++) {
		const struct watch_row *row = &process.watch.table->rows[i];

		if (WATCH_GATE_STATE(row->gate) == WATCH_ON && row->last.value == 2 &&
		    !row->last.ticks)
			found++;
	}
	cr_expect_eq(found, 1);
}

Test(locals, variable_of_a_new_frame_has_no_value_before)
{
	uint64_t stack[4] __attribute__((aligned(16))) = { 1, 2, 3, 4 };

	cr_assert_eq(want((uint64_t)-16, 8), 0);
	arm();
	cr_assert_eq(ask(0, (uintptr_t)(stack + 4)), FRAME_LIVE);
	for (unsigned int i = 0; i < WATCH_ROWS_MAX; i++)
		cr_expect_eq(process.watch.table->rows[i].last.value, 0);
}

Test(locals, frame_outside_of_the_target_is_let_go)
{
	static const uint64_t bad[] = { USER_END, UINT64_MAX, UINT64_MAX - 7, INT64_MAX,
					UINT64_C(1) << 63 };

	cr_assert_eq(want((uint64_t)-8, 8), 0);
	arm();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(ask(0, bad[i]), FRAME_OVER, "%llx", (unsigned long long)bad[i]);
	cr_expect_eq(ask(0, 0x10001), FRAME_OVER, "the kernel refuses it");
	cr_expect_eq(ask(0, 0x10000), FRAME_LIVE);
}

Test(locals, thread_waits_no_more_once_the_events_are_dead)
{
	cr_assert_eq(want((uint64_t)-8, 8), 0);
	arm();
	is_dead = 1;
	cr_expect_eq(ask(0, 0x10000), FRAME_TAKEN);
	set(0, FRAME_NEXT(0, FRAME_ASKED), 0x20000);
	wake();
	locals_quiet(locals);
	cr_expect_eq(FRAME_STEP(state(0)), FRAME_OVER);
}

/* Two frames at once, two pieces each, in a table whose every byte changes all the time. */
Test(locals, table_of_any_bytes_moves_no_register_out_of_the_target)
{
	uint64_t seed = 11;
	uint32_t before;

	cr_assert_eq(want((uint64_t)-16, 16), 0);
	arm();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t random = sample_random(&seed);

		set(random % FRAMES_MAX, (uint32_t)sample_random(&seed) % 6 | (uint32_t)random << 8,
		    sample_random(&seed) >> random % 64 & ~UINT64_C(7));
		if (!(random & 0x700))
			((uint8_t *)frames())[sample_random(&seed) % sizeof(*frames())] = (uint8_t)
				random;
		if (!(random & 0x1800))
			wake();
	}
	before = __atomic_load_n(&moved, __ATOMIC_SEQ_CST);
	cr_expect_eq(ask(0, 0x10000), FRAME_LIVE);
	cr_expect_gt(__atomic_load_n(&moved, __ATOMIC_SEQ_CST), before);
	/* at the end no thread waits any more */
	for (unsigned int i = 0; i < FRAMES_MAX; i++)
		set(i, FRAME_NEXT(0, FRAME_ASKED), UINT64_MAX);
	locals_quiet(locals);
	cr_expect_neq(FRAME_STEP(state(0)), FRAME_ASKED);
	for (unsigned int i = 0; i < FRAME_GROUPS_MAX; i++)
		frames()->groups[i].entered = frames()->groups[i].busy = UINT64_MAX;
}

Test(locals, variables_beyond_the_registers_are_refused)
{
	cr_assert_eq(want((uint64_t)-64, 32), 0);
	finding = (struct finding){ .session = session, .process = &process, .locals = locals };
	cr_expect_eq(locals_ask(&finding, 0), -WM_E_WATCH_LARGE);
	locals_release(locals);
	locals = NULL;
	cr_expect_eq(want((uint64_t)-64, 40), -WM_E_WATCH_LARGE);
	cr_expect_not(locals_has(locals, 0));
	for (unsigned int i = 0; i < FRAME_GROUPS_MAX; i++)
		cr_assert_eq(want((uint64_t)-8, 8), 0);
	cr_expect_eq(want((uint64_t)-8, 8), -WM_E_WATCH_LARGE);
	cr_expect(locals_has(locals, 0));
	cr_expect_not(locals_has(locals, 1));
	locals_release(locals);
	locals = NULL;
}

Test(locals, lost_connection_ends_the_requests)
{
	cr_assert_eq(want((uint64_t)-8, 8), 0);
	close(process.link.fd);
	process.link.fd = -1;
	finding = (struct finding){ .session = session, .process = &process, .locals = locals };
	cr_expect_eq(locals_ask(&finding, 0), -WM_E_GONE);
	locals_release(locals);
	locals = NULL;
}
