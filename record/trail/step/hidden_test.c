/* SPDX-License-Identifier: MIT */
/* Traps that a hypervisor drops: the trail is the same as with them, or has a gap. */
#include "record/trail/step/step.h"
#include "record/trail/testing/steps.h"
#include "record/trail/trace_sink.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(hidden, .timeout = 120);

#define SEVEN 0x700 /* as wait(2) has the exit status 7 */

/* What a program's trail has. */
struct record {
	int status;
	int gaps, calls, forks, execs;
	uint64_t instructions;
	char *text; /* each block and event, without what differs from run to run */
};

static void add_event(struct record *record, FILE *out, const struct trail_between *between)
{
	int has_value = between->event == TRAIL_SIGNAL || between->event == TRAIL_SYSCALLED ||
			between->event == TRAIL_END;

	record->gaps += between->event == TRAIL_GAP;
	record->calls += between->event == TRAIL_SYSCALLED;
	record->forks += between->event == TRAIL_FORK;
	record->execs += between->event == TRAIL_EXEC;
	fprintf(out, "event %d at %#lx of %#lx\n", between->event, between->at,
		has_value ? between->values[0] : 0);
}

static void read_trail(struct record *record, const char *folder)
{
	struct trail_cursor cursor = { 0 };
	struct trace_reader *reader;
	struct trails trails;
	struct trail_item item;
	size_t bytes;
	FILE *out = open_memstream(&record->text, &bytes);

	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	cr_assert_eq(trails.path_count, 1);
	cursor.path = &trails.paths[0];
	while (trail_next(&cursor, &item)) {
		if (item.between)
			add_event(record, out, item.between);
		else
			fprintf(out, "block %#lx of %d bytes, %d ran\n", item.block->start,
				item.block->bytes, (int)item.ran);
		record->instructions += item.block ? item.ran : 0;
	}
	fclose(out);
	trails_release(&trails, reader);
	trace_reader_close(reader);
}

/* Record a program; the simulation drops the traps behind cpuid and pause. */
static struct record recorded(const char *program, const char *mode, int is_simulated)
{
	char *argv[] = { (char *)program, (char *)mode, NULL };
	struct record record = { 0 };
	char folder[64];

	if (is_simulated)
		setenv("WAYMARK_SIMULATE", "step-trap", 1);
	else
		unsetenv("WAYMARK_SIMULATE");
	record.status = sample_steps(folder, argv);
	read_trail(&record, folder);
	sample_folder_remove(folder);
	return record;
}

static void is_same(const char *program, const char *mode, int status, int gaps)
{
	struct record whole = recorded(program, mode, 0), late = recorded(program, mode, 1);

	cr_expect_eq(whole.status, status, "%s: status %#x", mode, (unsigned int)whole.status);
	cr_expect_eq(late.status, status, "%s: status %#x, late", mode, (unsigned int)late.status);
	cr_expect_eq(whole.gaps, gaps, "%s: %d gaps", mode, whole.gaps);
	cr_expect_str_eq(late.text, whole.text, "%s: late:\n%s\nwhole:\n%s", mode, late.text,
			 whole.text);
	free(late.text);
	free(whole.text);
}

Test(hidden, instructions_behind_dropped_traps_are_recorded)
{
	is_same(EMULATED, "", 0, 0);
}

Test(hidden, flags_are_concealed_behind_dropped_traps)
{
	is_same(PROGRAM, "f", SEVEN, 0);
	is_same(PROGRAM, "o", SEVEN, 0);
}

Test(hidden, programs_own_trap_behind_dropped_trap_is_delivered)
{
	is_same(PROGRAM, "i", SEVEN, 0);
}

Test(hidden, return_to_itself_is_recorded)
{
	is_same(PROGRAM, "r", SEVEN, 0);
}

/* A mov to ss hides the trap on every machine, so no gap may appear. */
Test(hidden, system_call_behind_mov_to_ss_is_recorded)
{
	is_same(PROGRAM, "m", SEVEN, 0);
}

/* Every stop aborts the section, so none of its instructions runs. */
Test(hidden, aborted_section_of_rseq_stays_gap)
{
	is_same(PROGRAM, "q", SEVEN, 1);
}

/* Only the simulation makes gaps, which lack so many instructions and results of system calls. */
static void has_gaps(const char *mode, int status, int gaps, unsigned int instructions, int calls)
{
	struct record whole = recorded(PROGRAM, mode, 0), late = recorded(PROGRAM, mode, 1);

	cr_expect_eq(whole.status, status, "%s: status %#x", mode, (unsigned int)whole.status);
	cr_expect_eq(late.status, status, "%s: status %#x, late", mode, (unsigned int)late.status);
	cr_expect_eq(whole.gaps, 0, "%s:\n%s", mode, whole.text);
	cr_expect_eq(late.gaps, gaps, "%s: late:\n%s\nwhole:\n%s", mode, late.text, whole.text);
	cr_expect_eq(late.instructions, whole.instructions - instructions,
		     "%s: late:\n%s\nwhole:\n%s", mode, late.text, whole.text);
	cr_expect_eq(late.calls, whole.calls - calls, "%s: late:\n%s\nwhole:\n%s", mode, late.text,
		     whole.text);
	cr_expect_eq(late.forks, whole.forks, "%s: %d forks", mode, late.forks);
	cr_expect_eq(late.execs, whole.execs, "%s: %d execs", mode, late.execs);
	free(late.text);
	free(whole.text);
}

Test(hidden, ambiguous_way_is_gap)
{
	has_gaps("l", SEVEN, 1, 2, 0);
}

Test(hidden, far_return_is_gap)
{
	has_gaps("F", SEVEN, 1, 1, 0);
}

Test(hidden, system_call_is_gap)
{
	has_gaps("g", SEVEN, 1, 1, 1);
	has_gaps("c", SEVEN, 1, 1, 1);
	has_gaps("x", SEVEN, 1, 1, 0);
	has_gaps("k", SIGKILL, 1, 0, 0);
}

Test(hidden, exec_is_gap)
{
	has_gaps("e", SEVEN, 1, 2, 0);
}

Test(hidden, signal_behind_hidden_system_call_is_recorded)
{
	has_gaps("s", SEVEN, 2, 2, 2);
}

/* Attach to it, and let it go wherever it is. */
static struct record attached(pid_t pid)
{
	struct record record = { 0 };
	struct trace_writer *writer;
	struct trail_files files;
	struct step *step;
	char folder[64];
	int err;

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	err = step_attach(&step, &files.sink, pid, 0);
	cr_assert_eq(err, 0, "%s", strerror(-err));
	cr_assert_eq(step_run(step, 2), 1);
	cr_assert_eq(step_close(step), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	read_trail(&record, folder);
	sample_folder_remove(folder);
	return record;
}

/* Some rounds end between a dropped trap and the next one. */
Test(hidden, detach_behind_dropped_trap_has_no_gap)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(PROGRAM, PROGRAM, "z", NULL);
		_exit(127);
	}
	usleep(100000);
	setenv("WAYMARK_SIMULATE", "step-trap", 1);
	for (int i = 0; i < 100; i++) {
		struct record record = attached(pid);

		cr_assert_eq(record.gaps, 0, "round %d:\n%s", i, record.text);
		free(record.text);
	}
	cr_expect_eq(waitpid(pid, &status, WNOHANG), 0, "it ended: %#x", (unsigned int)status);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}
