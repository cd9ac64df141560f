/* SPDX-License-Identifier: MIT */
/*
 * How fast a trail is read, how large it is, and how fast two are compared: bench_trail WAYMARK.
 *
 * The trails are of a program made up, of 1,000 functions in 5 layers with 20 blocks each, that
 * calls from layer to layer. Of its branches 60 in 100 are checks that fail once in 1,000, 20 close
 * loops that make 2 to 5 turns, the same every time, and 20 depend on data: one in three is taken.
 * A block is 4 to 31 bytes long, 17 on average. zstd makes 0.3 bytes a block of that; of /bin/true,
 * stepped through, 0.4, its table left out.
 *
 * Where it says paths, one of these is written with ids of three blocks, fewer before a return, as
 * an engine may have them.
 *
 * Reading is measured in time of the processor, for one thread does it; comparing as the command
 * takes it.
 */
#include "bench/measure.h"
#include "trace/compress.h"
#include "trace/testing/packets.h"
#include "trace/trail/path.h"
#include "trace/trail/write.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS 5u
#define FUNCTIONS 200u /* of a layer */
#define FUNCTION_BLOCKS 20u
#define BLOCKS (LAYERS * FUNCTIONS * FUNCTION_BLOCKS)
#define STEPS_ALL 10000000u
#define CODE_BYTES 32u
#define DEPTH_MAX 64u

enum branch { BRANCH_CHECK, BRANCH_LOOP, BRANCH_DATA };

struct made {
	struct trail_entry entry;
	uint8_t code[CODE_BYTES];
	uint32_t target; /* the block of entry.target */
	uint8_t branch;	 /* enum branch */
	uint8_t turns;
};

static struct made program[BLOCKS];
static uint8_t turn_counts[BLOCKS];
static uint32_t steps;
static int has_paths;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "bench_trail: %s\n", what);
	exit(1);
}

static uint32_t draw(uint64_t *seed, uint32_t below)
{
	return (uint32_t)(sample_random(seed) >> 33) % below;
}

/* What the last instruction of a function's block does. */
static void block_make(uint32_t id, uint64_t *seed)
{
	uint32_t place = id % FUNCTION_BLOCKS, first = id - place;
	uint32_t layer = id / (FUNCTIONS * FUNCTION_BLOCKS), kind = draw(seed, 100);
	struct made *made = &program[id];

	made->target = id;
	if (place == FUNCTION_BLOCKS - 1) {
		made->entry.kind = TRAIL_RETURN;
	} else if (!layer && !place) {
		made->entry.kind = TRAIL_CALL_INDIRECT;
	} else if (kind < 15 && layer + 1 < LAYERS) {
		made->entry.kind = TRAIL_CALL;
		made->target = ((layer + 1) * FUNCTIONS + draw(seed, FUNCTIONS)) * FUNCTION_BLOCKS;
	} else {
		made->entry.kind = TRAIL_BRANCH;
		kind = draw(seed, 10);
		made->branch = kind < 6 ? BRANCH_CHECK : kind < 8 ? BRANCH_LOOP : BRANCH_DATA;
		made->turns = (uint8_t)(1 + draw(seed, 4));
		made->target = made->branch == BRANCH_LOOP
				       ? id - draw(seed, place > 3 ? 3
							 : place   ? place
								   : 1)
				       : first + place + draw(seed, FUNCTION_BLOCKS - place);
	}
}

static void program_make(uint64_t base)
{
	uint64_t seed = 1, at = base;

	memset(program, 0, sizeof(program));
	for (uint32_t id = 0; id < BLOCKS; id++) {
		struct made *made = &program[id];

		for (uint32_t i = 0; i < CODE_BYTES; i++)
			made->code[i] = (uint8_t)sample_random(&seed);
		made->entry.start = at;
		made->entry.bytes = (uint16_t)(4 + draw(&seed, 28));
		made->entry.last = (uint16_t)(made->entry.bytes - 2);
		made->entry.instructions = (uint16_t)(1 + made->entry.bytes / 5);
		at += made->entry.bytes;
		block_make(id, &seed);
	}
	for (uint32_t id = 0; id < BLOCKS; id++)
		if (program[id].entry.kind != TRAIL_RETURN &&
		    program[id].entry.kind != TRAIL_CALL_INDIRECT)
			program[id].entry.target = program[program[id].target].entry.start;
}

static int is_taken(uint32_t id, uint64_t *seed)
{
	const struct made *made = &program[id];

	if (made->branch == BRANCH_DATA)
		return !draw(seed, 3);
	if (made->branch == BRANCH_CHECK)
		return !draw(seed, 1000);
	if (turn_counts[id]++ < made->turns)
		return 1;
	turn_counts[id] = 0;
	return 0;
}

/* ---- as an engine would have it: by paths ---- */

#define PATH_BLOCKS 3u
#define PATHS_ROOM (1u << 20)

/* Blocks that become a path. Its number is its index in `known`. */
static struct gathered {
	uint32_t ids[PATH_BLOCKS], count;
} gathered, known[PATHS_ROOM];

static uint32_t path_number(void)
{
	uint64_t hash = gathered.count;
	uint32_t at;

	for (uint32_t i = 0; i < gathered.count; i++)
		hash = (hash ^ gathered.ids[i]) * 0x9e3779b97f4a7c15ull;
	at = (uint32_t)(hash >> 40) % PATHS_ROOM;
	while (known[at].count && memcmp(&known[at], &gathered, sizeof(gathered)) != 0)
		at = (at + 1) % PATHS_ROOM;
	known[at] = gathered;
	return at;
}

static void path_end(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks)
{
	struct trail_source_block blocks[PATH_BLOCKS];
	struct trail_source_path path = { .count = gathered.count, .blocks = blocks };

	if (!gathered.count)
		return;
	for (uint32_t i = 0; i < gathered.count; i++)
		blocks[i] = (struct trail_source_block){ program[gathered.ids[i]].entry,
							 program[gathered.ids[i]].code };
	path.number = path_number();
	must(!trail_thread_path(trail, thread, &path, ticks), "write");
	memset(&gathered, 0, sizeof(gathered));
}

static void step_write(struct trail_writer *trail, struct trail_thread *thread, uint32_t id,
		       uint64_t ticks)
{
	if (!has_paths) {
		must(!trail_thread_block(trail, thread, &program[id].entry, program[id].code,
					 ticks),
		     "write");
		return;
	}
	gathered.ids[gathered.count++] = id;
	if (gathered.count == PATH_BLOCKS || program[id].entry.kind == TRAIL_RETURN)
		path_end(trail, thread, ticks);
}

/*
 * What the program does, one block after the other; at the `planted`th or after, one branch goes
 * the other way.
 */
static void program_run(struct trail_writer *trail, struct trail_thread *thread, uint32_t planted)
{
	uint32_t stack[DEPTH_MAX], depth = 0, id = 0;
	uint64_t seed = 2;
	int is_planted = 0;

	memset(turn_counts, 0, sizeof(turn_counts));
	for (uint32_t step = 0; step < steps; step++) {
		const struct made *made = &program[id];
		int taken;

		step_write(trail, thread, id, 1000 + step);
		switch (made->entry.kind) {
		case TRAIL_BRANCH:
			taken = is_taken(id, &seed);
			if (!is_planted && step >= planted && made->target != id + 1) {
				is_planted = 1;
				taken = !taken;
			}
			id = taken ? made->target : id + 1;
			break;
		case TRAIL_CALL:
			stack[depth++] = id + 1;
			id = made->target;
			break;
		case TRAIL_CALL_INDIRECT:
			stack[depth++] = id;
			id = (1 + draw(&seed, FUNCTIONS - 1)) * FUNCTION_BLOCKS + 1;
			break;
		default:
			id = stack[--depth];
		}
	}
}

static void trail_make(const char *dir, uint64_t base, uint32_t planted)
{
	struct trace_process about = {
		.pid = 1000, .exe = "/bin/made-up", .hostname = "here", .ticks_hz = 1000000000
	};
	struct trail_clock clock = { 1000, 1000000000, 1000, 1000, 1700000000000000000 };
	struct control_module module = { .base = base };
	static struct trail_thread thread;
	struct trail_writer trail;
	struct trace_writer *writer;
	int process;

	about.clock = STORE_CLOCK_MONOTONIC;
	program_make(base + 0x1000);
	must(!trace_writer_open(&writer, dir), "open");
	process = trace_process_add(writer, &about);
	must(process >= 0 && !trace_module_add(writer, process, &module, "/bin/made-up", 0),
	     "process");
	must(!trail_writer_open(&trail, writer, process, 1000, 0, &clock), "trail");
	must(!trail_thread_begin(&trail, &thread, 1000, "made-up", TRAIL_STEP, 1000), "thread");
	program_run(&trail, &thread, planted);
	path_end(&trail, &thread, 1000 + steps);
	must(!trail_thread_end(&trail, &thread, 1000 + steps), "end");
	trail_writer_release(&trail);
	must(!trace_writer_close(writer), "close");
}

/* Read, check and walk all of it. */
static double decode_once(const char *dir)
{
	struct trace_reader *reader;
	struct trails trails;
	struct trail_item item;
	uint64_t instructions = 0, blocks = 0;
	uint64_t start_ns = measure_cpu_ns();

	must(!trace_reader_open(&reader, dir), "read");
	must(!trails_read(&trails, reader) && trails.path_count == 1 && !trails.paths[0].damage,
	     "trails");
	for (struct trail_cursor cursor = { .path = trails.paths }; trail_next(&cursor, &item);) {
		instructions += item.ran;
		blocks++;
	}
	must(blocks == steps && instructions > blocks, "count");
	trails_release(&trails, reader);
	trace_reader_close(reader);
	return (double)(measure_cpu_ns() - start_ns) / 1e9;
}

static double diff_once(const char *waymark, const char *a, const char *b, uint64_t *blocks)
{
	static const char key[] = "\"blocks\":";
	char command[1024], line[1 << 16];
	uint64_t start_ns = measure_ns();
	FILE *pipe;

	snprintf(command, sizeof(command), "%s diff --json %s %s 2>/dev/null", waymark, a, b);
	pipe = popen(command, "re");
	must(pipe != NULL, "diff");
	*blocks = 0;
	while (fgets(line, sizeof(line), pipe))
		if (!*blocks && strstr(line, key))
			*blocks = strtoull(strstr(line, key) + strlen(key), NULL, 10);
	must(WEXITSTATUS(pclose(pipe)) == 1, "diff found no difference");
	return (double)(measure_ns() - start_ns) / 1e9;
}

static uint64_t folder_bytes(const char *dir)
{
	DIR *list = opendir(dir);
	uint64_t bytes = 0;
	struct dirent *entry;
	struct stat about;

	must(list != NULL, "folder");
	while ((entry = readdir(list)))
		if (!fstatat(dirfd(list), entry->d_name, &about, 0) && S_ISREG(about.st_mode))
			bytes += (uint64_t)about.st_size;
	closedir(list);
	return bytes;
}

#define RUNS_USUAL 7

/* The middle of some runs of it. */
static double decode_seconds(const char *dir)
{
	double seconds[MEASURE_RUNS_MAX];
	unsigned int runs = measure_runs(RUNS_USUAL);

	for (unsigned int i = 0; i < runs; i++)
		seconds[i] = decode_once(dir);
	return measure_median(seconds, runs);
}

static double diff_seconds(const char *waymark, const char *a, const char *b, uint32_t planted)
{
	double seconds[MEASURE_RUNS_MAX];
	unsigned int runs = measure_runs(RUNS_USUAL);
	uint64_t blocks = 0;

	for (unsigned int i = 0; i < runs; i++)
		seconds[i] = diff_once(waymark, a, b, &blocks);
	must(blocks > planted && blocks < planted + 1000, "it did not part where it should");
	return measure_median(seconds, runs);
}

int main(int argc, char **argv)
{
	uint32_t planted;
	char a[64], b[64], c[64];

	must(argc == 2, "usage: bench_trail WAYMARK");
	steps = (uint32_t)(STEPS_ALL * measure_scale());
	planted = steps - steps / 50 - 1000;
	sample_folder(a);
	sample_folder(b);
	trail_make(a, 0x555500000000, UINT32_MAX);
	trail_make(b, 0x55aa12345000, planted);
	measure_print("trail.decode_blocks_s", steps / decode_seconds(a), "blocks/s");
	measure_print("trail.bytes_per_block", (double)folder_bytes(a) / steps, "bytes");
	measure_print("trail.diff_10m_s", diff_seconds(argv[1], a, b, planted), "s");
	sample_folder(c);
	has_paths = 1;
	trail_make(c, 0x555500000000, UINT32_MAX);
	measure_print("trail.decode_blocks_s.paths", steps / decode_seconds(c), "blocks/s");
	measure_print("trail.bytes_per_block.paths", (double)folder_bytes(c) / steps, "bytes");
	measure_print("trail.diff_10m_s.paths", diff_seconds(argv[1], c, b, planted), "s");
	sample_folder_remove(c);
	must(trace_compress(a, NULL) > 0, "compress");
	measure_print("trail.bytes_per_block.compressed", (double)folder_bytes(a) / steps, "bytes");
	measure_print("trail.decode_blocks_s.compressed", steps / decode_seconds(a), "blocks/s");
	sample_folder_remove(a);
	sample_folder_remove(b);
	return 0;
}
