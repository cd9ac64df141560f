/* SPDX-License-Identifier: MIT */
/*
 * A program recorded by the origin `step`, and its trail as text: trail-record [--attach] FOLDER
 * PROGRAM [ARGUMENTS]. With a FOLDER alone, the trail that is there. With --attach from its first
 * read(2) of standard input on, which waits for a byte.
 *
 *	T TID ORIGIN                            a thread's trail begins; its lines follow
 *	B ID START BYTES LAST COUNT KIND TARGET RAN CODE
 *	E EVENT AT LEFT VALUE VALUE
 *	D WHY                                   it is damaged
 *	X STATUS                                the program's end, as wait(2) has it
 *
 * All numbers but those of the first column's lines T and X are hexadecimal.
 */
#include "record/trail/testing/step/step.h"
#include "record/trail/testing/step_launch.h"
#include "record/trail/trace_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ATTACH_ROUNDS 10000
#define ATTACH_POLL_US 1000
#define ATTACH_MS 20

static int failed(const char *what, int err)
{
	fprintf(stderr, "trail-record: %s: %s\n", what, strerror(-err));
	return 1;
}

static void print_block(const struct trail_item *item)
{
	const struct trail_block *block = item->block;
	const uint8_t *code = trail_table_code(item->table, block);

	printf("B %x %" PRIx64 " %x %x %x %x %" PRIx64 " %x ", item->id, block->start,
	       (unsigned int)block->bytes, (unsigned int)block->last,
	       (unsigned int)block->instructions, (unsigned int)block->kind, block->target,
	       (unsigned int)item->ran);
	for (unsigned int i = 0; code && i < block->bytes; i++)
		printf("%02x", (unsigned int)code[i]);
	printf("%s\n", code ? "" : "-");
}

static void print_path(const struct trail_path *path)
{
	struct trail_cursor cursor = { .path = path };
	struct trail_item item;

	printf("T %u %u\n", path->stream->tid, path->origin);
	while (trail_next(&cursor, &item)) {
		if (item.block)
			print_block(&item);
		else
			printf("E %x %" PRIx64 " %x %" PRIx64 " %" PRIx64 "\n",
			       (unsigned int)item.between->event, item.between->at,
			       item.between->left, item.between->values[0],
			       item.between->values[1]);
	}
	if (path->damage)
		printf("D %s\n", path->damage);
}

static int print_trace(const char *folder)
{
	struct trace_reader *reader;
	struct trails trails;
	int err = trace_reader_open(&reader, folder);

	if (err)
		return failed(folder, err);
	err = trails_read(&trails, reader);
	if (err)
		return failed(folder, err);
	for (size_t i = 0; i < trails.path_count; i++)
		print_path(&trails.paths[i]);
	for (size_t i = 0; i < reader->damages_ever; i++)
		printf("D %s\n", i < reader->damage_count ? reader->damages[i].what : "more");
	trails_release(&trails, reader);
	trace_reader_close(reader);
	return 0;
}

/* Whether it waits in read(0). */
static int waits_to_read(pid_t pid)
{
	char path[64], line[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	file = fopen(path, "re");
	if (file && !fgets(line, sizeof(line), file))
		line[0] = '\0';
	if (file)
		fclose(file);
	return !strncmp(line, "0 0x0 ", 6);
}

static int attach(struct step **step, struct trail_sink *sink, char **argv)
{
	int pipes[2], err;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		dup2(pipes[0], 0);
		execv(argv[0], argv);
		_exit(127);
	}
	for (int i = 0; i < ATTACH_ROUNDS && !waits_to_read(pid); i++)
		usleep(ATTACH_POLL_US);
	err = pid < 0 ? -errno : step_attach(step, sink, pid, 0);
	/* it is to make its system call again before it gets anything */
	if (!err)
		err = step_run(*step, ATTACH_MS);
	if (err > 0 && write(pipes[1], "", 1) != 1)
		err = -errno;
	return err < 0 ? err : 0;
}

int main(int argc, char **argv)
{
	int attaches = argc > 1 && !strcmp(argv[1], "--attach");
	struct trace_writer *writer;
	struct trail_files files;
	struct tracing_result result;
	struct step *step;
	int err;

	argc -= attaches;
	argv += attaches;
	if (argc == 2)
		return print_trace(argv[1]);
	if (argc < 3)
		return failed("FOLDER PROGRAM", -EINVAL);
	err = trace_writer_open(&writer, argv[1]);
	if (err)
		return failed(argv[1], err);
	trail_files_init(&files, writer);
	err = attaches ? attach(&step, &files.sink, argv + 2)
		       : step_launch(&step, &files.sink, argv[2], argv + 2);
	if (err)
		return failed(argv[2], err);
	while ((err = step_run(step, 1000)) > 0)
		;
	if (err)
		return failed("step", err);
	step_result(step, &result);
	step_close(step);
	trail_files_release(&files);
	err = trace_writer_close(writer);
	if (err)
		return failed("writer", err);
	printf("X %d\n", result.status);
	return print_trace(argv[1]);
}
