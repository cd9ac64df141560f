/* SPDX-License-Identifier: MIT */
#include "read/history/testing/divergence_fixture.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/syscall.h>

const struct code HEAD = { PROGRAM, 0x100, 8, TRAIL_BRANCH, PROGRAM, 0x140 },
		  CALLS = { PROGRAM, 0x108, 5, TRAIL_CALL, LIBRARY, 0x2000 },
		  SCAN = { LIBRARY, 0x2000, 4, TRAIL_BRANCH, LIBRARY, 0x2010 },
		  MORE = { LIBRARY, 0x2004, 2, TRAIL_JUMP, LIBRARY, 0x2000 },
		  FOUND = { LIBRARY, 0x2010, 4, TRAIL_RETURN, PROGRAM, 0 },
		  TAIL = { PROGRAM, 0x10d, 2, TRAIL_JUMP, PROGRAM, 0x100 },
		  LEAVE = { PROGRAM, 0x140, 4, TRAIL_SYSCALL, PROGRAM, 0 },
		  AFTER = { PROGRAM, 0x144, 4, TRAIL_JUMP, PROGRAM, 0x100 },
		  AGAIN = { PROGRAM, 0x142, 2, TRAIL_SYSCALL, PROGRAM, 0 },
		  HANDLER = { PROGRAM, 0x200, 4, TRAIL_RETURN, PROGRAM, 0 },
		  SIGRETURN = { LIBRARY, 0x3000, 4, TRAIL_SYSCALL, PROGRAM, 0 };

struct run runs[2];
struct divergence result;
struct divergence_options options;

static struct alike *alike;

static const uint64_t bases[2][MODULES] = {
	{ 0x400000, 0x7f0000000000, 0x600000000000, 0x200000000000 },
	{ 0x55d0a0000000, 0x7fab00001000, 0x610000005000, 0x210000007000 },
};

static void open_run(struct run *run, const uint64_t at[MODULES])
{
	static const char *const paths[] = { "/bin/program", "/lib/libc.so.6", "/lib/plugin.so" };

	memcpy(run->bases, at, sizeof(run->bases));
	sample_trail_begin(&run->sample);
	for (int i = 0; i < NOWHERE; i++)
		sample_trail_module(&run->sample, paths[i], at[i], NULL, 0);
	sample_trail_thread(&run->sample, 101, "name");
}

void begin(void)
{
	open_run(A, bases[0]);
	open_run(B, bases[1]);
	A->has_paths = 0;
	B->has_paths = 1;
}

void end(void)
{
	divergence_release(&result);
	alike_close(alike);
	for (int i = 0; i < 2; i++) {
		image_close(runs[i].image);
		trails_release(&runs[i].trails, runs[i].reader);
		trace_reader_close(runs[i].reader);
		sample_trail_remove(&runs[i].sample);
	}
}

uint64_t at(const struct run *run, const struct code *code)
{
	return run->bases[code->module] + code->offset;
}

void ran(struct run *run, const struct code *code)
{
	struct trail_entry entry = { .start = at(run, code),
				     .target = code->target ? run->bases[code->to] + code->target
							    : 0,
				     .bytes = code->bytes,
				     .last = (uint16_t)(code->bytes - 2),
				     .instructions = 2,
				     .kind = code->kind };
	uint8_t bytes[sizeof(run->code[0])];

	if (code->bytes == 2) {
		entry.last = 0;
		entry.instructions = 1;
	}
	memset(bytes, code->module == NOWHERE ? run->fill : 1, sizeof(bytes));
	if (code->module == NOWHERE && entry.target)
		bytes[code->bytes - 1] = (uint8_t)(entry.target >> 20); /* a distance */
	if (!run->has_paths) {
		sample_trail_ran(&run->sample, &entry, bytes);
		return;
	}
	memcpy(run->code[run->block_count], bytes, sizeof(bytes));
	run->blocks[run->block_count] = (struct trail_source_block){ entry,
								     run->code[run->block_count] };
	if (++run->block_count == RUN_PATH_BLOCKS)
		run_path(run);
}

void run_path(struct run *run)
{
	const struct trail_source_path path = { run->paths++, 0, run->block_count, run->blocks };

	if (run->block_count)
		cr_assert_eq(trail_thread_path(&run->sample.trail, &run->sample.thread, &path,
					       ++run->sample.now),
			     0);
	run->block_count = 0;
}

/* Some bytes of a block, which something came between. */
void ran_part(struct run *run, const struct code *code, uint16_t bytes)
{
	struct code part = *code;

	part.bytes = bytes;
	part.kind = TRAIL_FALL;
	part.target = 0;
	ran(run, &part);
}

void event(struct run *run, enum trail_event kind, uint64_t where, uint64_t first, uint64_t second)
{
	run_path(run);
	sample_trail_event(&run->sample, kind, where, 0, first, second);
}

/* A turn of the loop, in which the library makes so many. */
void turn(struct run *run, int scans)
{
	ran(run, &HEAD);
	ran(run, &CALLS);
	ran(run, &SCAN);
	for (int i = 0; i < scans; i++) {
		ran(run, &MORE);
		ran(run, &SCAN);
	}
	ran(run, &FOUND);
	ran(run, &TAIL);
}

void turns(struct run *run, int count)
{
	for (int i = 0; i < count; i++)
		turn(run, 1);
}

void leaves(struct run *run, uint64_t status)
{
	ran(run, &HEAD);
	ran(run, &LEAVE);
	event(run, TRAIL_END, 0, TRAIL_EXITED, status);
}

void makes_call(struct run *run, uint64_t number, uint64_t got)
{
	ran(run, &HEAD);
	ran(run, &LEAVE);
	event(run, TRAIL_SYSCALLED, at(run, &AFTER), number, got);
	ran(run, &AFTER);
}

/* A signal before the code at `where`, and its handler. */
void has_signal(struct run *run, uint64_t where)
{
	event(run, TRAIL_SIGNAL, where, 14, at(run, &HANDLER));
	ran(run, &HANDLER);
	ran(run, &SIGRETURN);
	/* at times it is unknown where it continues */
	event(run, TRAIL_SYSCALLED, run == A ? 0 : where, SYS_rt_sigreturn, 0);
}

void compare(void)
{
	const struct trail_path *paths[2];
	struct image *images[2];

	for (int i = 0; i < 2; i++) {
		struct run *run = &runs[i];

		run_path(run);
		sample_trail_thread_end(&run->sample);
		sample_trail_close(&run->sample);
		cr_assert_eq(trace_reader_open(&run->reader, run->sample.folder), 0);
		cr_assert_eq(trails_read(&run->trails, run->reader), 0);
		cr_assert_eq(run->trails.path_count, 1);
		cr_assert_null(run->trails.paths[0].damage, "%d: %s", i,
			       run->trails.paths[0].damage);
		cr_assert_eq(image_open(&run->image, &run->reader->meta.processes[0], NULL), 0);
		paths[i] = &run->trails.paths[0];
		images[i] = run->image;
	}
	cr_assert_eq(alike_open(&alike), 0);
	cr_assert_eq(divergence_find(&result, alike, paths, images, &options), 0);
}

/* The next block of one of them begins there. */
void expect_next(int which, uint64_t address)
{
	struct trail_cursor cursor = result.at[which];
	struct trail_item item;

	cr_assert(trail_next(&cursor, &item));
	cr_assert_not_null(item.block);
	cr_expect_eq(item.block->start, address, "%d: %lx", which, item.block->start);
}

void expect_same(uint64_t harmless)
{
	cr_expect_eq(result.kind, DIVERGENCE_NONE);
	cr_expect_eq(result.harmless_total, harmless, "%lu", result.harmless_total);
	cr_expect_not(result.is_unsure);
}
