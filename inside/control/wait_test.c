/* SPDX-License-Identifier: MIT */
/*
 * How long a program waits for a tool: for GO, and with watches in the loader for SEEN. The tests
 * compare with times only what the program must not do, or what it must do before the waits' own
 * bounds are over.
 */
#include "abi/detour.h"
#include "inside/control/testing/tool.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SAY_MS 250
#define LONG_MS 6500 /* longer than the wait for GO is, unless it is renewed */

_Static_assert(LONG_MS > CONTROL_GO_WAIT_MS, "else nothing is shown");

TestSuite(wait, .init = tool_begin, .fini = tool_end, .timeout = 60);

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int has_printed(void)
{
	struct pollfd ready = { .fd = tool.out, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

/* Say WAIT again and again, for `ms`. */
static void keep_waiting(struct peer *peer, unsigned int ms)
{
	uint64_t end_ms = now_ms() + ms;
	struct control_wait wait = { .ms = CONTROL_WAIT_MAX_MS };

	while (now_ms() < end_ms) {
		peer_say(peer, CONTROL_WAIT, &wait, sizeof wait);
		usleep(SAY_MS * 1000); /* how often a tool says it is the subject */
	}
}

static struct peer begin(const char *mode, const char *more)
{
	struct peer peer;

	tool_launch(mode, more);
	peer = tool_meet();
	cr_assert_eq(peer_open(&peer, "").error, 0);
	return peer;
}

/* Up to where the target loads a module. */
static struct peer begin_loading(const char *mode, uint32_t watches)
{
	struct control_commit commit = { .watches = watches };
	const char *module = getenv("WAYMARK_TEST_MODULE");
	struct peer peer;

	if (!module)
		cr_skip_test("WAYMARK_TEST_MODULE is not set");
	peer = begin(mode, module);
	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "work:beside", 0).error, 0);
	peer_request(&peer, CONTROL_COMMIT, &commit, sizeof commit);
	peer.modules = 0;
	cr_assert_eq(peer_request(&peer, CONTROL_GO, NULL, 0).error, 0);
	while (!peer.modules)
		cr_assert_neq(peer_read_until(&peer, 0, NULL), -EPIPE);
	return peer;
}

Test(wait, a_program_waits_for_go_as_long_as_the_tool_says_so)
{
	struct peer peer = begin("count", "5");

	cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "count:*", 0).error, 0);
	keep_waiting(&peer, LONG_MS);
	cr_assert_eq(peer_recorded(&peer), 0, "it did not wait");
	peer_request(&peer, CONTROL_GO, NULL, 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_eq(peer_recorded(&peer), 6);
	cr_assert_eq(peer.late, 0);
}

Test(wait, a_program_waits_for_go_as_long_as_the_tool_asks_for_something)
{
	struct peer peer = begin("count", "5");
	uint64_t end_ms = now_ms() + LONG_MS;

	while (now_ms() < end_ms) {
		cr_assert_eq(peer_rules(&peer, CONTROL_ARM, "count:*", 0).error, 0);
		usleep(SAY_MS * 1000); /* how often a tool asks is the subject */
	}
	cr_assert_eq(peer_recorded(&peer), 0, "it did not wait");
	peer_request(&peer, CONTROL_GO, NULL, 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_eq(peer.late, 0);
}

/* As on a machine so full that it comes to nothing for seconds. */
Test(wait, a_program_waits_for_a_tool_that_would_run)
{
	struct peer peer = begin("count", "5");
	uint64_t end_ms = now_ms() + LONG_MS;

	while (now_ms() < end_ms)
		cr_assert(!has_printed(), "it did not wait");
	peer_request(&peer, CONTROL_GO, NULL, 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_eq(peer.late, 0);
}

Test(wait, a_program_that_goes_on_without_go_is_told)
{
	struct peer peer = begin("count", "5");

	cr_assert_eq(tool_exit_status(), 0);
	while (peer_read_until(&peer, 0, NULL) != -EPIPE)
		;
	cr_assert_eq(peer.late, 1);
}

Test(wait, a_program_goes_on_when_its_tool_dies_though_it_said_wait)
{
	struct peer peer = begin("count", "5");
	struct control_wait wait = { .ms = CONTROL_WAIT_MAX_MS };
	uint64_t since_ms = now_ms();

	peer_say(&peer, CONTROL_WAIT, &wait, sizeof wait);
	close(peer.fd);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_lt(now_ms() - since_ms, CONTROL_GO_WAIT_MS, "not at once");
}

Test(wait, a_thread_in_the_loader_does_not_wait_for_a_session_without_watches)
{
	uint64_t since_ms = now_ms();

	begin_loading("load", 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_lt(now_ms() - since_ms, CONTROL_SEEN_WAIT_MS, "it waited");
}

Test(wait, a_thread_in_the_loader_waits_for_a_session_with_watches_and_takes_signals)
{
	struct peer peer = begin_loading("signals", 1);
	uint64_t beside = peer_recorded(&peer);
	char said[32] = "";

	usleep(CONTROL_SEEN_WAIT_MS * 500); /* that it waits for half of its time is the subject */
	cr_assert(!has_printed(), "it did not wait");
	cr_assert_gt(peer_recorded(&peer), beside, "another thread did not continue");
	cr_assert_eq(peer_request(&peer, CONTROL_SEEN, NULL, 0).error, 0);
	cr_assert_eq(tool_exit_status(), 0);
	cr_assert_gt(read(tool.out, said, sizeof said - 1), 0);
	/* one in 20 ms was due; half of them, on a machine that has more to do */
	cr_assert_gt(atoi(said), CONTROL_SEEN_WAIT_MS / 80, "signals waited too: %s", said);
}

/* Else that were 50 waits, of CONTROL_SEEN_WAIT_MS each: longer than a test may take. */
Test(wait, a_tool_that_stands_still_is_waited_for_but_once)
{
	begin_loading("load", 1);
	cr_assert_eq(tool_exit_status(), 0);
}

/* The places are for a module that is gone, or that never was. */
Test(wait, places_for_another_module_at_an_address_are_left_out)
{
	struct peer peer = begin_loading("signals", 1);
	struct {
		struct control_place head;
		struct control_detour detour;
	} place = { .head = { 1, 0, peer.last_base, peer.last_came_ns },
		    .detour = { .bytes = sizeof(struct control_detour) } };

	cr_assert_eq(peer_request(&peer, CONTROL_PLACE, &place, sizeof place).refused, 1);
	place.head.came_ns--;
	cr_assert_eq(peer_request(&peer, CONTROL_PLACE, &place, sizeof place).refused, 0);
	place.head.came_ns = 0;
	cr_assert_eq(peer_request(&peer, CONTROL_PLACE, &place, sizeof place).refused, 0);
	peer_request(&peer, CONTROL_SEEN, NULL, 0);
	cr_assert_eq(tool_exit_status(), 0);
}
