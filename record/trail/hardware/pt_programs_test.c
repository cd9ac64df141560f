/* SPDX-License-Identifier: MIT */
/* Blocks that `step` recorded come back through Intel PT's packets; pt_test.c lists what can't. */
#include "record/trail/hardware/pt.h"
#include "record/trail/testing/step/step.h"
#include "record/trail/testing/pt_back.h"
#include "record/trail/testing/pt_encode.h"
#include "record/trail/testing/sink.h"
#include "record/trail/testing/step_launch.h"
#include "record/trail/trace_sink.h"
#include "target/trial/trial.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pt_programs, .init = pt_begin, .fini = pt_end, .timeout = 280);

/* ---- programs ---- */

static void step_through(char *words, const char *folder)
{
	struct trace_writer *writer;
	struct trail_files files;
	struct step *step;
	char *argv[8] = { NULL };
	int count = 0, err;

	for (char *save, *word = strtok_r(words, " ", &save); word && count < 7;
	     word = strtok_r(NULL, " ", &save))
		argv[count++] = word;
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	err = step_launch(&step, &files.sink, argv[0], argv);
	cr_assert_eq(err, 0, "%s: %s", argv[0], strerror(-err));
	while ((err = step_run(step, 1000)) > 0)
		;
	cr_assert_eq(err, 0);
	cr_assert_eq(step_close(step), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
}

/* Whether an address has other code there than since the last pause. */
static int is_changed(const struct pt_item *item)
{
	for (size_t i = 0; i < item->entry.bytes; i++) {
		uint64_t at = item->entry.start + i;
		const struct page *page = page_of(at, 0);

		if (page && page->is_there[at % PAGE] && page->bytes[at % PAGE] != item->code[i])
			return 1;
	}
	return 0;
}

/* A path's items, malloc'd, with a pause before each block where an address has got other code. */
static struct pt_item *with_pauses(const struct trail_path *path, size_t *count)
{
	size_t found, used = 0;
	struct pt_item *from = pt_items_of(path, &found);
	struct pt_item *to = malloc((2 * found + 1) * sizeof(*to));

	codes.count = 0;
	for (size_t i = 0; i < found; i++) {
		if (from[i].entry.instructions) {
			cr_assert_not_null(from[i].code, "%s: a block without code", subject);
			if (is_changed(&from[i])) {
				to[used++] = (struct pt_item){
					.between = { .event = PAUSE, .at = from[i].entry.start }
				};
				codes.count = 0;
			}
			code_put(from[i].entry.start, from[i].code, from[i].entry.bytes);
		}
		to[used++] = from[i];
	}
	free(from);
	codes.count = 0;
	*count = used;
	return to;
}

static void program(char *words)
{
	struct trace_reader *reader;
	struct trails trails;
	uint64_t blocks = 0, pauses = 0;
	char folder[64], name[256];

	snprintf(name, sizeof(name), "%s", words);
	subject = name;
	sample_folder(folder);
	step_through(words, folder);
	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	for (size_t i = 0; i < trails.path_count; i++) {
		size_t count;
		struct pt_item *items = with_pauses(&trails.paths[i], &count);

		for (size_t j = 0; j < count; j++)
			pauses += is_pause(&items[j]);
		there_and_back(items, count);
		blocks += trails.paths[i].blocks;
		free(items);
	}
	printf("%s: %" PRIu64 " blocks of %zu threads, %" PRIu64 " pauses\n", name, blocks,
	       trails.path_count, pauses);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
}

struct line {
	char words[256];
};

/* Others can be named from outside, as the build does: command lines with semicolons between. */
ParameterizedTestParameters(pt_programs, brings_back_what_programs_ran)
{
	static struct line lines[256];
	const char *others = getenv("WAYMARK_TRAIL_PROGRAMS");
	char *list = strdup(others ? others : PROGRAMS);
	size_t count = 0;

	for (char *save, *one = strtok_r(list, ";", &save); one && count < 256;
	     one = strtok_r(NULL, ";", &save))
		snprintf(lines[count++].words, sizeof(lines->words), "%s", one);
	free(list);
	return cr_make_param_array(struct line, lines, count);
}

ParameterizedTest(struct line *line, pt_programs, brings_back_what_programs_ran)
{
	struct trial_answer answer;
	size_t length = strlen(line->words);

	trial_ask(TRIAL_INT80, &answer);
	/* with an argument it leaves int $0x80 out, which would kill it in 32-bit code */
	if (answer.state != TRIAL_WORKS && strstr(line->words, "/trail-compat"))
		snprintf(line->words + length, sizeof(line->words) - length, " without");
	if (block_maker_here() == BLOCK_AMD && strstr(line->words, "/trail-opsize"))
		cr_skip_test("%s: branches here that no processor with PT has", line->words);
	program(line->words);
}
