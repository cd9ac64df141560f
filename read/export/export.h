/* SPDX-License-Identifier: MIT */
/*
 * Trails, samples and events in forms that other tools read. Each is written as it is made, and
 * takes no more memory than there are different stacks, or none.
 */
#ifndef READ_EXPORT_EXPORT_H
#define READ_EXPORT_EXPORT_H

#include "base/out.h"
#include "read/history/calls.h"
#include "read/history/samples.h"

#include <stddef.h>
#include <stdint.h>

/* A thread's trail, and as much of it as is wanted. */
struct export_thread {
	const struct trail_path *path;
	struct trail_range range;
	size_t process; /* of export's processes */
};

struct export_process {
	struct image *image;
	struct functions functions; /* opened */
	uint32_t pid;
};

enum export_weight { EXPORT_INSTRUCTIONS, EXPORT_BLOCKS };

struct export
{
	struct out *out;
	const char *name; /* the trace's */
	struct export_thread *threads;
	size_t thread_count;
	struct export_process *processes;
	size_t process_count;
	enum export_weight weight; /* what stacks are weighed by */
	/* called now and then with how many blocks were gone through; NULL: not */
	void (*pulse)(struct export * export, uint64_t blocks);
	uint64_t done, reported; /* blocks of threads before; when pulse() was called last */
};

/*
 * Each returns 0 or a negative error; what can't be written is out->error's. The out is the
 * caller's to flush.
 */

/*
 * Stacks of functions, one a line with what ran in it: FUNCTION;FUNCTION;... WEIGHT, as flame
 * graphs are made of.
 */
int export_folded(struct export *export);

/*
 * The JSON of speedscope.app: each call's beginning and end, in instructions, and a profile for
 * each thread.
 */
int export_speedscope(struct export *export);

/*
 * What `perf script -F ip,brstack --show-mmap-events` prints of samples with branch stacks, which
 * makers of profiles for compilers read. Each branch that was taken is in one stack.
 */
int export_perf_script(struct export *export);

struct export_samples {
	struct out *out;
	const char *name;	 /* the trace's */
	struct samples *samples; /* opened, not read; of one event */
	int is_counted;		 /* each sample weighs 1, and not its period */
};

/*
 * Stacks, one a line with what they weigh: PROCESS;THREAD;FUNCTION;... WEIGHT. The kernel's
 * functions end in "_[k]", by which makers of flame graphs know them.
 */
int export_samples_folded(struct export_samples *export);

/* The JSON of speedscope.app: a profile for each thread, whose samples are in order of time. */
int export_samples_speedscope(struct export_samples *export);

/* Tell how far it is, if it is time to. `blocks`: of this thread. */
static inline void export_beat(struct export *export, uint64_t blocks)
{
	if (export->done + blocks - export->reported < 1u << 20)
		return;
	export->reported = export->done + blocks;
	if (export->pulse)
		export->pulse(export, export->reported);
}

/*
 * A trace's events as the JSON that ui.perfetto.dev reads: a track for each thread, and one for
 * each CPU with which thread ran when. Of this thread and process, 0 for all; CPUs have all
 * threads. 0, -ENOMEM; what can't be written is out->error's. The caller flushes.
 */
int export_perfetto(struct out *out, struct trace_reader *reader, uint32_t tid, uint32_t pid);

#endif
