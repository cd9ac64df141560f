/* SPDX-License-Identifier: MIT */
/*
 * Rings made by hand, of records as include/uapi/linux/perf_event.h has them: also of hardware that
 * this machine may lack, and of records that are cut off.
 */
#include "record/perf/sampler.h"

#include <asm/perf_regs.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096u
#define LATER (UINT64_C(1) << 62)
#define EVERYTHING                                                                                 \
	(SAMPLER_ADDRESS | SAMPLER_CALLERS | SAMPLER_USER_IP | SAMPLER_RAW | SAMPLER_REGS |        \
	 SAMPLER_STACK | SAMPLER_BRANCHES)

enum { ID_ALL = 100, ID_PLAIN, ID_TASKS, ID_UNKNOWN };

static struct perf_event_mmap_page pages[2];
static uint8_t areas[2][BYTES];
static struct cpu_ring all[2];
static struct ring_id ids[] = { { ID_ALL, 0 }, { ID_PLAIN, 1 }, { ID_TASKS, 2 } };
static struct sampler_form forms[2];
static const struct sampler_request request = { .scope = SAMPLER_CPUS, .event_count = 2 };
static struct sampler sampler;

/* The record that is being made, in words. */
static union {
	struct perf_event_header header;
	uint64_t words[64];
} made;
static size_t count;

static struct sampler_record got[8];
static size_t got_count;

static void begin_at(uint64_t position)
{
	for (unsigned int i = 0; i < 2; i++) {
		pages[i] = (struct perf_event_mmap_page){ .data_head = position,
							  .data_tail = position };
		all[i] = (struct cpu_ring){ .cpu = i * 5, .fd = -1 };
		cr_assert_eq(ring_init(&all[i].ring, &pages[i], areas[i], BYTES), 0);
	}
	forms[0] = sampler_form_of(&(struct sampler_event){ .wants = EVERYTHING });
	forms[1] = sampler_form_of(&(struct sampler_event){ .wants = 0 });
	sampler = (struct sampler){
		.request = &request,
		.rings = { .all = all, .count = 2, .ids = ids, .id_count = 3 },
		.forms = forms,
	};
}

static void end(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		free(all[i].held);
		free(all[i].records);
		ring_release(&all[i].ring);
	}
}

static void begin(uint32_t type, uint16_t misc)
{
	memset(&made, 0, sizeof(made));
	made.header.type = type;
	made.header.misc = misc;
	count = 1;
}

static void word(uint64_t value)
{
	made.words[count++] = value;
}

static void halves(uint32_t low, uint32_t high)
{
	word(low | (uint64_t)high << 32);
}

/* struct sample_id */
static void trailer(uint32_t tid, uint64_t time, uint64_t id)
{
	halves(tid, tid + 1);
	word(time);
	halves(0, 0);
	word(id);
}

static void put_bytes(unsigned int ring, size_t bytes)
{
	made.header.size = (uint16_t)bytes;
	for (size_t i = 0; i < bytes; i++)
		areas[ring][(pages[ring].data_head + i) % BYTES] = ((uint8_t *)&made)[i];
	pages[ring].data_head += bytes;
}

static void put(unsigned int ring)
{
	put_bytes(ring, count * 8);
}

/* As far as every sample is the same. */
static void sample(uint64_t id, uint64_t time, uint16_t misc)
{
	begin(PERF_RECORD_SAMPLE, misc);
	word(id);
	word(0x401000);
	halves(7, 8);
	word(time);
}

static void plain(uint64_t time)
{
	sample(ID_PLAIN, time, PERF_RECORD_MISC_USER);
	halves(0, 0);
	word(3);
}

static void with_everything(uint64_t time)
{
	static const char raw[12] = "raw of 12";

	sample(ID_ALL, time, PERF_RECORD_MISC_KERNEL);
	word(0xadd2e55);
	halves(5, 0);
	word(64);
	word(3); /* callers */
	word((uint64_t)PERF_CONTEXT_USER);
	word(0x401000);
	word(0x402000);
	halves(12, 0); /* raw: its size, then it */
	memcpy((uint8_t *)&made.words[count - 1] + 4, raw, sizeof(raw));
	count++;
	word(2); /* branches of three words */
	for (uint64_t i = 0; i < 6; i++)
		word(0xb0 + i);
	word(PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < 18; i++)
		word(0x1000 + i);
	word(16); /* stack: of 16 bytes 8 are filled */
	word(0x57ac);
	word(0);
	word(8);
	word(PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < 18; i++)
		word(0x2000 + i);
}

static int take(const struct sampler_record *record, void *data)
{
	(void)data;
	if (got_count < sizeof(got) / sizeof(got[0]))
		got[got_count] = *record;
	got_count++;
	return 0;
}

static void read_all(size_t wanted)
{
	got_count = 0;
	cr_assert_eq(sampler_read(&sampler, 1, take, NULL), 0);
	cr_assert_eq(got_count, wanted, "%zu records", got_count);
}

/* Pointers of a record are checked while they are valid. */
static int take_everything(const struct sampler_record *record, void *data)
{
	const struct perf_branch_entry *branch = record->branches;

	++*(int *)data;
	cr_expect_eq(record->kind, SAMPLER_SAMPLE);
	cr_expect(record->event == 0 && record->cpu == 5 && record->is_kernel);
	cr_expect(record->pid == 7 && record->tid == 8 && record->time_ns == 9);
	cr_expect(record->ip == 0x401000 && record->address == 0xadd2e55 && record->period == 64);
	cr_assert_eq(record->caller_count, 3);
	cr_expect(record->callers[0] == (uint64_t)PERF_CONTEXT_USER &&
		  record->callers[2] == 0x402000);
	cr_assert_eq(record->raw_bytes, 12);
	cr_expect_str_eq(record->raw, "raw of 12");
	cr_assert_eq(record->branch_count, 2);
	cr_expect(branch[1].from == 0xb3 && branch[1].to == 0xb4);
	/* bits of perf_regs.h: AX 0, IP 8, FLAGS 9, R8 16, R15 23; no segments between */
	cr_expect_eq(record->user_regs_abi, PERF_SAMPLE_REGS_ABI_64);
	cr_expect(record->user_regs[PERF_REG_X86_AX] == 0x1000 &&
		  record->user_regs[PERF_REG_X86_R15] == 0x1011);
	cr_expect_eq(record->user_ip, 0x1008);
	cr_assert_eq(record->stack_bytes, 8);
	cr_expect_eq(*(const uint64_t *)record->stack, 0x57ac);
	cr_expect_eq(record->regs_abi, PERF_SAMPLE_REGS_ABI_64);
	cr_expect(record->regs[PERF_REG_X86_AX] == 0x2000 &&
		  record->regs[PERF_REG_X86_FLAGS] == 0x2009 &&
		  record->regs[PERF_REG_X86_R8] == 0x200a);
	return 0;
}

/* Also across the end of the ring, wherever that cuts it. */
Test(sampler_record, a_sample_has_all_that_it_may_have)
{
	for (uint64_t at = 0; at < BYTES; at += 8) {
		int taken = 0;

		begin_at((UINT64_C(1) << 40) + at);
		with_everything(9);
		put(1);
		cr_assert_eq(sampler_read(&sampler, 1, take_everything, &taken), 0);
		cr_assert_eq(taken, 1, "at %lu", (unsigned long)at);
		end();
	}
}

Test(sampler_record, a_sample_may_have_nothing)
{
	begin_at(0);
	plain(9);
	put(0);
	sample(ID_ALL, 10, PERF_RECORD_MISC_USER);
	for (int i = 0; i < 9; i++) /* no callers, raw of no bytes, no branches, registers, stack */
		word(0);
	put(0);
	read_all(2);
	cr_expect(got[0].event == 1 && got[0].period == 3 && !got[0].is_kernel && !got[0].user_ip);
	cr_expect(got[1].event == 0 && !got[1].caller_count && !got[1].stack_bytes &&
		  !got[1].regs_abi);
	end();
}

#define MMAP2_OF_BUILD_ID 1000

/* What a record has before its trailer, by kind. */
static void make(uint32_t type)
{
	begin(type, 0);
	switch (type) {
	case PERF_RECORD_SWITCH_CPU_WIDE:
		halves(70, 80);
		break;
	case PERF_RECORD_MMAP2:
		halves(7, 8);
		word(0x4000);
		word(0x2000);
		word(0x1000);
		halves(8, 1);
		word(55);
		word(0);
		halves(5, 2);
		word(0x612f); /* "/a" */
		break;
	case MMAP2_OF_BUILD_ID:
		made.header.type = PERF_RECORD_MMAP2;
		made.header.misc = PERF_RECORD_MISC_MMAP_BUILD_ID;
		halves(7, 8);
		word(0x4000);
		word(0x2000);
		word(0x1000);
		halves(20, 0x04030201);
		word(0x0807060504030201);
		word(9);
		halves(5, 2);
		word(0x612f);
		break;
	case PERF_RECORD_MMAP:
		halves(7, 8);
		word(0x4000);
		word(0x2000);
		word(0x1000);
		word(0x612f);
		break;
	case PERF_RECORD_COMM:
		made.header.misc = PERF_RECORD_MISC_COMM_EXEC;
		halves(70, 80);
		word(0x6b726f77); /* "work" */
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		halves(70, 1);
		halves(81, 80);
		word(98);
		break;
	case PERF_RECORD_LOST:
		word(ID_PLAIN);
		word(500);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		word(40);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		word(99);
		word(ID_PLAIN);
		word(ID_PLAIN);
		break;
	default:
		break;
	}
	trailer(7, 98, ID_TASKS);
}

static void made_is(uint32_t type, enum sampler_kind kind)
{
	make(type);
	put(1);
	read_all(1);
	cr_assert_eq(got[0].kind, kind, "type %u is %d", type, got[0].kind);
	cr_expect_eq(got[0].cpu, 5);
}

Test(sampler_record, each_kind_is_taken_apart)
{
	begin_at(0);
	made_is(PERF_RECORD_SWITCH, SAMPLER_ARRIVE);
	cr_expect(got[0].pid == 7 && got[0].tid == 8 && got[0].time_ns == 98);
	made_is(PERF_RECORD_MMAP, SAMPLER_MMAP);
	made_is(PERF_RECORD_MMAP2, SAMPLER_MMAP);
	cr_expect(got[0].start == 0x4000 && got[0].bytes == 0x2000 && got[0].offset == 0x1000);
	cr_expect_null(got[0].build_id);
	made_is(MMAP2_OF_BUILD_ID, SAMPLER_MMAP);
	cr_expect(got[0].start == 0x4000 && got[0].bytes == 0x2000 && got[0].offset == 0x1000);
	cr_assert(got[0].build_id && got[0].build_id_bytes == 20);
	cr_expect(!memcmp(got[0].build_id, "\1\2\3\4\1\2\3\4\5\6\7\10\11", 14));
	cr_expect_str_eq(got[0].text, "/a");
	made_is(PERF_RECORD_COMM, SAMPLER_COMM);
	cr_expect(got[0].pid == 70 && got[0].tid == 80 && got[0].is_exec);
	made_is(PERF_RECORD_FORK, SAMPLER_FORK);
	cr_expect(got[0].tid == 81 && got[0].ptid == 80 && got[0].pid == 70 && got[0].ppid == 1);
	made_is(PERF_RECORD_EXIT, SAMPLER_EXIT);
	cr_expect_eq(got[0].tid, 81);
	made_is(PERF_RECORD_LOST, SAMPLER_LOST);
	cr_expect(got[0].count == 500 && !got[0].tid);
	made_is(PERF_RECORD_LOST_SAMPLES, SAMPLER_LOST);
	cr_expect_eq(got[0].count, 40);
	made_is(PERF_RECORD_THROTTLE, SAMPLER_THROTTLED);
	cr_expect_eq(got[0].event, 1);
	made_is(PERF_RECORD_UNTHROTTLE, SAMPLER_UNTHROTTLED);
	cr_expect(sampler.lost == 540 && sampler.throttled == 1);
	make(PERF_RECORD_NAMESPACES);
	put(0);
	read_all(0);
	end();
}

Test(sampler_record, a_switch_says_how_it_came)
{
	static const struct {
		uint16_t misc;
		enum sampler_kind kind;
		int is_preempted;
	} rows[] = {
		{ 0, SAMPLER_ARRIVE, 0 },
		{ PERF_RECORD_MISC_SWITCH_OUT, SAMPLER_DEPART, 0 },
		{ PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, SAMPLER_DEPART,
		  1 },
	};

	begin_at(0);
	for (size_t i = 0; i < 6; i++) {
		make(i % 2 ? PERF_RECORD_SWITCH : PERF_RECORD_SWITCH_CPU_WIDE);
		made.header.misc = rows[i / 2].misc;
		put(0);
		read_all(1);
		cr_expect_eq(got[0].kind, rows[i / 2].kind);
		cr_expect_eq(got[0].is_preempted, rows[i / 2].is_preempted);
		cr_expect(got[0].tid == 8 && got[0].cpu == 0);
	}
	end();
}

/* Whatever its length, nothing beyond it is read, and it counts as lost unless it is whole. */
static void cut_everywhere(size_t whole)
{
	size_t bytes = count * 8;

	for (size_t cut = 8; cut < bytes; cut += 4) {
		put_bytes(0, cut);
		read_all(1);
		if (cut < whole)
			cr_expect_eq(got[0].kind, SAMPLER_LOST, "type %u of %zu bytes",
				     made.header.type, cut);
	}
}

Test(sampler_record, what_is_cut_off_is_lost)
{
	static const uint32_t types[] = {
		PERF_RECORD_MMAP,
		PERF_RECORD_MMAP2,
		PERF_RECORD_COMM,
		PERF_RECORD_FORK,
		PERF_RECORD_EXIT,
		PERF_RECORD_LOST,
		PERF_RECORD_LOST_SAMPLES,
		PERF_RECORD_THROTTLE,
		PERF_RECORD_UNTHROTTLE,
		PERF_RECORD_SWITCH,
		PERF_RECORD_SWITCH_CPU_WIDE,
	};

	begin_at(0);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		make(types[i]);
		/* of a record that is cut, other bytes are taken for its trailer */
		cut_everywhere(8 + 32);
	}
	plain(9);
	cut_everywhere(count * 8);
	with_everything(9);
	cut_everywhere(count * 8);
	end();
}

/* Sizes inside of a sample that it can't hold. */
Test(sampler_record, what_claims_more_than_it_has_is_lost)
{
	static const size_t places[] = { 8, 14, 40 }; /* callers, branches, stack */

	begin_at(0);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		static const uint64_t sizes[] = { 65, 4096, UINT64_MAX, UINT64_MAX / 8,
						  UINT64_MAX / 24 };

		for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
			with_everything(9);
			made.words[places[i]] = sizes[j] < 4096 && i == 2 ? 4096 : sizes[j];
			put(0);
			read_all(1);
			cr_expect_eq(got[0].kind, SAMPLER_LOST, "place %zu, size %zu", i, j);
		}
	}
	with_everything(9);
	made.words[12] |= UINT32_MAX; /* raw */
	put(0);
	read_all(1);
	cr_expect_eq(got[0].kind, SAMPLER_LOST);
	end();
}

Test(sampler_record, what_no_event_is_known_for_is_lost)
{
	begin_at(0);
	plain(9);
	made.words[1] = ID_UNKNOWN;
	put(0);
	plain(10);
	made.words[1] = ID_TASKS; /* takes no samples */
	put(0);
	make(PERF_RECORD_THROTTLE);
	made.words[2] = ID_UNKNOWN;
	put(0);
	read_all(3);
	for (int i = 0; i < 3; i++)
		cr_expect(got[i].kind == SAMPLER_LOST && got[i].count == 1);
	cr_expect_eq(sampler.lost, 3);
	/* no record at all */
	made.header = (struct perf_event_header){ .type = 9 };
	put_bytes(0, 4);
	pages[0].data_head += 4;
	read_all(1);
	cr_expect_eq(got[0].kind, SAMPLER_LOST);
	end();
}

/* An interrupt's record may come before the one that it interrupted. */
Test(sampler_record, rings_are_merged_by_time)
{
	static const uint64_t times[2][4] = { { 10, 40, 30, 60 }, { 20, 50, 50, 55 } };

	begin_at(0);
	for (unsigned int i = 0; i < 8; i++) {
		plain(times[i % 2][i / 2]);
		put(i % 2);
	}
	read_all(8);
	for (int i = 1; i < 8; i++)
		cr_expect_geq(got[i].time_ns, got[i - 1].time_ns);
	end();
}

static int stop_at(const struct sampler_record *record, void *data)
{
	take(record, NULL);
	return record->time_ns == *(uint64_t *)data ? -EIO : 0;
}

Test(sampler_record, what_is_young_waits)
{
	uint64_t stop_ns = 2;

	begin_at(0);
	for (uint64_t time = 1; time <= 4; time++) {
		plain(time);
		put(time % 2);
		plain(LATER + time);
		put(time % 2);
	}
	got_count = 0;
	cr_assert_eq(sampler_read(&sampler, 0, stop_at, &stop_ns), -EIO);
	cr_expect_eq(got_count, 2, "the read did not end");
	cr_assert_eq(sampler_read(&sampler, 0, take, NULL), 0);
	cr_expect_eq(got_count, 4);
	cr_assert_eq(sampler_read(&sampler, 0, take, NULL), 0);
	cr_expect_eq(got_count, 4);
	cr_assert_eq(sampler_read(&sampler, 1, take, NULL), 0);
	cr_assert_eq(got_count, 8);
	for (int i = 0; i < 8; i++)
		cr_expect_eq(got[i].time_ns, (i < 4 ? 1 : LATER + 1) + (uint64_t)i % 4);
	end();
}
