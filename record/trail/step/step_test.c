/* SPDX-License-Identifier: MIT */
/* Programs stepped through, and what their trails say. */
#include "record/trail/step/step.h"
#include "record/trail/testing/step_launch.h"
#include "record/trail/trace_sink.h"
#include "target/code/file.h"
#include "target/code/symbol.h"
#include "target/process/testing/subject.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static struct trace_writer *writer;
static struct trail_files files;
static struct trace_reader *reader;
static struct trails trails;
static struct step_result result;

static void begin(void)
{
	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
}

static void end(void)
{
	if (reader)
		trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
}

TestSuite(step, .init = begin, .fini = end, .timeout = 120);

static void read_back(void)
{
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
}

/* To its end; its status as wait(2) has it. */
static int stepped(char *const argv[])
{
	struct step *step;
	int err = step_launch(&step, &files.sink, argv[0], argv);

	cr_assert_eq(err, 0, "%s", strerror(-err));
	while ((err = step_run(step, 1000)) > 0)
		;
	cr_assert_eq(err, 0, "%s", strerror(-err));
	step_result(step, &result);
	cr_assert(result.is_over);
	cr_assert_eq(step_close(step), 0);
	read_back();
	return result.status;
}

static const struct trail_between *last_event(const struct trail_path *path)
{
	const struct trail_part *part = &path->parts[path->count - 1];

	return part->count ? NULL : &part->between;
}

static uint64_t address_of(const char *name)
{
	struct code_file *file;
	uint64_t address = 0;

	cr_assert_eq(code_file_open(&file, PROGRAM), 0);
	cr_assert_eq(code_symbol_value(file, name, &address), 0, "%s", name);
	code_file_close(file);
	return address;
}

/* How often a block began there, and how many instructions ran in all. */
static int began_at(const char *name, uint64_t *instructions)
{
	struct trail_cursor cursor = { .path = &trails.paths[0] };
	uint64_t address = address_of(name);
	struct trail_item item;
	int count = 0;

	*instructions = 0;
	while (trail_next(&cursor, &item)) {
		if (!item.block)
			continue;
		count += item.block->start == address;
		*instructions += item.ran;
	}
	return count;
}

static const struct trail_between *event_of(enum trail_event kind)
{
	struct trail_cursor cursor = { .path = &trails.paths[0] };
	struct trail_item item;

	while (trail_next(&cursor, &item))
		if (item.between && item.between->event == kind)
			return item.between;
	return NULL;
}

/* The program in that mode: its trail is whole, and ends as it did. */
static void mode(const char *name, int exit_status)
{
	int status = stepped((char *[]){ PROGRAM, (char *)name, NULL });
	const struct trail_between *last;

	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == exit_status, "status %#x",
		  (unsigned int)status);
	cr_assert_eq(trails.path_count, 1);
	cr_expect_null(trails.paths[0].damage, "%s", trails.paths[0].damage);
	cr_expect_eq(trails.paths[0].blocks, result.blocks);
	last = last_event(&trails.paths[0]);
	cr_assert_not_null(last);
	cr_expect_eq(last->event, TRAIL_END);
	cr_expect_eq(last->values[0], TRAIL_EXITED);
	cr_expect_eq(last->values[1], (uint64_t)exit_status);
}

/* From _start to a mode's own code, which is the one-th that is asked for; way_out to the end. */
#define BEFORE(one) (2 + 2 * (one))
#define AFTER 3

Test(step, counts_every_turn_of_a_loop)
{
	uint64_t instructions;

	mode("l", 7);
	/* the first turn is in the block that begins before it */
	cr_expect_eq(began_at("loop_head", &instructions), 999);
	cr_expect_eq(instructions, BEFORE(1) + 1 + 2000 + 1 + AFTER);
	cr_expect_eq(instructions, result.instructions);
}

Test(step, follows_calls_and_returns)
{
	uint64_t instructions;

	mode("c", 7);
	cr_expect_eq(began_at("recursive", &instructions), 5);
	/* from the jump, from each return but the outermost, from the call through a register */
	cr_expect_eq(began_at("callee", &instructions), 1 + 4 + 1);
	cr_expect_eq(began_at("after_call", &instructions), 1);
	cr_expect_eq(instructions, BEFORE(2) + 2 + 4 * 3 + 2 + 5 + 2 + 1 + 1 + AFTER);
}

Test(step, takes_a_string_instruction_for_one)
{
	uint64_t instructions;

	mode("r", 7);
	began_at("string", &instructions);
	cr_expect_eq(instructions, BEFORE(3) + 4 + AFTER);
}

Test(step, shows_a_signal_between_the_fault_and_its_handler)
{
	const struct trail_between *signal, *back;
	uint64_t instructions;

	mode("s", 7);
	signal = event_of(TRAIL_SIGNAL);
	cr_assert_not_null(signal);
	cr_expect_eq(signal->at, address_of("faulting"));
	cr_expect_eq(signal->values[0], SIGILL);
	cr_expect_eq(signal->values[1], address_of("handler"));
	cr_expect_eq(began_at("handler", &instructions), 1);
	cr_expect_eq(began_at("restorer", &instructions), 1);
	back = event_of(TRAIL_SYSCALLED);
	cr_assert_not_null(back);
	cr_expect_eq(back->values[0], 13);
	cr_expect_eq(instructions, BEFORE(4) + 6 + 2 + 2 + 1 + AFTER);
}

Test(step, ends_at_the_instruction_that_faults)
{
	int status = stepped((char *[]){ PROGRAM, (char *)"f", NULL });
	struct trail_cursor cursor = { .path = &trails.paths[0] };
	const struct trail_between *last = last_event(&trails.paths[0]);
	struct trail_item item;

	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "status %#x",
		  (unsigned int)status);
	cr_assert_not_null(last);
	cr_expect_eq(last->event, TRAIL_END);
	cr_expect_eq(last->values[0], TRAIL_KILLED);
	cr_expect_eq(last->values[1], SIGSEGV);
	cr_expect_eq(last->at, address_of("fault"));
	cr_expect_null(trails.paths[0].damage);
	trail_seek_end(&cursor);
	while (trail_previous(&cursor, &item) && !item.block)
		;
	cr_expect_eq(item.block->start + item.block->bytes, address_of("fault"));
}

Test(step, is_not_seen_in_the_flags)
{
	mode("p", 0);
}

static int events(enum trail_event kind)
{
	int count = 0;

	for (size_t i = 0; i < trails.path_count; i++) {
		struct trail_cursor cursor = { .path = &trails.paths[i] };
		struct trail_item item;

		while (trail_next(&cursor, &item))
			count += item.between && item.between->event == kind;
	}
	return count;
}

/*
 * Twice three threads, two signals to handlers; a child that is left alone; another program in
 * between.
 */
Test(step, follows_threads_signals_and_what_is_executed)
{
	int status = stepped((char *[]){ THREADS, (char *)"again", NULL });

	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 5, "status %#x",
		  (unsigned int)status);
	cr_expect_eq(trails.path_count, 1 + 2 * 3);
	cr_expect_eq(events(TRAIL_FORK), 2 * 3 + 1, "%d", events(TRAIL_FORK));
	cr_expect_eq(events(TRAIL_SIGNAL), 2 * 2, "%d", events(TRAIL_SIGNAL));
	cr_expect_eq(events(TRAIL_EXEC), 1);
	cr_expect_eq(events(TRAIL_END), 1 + 2 * 3);
	cr_expect_eq(events(TRAIL_GAP), 0);
}

Test(step, says_why_a_program_is_not_started)
{
	char *argv[] = { (char *)"/nonexistent/program", NULL };
	struct step *step;

	cr_expect_eq(step_launch(&step, &files.sink, argv[0], argv), -ENOENT);
	cr_expect_null(step);
	trace_writer_close(writer);
}

/* It checks each of its waits, and says at its end whether all was well. */
Test(step, lets_a_process_go_as_it_was)
{
	struct subject subject;
	struct step *step;

	subject_start(&subject, "waits", "poll");
	for (int i = 0; i < 5; i++) {
		int err;

		if (i) {
			sample_folder_remove(folder);
			begin();
		}
		err = step_attach(&step, &files.sink, subject.pid, 0);
		cr_assert_eq(err, 0, "%s", strerror(-err));
		cr_assert_eq(step_run(step, 50), 1);
		cr_assert_eq(step_close(step), 0);
		trail_files_release(&files);
		cr_assert_eq(trace_writer_close(writer), 0);
		subject_goes_on(&subject);
	}
	subject_end(&subject);
}
