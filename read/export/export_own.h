/* SPDX-License-Identifier: MIT */
/* What the exports of trails and of samples share. */
#ifndef READ_EXPORT_EXPORT_OWN_H
#define READ_EXPORT_EXPORT_OWN_H

#include "base/out.h"
#include "read/history/stacks.h"

/* Each stack that has a weight, one a line. With `marks_kernel`, the kernel's end in "_[k]". */
int export_stacks(struct out *out, const struct stacks *stacks, int marks_kernel);

/* ---- speedscope ---- */

/* The functions in the file, by their place in its list. */
struct export_frames {
	const struct function **all;
	size_t count, room;
	struct export_numbers *by_process;
	size_t process_count;
};

/* 0 or -ENOMEM; release in either case. */
int export_frames_init(struct export_frames *frames, size_t process_count);
void export_frames_release(struct export_frames *frames);

/* The place of a process's function. 0 or -ENOMEM. */
int export_frames_place(struct export_frames *frames, size_t process,
			const struct function *function, uint32_t *place);

/* What is before the profiles, and behind them. */
void export_speedscope_begin(struct out *out, const char *name);
void export_speedscope_end(struct out *out, const struct export_frames *frames);

/* A JSON string. */
void export_put_json(struct out *out, const char *text);

#endif
