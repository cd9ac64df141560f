/* SPDX-License-Identifier: MIT */
#include "read/history/testing/sampled.h"

#include "trace/kernel_names.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/marker/field.h>

#define BASE_NS 1700000000000000000u
#define LATER_NS 1000u /* then another program has the number */

enum { KERNEL, PROGRAM, LATER };
enum { CLOCK, FAULT };

/* Each function has 0x100 bytes. */
#define MAIN 0x1000u
#define MIDDLE 0x1100u
#define LEAF 0x1200u
#define IN_LATER 0x2000u
#define ASM_EXC 0xffffffff81000000u
#define DO_FAULT 0xffffffff81000100u
#define NAMELESS 0xffffffff82000000u

static const char map[] = "1000 100 main\n1100 100 middle\n1200 100 leaf\n2000 100 in_later\n";
static const char kernel[] = "ffffffff81000000 100 asm_exc\nffffffff81000100 100 do_fault\n";

char sampled_dir[64];
static struct sample sample;

static void put_clock(uint64_t ticks, uint32_t pid, uint32_t tid, uint8_t state, uint32_t count,
		      const uint64_t *chain)
{
	sample_event(&sample, CLOCK, ticks, 0);
	sample_u32(&sample, pid);
	sample_u32(&sample, tid);
	sample_u64(&sample, chain[0]);
	sample_u64(&sample, 1000);
	sample_u8(&sample, state);
	sample_u32(&sample, count);
	for (uint32_t i = 0; i < count; i++)
		sample_u64(&sample, chain[i]);
}

static void put_fault(uint64_t ticks, uint32_t pid, uint32_t tid, uint64_t ip)
{
	sample_event(&sample, FAULT, ticks, 0);
	sample_u32(&sample, pid);
	sample_u32(&sample, tid);
	sample_u64(&sample, ip);
	sample_u64(&sample, 0xdead000);
}

static void put_all(void)
{
	uint64_t deep[] = { LEAF + 8, MIDDLE + 5, MAIN + 9, NAMELESS };

	for (uint64_t i = 0; i < 3; i++)
		put_clock(10 + i, 10, 11, FIELD_WHOLE, 4, deep);
	put_clock(20, 10, 11, FIELD_CUT, 2, (uint64_t[]){ LEAF + 4, MIDDLE });
	put_clock(21, 10, 11, FIELD_WHOLE, 4,
		  (uint64_t[]){ DO_FAULT + 1, ASM_EXC + 9, LEAF, MAIN + 3 });
	put_clock(22, 10, 11, FIELD_WHOLE, 0, (uint64_t[]){ 0x7000 });
	put_clock(23, 10, 11, FIELD_WHOLE, 0, (uint64_t[]){ NAMELESS });
	put_clock(24, 10, 11, FIELD_WHOLE, 0, (uint64_t[]){ NAMELESS });
	put_fault(25, 10, 11, LEAF + 8);
	put_clock(26, 99, 99, FIELD_WHOLE, 1, (uint64_t[]){ 0x4000 });
	put_clock(LATER_NS + 1, 10, 11, FIELD_WHOLE, 1, (uint64_t[]){ IN_LATER + 1 });
}

static void add(struct trace_writer *writer, uint32_t pid, const char *exe, uint64_t begin_ns)
{
	const struct trace_process about = { .pid = pid,
					     .exe = exe,
					     .hostname = "here",
					     .ticks_hz = 1000000000,
					     .way = begin_ns ? 'l' : 0,
					     .begin_ns = begin_ns };

	cr_assert_geq(trace_process_add(writer, &about), 0);
}

void sampled_make(void)
{
	struct trace_writer *writer;

	sample_folder(sampled_dir);
	cr_assert_eq(trace_writer_open(&writer, sampled_dir), 0);
	add(writer, 0, "kernel", 0);
	add(writer, 10, "/bin/prog", BASE_NS);
	add(writer, 10, "/bin/later", BASE_NS + LATER_NS);
	trace_event_add(writer, KERNEL, CLOCK,
			SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_PTR, WM_TYPE_U64,
				     WM_TYPE_ADDRESSES),
			"mk\nsample\ncpu-clock\nkernel\n0\npid,tid,ip,period,callchain");
	trace_event_add(writer, KERNEL, FAULT,
			SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_PTR, WM_TYPE_PTR),
			"mk\nfault\npage\nkernel\n0\npid,tid,ip,address");
	trace_event_add(writer, PROGRAM, 0, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
	sample.head = (struct wm_packet){ .tid = 0, .comm = "cpu0" };
	sample_begin(&sample, 0);
	put_all();
	cr_assert_eq(sample_write(&sample, writer, KERNEL), 0);
	sample.head = (struct wm_packet){ .pid = 10, .tid = 11, .instance = 1, .comm = "worker" };
	sample_begin(&sample, 1);
	sample_event(&sample, 0, 1, 0);
	cr_assert_eq(sample_write(&sample, writer, PROGRAM), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	sample_folder_put(sampled_dir, "/.perf-10.map", map, strlen(map));
	sample_folder_put(sampled_dir, "/" KERNEL_NAMES_FILE, kernel, strlen(kernel));
}

void sampled_remove(void)
{
	sample_folder_remove(sampled_dir);
}
