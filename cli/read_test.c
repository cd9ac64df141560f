/* SPDX-License-Identifier: MIT */
/*
 * waymark report and waymark dump as commands: what they print, what they return.
 */
#include "base/enumeration.h"
#include "cli/command_test.h"
#include "trace/facts.h"
#include "trace/index.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

static char dir[64];
static const char *thread_name = "shop";

static int run(const char *arguments)
{
	return run_on(dir, "", arguments);
}

static unsigned int lines(void)
{
	unsigned int count = 0;

	for (const char *at = printed; *at; at++)
		count += *at == '\n';
	return count;
}

/* Ten queries of 1 us, a second apart, on two threads of two processes; then a busy event. */
static void make_trace(uint64_t discarded)
{
	struct trace_process about = { .exe = "/bin/shop",
				       .hostname = "here",
				       .ticks_hz = 1000000000 };
	struct sample sample = { 0 };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	for (int process = 0; process < 2; process++) {
		about.pid = 10 + (uint32_t)process;
		cr_assert_eq(trace_process_add(writer, &about), process);
		trace_event_add(writer, process, 0, SAMPLE_TYPES(WM_TYPE_STR),
				"bj\ndb\nquery\na.c\n1\nsql");
		trace_event_add(writer, process, 1, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n2\n");
		trace_event_add(writer, process, 40, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	}
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	for (uint32_t thread = 0; thread < 2; thread++) {
		sample.head = (struct wm_packet){ .pid = 10 + thread, .tid = 20 + thread };
		strcpy(sample.head.comm, thread_name);
		sample_begin(&sample, 0);
		for (uint64_t i = 0; i < 5; i++) {
			sample_event(&sample, 0, (2 * i + thread) * 1000000000, 0);
			sample_string(&sample, "select");
			sample_event(&sample, 1, (2 * i + thread) * 1000000000 + 1000, 0);
		}
		cr_assert_eq(sample_write(&sample, writer, (int)thread), 0);
		sample_begin(&sample, sample.ticks);
		sample.head.discarded = discarded;
		sample_event(&sample, 40, sample.ticks + 1, 0);
		cr_assert_eq(sample_write(&sample, writer, (int)thread), 0);
	}
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

/* Cut the last bytes of a stream off. */
static void tear(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/10-20-0", dir);
	cr_assert_eq(truncate(path, 300), 0);
}

Test(report, tells_counts_losses_and_spans)
{
	make_trace(0);
	cr_assert_eq(run("report %s"), 0, "%s", printed);
	expect("Host         here\n");
	expect(" 10     0  /bin/shop\n");
	expect("Begin        2023-11-14 22:13:20.000000000\n");
	expect("Duration     9.00 s\n");
	expect("Threads      2\n");
	expect("db:query:begin     10         1.1  45.5%        2\n");
	expect("Losses       none\n");
	expect("db:query     10  10.0 us  10.0 us  1.00 us  1.00 us  1.00 us  1.00 us\n");
	expect("db:query  1.00 us  2.00 us     10  ########################################\n");
	sample_folder_remove(dir);
}

Test(report, is_never_silent_about_losses)
{
	make_trace(11);
	cr_assert_eq(run("report %s"), 0);
	expect("Losses       22 events discarded (50.00% of all), 0 packets missing\n");
	expect("shop     10   20      11        0\n");
	cr_assert_eq(run("report --json %s"), 0);
	expect("\"recorded\":22,\"discarded\":22,\"missing_packets\":0");
	cr_assert_eq(run("report --spans %s"), 0);
	expect("22 events lost, 0 packets missing: counts and times are too low\n");
	cr_assert_eq(run("report --spans --csv %s >/dev/null"), 0);
	expect("22 events lost, ");
	sample_folder_remove(dir);
}

/* A call of 300 years, as a damaged trace may have it. */
Test(report, span_of_centuries_is_in_the_last_row_of_the_histogram)
{
	const struct trace_process about = { .pid = 10, .exe = "x", .ticks_hz = 1000000000 };
	struct sample sample = { .head = { .pid = 10, .tid = 20 } };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(0), "bj\ndb\nquery\na.c\n1\n");
	trace_event_add(writer, 0, 1, SAMPLE_TYPES(0), "ej\ndb\nquery\na.c\n2\n");
	sample_begin(&sample, 0);
	sample_event(&sample, 0, 0, 1);
	sample_event(&sample, 1, 11000000000000000000u, 1);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	cr_assert_eq(run("report --json %s"), 0, "%s", printed);
	expect("\"from_ns\":5000000000000000000,\"to_ns\":10000000000000000000,\"count\":1}]");
	sample_folder_remove(dir);
}

/* C1 as a raw byte, and an override of the text's direction. */
Test(report, thread_name_is_escaped_for_terminals)
{
	thread_name = "s\x9b\u202ep";
	make_trace(11);
	cr_assert_eq(run("report %s"), 0);
	expect("s\\x9b\\xe2\\x80\\xaep   10   20      11        0\n");
	cr_assert_eq(run("dump %s"), 0);
	expect(" s??p-20 10 db:query:begin");
	sample_folder_remove(dir);
}

Test(report, counts_that_no_machine_reaches_are_called_so)
{
	make_trace(20000000000);
	cr_assert_eq(run("report %s"), 0);
	expect("Losses       40000000000 events discarded");
	expect("             no machine produces so many events in this time: a process has changed its counts\n");
	sample_folder_remove(dir);
	make_trace(11);
	cr_assert_eq(run("report %s"), 0);
	cr_assert(!strstr(printed, "no machine"), "%s", printed);
	sample_folder_remove(dir);
}

Test(report, filter_without_a_part_is_of_all_that_is_printed)
{
	make_trace(0);
	cr_assert_eq(run("report --tid 20 %s"), 0, "%s", printed);
	expect("db:query      5  5.00 us");
	expect_not("Host");
	cr_assert_eq(run("report --min 2us %s"), 1);
	expect("no such thing: spans, samples or sums of that length: ");
	cr_assert_eq(run("report --min 2us %s %s"), 2);
	cr_assert_eq(run("report --locks --tid 20 %s"), 2);
	expect("--locks and two traces have all");
	sample_folder_remove(dir);
}

Test(report, json_is_read_by_others)
{
	make_trace(0);
	cr_assert_eq(run("report --json %s | python3 -c 'import json,sys; t=json.load(sys.stdin); "
			 "print(t[\"span\"][0][\"p99_ns\"], len(t[\"event\"]))'"),
		     0);
	cr_assert_str_eq(printed, "1000 3\n", "%s", printed);
	sample_folder_remove(dir);
}

Test(report, says_what_is_damaged_and_repairs_it)
{
	make_trace(0);
	tear();
	cr_assert_eq(run("report %s"), 1);
	expect("the trace is damaged");
	expect("10-20-0, byte 248: cut in a packet's head; 52 bytes left out");
	expect("db:query:begin     10");
	expect("Losses       1 events discarded (4.55% of all), 0 packets missing\n");
	expect("waymark report --repair");
	cr_assert_eq(run("report --repair %s"), 0);
	expect("Repaired     1 streams\n");
	expect("Losses       1 events discarded (4.55% of all), 0 packets missing\n");
	sample_folder_remove(dir);
}

Test(report, facts_that_make_no_sense_are_not_repaired)
{
	static const unsigned char host[] = { EVENT_EXTENDED, FACT_HOST, 0, 0, 0 };
	char path[128], bytes[4096], *at;
	FILE *facts;
	size_t count;

	make_trace(0);
	snprintf(path, sizeof(path), "%s/" FACTS_FILE, dir);
	facts = fopen(path, "r+");
	cr_assert(facts);
	count = fread(bytes, 1, sizeof(bytes), facts);
	at = memmem(bytes, count, host, sizeof(host));
	cr_assert(at);
	fseek(facts, at + 1 - bytes, SEEK_SET);
	fputc(FACTS, facts);
	fclose(facts);
	cr_assert_eq(run("report %s"), 1);
	expect("an event that the facts lack");
	expect("what other readers need may be whole: read it with babeltrace2");
	cr_assert_not(strstr(printed, "--repair"));
	cr_assert_eq(run("report --repair %s"), 1);
	expect("this is no trace");
	sample_folder_remove(dir);
}

Test(report, refuses_what_it_cannot_use)
{
	cr_assert_eq(run("report"), 2);
	cr_assert_eq(run("report --nonsense x"), 2);
	expect("there is no option --nonsense");
	cr_assert_eq(run("report a b c"), 2);
	cr_assert_eq(run("report /dev"), 1);
	expect("this is no trace: /dev");
	cr_assert_eq(run("report /nowhere"), 1);
	expect("No such file");
	cr_assert_eq(run("report --help"), 0);
	expect("Usage: waymark report");
	make_trace(0);
	cr_assert_eq(run("report %s >/dev/full"), 1);
	sample_folder_remove(dir);
}

Test(report, stops_where_nobody_reads)
{
	make_trace(0);
	/* as where the shell has SIGPIPE ignored; the reader is gone before the report begins */
	run_on(dir, "trap '' PIPE; { while echo; do :; done 2>/dev/null;",
	       "report --repair %s; echo status $? >&2; } | :");
	expect("status 0\n");
	sample_folder_remove(dir);
}

/* As index_end() leaves it: the disk had no room for the last entries. */
Test(report, trace_without_room_for_its_end_was_not_killed)
{
	struct index_head head;
	char path[128];
	int fd;

	make_trace(0);
	snprintf(path, sizeof(path), "%s/%s", dir, INDEX_NAME);
	fd = open(path, O_RDWR);
	cr_assert_eq(pread(fd, &head, sizeof(head), 0), sizeof(head));
	head.is_ended = 0;
	head.packets--;
	head.write_error = ENOSPC;
	cr_assert_eq(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
	cr_assert_eq(ftruncate(fd,
			       (off_t)(sizeof(head) + head.packets * sizeof(struct index_packet))),
		     0);
	close(fd);
	run("report %s");
	expect("not all could be written: No space left on device");
	expect_not("was killed");
	sample_folder_remove(dir);
}

Test(dump, prints_events_in_order)
{
	make_trace(3);
	cr_assert_eq(run("dump %s"), 0, "%s", printed);
	cr_assert_eq(lines(), 24);
	expect("[22:13:20.000000000] (+?.?????????\x29 shop-20 10 db:query:begin: { sql = \"select\" }\n"
	       "[22:13:20.000001000] (+0.000001000) shop-20 10 db:query:end\n"
	       "[22:13:21.000000000] (+0.999999000) shop-21 11 db:query:begin: { sql = ");
	expect("shop-21 11 (3 events lost)\n");
	cr_assert_eq(run("dump --json %s | head -1"), 0);
	cr_assert_str_eq(printed,
			 "{\"time_ns\":1700000000000000000,\"pid\":10,\"tid\":20,\"comm\":\"shop\","
			 "\"name\":\"db:query:begin\",\"fields\":{\"sql\":\"select\"}}\n");
	sample_folder_remove(dir);
}

static void put_call(struct sample *sample, uint32_t id, uint64_t ns)
{
	sample_event(sample, id, 1000000000 + ns, 0);
}

/*
 * One thread: inner(text, 7) = -1 ENOENT within outer(), 1 us each; a call of outer() that ends
 * after `within` markers; one that ends, and whose begin is lost.
 */
static void make_calls(unsigned int within)
{
	struct trace_process about = { .pid = 10, .exe = "/bin/shop", .ticks_hz = 1000000000 };
	struct enumeration_draft draft = { .type = WM_TYPE_I32 };
	struct enumeration_pool pool = { 0 };
	const struct enumeration *names[16] = { 0 };
	struct sample sample = { .head = { .pid = 10, .tid = 20, .comm = "shop" } };
	struct trace_writer *writer;

	enumeration_draft_add(&draft, 2, "ENOENT");
	names[1] = enumeration_pool_make(&pool, &draft);
	enumeration_draft_release(&draft);
	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(0), "bd\nlib\nouter\n\n0\n");
	trace_event_add(writer, 0, 1, SAMPLE_TYPES(0), "ed\nlib\nouter\n\n0\n");
	trace_event_add(writer, 0, 2, SAMPLE_TYPES(WM_TYPE_STR, WM_TYPE_PTR),
			"bd\nlib\ninner\n\n0\nname, at");
	trace_event_add_named(writer, 0, 3, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
			      "ed\nlib\ninner\n\n0\nret, errno", names);
	trace_event_add(writer, 0, 4, SAMPLE_TYPES(0), "mj\nshop\nmark\na.c\n3\n");
	trace_event_add(writer, 0, 5, SAMPLE_TYPES(0), "bj\nshop\nspan\na.c\n3\n");
	trace_event_add(writer, 0, 6, SAMPLE_TYPES(0), "ej\nshop\nspan\na.c\n3\n");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	sample_begin(&sample, 0);
	put_call(&sample, 0, 0);
	put_call(&sample, 2, 1000);
	sample_string(&sample, "x");
	sample_u64(&sample, 7);
	put_call(&sample, 3, 2000);
	sample_u32(&sample, UINT32_MAX);
	sample_u32(&sample, 2);
	put_call(&sample, 1, 3000);
	put_call(&sample, 5, 3500);
	put_call(&sample, 6, 3600);
	put_call(&sample, 0, 4000);
	for (unsigned int i = 0; i < within; i++)
		put_call(&sample, 4, 4000);
	put_call(&sample, 1, 5000);
	put_call(&sample, 1, 6000);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	enumeration_pool_release(&pool);
}

Test(dump, call_is_one_line_at_its_begin)
{
	make_calls(1);
	cr_assert_eq(run("dump %s | sed 's/^.*shop-20 10 //'"), 0);
	cr_assert_str_eq(printed,
			 "lib:outer() <0.000003000>\n"
			 "lib:inner(\"x\", 0x7) = -1 ENOENT <0.000001000>\n"
			 "shop:span:begin\nshop:span:end\n"
			 "lib:outer() <0.000001000>\nshop:mark\n<... lib:outer resumed>\n",
			 "%s", printed);
	cr_assert_eq(run("dump --spans %s | sed 's/^.*shop-20 10 //'"), 0);
	expect("\nshop:span() <0.000000100>\n");
	cr_assert_eq(run("dump --no-spans %s | sed 's/^.*shop-20 10 //'"), 0);
	expect("lib:outer:begin\nlib:inner:begin: { name = \"x\", at = 0x7 }\n"
	       "lib:inner:end: { ret = -1, errno = ENOENT }\nlib:outer:end\n");
	/* half of a pair is no call */
	cr_assert_eq(run("dump --event '*:end' %s | sed 's/^.*shop-20 10 //'"), 0);
	expect("lib:inner:end: { ret = -1, errno = ENOENT }\nlib:outer:end\n");
	cr_assert_eq(run("dump --event lib:inner:* %s | sed 's/^.*shop-20 10 //'"), 0);
	cr_assert_str_eq(printed, "lib:inner(\"x\", 0x7) = -1 ENOENT <0.000001000>\n");
	cr_assert_eq(run("dump --limit 2 %s | sed 's/^.*shop-20 10 //'"), 0);
	cr_assert_str_eq(printed, "lib:outer() <unfinished ...>\n"
				  "lib:inner(\"x\", 0x7) <unfinished ...>\n");
	cr_assert_eq(run("dump --json %s | grep -c '\"name\":\"lib:outer:'"), 0);
	cr_assert_str_eq(printed, "5\n");
	sample_folder_remove(dir);
}

Test(dump, call_of_many_events_is_two_lines)
{
	make_calls(5000);
	cr_assert_eq(run("dump %s | sed 's/^.*shop-20 10 //' | uniq -c | sed 's/^ *//'"), 0);
	expect("1 lib:outer() <unfinished ...>\n5000 shop:mark\n"
	       "1 <... lib:outer resumed> <0.000001000>\n1 <... lib:outer resumed>\n");
	sample_folder_remove(dir);
}

Test(dump, shows_only_what_was_asked_for)
{
	make_trace(0);
	cr_assert_eq(run("dump --event 'db:*:end' %s"), 0);
	cr_assert_eq(lines(), 10);
	cr_assert_eq(run("dump --limit 3 %s"), 0);
	cr_assert_eq(lines(), 3);
	cr_assert_eq(run("dump --limit 0 %s"), 0);
	cr_assert_eq(lines(), 0);
	cr_assert_eq(run("dump --tid 21 %s"), 0);
	cr_assert_eq(lines(), 11);
	cr_assert_eq(run("dump --pid 10 --event db:busy %s"), 0);
	cr_assert_eq(lines(), 1);
	cr_assert_eq(run("dump --from 2 --to 3.000001 %s"), 0);
	cr_assert_eq(lines(), 4, "%s", printed);
	cr_assert_eq(run("dump --from 3.0000005 --to 3.5 %s"), 0);
	cr_assert_eq(lines(), 1, "%s", printed);
	sample_folder_remove(dir);
}

/* Threads 20 and 30 on CPUs 0 and 3, an event each second, and one event of a program. */
static void make_kernel_trace(void)
{
	struct trace_process about = { .exe = "kernel",
				       .hostname = "here",
				       .ticks_hz = 1000000000 };
	struct sample sample = { 0 };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32),
			"mj\nswitch\narrive\nkernel\n0\npid, tid");
	about.pid = 20;
	cr_assert_eq(trace_process_add(writer, &about), 1);
	trace_event_add(writer, 1, 0, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	for (uint32_t cpu = 0; cpu < 4; cpu += 3) {
		sample.head = (struct wm_packet){ .tid = cpu, .instance = cpu };
		snprintf(sample.head.comm, sizeof(sample.head.comm), "cpu%u", cpu);
		sample_begin(&sample, 0);
		for (uint32_t second = cpu == 0; second < 8; second += 2) {
			sample_event(&sample, 0, second * 1000000000ull, 0);
			sample_u32(&sample, 20 + second / 4 * 10);
			sample_u32(&sample, 20 + second / 4 * 10);
		}
		sample.head.discarded = cpu;
		cr_assert_eq(sample_write(&sample, writer, 0), 0);
	}
	sample.head = (struct wm_packet){ .pid = 20, .tid = 20, .comm = "shop" };
	sample_begin(&sample, 1);
	sample_event(&sample, 0, 1, 0);
	cr_assert_eq(sample_write(&sample, writer, 1), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

Test(dump, orders_events_of_the_kernel)
{
	make_kernel_trace();
	cr_assert_eq(run("dump %s | cut -d' ' -f3-6"), 0);
	cr_assert_str_eq(printed,
			 "cpu3-0 0 [3] (3\n"
			 "shop-20 20 [3] switch:arrive:\n"
			 "shop-20 20 db:busy\n"
			 "shop-20 20 [0] switch:arrive:\n"
			 "shop-20 20 [3] switch:arrive:\n"
			 "shop-20 20 [0] switch:arrive:\n"
			 "?-30 30 [3] switch:arrive:\n"
			 "?-30 30 [0] switch:arrive:\n"
			 "?-30 30 [3] switch:arrive:\n"
			 "?-30 30 [0] switch:arrive:\n",
			 "%s", printed);
	cr_assert_eq(run("dump --json --order cpu %s | python3 -c 'import json,sys\n"
			 "for e in map(json.loads, sys.stdin): print(e.get(\"cpu\"), "
			 "e[\"time_ns\"] // 10**9 - 1700000000)' | paste -sd,"),
		     0);
	cr_assert_str_eq(printed, "0 1,0 3,0 5,0 7,3 0,3 0,3 2,3 4,3 6,None 0\n", "%s", printed);
	cr_assert_eq(run("dump --json --order thread %s | python3 -c 'import json,sys\n"
			 "for e in map(json.loads, sys.stdin): print(e[\"tid\"], e.get(\"cpu\"))'"
			 " | paste -sd,"),
		     0);
	cr_assert_str_eq(printed, "0 3,20 3,20 None,20 0,20 3,20 0,30 3,30 0,30 3,30 0\n", "%s",
			 printed);
	cr_assert_eq(run("dump --order thread --limit 2 %s"), 0);
	cr_assert_eq(lines(), 3);
	cr_assert_eq(run("dump --order time %s"), 0);
	cr_assert_eq(lines(), 10);
	sample_folder_remove(dir);
}

Test(dump, takes_cpus_and_threads_of_the_kernel)
{
	make_kernel_trace();
	cr_assert_eq(run("dump --cpu 0,2 %s"), 0);
	cr_assert_eq(lines(), 4);
	cr_assert_eq(run("dump --cpu 1-3 --tid 30 %s"), 0);
	cr_assert_eq(lines(), 3, "%s", printed); /* with what CPU 3 lost */
	cr_assert_eq(run("dump --pid 20 %s"), 0);
	cr_assert_eq(lines(), 6, "%s", printed);
	cr_assert_eq(run("dump --cpu 7 %s"), 0);
	cr_assert_eq(lines(), 0);
	cr_assert_eq(run("report %s"), 0);
	expect("  0     0  kernel\n");
	expect("Threads      2\n");
	expect("switch:arrive      8         1.1  88.9%        2\n");
	expect("cpu3         3        0\n");
	cr_assert_eq(run("report --json %s"), 0);
	expect("{\"name\":\"switch:arrive\",\"count\":8,\"per_second\":1.14");
	sample_folder_remove(dir);
}

/* A count of all, one that took turns, one that never counted; two throttlings; a thread's name. */
static void make_counted_trace(void)
{
	struct trace_process about = { .exe = "kernel",
				       .hostname = "here",
				       .ticks_hz = 1000000000 };
	struct sample sample = { .head = { .tid = UINT32_MAX, .comm = "cpus" } };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	for (uint32_t id = 0; id < 3; id++) {
		static const char *const names[] = { "page-faults", "task-clock:u", "cycles" };
		char text[128];

		snprintf(text, sizeof(text),
			 "mj\ncount\n%s\nkernel\n0\npid, tid, count, enabled_ns, running_ns",
			 names[id]);
		trace_event_add(writer, 0, id,
				SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_U64, WM_TYPE_U64,
					     WM_TYPE_U64),
				text);
	}
	trace_event_add(writer, 0, 3, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR),
			"mj\nkernel\nthrottled\nkernel\n0\npid, tid, event");
	trace_event_add(writer, 0, 4, SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_STR),
			"mj\ntask\nname\nkernel\n0\npid, tid, name");
	sample_begin(&sample, 0);
	for (uint32_t second = 1; second <= 2; second++)
		for (uint32_t id = 0; id < 5; id++) {
			sample_event(&sample, id, second * 1000000000ull, 0);
			sample_u32(&sample, id == 1 ? 20 : 0);
			sample_u32(&sample, 0);
			if (id >= 3) {
				sample_string(&sample, id == 3 ? "cpu-clock" : "worker");
				continue;
			}
			sample_u64(&sample, id == 2 ? 0 : second * 1000000);
			sample_u64(&sample, second * 1000);
			sample_u64(&sample, id == 0 ? second * 1000 : id == 1 ? second * 250 : 0);
		}
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

Test(report, shows_counts_and_when_the_kernel_did_not_count)
{
	make_counted_trace();
	cr_assert_eq(run("report %s"), 0);
	expect("COUNT           COUNT  PID  COUNTED\n"
	       "page-faults   2000000    -   100.0%\n"
	       "task-clock:u  8.00 ms   20    25.0%\n"
	       "cycles              -    -     0.0%\n");
	expect("Losses       0 events discarded (0.00% of all), 0 packets missing\n"
	       "             task-clock:u: counters took turns; its count is scaled\n"
	       "             cycles: counters took turns; its count is scaled\n");
	expect("THROTTLED  TIMES\n"
	       "cpu-clock      2\n");
	expect("task:name               2         1.0  20.0%        0\n");
	cr_assert_eq(run("report --json %s"), 0);
	expect("\"count\":[{\"name\":\"page-faults\",\"count\":2000000,\"unit\":null,\"pid\":null,"
	       "\"enabled_ns\":2000,\"running_ns\":2000,\"scaled\":false},"
	       "{\"name\":\"task-clock:u\",\"count\":8000000,\"unit\":\"ns\",\"pid\":20,"
	       "\"enabled_ns\":2000,\"running_ns\":500,\"scaled\":true},"
	       "{\"name\":\"cycles\",\"count\":null,");
	expect("\"throttled\":[{\"name\":\"cpu-clock\",\"times\":2}]");
	expect("{\"name\":\"task:name\",\"count\":2,");
	sample_folder_remove(dir);
}

Test(dump, prints_what_stands_before_the_damage)
{
	make_trace(0);
	tear();
	cr_assert_eq(run("dump %s"), 1);
	expect("shop-21 11 db:busy");
	expect("10-20-0, byte 248: cut in a packet");
	sample_folder_remove(dir);
}

Test(dump, refuses_what_it_cannot_use)
{
	cr_assert_eq(run("dump"), 2);
	cr_assert_eq(run("dump --tid no x"), 2);
	cr_assert_eq(run("dump --from -1 x"), 2);
	cr_assert_eq(run("dump --limit"), 2);
	cr_assert_eq(run("dump --order size x"), 2);
	expect("--order takes time, cpu or thread, not size");
	cr_assert_eq(run("dump --cpu 3-1 x"), 2);
	expect("--cpu takes numbers, such as 0-3,8, not 3-1");
	cr_assert_eq(run("dump /dev"), 1);
	cr_assert_eq(run("dump --help"), 0);
	make_trace(0);
	cr_assert_eq(run("dump %s >/dev/full"), 1);
	expect("No space left");
	sample_folder_remove(dir);
}
