/* SPDX-License-Identifier: MIT */
/* Of what this very process might have run: its own code and its libc's, where they lie. */
#include "base/maps.h"
#include "record/trail/only.h"
#include "record/trail/testing/sink.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct sample_sink behind;
static struct only *only;
static struct trail_sink *sink;
static struct sink_thread *thread;
static uint64_t ours, libc; /* where their code begins */

/* Report a module of this process; returns its base. */
static uint64_t report(const char *last)
{
	struct control_module module = { 0 };
	struct maps maps;

	cr_assert_eq(maps_read(&maps, getpid()), 0);
	for (size_t i = 0; i < maps.count && !module.base; i++) {
		const char *slash = strrchr(maps.list[i].path, '/');

		if (!slash || strncmp(slash + 1, last, strlen(last)) != 0)
			continue;
		module.base = maps.list[i].start;
		cr_assert_eq(sink->calls->module(sink, &module, maps.list[i].path), 0);
	}
	maps_release(&maps);
	cr_assert_neq(module.base, 0, "no %s", last);
	return module.base;
}

static void open_for(const char *first, const char *second)
{
	struct only_names names = { .count = second ? 2 : 1 };

	snprintf(names.names[0], sizeof(names.names[0]), "%s", first);
	snprintf(names.names[1], sizeof(names.names[1]), "%s", second ? second : "");
	sample_sink_init(&behind);
	cr_assert_eq(only_open(&only, &behind.sink, &names), 0);
	sink = only_sink(only);
	cr_assert_eq(sink->calls->begin(sink, getpid()), 0);
	ours = report("trail_only_test") + 0x100;
	libc = report("libc.so") + 0x100;
	cr_assert_eq(sink->calls->thread_begin(sink, &thread, 1, "t", TRAIL_SOFT, 0), 0);
}

static const char *end(void)
{
	static char text[4096];

	cr_assert_eq(sink->calls->thread_end(sink, thread, 9), 0);
	cr_expect_null(behind.wrong, "%s", behind.wrong);
	snprintf(text, sizeof(text), "%s", sample_sink_text(&behind));
	only_close(only);
	sample_sink_release(&behind);
	return text;
}

static struct trail_entry entry(uint64_t at, enum trail_kind kind, uint64_t target)
{
	return (struct trail_entry){
		.start = at, .target = target, .bytes = 4, .instructions = 1, .kind = (uint8_t)kind
	};
}

static void ran(uint64_t at, enum trail_kind kind, uint64_t target)
{
	const struct trail_entry made = entry(at, kind, target);

	cr_assert_eq(sink->calls->block(sink, thread, &made, NULL, 1), 0);
}

static void came(enum trail_event event, uint64_t at, uint32_t left, uint64_t first)
{
	const struct trail_between between = { .event = (uint8_t)event,
					       .at = at,
					       .has_at = at != 0,
					       .left = left,
					       .values = { first } };

	cr_assert_eq(sink->calls->event(sink, thread, &between, 1), 0);
}

/* Addresses in words, by the module. */
static const char *words(const char *form)
{
	static char text[4096];

	snprintf(text, sizeof(text), form, ours, ours + 4, ours + 8, libc + 4);
	return text;
}

TestSuite(only, .timeout = 60);

Test(only, leaves_a_gap_where_other_modules_ran)
{
	open_for(ONLY_MAIN, NULL);
	ran(libc, TRAIL_JUMP, ours);
	ran(ours, TRAIL_CALL, libc);
	ran(libc, TRAIL_JUMP, libc + 8);
	ran(libc + 8, TRAIL_RETURN, 0);
	ran(ours + 4, TRAIL_JUMP, ours + 8);
	ran(ours + 8, TRAIL_JUMP, libc);
	ran(libc, TRAIL_SYSCALL, 0);
	came(TRAIL_END, 0, 0, TRAIL_EXITED);
	cr_expect_str_eq(end(), words("gap@%1$lx 3\n%1$lx+4/1 call\ngap@%2$lx 3\n%2$lx+4/1 jump\n"
				      "%3$lx+4/1 jump\ngap@0 3\nend@0 0\n"));
}

Test(only, leaves_out_the_system_calls_of_others_and_no_signal)
{
	open_for("trail_only_test", NULL);
	ran(ours, TRAIL_CALL, libc);
	ran(libc, TRAIL_SYSCALL, 0);
	came(TRAIL_SYSCALLED, libc + 4, 0, 1);
	ran(libc + 4, TRAIL_FALL, 0);
	came(TRAIL_SIGNAL, libc + 4, 1, 10);
	ran(libc + 8, TRAIL_RETURN, 0);
	ran(ours + 4, TRAIL_SYSCALL, 0);
	came(TRAIL_SYSCALLED, ours + 8, 0, 2);
	came(TRAIL_END, 0, 0, TRAIL_EXITED);
	cr_expect_str_eq(end(), words("%1$lx+4/1 call\ngap@%4$lx 3\nsignal@%4$lx 10\ngap@%2$lx 3\n"
				      "%2$lx+4/1 syscall\nsyscalled@%3$lx 2\nend@0 0\n"));
}

Test(only, knows_a_library_by_each_of_its_names)
{
	char missing[100];

	open_for("libc.so", "libnone.so");
	only_missing(only, missing, sizeof(missing));
	cr_expect_str_eq(missing, "libnone.so");
	ran(ours, TRAIL_JUMP, libc);
	ran(libc, TRAIL_FALL, 0);
	cr_expect_eq(behind.count, 2, "%zu", behind.count);
	end();
	open_for("libc.s", "lib");
	only_missing(only, missing, sizeof(missing));
	cr_expect_str_eq(missing, "libc.s, lib");
	ran(libc, TRAIL_FALL, 0);
	cr_expect_eq(behind.count, 0);
	end();
}

static struct sample_sink of_child;

static int child(struct trail_sink *unused, struct trail_sink **out,
		 const struct sink_process *process)
{
	(void)unused;
	(void)process;
	*out = &of_child.sink;
	return 0;
}

static int process_end(struct trail_sink *unused, const struct sink_ending *ending)
{
	(void)unused;
	(void)ending;
	return 0;
}

Test(only, knows_main_of_a_child_that_is_gone_by_its_maker)
{
	const struct sink_process about = { INT32_MAX, getpid(), 0, "" };
	const struct only_names names = { .count = 1, .names = { ONLY_MAIN } };
	const struct sink_ending over = { .is_over = 1 };
	struct trail_sink_calls calls;

	sample_sink_init(&behind);
	sample_sink_init(&of_child);
	calls = *behind.sink.calls;
	calls.child = child;
	calls.process_end = process_end;
	behind.sink.calls = of_child.sink.calls = &calls;
	cr_assert_eq(only_open(&only, &behind.sink, &names), 0);
	sink = only_sink(only);
	cr_assert_eq(sink->calls->begin(sink, getpid()), 0);
	ours = report("trail_only_test") + 0x100;
	cr_assert_eq(sink->calls->child(sink, &sink, &about), 0);
	report("trail_only_test");
	cr_assert_eq(sink->calls->thread_begin(sink, &thread, 1, "t", TRAIL_SOFT, 0), 0);
	ran(ours, TRAIL_JUMP, ours);
	cr_expect_eq(of_child.count, 1, "%zu", of_child.count);
	cr_assert_eq(sink->calls->thread_end(sink, thread, 9), 0);
	cr_assert_eq(sink->calls->process_end(sink, &over), 0);
	sample_sink_release(&of_child);
	only_close(only);
	sample_sink_release(&behind);
}
