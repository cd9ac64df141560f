/* SPDX-License-Identifier: MIT */
/*
 * How a running program is rid of an engine. Threads that wait in a system call, perhaps for long,
 * are led out of the engine and are natively in the same call again. Once no thread is in the
 * engine, the program's own calls unmap its memory.
 *
 * All calls come from one thread. Nothing stays held.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_LEAVE_H
#define RECORD_TRAIL_SOFT_SOFT_LEAVE_H

#include "abi/engine.h"
#include "record/trail/soft/soft_image.h"
#include "target/process/target.h"

/* Addresses of the engine's parts in a process. */
struct soft_left {
	uint64_t engine, engine_bytes;
	uint64_t channel_at, channel_bytes;
	const struct engine_places *places; /* NULL: nothing of the engine's own is known */
};

/*
 * Lead threads that wait in calls out of the engine, by a checked copy of its places. Returns how
 * many. `head`: the channel's own, and held; NULL: none is, and their calls start again, without
 * the kernel's decision on a restart.
 */
int soft_leave_move(pid_t pid, const struct engine_places *places, struct engine_channel *head);

/* 0; -EAGAIN: somebody is in there yet; or an error: it stays. */
int soft_leave_unmap(pid_t pid, const struct soft_left *left);

/*
 * In the copy of the engine's file, where nothing reads it (e_ident's padding): of how many pages
 * it is, with all that is behind it; 4 bytes.
 */
#define SOFT_MARK_AT 12

/*
 * What earlier recordings have left in the process. 0, or a negative error with words about it: it
 * is being recorded, or somebody is in there and does not come out.
 */
int soft_leave_before(pid_t pid, const struct soft_image *image, struct detail detail);

/*
 * Before anybody else steps through it, has hardware record it or changes its code: its threads run
 * the engine's copies of that while another recording has it under an engine. 0 where none has, or
 * all have come out; or an error as above.
 */
int soft_leave_check(pid_t pid, struct detail detail);

#endif
