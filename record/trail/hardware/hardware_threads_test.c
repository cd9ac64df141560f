/* SPDX-License-Identifier: MIT */
/* Threads that hardware records, their buffers, and what goes wrong. */
#include "base/testing/await.h"
#include "record/trail/hardware/weave.h"
#include "record/trail/testing/hardware_fixture.h"
#include "record/trail/trace_sink.h"
#include "target/process/target.h"
#include "target/process/testing/subject.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(hardware_threads, .init = fixture_begin, .fini = fixture_end, .timeout = 120);

/* ---- threads, and what goes wrong ---- */

static struct trace_reader *reader;
static struct trails trails;
static char folder[64];

/* The threads' trails, in a trace. */
static void threads_of(enum origin origin, char *const argv[])
{
	struct trace_writer *writer;
	struct trail_files files;
	struct tracing *hardware;
	int err;

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	err = launch_into(&hardware, &files.sink, origin, argv);
	cr_assert_eq(err, 0, "%s", detail);
	while ((err = tracing_hardware.run(hardware, 1000)) > 0)
		;
	cr_assert_eq(err, 0);
	tracing_hardware.result(hardware, &result, detail);
	cr_assert_eq(hardware_close(hardware), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
}

static int events(enum trail_event kind)
{
	int found = 0;

	for (size_t i = 0; i < trails.path_count; i++) {
		struct trail_cursor cursor = { .path = &trails.paths[i] };
		struct trail_item item;

		while (trail_next(&cursor, &item))
			found += item.between && item.between->event == kind;
	}
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
	return found;
}

Test(hardware_threads, misses_no_thread)
{
	char *argv[] = { THREADS, (char *)"again", NULL };

	threads_of(ORIGIN_BTS, argv);
	cr_expect(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 5, "%#x",
		  (unsigned int)result.status);
	cr_expect_eq(perf.opened, 1 + 2 * 3);
	cr_expect_eq(perf.mapped, perf.unmapped);
	cr_expect_eq(trails.path_count, 1 + 2 * 3);
	cr_expect_eq(trails.paths[0].origin, TRAIL_BTS);
	cr_expect_eq(events(TRAIL_END), 1 + 2 * 3);
}

Test(hardware_threads, tells_another_program_from_the_first)
{
	char *argv[] = { THREADS, (char *)"again", NULL };

	threads_of(ORIGIN_PT, argv);
	cr_expect_eq(events(TRAIL_EXEC), 1);
}

Test(hardware_threads, says_which_threads_it_had_no_buffer_for)
{
	char *argv[] = { THREADS, NULL };

	perf.refuses_open = -EMFILE;
	threads_of(ORIGIN_BTS, argv);
	cr_expect(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 5);
	cr_expect(strstr(detail, "is not recorded: ") != NULL, "%s", detail);
	cr_expect_eq(trails.path_count, 1 + 3);
	cr_expect_eq(events(TRAIL_GAP), 3);
}

Test(hardware_threads, says_why_it_can_not_be_had)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	perf.refuses_map = -EPERM;
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_MEMORY_LIMIT);
	perf.refuses_map = 0;
	argv[0] = (char *)"/nonexistent/program";
	cr_expect_eq(launch(ORIGIN_PT, argv), -ENOENT);
	put("/proc/sys/kernel/perf_event_paranoid", "3\n");
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_PERF_DENIED);
	cr_expect_str_eq(detail, "kernel.perf_event_paranoid is 3, and at most 2 is needed");
	cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "no thread is left");
}

static int attach_by(enum origin origin, struct tracing **hardware, pid_t pid, pid_t only)
{
	how.origin = origin;
	return tracing_hardware.attach(hardware, &sink.sink, &how, pid, only, detail);
}

Test(hardware_threads, lets_a_process_go_as_it_was)
{
	struct tracing *hardware;
	struct subject subject;
	int err;

	subject_start(&subject, "waits", "poll");
	for (int i = 0; i < 5; i++) {
		sample_sink_release(&sink);
		sample_sink_init(&sink);
		err = attach_by(ORIGIN_BTS, &hardware, subject.pid, 0);
		cr_assert_eq(err, 0, "%d %s: %s", i, strerror(-err), detail);
		cr_assert_eq(tracing_hardware.run(hardware, 50), 1);
		cr_assert_eq(hardware_close(hardware), 0);
		subject_goes_on(&subject);
		is_over(TRAIL_DETACHED, 0);
	}
	subject_end(&subject);
	cr_expect_eq(attach_by(ORIGIN_BTS, &hardware, subject.pid, 0), -ESRCH);
}

/* ---- memory, and what the kernel stops for ---- */

static void buffer_is(enum origin origin, size_t bytes, const char *words)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	perf.most_bytes = bytes;
	cr_assert_eq(launch(origin, argv), 0, "%s", detail);
	cr_expect(strstr(detail, words) != NULL, "%s", detail);
	cr_expect_eq(perf.mapped, perf.unmapped);
}

Test(hardware_threads, takes_as_much_memory_as_there_is)
{
	buffer_is(ORIGIN_PT, 70000, "a buffer of 64 KiB instead of 4096: raise kernel.perf_event");
}

Test(hardware_threads, takes_no_buffer_that_is_of_no_use)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	perf.most_bytes = BUFFER_MIN - 1;
	cr_expect_eq(launch(ORIGIN_PT, argv), -WM_E_MEMORY_LIMIT);
	cr_expect_eq(perf.mapped, perf.unmapped);
}

/* It is disabled there, and would record no more: perf_aux_output_end() of the kernel. */
Test(hardware_threads, goes_on_where_the_area_was_full)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, 5 * BTS_RECORD_BYTES, 0);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(perf.disabled, 0);
	cr_expect_eq(perf.enabled, 2, "at the beginning, and when there was room again");
}

Test(hardware_threads, begins_anew_what_was_stopped)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, 5 * BTS_RECORD_BYTES, PERF_AUX_FLAG_TRUNCATED);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(perf.disabled, 1);
	cr_expect_eq(perf.enabled, 2);
}

/* ---- code that changes ---- */

static void area_at(uint64_t offset, uint64_t bytes, uint64_t time)
{
	record(PERF_RECORD_AUX, 0, (uint64_t[]){ offset, bytes, 0, 0, time }, 40);
}

/* Another file comes to lie over all of the program's code, or seems to. */
static void mapped_over(uint64_t time)
{
	struct {
		uint32_t pid, tid;
		uint64_t start, bytes, offset;
		uint32_t major, minor;
		uint64_t inode, generation;
		uint32_t prot, flags;
		char path[sizeof(THREADS) + 8 - sizeof(THREADS) % 8];
		uint64_t id, time;
	} body = { .start = 0x400000,
		   .bytes = 0x100000,
		   .prot = PROT_READ | PROT_EXEC,
		   .path = THREADS,
		   .time = time };
	struct stat about;

	cr_assert_eq(stat(THREADS, &about), 0);
	body.major = major(about.st_dev);
	body.minor = minor(about.st_dev);
	body.inode = about.st_ino;
	record(PERF_RECORD_MMAP2, 0, &body, sizeof(body));
}

Test(hardware_threads, reads_code_that_lay_there_when_it_ran)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	mapped_over(700);
	area_at(0, perf.area_bytes, 600);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	is_the_same(0);
}

Test(hardware_threads, says_lost_where_code_was_replaced_meanwhile)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };
	uint64_t half;

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	half = perf.area_bytes / BTS_RECORD_BYTES / 2 * BTS_RECORD_BYTES;
	mapped_over(700);
	area_at(0, half, 600);
	area_at(half, perf.area_bytes - half, 800);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_gt(sample_sink_events(&sink, TRAIL_LOST), 0, "%s", sample_sink_text(&sink));
	cr_expect_gt(sample_sink_blocks(&sink), 2);
	cr_expect_lt(sample_sink_blocks(&sink), count);
}

/* ---- one thread alone ---- */

static int reported[2]; /* a byte written here has the second thread execute a program */

static void *second(void *data)
{
	char byte;

	if (read(reported[0], &byte, 1) == 1)
		execl(PROGRAM, PROGRAM, "c", NULL);
	return data;
}

/* The newest of its threads; 0: there is the first alone. */
static pid_t other_thread(pid_t pid)
{
	struct dirent *entry;
	pid_t found = 0;
	char path[64];
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	list = opendir(path);
	cr_assert_not_null(list);
	while ((entry = readdir(list)))
		if (atoi(entry->d_name) > pid)
			found = atoi(entry->d_name);
	closedir(list);
	return found;
}

/* A process of two threads; the second waits for a byte. */
static pid_t start(void)
{
	pthread_t thread;
	pid_t pid, tid;

	cr_assert_eq(pipe2(reported, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, second, NULL);
		pause();
		_exit(127);
	}
	cr_assert(AWAIT((tid = other_thread(pid)) && target_thread_state(pid, tid) == 'S'));
	return pid;
}

/* Record until it has a number of buffers; a busy machine takes its time to stop the threads. */
static void records_until_opened(struct tracing *hardware, int buffers)
{
	while (perf.opened < buffers)
		cr_assert_eq(tracing_hardware.run(hardware, 50), 1);
	cr_assert_eq(tracing_hardware.run(hardware, 50), 1);
	cr_expect_eq(perf.opened, buffers);
}

Test(hardware_threads, takes_one_thread_alone)
{
	pid_t pid = start(), tid = other_thread(pid);
	struct tracing *hardware;
	int status;

	cr_assert_gt(tid, 0);
	cr_assert_eq(attach_by(ORIGIN_BTS, &hardware, pid, tid), 0);
	records_until_opened(hardware, 1);
	cr_assert_eq(hardware_close(hardware), 0);
	cr_assert_eq(waitpid(pid, &status, WNOHANG), 0);
	is_over(TRAIL_DETACHED, 0);
	cr_expect_eq(attach_by(ORIGIN_BTS, &hardware, pid, 1), -ESRCH, "none of its threads");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* It comes back under its process's id; a search under its own would leave it stopped for ever. */
Test(hardware_threads, follows_one_thread_that_executes_a_program)
{
	pid_t pid = start(), tid = other_thread(pid);
	struct tracing *hardware;
	int err, status;

	cr_assert_gt(tid, 0);
	cr_assert_eq(attach_by(ORIGIN_PT, &hardware, pid, tid), 0);
	cr_assert_eq(write(reported[1], "x", 1), 1);
	while ((err = tracing_hardware.run(hardware, 1000)) > 0)
		;
	cr_assert_eq(err, 0);
	tracing_hardware.result(hardware, &result, detail);
	cr_assert_eq(hardware_close(hardware), 0);
	waitpid(pid, &status, 0);
	cr_expect(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 7);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_EXEC), 1, "%s", sample_sink_text(&sink));
	is_over(TRAIL_EXITED, 7);
}

/* It has the first's number then, whose buffers ended with that thread. */
Test(hardware_threads, thread_that_executes_a_program_is_recorded_in_it)
{
	pid_t pid = start();
	struct tracing *hardware;
	int err, status;

	cr_assert_eq(attach_by(ORIGIN_PT, &hardware, pid, 0), 0, "%s", detail);
	records_until_opened(hardware, 2);
	cr_assert_eq(write(reported[1], "x", 1), 1);
	while ((err = tracing_hardware.run(hardware, 1000)) > 0)
		;
	cr_assert_eq(err, 0);
	cr_expect_eq(perf.opened, 3);
	cr_expect_eq(hardware_close(hardware), 0);
	cr_expect_eq(perf.closed, 3 + 2, "two are tried");
	cr_expect_eq(perf.mapped, perf.unmapped);
	waitpid(pid, &status, 0);
}
