/* SPDX-License-Identifier: MIT */
/* Branches put by hand, and the trails that are woven of them. */
#include "record/trail/hardware/weave.h"
#include "record/trail/testing/sink.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>

#define BASE 0x1000u
#define KERNEL UINT64_C(0xffffffff81000000)

static const uint8_t code[] = {
	0x90, 0x90,			    /* 1000 nop; nop */
	0x74, 0x0c,			    /* 1002 je 1010 */
	0x90,				    /* 1004 nop */
	0xe8, 0x16, 0x00, 0x00, 0x00,	    /* 1005 call 1020 */
	0xeb, 0xf4,			    /* 100a jmp 1000 */
	0xcc, 0xcc, 0xcc, 0xcc,		    /* 100c int3 */
	0x90, 0xff, 0xe0,		    /* 1010 nop; jmp *%rax */
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, /* 1013 */
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
	0xcc, 0x0f, 0x05, 0x90, 0xc3, /* 1020 syscall; nop; ret */
	0x0f, 0x0b, 0x90, 0xc3,	      /* 1024 ud2; nop; ret */
};

static struct sample_sink sink;
static struct sample_codes codes;
static struct weave weave;

static void begin(void)
{
	sample_sink_init(&sink);
	sample_codes_init(&codes, BASE, code, sizeof(code));
	cr_assert_eq(weave_init(&weave, &sink.sink, NULL, &codes.codes), 0);
}

static void end(void)
{
	weave_release(&weave);
	sample_sink_release(&sink);
}

TestSuite(bts, .init = begin, .fini = end, .timeout = 60);

static void take(uint64_t from, uint64_t to)
{
	/* as the kernel has them: from, to, misc */
	uint64_t record[3] = { from, to, 0x10 };

	cr_assert_eq(weave_bts(&weave, (const uint8_t *)record, sizeof(record)), 0);
}

static void expect(const char *text)
{
	cr_assert_eq(weave_flush(&weave), 0);
	cr_expect_str_eq(sample_sink_text(&sink), text);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
}

Test(bts, tells_what_ran_between_branches)
{
	weave_stand(&weave, 0x1000);
	take(0x1005, 0x1020);
	take(0x1023, 0x100a);
	take(0x100a, 0x1000);
	take(0x1002, 0x1010);
	take(0x1011, 0x1000);
	expect("1000+4/3 branch\n1004+6/2 call\n1020+2/1 syscall\n1022+2/2 return\n"
	       "100a+2/1 jump\n1000+4/3 branch\n1010+3/2 jump *\n");
}

Test(bts, begins_with_the_first_branch)
{
	take(0x1005, 0x1020);
	expect("1005+5/1 call\n");
}

Test(bts, shows_interrupts_before_what_did_not_run)
{
	weave_stand(&weave, 0x1000);
	take(0x1004, KERNEL);
	take(KERNEL + 64, KERNEL + 128);
	take(KERNEL + 200, 0x1004);
	take(0x1005, KERNEL); /* a call can't lead there: it did not run */
	take(KERNEL + 200, 0x1005);
	take(0x1005, 0x1020);
	expect("1000+4/3 branch\ngap@1004 1\n1004+1/1 fall\ngap@1005 1\n1005+5/1 call\n");
}

Test(bts, shows_a_signal_as_a_way_through_the_kernel)
{
	weave_stand(&weave, 0x1024);
	take(0x1024, KERNEL); /* ud2: a fault */
	take(KERNEL, 0x1010);
	take(0x1011, 0x1026);
	expect("gap@1010 1\n1010+3/2 jump *\n");
}

Test(bts, takes_a_trap_for_run)
{
	weave_stand(&weave, 0x100c);
	take(0x100c, KERNEL);
	take(KERNEL, 0x100d);
	take(0x100d, KERNEL);
	expect("100c+1/1 stop\ngap@100d 1\n100d+1/1 stop\n");
}

Test(bts, needs_no_event_where_a_system_call_just_returns)
{
	weave_stand(&weave, 0x1020);
	take(0x1020, KERNEL);
	take(KERNEL, 0x1022);
	take(0x1023, 0x1020);
	take(0x1020, KERNEL);
	take(KERNEL, 0x1010);
	expect("1020+2/1 syscall\n1022+2/2 return\n1020+2/1 syscall\ngap@1010 1\n");
}

/* Filters by privilege may leave out the way into the kernel, and not that out of it. */
Test(bts, tells_what_ran_before_a_way_back_alone)
{
	weave_stand(&weave, 0x1020);
	take(KERNEL, 0x1022);
	take(0x1023, 0x1000);
	take(KERNEL, 0x1001);
	take(KERNEL, KERNEL + 64);
	take(KERNEL, 0x1004);
	expect("1020+2/1 syscall\n1022+2/2 return\n1000+1/1 fall\ngap@1001 1\n1001+3/2 branch\n"
	       "gap@1004 1\n");
}

Test(bts, says_lost_where_nobody_knows_what_ran_before_a_way_back)
{
	weave_stand(&weave, 0x1000);
	take(KERNEL, 0x1010); /* into a handler, from anywhere */
	take(0x1011, 0x1000);
	expect("lost@1010 0\n1010+3/2 jump *\n");
}

/* As the kernel gives them where it leaves out what touches it. */
Test(bts, shows_an_interrupt_whose_way_out_is_not_told)
{
	weave_stand(&weave, 0x1000);
	take(0x1001, 0x1010);
	take(0x1011, 0x1001);
	expect("1000+1/1 fall\ngap@1010 1\n1010+3/2 jump *\n");
}

Test(bts, says_lost_where_code_and_branches_disagree)
{
	weave_stand(&weave, 0x1000);
	take(0x1023, 0x100a); /* behind a call that was not reported */
	take(0x100a, 0x1010); /* not where it leads */
	take(0x1011, 0x1004);
	take(0x1002, 0x1010); /* backwards */
	take(0x1011, 0x1001);
	expect("lost@1023 0\n1023+1/1 return\n100a+2/1 jump\nlost@1010 0\n1010+3/2 jump *\n"
	       "lost@1002 0\n1002+2/1 branch\n1010+3/2 jump *\n");
	cr_expect_eq(weave.losses, 3);
}

Test(bts, says_where_code_can_not_be_read)
{
	weave_stand(&weave, 0x1010);
	take(0x1011, 0x9000);
	take(0x9010, 0x1010);
	take(0x1011, 0x1000);
	expect("1010+3/2 jump *\nlost@9010 0\ngap@1010 0\n1010+3/2 jump *\n");
}

Test(bts, passes_over_padding_and_says_what_is_cut)
{
	uint8_t bytes[BTS_RECORD_BYTES * 3 + 5] = {
		0x05, 0x10, 0, 0, 0, 0, 0, 0, /* from */
		0x20, 0x10, 0, 0, 0, 0, 0, 0, /* to */
		0x10, 0,    0, 0, 0, 0, 0, 0, /* predicted */
	};

	cr_assert_eq(weave_bts(&weave, bytes, sizeof(bytes)), 0);
	expect("1005+5/1 call\nlost@0 0\n");
}

Test(bts, reaches_where_the_thread_was_seen)
{
	weave_stand(&weave, 0x1010);
	take(0x1011, 0x1020);
	cr_expect_eq(weave_reach(&weave, 0x1023), 1);
	expect("1010+3/2 jump *\n1020+2/1 syscall\n1022+1/1 fall\n");
	cr_expect_eq(weave_reach(&weave, 0x1026), 0);
	cr_expect_eq(weave_reach(&weave, 0x1020), 0);
}

Test(bts, puts_switches_where_the_thread_stood)
{
	weave_stand(&weave, 0x1010);
	take(0x1011, 0x1000);
	weave.ticks = 5;
	cr_assert_eq(weave_event(&weave, TRAIL_DEPART, weave.at, 0, 0), 0);
	weave.ticks = 9;
	cr_assert_eq(weave_event(&weave, TRAIL_ARRIVE, weave.at, 0, 0), 0);
	take(0x1002, 0x1010);
	cr_assert_eq(weave_event(&weave, TRAIL_END, 0x1004, TRAIL_DETACHED, 0), 0);
	expect("1010+3/2 jump *\ndepart@1000 0\narrive@1000 0\n1000+4/3 branch\nend@1004 2\n");
	cr_expect_eq(sink.items[1].ticks, 5);
	cr_expect_eq(sink.items[2].ticks, 9);
}

Test(bts, makes_no_demand_of_where_an_end_is)
{
	weave_stand(&weave, 0x1010);
	take(0x1005, 0x1020);
	cr_assert_eq(weave_event(&weave, TRAIL_END, 0x1777, TRAIL_DETACHED, 0), 0);
	expect("lost@1005 0\n1005+5/1 call\nend@0 2\n");
}

Test(bts, reports_what_the_sink_says)
{
	uint64_t record[6] = { 0x1005, 0x1020, 0, 0x1023, 0x100a, 0 };

	sink.fails_at = 1;
	cr_expect_eq(weave_bts(&weave, (const uint8_t *)record, sizeof(record)), -EIO);
}

/* Whatever comes, what is given is a trail. */
Test(bts, gives_a_trail_of_anything)
{
	uint64_t seed = 7;

	for (int i = 0; i < 200000; i++) {
		uint64_t from = BASE + sample_random(&seed) % sizeof(code);
		uint64_t to = BASE + sample_random(&seed) % sizeof(code);
		uint64_t what = sample_random(&seed) % 16;

		if (what == 0)
			from = KERNEL;
		else if (what == 1)
			to = KERNEL;
		else if (what == 2)
			from = sample_random(&seed);
		else if (what == 3)
			cr_assert_eq(weave_event(&weave, TRAIL_DEPART, to, 0, 0), 0);
		else if (what == 4)
			cr_assert_eq(weave_lost(&weave), 0);
		take(from, to);
		cr_assert_null(sink.wrong, "%s at %d", sink.wrong, i);
	}
}
