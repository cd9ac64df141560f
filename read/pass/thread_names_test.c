/* SPDX-License-Identifier: MIT */
#include "read/pass/thread_names.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <string.h>

#define BASE_NS 1700000000000000000u

enum { NAME, FORK };

static char dir[64];
static struct sample sample;
static struct trace_writer *writer;

static void add_process(uint32_t pid)
{
	const struct trace_process about = {
		.pid = pid, .exe = "x", .hostname = "here", .ticks_hz = 1000000000
	};

	cr_assert_geq(trace_process_add(writer, &about), 0);
}

static void put_name(uint64_t ticks, uint32_t tid, const char *name)
{
	sample_event(&sample, NAME, ticks, 0);
	sample_u32(&sample, 10);
	sample_u32(&sample, tid);
	sample_string(&sample, name);
}

static void put_fork(uint64_t ticks, uint32_t tid, uint32_t parent)
{
	sample_event(&sample, FORK, ticks, 0);
	sample_u32(&sample, 10);
	sample_u32(&sample, tid);
	sample_u32(&sample, 10);
	sample_u32(&sample, parent);
}

static void begin_cpu(uint32_t cpu)
{
	sample.head = (struct wm_packet){ .tid = cpu, .instance = cpu, .comm = "cpu" };
	sample_begin(&sample, 1);
}

static const char *name_at(const struct thread_names *names, uint32_t tid, uint64_t ticks)
{
	const char *name = thread_names_find(names, 10, tid, BASE_NS + ticks);

	return name ? name : "(unknown)";
}

/* Thread 12 is a child of 11, 13 and 9 are of 12; the CPUs' streams have that in another order. */
Test(thread_names, forks_have_the_name_of_the_parent_at_that_time)
{
	struct trace_reader *reader;
	struct thread_names names;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	add_process(0);
	add_process(10);
	trace_event_add(writer, 0, NAME, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR),
			"mj\ntask\nname\nkernel\n0\npid, tid, name");
	trace_event_add(writer, 0, FORK,
			SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32),
			"mj\ntask\nfork\nkernel\n0\npid, tid, parent_pid, parent_tid");
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
	begin_cpu(0);
	put_fork(30, 13, 12);
	put_fork(31, 14, 14); /* nonsense */
	put_fork(32, 15, 99);
	put_fork(35, 9, 12);
	put_name(50, 12, "a name of more than 16");
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	begin_cpu(1);
	put_name(10, 11, "sh");
	put_fork(20, 12, 11);
	put_name(25, 11, "later");
	put_name(40, 13, "");
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample.head = (struct wm_packet){ .pid = 10, .tid = 16, .comm = "sixteen letters" };
	sample_begin(&sample, 60);
	cr_assert_eq(sample_write(&sample, writer, 1), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(thread_names_read(&names, reader), 0);
	cr_expect_str_eq(name_at(&names, 11, 9), "(unknown)");
	cr_expect_str_eq(name_at(&names, 11, 10), "sh");
	cr_expect_str_eq(name_at(&names, 11, 25), "later");
	cr_expect_str_eq(name_at(&names, 12, 20), "sh");
	cr_expect_str_eq(name_at(&names, 12, 50), "a name of more t");
	cr_expect_str_eq(name_at(&names, 13, 39), "sh");
	cr_expect_str_eq(name_at(&names, 13, 40), "(unknown)");
	cr_expect_str_eq(name_at(&names, 9, 60), "sh");
	cr_expect_str_eq(name_at(&names, 14, 99), "(unknown)");
	cr_expect_str_eq(name_at(&names, 15, 99), "(unknown)");
	cr_expect_str_eq(name_at(&names, 16, 0), "sixteen letters");
	cr_expect_str_eq(name_at(&names, 17, 99), "(unknown)");
	cr_expect_eq(reader->damages_ever, 0);
	thread_names_release(&names);
	trace_reader_close(reader);
	sample_folder_remove(dir);
}
