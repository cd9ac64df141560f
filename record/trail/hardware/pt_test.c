/* SPDX-License-Identifier: MIT */
/*
 * Trails encoded as Intel PT and decoded again. The decoded blocks must be the same, one by one,
 * and between them what PT can show. These are all the things that PT does not show:
 *
 *	events between blocks         numbers and results of system calls, signals, children,
 *				      programs, ends. Where the thread came back at another place
 *				      than it left for, the decoder says TRAIL_GAP
 *	a system call that returned   nothing is said
 *	the last instructions         of a thread that ends, if no packet comes after them
 *	code that changes             packets are decoded by the present code. Here the recorder
 *				      knows of the change (such as a mapped file), and first decodes
 *				      what is before it: a pause, and a gap for it
 *	code of 32 bits               not in the record either; its packets are made by hand below
 *	branches as AMD takes them    trail-opsize, if it ran on such a processor, is left out
 */
#include "record/trail/hardware/pt.h"
#include "record/trail/testing/step/step.h"
#include "record/trail/testing/pt_back.h"
#include "record/trail/testing/pt_encode.h"
#include "record/trail/testing/sink.h"
#include "record/trail/trace_sink.h"
#include "target/code/testing/block_read.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <intel-pt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pt, .init = pt_begin, .fini = pt_end, .timeout = 280);

/* ---- trails by hand ---- */

#define BASE 0x400000u

static const uint8_t code[] = {
	0x90, 0x74, 0x0d,		    /* 00 nop; je 10 */
	0xe8, 0x18, 0x00, 0x00, 0x00,	    /* 03 call 20 */
	0xeb, 0xf6,			    /* 08 jmp 00 */
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, /* 0a */
	0x0f, 0x05,			    /* 10 syscall */
	0xff, 0xd0,			    /* 12 call *%rax */
	0xe8, 0x00, 0x00, 0x00, 0x00,	    /* 14 call 19 */
	0x58, 0xff, 0xe0,		    /* 19 pop; jmp *%rax */
	0xcc, 0xcc, 0xcc, 0xcc,		    /* 1c */
	0x90, 0x90, 0xc3,		    /* 20 nop; nop; ret */
};

static struct pt_item items[4096];
static size_t item_count;

/* The block that begins there, of no more than `most` instructions. */
static void ran(uint64_t at, unsigned int most)
{
	cr_assert_eq(block_read(&items[item_count].entry, BASE + at, code + at, sizeof(code) - at,
				most),
		     0);
	item_count++;
}

static void came(enum trail_event kind, uint64_t at)
{
	items[item_count++].between = (struct trail_between){ .event = kind,
							      .at = at ? BASE + at : 0 };
}

/* A bit of everything. */
static void all_kinds(void)
{
	ran(0x00, 64); /* not taken */
	ran(0x03, 64);
	ran(0x20, 64); /* returns */
	ran(0x08, 64);
	ran(0x00, 64); /* taken */
	ran(0x10, 64); /* just returns */
	came(TRAIL_SYSCALLED, 0x12);
	ran(0x12, 64);
	ran(0x20, 1);
	came(TRAIL_SIGNAL, 0x21); /* and continues in a handler */
	ran(0x14, 64);
	ran(0x19, 64);
	ran(0x20, 64); /* to where no call came from */
	ran(0x10, 64);
	came(TRAIL_SYSCALLED, 0x21); /* out of the handler */
	ran(0x21, 64);
	ran(0x14, 64);
	ran(0x19, 64);
	ran(0x10, 64);
	came(TRAIL_END, 0);
}

Test(pt, brings_back_a_bit_of_everything)
{
	code_put(BASE, code, sizeof(code));
	all_kinds();
	there_and_back(items, item_count);
}

Test(pt, remembers_as_many_calls_as_a_processor_does)
{
	code_put(BASE, code, sizeof(code));
	for (int i = 0; i < 100; i++) { /* as if 20 were there and called itself */
		ran(0x03, 64);
		ran(0x20, 64); /* goes to another place than back */
	}
	for (int i = 0; i < 100; i++) {
		ran(0x08, 64);
		ran(0x00, 64);
		ran(0x03, 64);
		ran(0x20, 64);
	}
	ran(0x10, 64);
	there_and_back(items, item_count);
}

Test(pt, says_lost_where_packets_were_while_it_was_away)
{
	code_put(BASE, code, sizeof(code));
	ran(0x10, 64);
	came(TRAIL_LOST, 0);
	ran(0x12, 64);
	ran(0x20, 64);
	ran(0x10, 64);
	there_and_back(items, item_count);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 1);
}

Test(pt, has_times_that_are_no_earlier_than_what_ran)
{
	const struct pt_switch switches[] = { { 1, 5000, 6000 } };
	struct pt_encode_options options = { .tsc = 1000 };
	/* two ticks each: tsc 1000 is 1600 */
	struct pt_stream stream = { .clock = { 1200, 2000, 4, 1 }, .end_ticks = 9000 };
	uint8_t *bytes;

	code_put(BASE, code, sizeof(code));
	for (int i = 0; i < 10;
	     i++) { /* TSC packets: 1000 at the beginning, 1100 and on where it is on again */
		ran(0x10, 64);
		came(TRAIL_SYSCALLED, 0x10);
	}
	cr_assert_eq(pt_encode(&bytes, &stream.count, items, item_count, &options), 0);
	stream.bytes = bytes;
	cr_assert_eq(decode(&stream), 0);
	cr_assert_eq(sink.count, 19);
	for (size_t i = 0; i < sink.count; i++)
		if (sink.items[i].entry.instructions)
			cr_expect_geq(sink.items[i].ticks,
				      i == 18 ? 9000 : 1600 + 200 * (i / 2 + 2));
	/* not much later either: by the packets that libipt has read ahead */
	cr_expect_leq(sink.items[0].ticks, 1600 + 200 * 3);
	stream.switches = switches;
	stream.switch_count = 1;
	cr_assert_eq(decode(&stream), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_DEPART), 1);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_ARRIVE), 1);
	free(bytes);
}

/*
 * A thread that lost the processor, without a record of the switch in: it did continue, all the
 * same.
 */
Test(pt, has_switches_behind_what_ran_last)
{
	const struct pt_switch switches[] = { { 0, 2000, 3000 }, { 1u << 20, 4000, 5000 } };
	struct pt_encode_options options = { .tsc = 1000 };
	struct pt_stream stream = { .clock = { 1200, 2000, 4, 1 },
				    .end_ticks = 9000,
				    .switches = switches,
				    .switch_count = 2 };
	uint8_t *bytes;

	code_put(BASE, code, sizeof(code));
	ran(0x10, 64);
	cr_assert_eq(pt_encode(&bytes, &stream.count, items, item_count, &options), 0);
	stream.bytes = bytes;
	cr_assert_eq(decode(&stream), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_DEPART), 2, "%s", sample_sink_text(&sink));
	cr_expect_eq(sample_sink_events(&sink, TRAIL_ARRIVE), 2);
	cr_expect_null(sink.wrong, "%s", sink.wrong);
	free(bytes);
}

Test(pt, turns_its_clock_into_ours)
{
	const struct pt_clock clock = { .tsc = 1000, .ticks = 500, .mult = 1 << 9, .shift = 10 };

	cr_expect_eq(pt_clock_ticks(&clock, 3000), 1500);
	cr_expect_eq(pt_clock_ticks(&clock, 400), 200);
	cr_expect_eq(pt_clock_ticks(&clock, 0), 0);
	cr_expect_eq(pt_clock_ticks(&(struct pt_clock){ 0, UINT64_MAX - 1, 1u << 31, 0 },
				    UINT64_MAX),
		     UINT64_MAX);
	cr_expect_eq(pt_clock_ticks(&(struct pt_clock){ 9, 1, 1, 0 }, 0), 0);
}

/* ---- packets by hand ---- */

#define PSB                                                                                        \
	0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,  \
		0x82
#define MODE_64 0x99, 0x01
#define PSBEND 0x02, 0x23
#define PGE(low) 0x71, low, 0x00, 0x40, 0x00, 0x00, 0x00 /* 48 bits, extended */
#define FUP(low) 0x3d, low, 0x00			 /* 16 bits */
#define TIP(low) 0x2d, low, 0x00
#define PGD 0x01

static void expect(const char *text)
{
	cr_expect_str_eq(sample_sink_text(&sink), text);
}

Test(pt, knows_packets_by_their_bytes)
{
	static const uint8_t bytes[] = {
		PSB,	   MODE_64, PSBEND, PGE(0x00), 0x04, /* TNT: not taken */
		TIP(0x08),				     /* the return */
		0x06,					     /* TNT: taken */
		PGD,					     /* the system call */
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	expect("400000+3/2 branch\n400003+5/1 call\n400020+3/3 return\n400008+2/1 jump\n"
	       "400000+3/2 branch\n400010+2/1 syscall\n");
}

Test(pt, says_lost_where_packets_were)
{
	static const uint8_t bytes[] = {
		PSB,	   MODE_64, PSBEND, PGE(0x00), 0x04, /* TNT: not taken */
		0x02,	   0xf3,			     /* OVF: how far it came is unknown */
		0x7d,	   0x20,    0x00,   0x40,      0x00,
		0x00,	   0x00, /* FUP of 48 bits: it continues here */
		TIP(0x10), PGD,
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	expect("400000+3/2 branch\nlost@400020 0\n400020+3/3 return\n400010+2/1 syscall\n");
}

Test(pt, shows_where_a_thread_was_interrupted)
{
	static const uint8_t bytes[] = {
		PSB,	   MODE_64,   PSBEND, PGE(0x20), FUP(0x21), PGD, /* away */
		PGE(0x21),	      /* and back at the same place */
		FUP(0x22), TIP(0x10), /* at once elsewhere */
		PGD,		      /* the system call */
		PGE(0x00),	      /* back elsewhere */
		FUP(0x01), PGD,
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	expect("400020+1/1 fall\ngap@400021 1\n400021+1/1 fall\ngap@400010 1\n400010+2/1 syscall\n"
	       "gap@400000 1\n400000+1/1 fall\n");
}

Test(pt, shows_a_transaction_that_was_given_up)
{
	static const uint8_t bytes[] = {
		PSB,	   MODE_64,   PSBEND, PGE(0x20), 0x99, 0x22, /* MODE.TSX: aborted */
		FUP(0x21), TIP(0x00), /* there, and here it continues */
		FUP(0x01), PGD,
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	expect("400020+1/1 fall\ngap@400000 0\n400000+1/1 fall\n");
}

Test(pt, says_which_error_it_met_and_goes_on_behind)
{
	static const uint8_t bytes[] = {
		PSB,  MODE_64, PSBEND,	PGE(0x20), TIP(0x30), /* no code there */
		0x06, PSB,     MODE_64, PSBEND,	   PGE(0x10), PGD,
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 1);
	cr_expect(strstr(outcome.first, "no memory mapped at this address") != NULL, "%s",
		  outcome.first);
	expect("400020+3/3 return\nlost@0 0\n400010+2/1 syscall\n");
}

Test(pt, has_a_gap_for_code_of_32_bits)
{
	static const uint8_t bytes[] = {
		PSB,	   MODE_64, PSBEND,    PGE(0x20), 0x99, 0x02, /* MODE.Exec: 32 bits */
		TIP(0x00), 0x06,	       /* TNT: taken, to a system call, */
		PGD,	   MODE_64, PGE(0x20), /* and back as 64 bits */
		TIP(0x10), PGD,
	};

	code_put(BASE, code, sizeof(code));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	expect("400020+3/3 return\ngap@400020 0\n400020+3/3 return\n400010+2/1 syscall\n");
}

Test(pt, ends_where_code_would_go_on_for_ever)
{
	static const uint8_t loop[] = { 0xeb, 0xfe };
	static const uint8_t bytes[] = { PSB, MODE_64, PSBEND, PGE(0x80), FUP(0x90), PGD };

	code_put(BASE + 0x80, loop, sizeof(loop));
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_geq(outcome.errors, 1);
	cr_expect_geq(sample_sink_events(&sink, TRAIL_LOST), 1);
}

Test(pt, makes_nothing_of_nothing)
{
	static const uint8_t bytes[64] = { 0 };

	cr_assert_eq(decode_bytes(NULL, 0), 0);
	cr_expect_eq(sink.count, 0);
	cr_assert_eq(decode_bytes(bytes, sizeof(bytes)), 0);
	cr_expect_eq(sink.count, 0);
}

static void goes_on(const uint8_t *bytes, size_t count, struct pt_place *place)
{
	struct pt_stream stream = {
		.bytes = bytes, .count = count, .end_ticks = END_TICKS, .place = place
	};

	cr_assert_eq(pt_decode(&weave, &stream, &outcome), 0);
	cr_assert_null(sink.wrong, "%s", sink.wrong);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
}

Test(pt, knows_what_stood_at_the_end_of_the_stream_before)
{
	static const uint8_t first[] = {
		PSB, MODE_64, PSBEND, PGE(0x20), TIP(0x10), FUP(0x10), PGD
	}; /* returned, and away */
	static const uint8_t second[] = { PSB, MODE_64, PSBEND, PGE(0x20), FUP(0x21), PGD };
	static const uint8_t third[] = { TIP(0x10), PGD, PSB, MODE_64, PSBEND, PGE(0x10), PGD };
	struct pt_place place = { 0 };

	code_put(BASE, code, sizeof(code));
	decode_begin();
	goes_on(first, sizeof(first), &place);
	goes_on(second, sizeof(second), &place);
	expect("400020+3/3 return\ngap@400020 1\n400020+1/1 fall\n");
	goes_on(third, sizeof(third), &place); /* begins in the middle */
	expect("400020+3/3 return\ngap@400020 1\n400020+1/1 fall\nlost@0 0\n400010+2/1 syscall\n");
}

/* ---- damage ---- */

static void survives(const uint8_t *bytes, size_t size)
{
	cr_assert_eq(decode_bytes(bytes, size), 0);
	cr_assert(!outcome.errors || sample_sink_events(&sink, TRAIL_LOST) > 0,
		  "an error and nothing lost: %s", outcome.first);
}

Test(pt, makes_a_trail_of_damaged_packets)
{
	struct pt_encode_options options = { .compresses_returns = 1, .psb_every = 6, .tsc = 1000 };
	uint8_t *bytes, *bad;
	uint64_t seed = 3;
	size_t size;
	int errors = 0;

	code_put(BASE, code, sizeof(code));
	all_kinds();
	cr_assert_eq(pt_encode(&bytes, &size, items, item_count, &options), 0);
	bad = malloc(size);
	for (size_t i = 0; i < size; i++) {
		for (int bit = 0; bit < 8; bit++) {
			memcpy(bad, bytes, size);
			bad[i] ^= (uint8_t)(1 << bit);
			survives(bad, size);
			errors += outcome.errors > 0;
		}
		survives(bytes, i);	       /* cut here */
		survives(bytes + i, size - i); /* begun here */
		memcpy(bad, bytes, size);      /* a byte left out */
		memmove(bad + i, bad + i + 1, size - i - 1);
		survives(bad, size - 1);
	}
	for (int i = 0; i < 2000; i++) {
		memcpy(bad, bytes, size);
		for (int j = 0; j < 4; j++)
			bad[sample_random(&seed) % size] = (uint8_t)sample_random(&seed);
		survives(bad, size);
	}
	cr_expect_gt(errors, 100, "damage that is not met: %d", errors);
	free(bad);
	free(bytes);
}

Test(pt, reports_what_the_sink_says)
{
	static const uint8_t bytes[] = { PSB, MODE_64, PSBEND, PGE(0x20), TIP(0x10), PGD };

	code_put(BASE, code, sizeof(code));
	sample_sink_init(&sink);
	sink.fails_at = 1;
	cr_assert_eq(weave_init(&weave, &sink.sink, NULL, &codes.codes), 0);
	cr_expect_eq(pt_decode(&weave,
			       &(struct pt_stream){ .bytes = bytes, .count = sizeof(bytes) },
			       &outcome),
		     -EIO);
}

/* ---- the kernel ---- */

#define KERNEL UINT64_C(0xffffffff81000000)

static const uint8_t kernel_code[] = {
	0x0f, 0x01, 0xf8,	      /* 00 swapgs */
	0xe8, 0x18, 0x00, 0x00, 0x00, /* 03 call 20 */
	0x0f, 0x01, 0xf8,	      /* 08 swapgs */
	0x48, 0x0f, 0x07,	      /* 0b sysretq */
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, /* 0e */
	0x90, 0x74, 0x01, 0x90, 0xc3,			      /* 20 nop; je 24; nop; ret */
	0x90, 0x48, 0xcf,				      /* 25 nop; iretq */
};

static void ran_kernel(uint64_t at, unsigned int most)
{
	cr_assert_eq(block_read(&items[item_count].entry, KERNEL + at, kernel_code + at,
				sizeof(kernel_code) - at, most),
		     0);
	item_count++;
}

static void interrupted(uint64_t at, uint64_t handler)
{
	items[item_count++].between = (struct trail_between){ .event = TRAIL_SIGNAL,
							      .at = at,
							      .values = { 0, KERNEL + handler } };
}

/* A system call; an interrupt of user code; one of the kernel's. */
Test(pt, goes_into_the_kernel_and_back)
{
	code_put(BASE, code, sizeof(code));
	code_put(KERNEL, kernel_code, sizeof(kernel_code));
	ran(0x10, 64);
	ran_kernel(0x00, 64);
	ran_kernel(0x20, 64);
	ran_kernel(0x24, 64);
	ran_kernel(0x08, 64);
	ran(0x12, 64);
	ran(0x20, 1);
	interrupted(BASE + 0x21, 0x25);
	ran_kernel(0x25, 64);
	ran(0x21, 64);
	ran(0x10, 64);
	ran_kernel(0x00, 64);
	ran_kernel(0x20, 1);
	interrupted(KERNEL + 0x21, 0x25);
	ran_kernel(0x25, 64);
	ran_kernel(0x21, 64);
	ran_kernel(0x23, 64);
	ran_kernel(0x08, 64);
	ran(0x12, 64);
	ran(0x20, 64);
	ran(0x10, 64);
	there_and_back(items, item_count);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_SIGNAL), 2);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_GAP), 0);
}

/* Packets of a guest's code, at addresses that are ours too: PIP says whose they are. */
static size_t put_guest(uint8_t *bytes, size_t room, int is_guest)
{
	struct pt_packet packets[] = { { .type = ppt_psb },    { .type = ppt_mode },
				       { .type = ppt_psbend }, { .type = ppt_tip_pge },
				       { .type = ppt_pip },    { .type = ppt_tip },
				       { .type = ppt_tnt_8 } };
	struct pt_encoder *encoder;
	struct pt_config config;
	uint64_t offset = 0;

	pt_config_init(&config);
	config.begin = bytes;
	config.end = bytes + room;
	packets[1].payload.mode.leaf = pt_mol_exec;
	packets[1].payload.mode.bits.exec = pt_set_exec_mode(ptem_64bit);
	packets[3].payload.ip = (struct pt_packet_ip){ pt_ipc_sext_48, BASE + 0x10 };
	packets[4].payload.pip.cr3 = 0x1000;
	packets[4].payload.pip.nr = (uint32_t)is_guest;
	packets[5].payload.ip = (struct pt_packet_ip){ pt_ipc_sext_48,
						       (KERNEL + 0x20) & 0xffffffffffff };
	packets[6].payload.tnt = (struct pt_packet_tnt){ 1, 0 };
	encoder = pt_alloc_encoder(&config);
	for (size_t i = 0; i < sizeof(packets) / sizeof(*packets); i++)
		cr_assert_geq(pt_enc_next(encoder, &packets[i]), 0);
	pt_enc_get_offset(encoder, &offset);
	pt_free_encoder(encoder);
	return offset;
}

Test(pt, does_not_take_a_guest_for_the_kernel)
{
	uint8_t bytes[256];

	code_put(BASE, code, sizeof(code));
	code_put(KERNEL, kernel_code, sizeof(kernel_code));
	cr_assert_eq(decode_bytes(bytes, put_guest(bytes, sizeof(bytes), 0)), 0);
	cr_expect_eq(outcome.errors, 0, "%s", outcome.first);
	cr_expect_gt(weave.blocks, 1, "the kernel's are reported");
	cr_assert_eq(decode_bytes(bytes, put_guest(bytes, sizeof(bytes), 1)), 0);
	cr_expect_eq(weave.blocks, 1, "%s", sample_sink_text(&sink));
	cr_expect_eq(outcome.errors, 1);
	cr_expect(strstr(outcome.first, "code of a guest") != NULL, "%s", outcome.first);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 1);
}

/* ---- when code was where it was ---- */

static uint64_t times[64][2];
static size_t time_count;

static void note_time(struct codes *of, uint64_t from, uint64_t to)
{
	(void)of;
	cr_assert_lt(time_count, 64);
	times[time_count][0] = from;
	times[time_count++][1] = to;
}

Test(pt, asks_for_code_of_the_time_between_packets)
{
	const struct pt_encode_options options = { .tsc = 1000 };
	/* a thousand ticks each, and some at the beginning */
	struct pt_stream stream = { .clock = { 0, 1000000000, 1000, 0 }, .end_ticks = 2000000000 };
	uint8_t *bytes;

	code_put(BASE, code, sizeof(code));
	for (int i = 0; i < 4; i++) { /* a TSC packet, 100 later, each time that it is on again */
		ran(0x10, 64);
		came(TRAIL_SYSCALLED, 0x12);
		ran(0x12, 64);
		ran(0x20, 64);
	}
	cr_assert_eq(pt_encode(&bytes, &stream.count, items, item_count, &options), 0);
	stream.bytes = bytes;
	codes.codes.time = note_time;
	cr_assert_eq(decode(&stream), 0);
	codes.codes.time = NULL;
	cr_assert_geq(time_count, 3);
	for (size_t i = 1; i < time_count; i++) {
		cr_expect_geq(times[i][0], times[i - 1][0]);
		cr_expect_lt(times[i][0], times[i][1]);
	}
	/*
	 * from one packet to the next, and what two clocks may differ by: a tenth of a per cent,
	 * and ten microseconds
	 */
	cr_expect_eq(times[0][0], 1001100000 - 10000 - 1100);
	cr_expect_eq(times[0][1], 1001200000 + 10000 + 1200);
	cr_expect_eq(times[time_count - 1][1], 2000000000 + 10000 + 1000000);
	free(bytes);
}
