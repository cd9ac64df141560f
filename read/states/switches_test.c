/* SPDX-License-Identifier: MIT */
/* Switches and markers of one trace, whose clocks differ. */
#include "read/states/switches.h"
#include "read/states/waits.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <string.h>

#define BASE_NS 1700000000000000000u
#define PLACE 0x401234
#define PID 10
#define TID 11
#define CHILD 20

enum { DEPART, ARRIVE, WAKE, RUNNABLE, LOST, OTHER, CLASSES };
enum { QUERY_BEGIN, QUERY_END, STEP_BEGIN, STEP_END, POINT };

static char dir[64];
static struct trace_writer *writer;
static struct sample cpus[2], own;
static struct trace_reader *reader;
static struct summary *summary;
static struct switches switches;
static struct waits waits;

static const struct {
	uint8_t types[16];
	const char *text;
} classes[CLASSES] = {
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_BOOL, WM_TYPE_CHAR, WM_TYPE_PTR },
	  "mj\nswitch\ndepart\nkernel\n0\npid, tid, is_preempted, state, place" },
	{ { WM_TYPE_I32, WM_TYPE_I32 }, "mj\nswitch\narrive\nkernel\n0\npid, tid" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_I32 },
	  "mj\nswitch\nwake\nkernel\n0\npid, tid, waker_pid, waker_tid" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64 },
	  "mj\nswitch\nrunnable\nkernel\n0\npid, tid, wait_ns" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64 },
	  "mj\nkernel\nlost\nkernel\n0\npid, tid, count" },
	{ { WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR }, "mj\nsched\nother\nkernel\n0\npid, tid, s" },
};

/* The kernel's clock counts nanoseconds; the process's, two ticks for each, from 1000 on. */
static uint64_t ticks(uint64_t ns)
{
	return 1000 + 2 * ns;
}

static void begin_stream(struct sample *sample, const struct wm_packet *head, uint64_t at)
{
	sample->head = *head;
	sample->head.discarded = 0;
	sample_begin(sample, at);
}

static void begin_trace(void)
{
	const struct trace_process about = {
		.pid = PID, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	const struct trace_process kernel = { .exe = "kernel", .ticks_hz = 1000000000 };

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(trace_process_add(writer, &kernel), 1);
	trace_event_add(writer, 0, QUERY_BEGIN, SAMPLE_TYPES(0), "bj\ndb\nquery\na.c\n1\n");
	trace_event_add(writer, 0, QUERY_END, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n2\n");
	trace_event_add(writer, 0, STEP_BEGIN, SAMPLE_TYPES(0), "bj\ndb\nquery2\na.c\n1\n");
	trace_event_add(writer, 0, STEP_END, SAMPLE_TYPES(0), "ej\ndb\nquery2\na.c\n2\n");
	trace_event_add(writer, 0, POINT, SAMPLE_TYPES(0), "mj\ndb\npoint\na.c\n3\n");
	for (uint32_t i = 0; i < CLASSES; i++)
		cr_assert_eq(trace_event_add(writer, 1, i, classes[i].types, classes[i].text), 0);
	trace_clock_set(writer, 1000000000, 0, BASE_NS);
	trace_clock_set(writer, 2000000000, 1000, BASE_NS);
	begin_stream(&cpus[0], &(struct wm_packet){ .instance = 1, .comm = "cpu0" }, 100);
	begin_stream(&cpus[1], &(struct wm_packet){ .tid = 1, .instance = 2, .comm = "cpu1" }, 100);
	begin_stream(&own,
		     &(struct wm_packet){ .pid = PID, .tid = TID, .instance = 3, .comm = "worker" },
		     ticks(110));
}

static void put(int cpu, uint32_t id, uint64_t ns, uint32_t pid, uint32_t tid)
{
	sample_event(&cpus[cpu], id, ns, 0);
	sample_u32(&cpus[cpu], pid);
	sample_u32(&cpus[cpu], tid);
}

static void arrive(int cpu, uint64_t ns, uint32_t pid, uint32_t tid)
{
	put(cpu, ARRIVE, ns, pid, tid);
}

static void depart(int cpu, uint64_t ns, uint32_t pid, uint32_t tid, const char *how)
{
	put(cpu, DEPART, ns, pid, tid);
	sample_u8(&cpus[cpu], *how == 'R');
	sample_put(&cpus[cpu], how, 1);
	sample_u64(&cpus[cpu], PLACE);
}

static void wake(int cpu, uint64_t ns, uint32_t waker)
{
	put(cpu, WAKE, ns, PID, TID);
	sample_u32(&cpus[cpu], PID);
	sample_u32(&cpus[cpu], waker);
}

static void mark(uint32_t id, uint64_t ns)
{
	sample_event(&own, id, ticks(ns), 0);
}

static void end_packet(struct sample *sample, int process)
{
	cr_assert_eq(sample_write(sample, writer, process), 0);
	sample_begin(sample, sample->ticks);
}

static int wait_take(const struct thread_off *off, void *data)
{
	return waits_add(data, off);
}

static int read_switches(void)
{
	struct pass_observer *observer = &switches.observer;
	int err = switches_open(&switches, reader, summary);

	switches.states.take_off = wait_take;
	switches.states.take_data = &waits;
	if (!err)
		err = pass_read(reader, &observer, 1);
	return err ? err : switches_finish(&switches);
}

static void read_trace(void)
{
	struct trace_reader *summed;

	end_packet(&cpus[0], 1);
	end_packet(&cpus[1], 1);
	end_packet(&own, 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&summed, dir), 0);
	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	cr_assert_eq(summary_make(&summary, summed), 0);
	trace_reader_close(summed);
	cr_assert(switches_has(reader));
	cr_assert_eq(read_switches(), 0);
	cr_assert_eq(reader->damages_ever, 0);
}

static void end_trace(void)
{
	switches_release(&switches);
	waits_release(&waits);
	summary_free(summary);
	trace_reader_close(reader);
	for (int i = 0; i < 2; i++)
		sample_release(&cpus[i]);
	sample_release(&own);
	sample_folder_remove(dir);
}

static void expect_times(const uint64_t ns[THREAD_TIMES], uint64_t running, uint64_t runnable,
			 uint64_t asleep, uint64_t unknown)
{
	cr_expect_eq(ns[THREAD_TIME_RUNNING], running, "running %lu", ns[THREAD_TIME_RUNNING]);
	cr_expect_eq(ns[THREAD_TIME_RUNNABLE], runnable, "runnable %lu", ns[THREAD_TIME_RUNNABLE]);
	cr_expect_eq(ns[THREAD_TIME_ASLEEP], asleep, "asleep %lu", ns[THREAD_TIME_ASLEEP]);
	cr_expect_eq(ns[THREAD_TIME_WAITING], 0, "waiting %lu", ns[THREAD_TIME_WAITING]);
	cr_expect_eq(ns[THREAD_TIME_UNKNOWN], unknown, "unknown %lu", ns[THREAD_TIME_UNKNOWN]);
}

static const struct thread_record *thread(uint32_t tid)
{
	for (size_t i = 0; i < switches.states.count; i++)
		if (switches.states.threads[i].tid == tid)
			return &switches.states.threads[i];
	cr_assert_fail("no thread %u", tid);
	return NULL;
}

static const struct switch_span *span(const char *name)
{
	for (uint32_t i = 0; i < summary->span_count; i++)
		if (!strcmp(summary->spans[i].name, name))
			return &switches.spans[i];
	cr_assert_fail("no span %s", name);
	return NULL;
}

/* It waits on CPU 0 from 200 to 300, arrives on CPU 1 at 320, is preempted from 400 to 430. */
static void put_switches(void)
{
	arrive(0, 100, PID, TID);
	depart(0, 200, PID, TID, "S");
	arrive(0, 201, PID, CHILD);
	wake(0, 300, CHILD);
	arrive(1, 320, PID, TID);
	depart(1, 400, PID, TID, "R");
	arrive(1, 430, PID, TID);
}

Test(switches, threads_and_spans_have_their_times)
{
	begin_trace();
	put_switches();
	mark(QUERY_BEGIN, 150);
	mark(STEP_BEGIN, 170);
	mark(QUERY_BEGIN, 180); /* within the first one */
	mark(QUERY_END, 325);
	mark(QUERY_END, 440); /* they cross */
	mark(STEP_END, 450);
	read_trace();
	expect_times(thread(TID)->ns, 100 + 80 + 20, 20 + 30, 100, 0);
	expect_times(span("db:query")->ns, 20 + 5 + 50 + 80 + 10, 20 + 20 + 30, 200, 0);
	expect_times(span("db:query2")->ns, 30 + 80 + 20, 20 + 30, 100, 0);
	cr_expect_eq(span("db:query")->count, 2);
	cr_assert_eq(waits.count, 2, "asleep and preempted");
	cr_expect_eq(waits.all[0].waker_tid, CHILD);
	cr_expect_eq(waits.all[0].waker_pid, PID);
	cr_expect_eq(waits.all[0].place, PLACE);
	cr_expect_eq(waits.all[0].image, 0, "the process's number");
	cr_expect_eq(waits.all[0].off_ns, 120);
	cr_expect_eq(waits.all[1].as, THREAD_LETTER_COUNT);
	end_trace();
}

Test(switches, spans_across_losses_of_markers_are_left_out)
{
	begin_trace();
	put_switches();
	mark(QUERY_BEGIN, 150);
	end_packet(&own, 0);
	own.head.discarded = 2;
	mark(QUERY_BEGIN, 410);
	mark(QUERY_END, 440);
	mark(QUERY_END, 450);
	read_trace();
	cr_expect_eq(span("db:query")->count, 1);
	expect_times(span("db:query")->ns, 10, 20, 0, 0);
	end_trace();
}

Test(switches, spans_across_losses_before_another_event_are_left_out)
{
	begin_trace();
	put_switches();
	mark(QUERY_BEGIN, 150);
	end_packet(&own, 0);
	own.head.discarded = 2;
	mark(POINT, 405);
	mark(QUERY_END, 440);
	read_trace();
	cr_expect_eq(span("db:query")->count, 0);
	end_trace();
}

Test(switches, lost_records_make_times_unknown_and_uncertain)
{
	struct sample apart = { 0 };

	begin_trace();
	put_switches();
	/* another stream of CPU 1, which lost nothing */
	begin_stream(&apart, &(struct wm_packet){ .tid = 1, .instance = 4, .comm = "cpu1" }, 100);
	sample_event(&apart, WAKE, 490, 0);
	for (uint32_t i = 0; i < 4; i++)
		sample_u32(&apart, i % 2 ? CHILD : PID);
	end_packet(&apart, 1);
	sample_release(&apart);
	put(1, LOST, 500, 0, 0);
	sample_u64(&cpus[1], 5);
	end_packet(&cpus[1], 1);
	cpus[1].head.discarded = 5 + 3; /* those 5 once more */
	cpus[1].head.seq++;		/* one is missing */
	depart(1, 600, PID, TID, "S");
	mark(STEP_BEGIN, 420);
	mark(STEP_END, 470);
	read_trace();
	expect_times(thread(TID)->ns, 180, 50, 100, 170);
	cr_expect_eq(thread(TID)->lost_events, 5 + 3 + 1);
	cr_expect_eq(thread(CHILD)->lost_events, 9);
	end_trace();
}

Test(switches, a_thread_that_is_first_seen_beside_a_loss_did_not_run_since_the_begin)
{
	begin_trace();
	arrive(1, 100, PID, CHILD);
	depart(1, 110, PID, CHILD, "S");
	mark(STEP_BEGIN, 400); /* its arrival is lost; the record that says so comes later */
	put(1, LOST, 500, 0, 0);
	sample_u64(&cpus[1], 5);
	arrive(1, 600, PID, TID);
	depart(1, 700, PID, TID, "S");
	mark(STEP_END, 650);
	read_trace();
	expect_times(thread(TID)->ns, 100, 0, 0, 200);
	cr_expect_eq(thread(TID)->lost_events, 5);
	end_trace();
}

Test(switches, where_wakes_alone_are_lost_states_are_known)
{
	struct sample wakes = { 0 };

	begin_trace();
	put_switches();
	begin_stream(&wakes, &(struct wm_packet){ .tid = 1, .instance = 4, .comm = "cpu1 wakes" },
		     100);
	sample_event(&wakes, LOST, 410, 0);
	sample_u32(&wakes, 0);
	sample_u32(&wakes, 0);
	sample_u64(&wakes, 5);
	end_packet(&wakes, 1);
	wakes.head.discarded = 5 + 2;
	end_packet(&wakes, 1);
	sample_release(&wakes);
	depart(1, 550, PID, TID + 1, "R");
	read_trace();
	expect_times(thread(TID)->ns, 100 + 80 + 120, 20 + 30, 100, 0);
	expect_times(thread(TID + 1)->ns, 450, 0, 0, 0);
	cr_expect_eq(thread(TID)->lost_events, 5 + 2);
	end_trace();
}

Test(switches, other_events_and_other_fields_are_no_switches)
{
	begin_trace();
	put_switches();
	put(1, OTHER, 440, PID, TID);
	sample_string(&cpus[1], "x");
	trace_event_add(writer, 1, 50, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR),
			"mj\nswitch\ndepart\nkernel\n0\npid, tid, s");
	put(1, 50, 450, PID, TID);
	sample_string(&cpus[1], "x");
	put(1, RUNNABLE, 455, PID, TID);
	sample_u64(&cpus[1], 77);
	put(1, LOST, 460, 0, 0);
	sample_u64(&cpus[1], 1);
	read_trace();
	expect_times(thread(TID)->ns, 205, 50, 100, 5);
	cr_expect_eq(thread(TID)->switches, 2);
	end_trace();
}

Test(switches, what_departs_first_ran_since_the_first_cpus_begin)
{
	begin_trace();
	put_switches();
	depart(1, 550, PID, TID + 1, "R");
	read_trace();
	expect_times(thread(TID + 1)->ns, 450, 0, 0, 0);
	cr_expect_eq(thread(TID + 1)->begin_ns, BASE_NS + 100);
	cr_expect_eq(thread(TID + 1)->end_ns, BASE_NS + 550);
	end_trace();
}
