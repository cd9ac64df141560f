/* SPDX-License-Identifier: MIT */
#include "cli/flight.h"

#include "cli/cli.h"
#include "record/session/session.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct flight flight;

TestSuite(flight, .init = cr_redirect_stderr);

Test(flight, trigger_is_read)
{
	static const struct {
		const char *text;
		enum live_trigger trigger;
		int signal;
	} good[] = {
		{ "exit", TRIGGER_EXIT, 0 },
		{ "crash", TRIGGER_CRASH, 0 },
		{ "signal", TRIGGER_SIGNAL, 0 },
		{ "signal:SEGV", TRIGGER_SIGNAL, SIGSEGV },
		{ "signal:sigusr1", TRIGGER_SIGNAL, SIGUSR1 },
		{ "signal:11", TRIGGER_SIGNAL, 11 },
		{ "signal:64", TRIGGER_SIGNAL, 64 },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect_eq(flight_parse(&flight, good[i].text), 0, "%s", good[i].text);
		cr_expect_eq(flight.trigger, good[i].trigger, "%s", good[i].text);
		cr_expect_eq(flight.signal, good[i].signal, "%s", good[i].text);
	}
}

Test(flight, text_that_is_no_trigger_is_refused)
{
	static const char *const bad[] = { "",
					   "exits",
					   "signal:",
					   "signal:SIG",
					   "signal:0",
					   "signal:65",
					   "signal:-1",
					   "signal:11x",
					   "signal:99999999999999999999",
					   "signal:SEGVX",
					   "marker:db:query",
					   "Exit" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(flight_parse(&flight, bad[i]), CLI_USAGE, "%s", bad[i]);
}

Test(flight, only_a_trail_of_the_last_blocks_goes_with_it)
{
	static const char *const last[] = { "trail/last=64M/" }, *const all[] = { "trail" },
				 *const both[] = { "trail/last=64M/", "marker:a:b" };

	cr_expect_eq(flight_check(&flight, all, 1), 0, "--on was not given");
	cr_assert_eq(flight_parse(&flight, "crash"), 0);
	cr_expect_eq(flight_check(&flight, last, 1), 0);
	cr_expect_eq(flight_check(&flight, all, 1), CLI_USAGE);
	cr_expect_eq(flight_check(&flight, both, 2), CLI_USAGE);
	cr_expect_eq(flight_check(&flight, NULL, 0), CLI_USAGE);
}

Test(flight, trace_is_written_once_it_has_fired)
{
	struct live live = { 0 };
	struct wm_session session = { .live = &live };

	cr_expect(flight_end(&flight, &session), "without --on");
	cr_assert_eq(flight_parse(&flight, "signal:USR1"), 0);
	flight_set(&flight, &session);
	cr_expect_eq(live.trigger, TRIGGER_SIGNAL);
	cr_expect_eq(live.signal, SIGUSR1);
	cr_expect_not(flight_end(&flight, &session));
	live.fired = (struct live_fired){ .has = 1, .pid = 5, .tid = 6, .signal = SIGUSR1 };
	cr_expect(flight_end(&flight, &session));
}

Test(flight, rows_have_what_fired)
{
	static struct out out;
	struct rows rows;

	out_init(&out, -1);
	rows_begin(&rows, &out, ROWS_JSON);
	flight_rows(&rows, &flight);
	cr_assert_eq(flight_parse(&flight, "signal:USR1"), 0);
	flight.fired = (struct live_fired){ .has = 1, .pid = 5, .tid = 6, .signal = 10 };
	flight_rows(&rows, &flight);
	out_char(&out, 0);
	cr_expect_str_eq(out.bytes,
			 "{\"on\":[{\"trigger\":\"signal:USR1\",\"fired\":true,\"pid\":5,"
			 "\"tid\":6,\"signal\":10}]");
}

/* The text is the user's: a terminal obeys none of it. */
Test(flight, trigger_that_did_not_come_is_printed)
{
	flight = (struct flight){ .text = "a\x1b[2J", .trigger = TRIGGER_EXIT };
	flight_tell(&flight, "/none");
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"waymark: --on a\\x1b[2J: it did not come to that; no trace was written\n");
}
