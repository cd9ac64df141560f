/* SPDX-License-Identifier: MIT */
/*
 * A recorded process is about to trace another one: it waits until that has left the engine. The
 * pages are the test's, and what the other and the tool do meanwhile happens at a nap.
 */
#include "engine/child_process.h"
#include "engine/attach_places.h"
#include "engine/channel.h"
#include "engine/gate.h"
#include "engine/leave.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#define TOOL 100u
#define OTHER 200u
#define PAGES 2u

static uint8_t memory[PAGES * ENGINE_GUARD_BYTES] __attribute__((aligned(4096)));
static struct engine_channel *const first = (void *)memory;
static struct engine_channel *const other = (void *)(memory + ENGINE_GUARD_BYTES);

static unsigned int naps, requests;
static void (*at_nap)(void);

/* ---- in place of the engine's ---- */

void leave_nap(void)
{
	naps++;
	if (at_nap)
		at_nap();
}

void leave_tell(uint32_t tid)
{
	cr_assert_eq(tid, OTHER);
	requests++;
}

void leave_await_tellers(void)
{
}

void attach_places(struct engine_channel *head)
{
	(void)head;
}

int gate_copy(void *to, const void *from, uint64_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

/* ---- the other ---- */

static void put_other(uint32_t state, uint32_t entering)
{
	channel = (struct channel){ .head = first, .base = memory, .processes = PAGES };
	first->tool = TOOL;
	first->pages = PAGES;
	other->use = ENGINE_USE_MADE;
	other->born = UINT64_C(1) << 32 | OTHER;
	other->state = state;
	other->entering = entering;
}

static void tool_dies(void)
{
	if (naps == 10)
		first->tool = TOOL | FUTEX_OWNER_DIED;
}

/* The engine begins in the program; then it leaves, as it was asked to. */
static void is_entered(void)
{
	if (naps == 10)
		other->state = ENGINE_RUNS;
	if (naps == 11)
		other->entering = 0;
	if (requests)
		other->state = ENGINE_LEFT;
}

static void leaves_when_told(void)
{
	if (requests)
		other->state = ENGINE_LEFT;
}

Test(child_process, process_without_page_is_traced_at_once)
{
	put_other(ENGINE_RUNS, 0);
	cr_assert_eq(process_is_traced(OTHER + 1, NULL), 0);
	cr_assert_eq(naps, 0);
}

Test(child_process, native_process_is_traced_at_once)
{
	put_other(ENGINE_WAITING, 0);
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(naps, 0);
	cr_assert_eq(requests, 0);
}

Test(child_process, process_that_runs_is_asked_once_and_waited_for)
{
	put_other(ENGINE_RUNS, 0);
	at_nap = leaves_when_told;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(requests, 1);
	cr_assert_eq(other->native, ENGINE_NATIVE_TRACED);
}

Test(child_process, process_that_never_leaves_is_eperm)
{
	put_other(ENGINE_RUNS, 0);
	cr_assert_eq(process_is_traced(OTHER, NULL), -EPERM);
	cr_assert_eq(naps, LEAVE_NAPS_MAX);
}

/* It has no handler for the request before the engine runs. */
Test(child_process, program_that_the_tool_enters_is_asked_once_it_runs)
{
	put_other(ENGINE_WAITING, 1);
	at_nap = is_entered;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(requests, 1);
	cr_assert_geq(naps, 10);
}

/* The program runs natively then, and no one will clear `entering`. */
Test(child_process, program_of_a_tool_that_has_died_is_traced_at_once)
{
	put_other(ENGINE_WAITING, 1);
	first->tool = TOOL | FUTEX_OWNER_DIED;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(naps, 0);
}

Test(child_process, program_is_traced_once_its_tool_dies)
{
	put_other(ENGINE_WAITING, 1);
	at_nap = tool_dies;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(naps, 10);
	cr_assert_eq(requests, 0);
}

/* A forked child begins by itself, in the engine: no tool is needed for that. */
Test(child_process, child_that_has_not_begun_is_waited_for_without_a_tool)
{
	put_other(ENGINE_WAITING, 0);
	other->parent_first_id = 1;
	first->tool = TOOL | FUTEX_OWNER_DIED;
	at_nap = is_entered;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(requests, 1);
}

/* So do threads that leave: each counts itself out, whatever becomes of the tool. */
static void last_has_left(void)
{
	if (naps == 10)
		other->leaving = 0;
}

Test(child_process, threads_that_leave_are_waited_for_without_a_tool)
{
	put_other(ENGINE_LEFT, 0);
	other->leaving = 1;
	first->tool = TOOL | FUTEX_OWNER_DIED;
	at_nap = last_has_left;
	cr_assert_eq(process_is_traced(OTHER, NULL), 0);
	cr_assert_eq(naps, 10);
}
