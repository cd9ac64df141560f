/* SPDX-License-Identifier: MIT */
/* waymark export --format=perfetto: who ran where, and that all of it is JSON. */
#include "cli/command_test.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <waymark/marker.h>

enum { ARRIVE, DEPART, WAKE };

static char dir[64];
static struct sample sample;
static struct trace_writer *writer;

static void put_kernel(uint32_t id, uint64_t us, uint32_t tid)
{
	sample_event(&sample, id, us * 1000, 0);
	sample_u32(&sample, tid ? 20 : 0);
	sample_u32(&sample, tid);
}

static void begin_cpu(uint32_t cpu)
{
	sample.head = (struct wm_packet){ .tid = cpu, .instance = cpu };
	snprintf(sample.head.comm, sizeof(sample.head.comm), "cpu%u", cpu);
	sample_begin(&sample, 0);
}

static void put_packet(int process)
{
	cr_assert_eq(sample_write(&sample, writer, process), 0);
}

static void make_trace(void)
{
	struct trace_process about = { .exe = "kernel",
				       .hostname = "here",
				       .ticks_hz = 1000000000 };

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, ARRIVE, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
			"mj\nswitch\narrive\nkernel\n0\npid, tid");
	trace_event_add(writer, 0, DEPART, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
			"mj\nswitch\ndepart\nkernel\n0\npid, tid");
	trace_event_add(writer, 0, WAKE, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
			"mj\nswitch\nwake\nkernel\n0\npid, tid");
	about.pid = 20;
	about.exe = "/bin/\"shop\"";
	cr_assert_eq(trace_process_add(writer, &about), 1);
	trace_event_add(writer, 1, 0, SAMPLE_TYPES(WM_TYPE_STR), "bj\ndb\nquery\na.c\n3\nsql");
	trace_event_add(writer, 1, 1, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n4\n");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);

	begin_cpu(0);
	put_kernel(DEPART, 1, 21); /* it was there before */
	put_kernel(ARRIVE, 2, 20);
	put_kernel(DEPART, 5, 20);
	put_kernel(ARRIVE, 6, 21);
	put_packet(0);
	sample.head.discarded = 4;
	sample_begin(&sample, 7000);
	put_kernel(DEPART, 8, 21); /* the thread may have gone and come meanwhile */
	put_kernel(ARRIVE, 9, 21);
	put_packet(0);
	begin_cpu(3);
	put_kernel(WAKE, 4, 21);
	put_kernel(ARRIVE, 5, 22);
	put_kernel(DEPART, 6, 20); /* another one */
	put_packet(0);
	sample.head = (struct wm_packet){ .pid = 20, .tid = 20, .comm = "shop" };
	sample_begin(&sample, 3000);
	sample_event(&sample, 0, 3500, 0);
	sample_string(&sample, "a \"b\"\n");
	sample_event(&sample, 1, 10001, 0);
	put_packet(1);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

/* The values of one kind of events, one event a line. */
static const char *phase(const char *options, const char *phase, const char *values)
{
	char arguments[700];

	snprintf(arguments, sizeof(arguments),
		 "export --format=perfetto %s %%s | python3 -c 'import json,sys\n"
		 "for e in json.load(sys.stdin)[\"traceEvents\"]:\n"
		 " a = e.get(\"args\")\n"
		 " if e[\"ph\"] == \"%s\": print(%s)'",
		 options, phase, values);
	cr_assert_eq(run_on(dir, "", arguments), 0, "%s", printed);
	return printed;
}

#define SLICE "e[\"tid\"] - 2**22, e[\"name\"], e[\"ts\"], e[\"dur\"], a[\"tid\"]"
#define EVENT "e[\"pid\"], e[\"tid\"], e[\"name\"], e[\"ts\"], a"

Test(export_perfetto, cpus_have_slices_of_threads)
{
	make_trace();
	cr_expect_str_eq(phase("", "X", SLICE), "0 shop-20 2.0 3.0 20\n0 21 9.0 1.001 21\n", "%s",
			 printed);
	cr_expect_str_eq(phase("--tid 20", "X", SLICE), "0 shop-20 2.0 3.0 20\n", "%s", printed);
	cr_expect_str_eq(phase("--pid 7", "X", SLICE), "");
	sample_folder_remove(dir);
}

Test(export_perfetto, threads_have_spans_and_instants)
{
	make_trace();
	cr_expect_str_eq(phase("", "B", EVENT),
			 "20 20 db:query 3.5 {\x27sql\x27: \x27"
			 "a \"b\"\\n\x27}\n",
			 "%s", printed);
	cr_expect_str_eq(phase("", "E", EVENT), "20 20 db:query 10.001 {}\n", "%s", printed);
	cr_expect_str_eq(
		phase("", "i", EVENT),
		"20 21 switch:wake 4.0 {\x27on_cpu\x27: 3, \x27pid\x27: 20, \x27tid\x27: 21}\n"
		"4194304 4194304 events lost 8.0 {\x27"
		"events\x27: 4, \x27packets\x27: 0}\n",
		"%s", printed);
	cr_expect_str_eq(
		phase("", "M", "e[\"tid\"], e[\"name\"], a[\"name\"]"),
		"4194304 process_name CPUs\n20 process_name /bin/\"shop\"\n"
		"4194304 thread_name cpu0\n4194307 thread_name cpu3\n20 thread_name shop\n",
		"%s", printed);
	sample_folder_remove(dir);
}

enum { A_BEGIN, A_END, B_BEGIN, B_END };

static void begin_thread(uint32_t tid)
{
	sample.head = (struct wm_packet){
		.pid = 20, .tid = tid, .instance = tid, .comm = "crossing"
	};
	sample_begin(&sample, 0);
}

static void make_spans(void)
{
	static const struct {
		uint32_t id, us;
	} events[] = {
		{ A_BEGIN, 10 }, { B_BEGIN, 20 }, { A_END, 30 },
		{ B_END, 40 }, /* they cross */
		{ A_BEGIN, 50 }, { A_BEGIN, 51 }, { A_END, 52 },
		{ A_END, 54 },					   /* one in the other */
		{ B_END, 60 },					   /* of nothing */
		{ B_BEGIN, 70 }, { A_BEGIN, 71 }, { B_END, 72 },   /* the inner one never ends */
		{ B_BEGIN, 80 }, { B_END, 85 },	  { B_BEGIN, 90 }, /* nor does this one */
	};
	struct trace_process about = {
		.exe = "crossing", .hostname = "here", .pid = 20, .ticks_hz = 1000000000
	};

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, A_BEGIN, SAMPLE_TYPES(0), "bj\nx\na\na.c\n3\n");
	trace_event_add(writer, 0, A_END, SAMPLE_TYPES(0), "ej\nx\na\na.c\n4\n");
	/* a program's own, in spite of the name */
	trace_event_add(writer, 0, B_BEGIN, SAMPLE_TYPES(0), "bj\ntrail\nb\na.c\n5\n");
	trace_event_add(writer, 0, B_END, SAMPLE_TYPES(0), "ej\ntrail\nb\na.c\n6\n");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	begin_thread(20);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		sample_event(&sample, events[i].id, events[i].us * 1000, 0);
	put_packet(0);
	begin_thread(21);
	sample_event(&sample, B_BEGIN, 15000, 0);
	sample_event(&sample, B_END, 35000, 0);
	put_packet(0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

/* As a reader has them: an end is of the innermost slice of its track, or of that with its id. */
#define READ_SPANS                                                                                 \
	"export --format=perfetto %s | python3 -c 'import json,sys\n"                              \
	"tracks = {}\n"                                                                            \
	"for e in json.load(sys.stdin)[\"traceEvents\"]:\n"                                        \
	" track = tracks.setdefault((e[\"tid\"], e.get(\"id\", 0)), [])\n"                         \
	" if e[\"ph\"] in \"Bb\": track.append(e)\n"                                               \
	" if e[\"ph\"] in \"Ee\":\n"                                                               \
	"  of = track.pop()\n"                                                                     \
	"  print(e[\"tid\"], of[\"name\"], e[\"name\"], of[\"ts\"], e[\"ts\"])\n"                  \
	" if e[\"ph\"] == \"i\": print(e[\"tid\"], e[\"name\"], e[\"ts\"])\n"                      \
	"for t in tracks.values():\n"                                                              \
	" for e in t: print(e[\"tid\"], \"open\", e[\"name\"], e[\"ts\"])' | sort"

Test(export_perfetto, spans_that_cross_keep_their_own_ends)
{
	make_spans();
	cr_assert_eq(run_on(dir, "", READ_SPANS), 0, "%s", printed);
	cr_expect_str_eq(printed,
			 "20 open trail:b 90.0\n20 open x:a 71.0\n"
			 "20 trail:b 60.0\n"
			 "20 trail:b trail:b 20.0 40.0\n20 trail:b trail:b 70.0 72.0\n"
			 "20 trail:b trail:b 80.0 85.0\n"
			 "20 x:a x:a 10.0 30.0\n20 x:a x:a 50.0 54.0\n20 x:a x:a 51.0 52.0\n"
			 "21 trail:b trail:b 15.0 35.0\n",
			 "%s", printed);
	cr_expect_str_eq(phase("", "b", "e[\"name\"], e[\"ts\"]"), "trail:b 20.0\nx:a 71.0\n", "%s",
			 printed);
	sample_folder_remove(dir);
}

Test(export_perfetto, refuses_what_is_of_trails)
{
	make_trace();
	cr_expect_eq(run_on(dir, "", "export --format=perfetto --weight blocks %s"), 2);
	expect("--format=perfetto takes only -o, --tid and --pid");
	cr_expect_eq(run_on(dir, "", "export --format=perfetto %s >/dev/full"), 1);
	expect("No space left");
	cr_expect_eq(run_on(dir, "", "export --format=folded %s"), 1);
	cr_expect_eq(run_on("/dev", "", "export --format=perfetto %s"), 1);
	sample_folder_remove(dir);
}
