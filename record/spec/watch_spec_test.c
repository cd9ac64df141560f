/* SPDX-License-Identifier: MIT */
/* Options of watches, right and wrong. */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct spec spec;
static char words[512];

static int parse(const char *text)
{
	spec_release(&spec);
	return spec_read(&spec, text, (struct detail){ words, sizeof(words) });
}

static const struct watch_options *options_of(const char *text)
{
	cr_assert_eq(parse(text), 0, "%s: %s", text, words);
	return &spec.watch->options;
}

Test(watch_spec, options_are_stored)
{
	const struct watch_options *options = options_of(
		"watch:p->x:rw/if=value==-1,if=tid!=12,if=changed, bt=5 ,"
		"signal=STOP,count,trail,thread=77/");

	cr_assert_eq(options->test_count, 3);
	cr_assert_eq(options->tests[0].subject, WATCH_OF_NEW);
	cr_assert_eq(options->tests[0].relation, WATCH_BY_EQUAL);
	cr_assert_str_eq(options->tests[0].number, "-1");
	cr_assert_eq(options->tests[1].subject, WATCH_OF_TID);
	cr_assert_eq(options->tests[1].relation, WATCH_BY_UNEQUAL);
	cr_assert_eq(options->tests[2].subject, WATCH_OF_CHANGE);
	cr_assert_eq(options->frames, 5);
	cr_assert_eq(options->signal, SIGSTOP);
	cr_assert(options->counts && options->trail);
	cr_assert_eq(options->thread, 77);
	cr_assert_eq(spec.watch->kind, WATCH_READ_WRITE);
	options = options_of("watch:errors/thread=main,bt/");
	cr_assert_eq(options->thread, WATCH_THREAD_MAIN);
	cr_assert_eq(options->frames, WATCH_FRAMES_DEFAULT);
	options = options_of("watch:x/if=old >= 0x10,signal=SIGRTMIN+2/");
	cr_assert_eq(options->tests[0].subject, WATCH_OF_OLD);
	cr_assert_eq(options->tests[0].relation, WATCH_BY_GREATER_EQUAL);
	cr_assert_str_eq(options->tests[0].number, "0x10");
	cr_assert_eq(options->signal, SIGRTMIN + 2);
	options = options_of("watch:x/signal=sigusr1,thread=0x4d/");
	cr_assert_eq(options->signal, SIGUSR1);
	cr_assert_eq(options->thread, 77);
	options = options_of("watch:x/8/if=value&0x4/");
	cr_assert_eq(options->tests[0].relation, WATCH_BY_BITS);
	cr_assert_eq(spec.watch->length, 8);
	cr_assert(options_of("watch:x/kernel/")->is_outside);
	options_of("watch:table.c::count/count/");
	cr_assert(spec.watch->instead && spec.watch->instead->options.counts);
}

Test(watch_spec, wrong_option_is_named_with_its_column)
{
	static const struct {
		const char *option, *words;
	} wrong[] = {
		{ "if", "\"if\" (column 12) needs a value: if=CONDITION" },
		{ "if=", "\"if=\" (column 12) needs a value" },
		{ "if=value", "\"value\" (column 15) is no condition" },
		{ "if=value=0", "\"value=0\" (column 15) is no condition" },
		{ "if=value==", "is no condition" },
		{ "if=x==0", "is no condition" },
		{ "if=tid==x", "is no condition" },
		{ "if=tid<5", "is no condition" },
		{ "if=value==1&&tid==2", "is no condition" },
		{ "signal=", "needs a value: signal=NAME" },
		{ "signal=FOO", "takes a signal: STOP, SIGUSR1, RTMIN+1 or 10" },
		{ "signal=0", "takes a signal" },
		{ "signal=65", "takes a signal" },
		{ "signal=RTMIN+99", "takes a signal" },
		{ "thread=", "needs a value: thread=TID" },
		{ "thread=0", "\"thread=0\" (column 12) takes a number from 1 on" },
		{ "thread=first", "takes a number" },
		{ "thread=main,thread=7", "\"thread=7\" (column 24) is there twice" },
		{ "xx",
		  "\"xx\" (column 12) is no option of watch, which has if=CONDITION, bt=N, " },
		{ "bt", "\"bt\" (column 12) is there twice" },
		{ "folow", "is no option of watch; did you mean follow?" },
		{ "args", "\"args\" (column 12) is an option of usdt, and not of watch" },
		{ "count=3", "\"count=3\" (column 12) takes no value" },
	};
	char text[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(text, sizeof(text), "watch:x/bt,%s/", wrong[i].option);
		cr_expect_eq(parse(text), -WM_E_SPEC, "%s", text);
		cr_expect(strstr(words, wrong[i].words), "%s: %s", text, words);
	}
	cr_expect_eq(parse("watch:x/bt=11/"), -WM_E_SPEC);
	cr_expect_str_eq(words, "\"bt=11\" (column 9) takes a number from 1 to 10");
	cr_expect_eq(parse("watch:x/bt=0/"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:x/bt=x/"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:x//"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:x/bt,/"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:x/if=changed,if=changed,if=changed,if=changed,if=changed/"),
		     -WM_E_SPEC);
	cr_expect_str_eq(words, "\"changed\" (column 56) is one too many: if takes 4");
	cr_expect_eq(parse("watch:a/bt"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:a/if=value==0,bt"), -WM_E_SPEC);
	cr_expect_eq(parse("watch:a b"), -WM_E_WATCH_SYNTAX);
	cr_expect(strstr(words, "\"b\" (column 9) "), "%s", words);
}
