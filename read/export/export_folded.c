/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"

#include "read/export/export_own.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Of deeper stacks only the outermost frames are written: lines grow by depth, and so does their
 * number.
 */
#define DEPTH_MAX 1000u

struct folded {
	struct export *export;
	struct stacks stacks;
};

/* ---- a thread ---- */

struct fold {
	struct folded *folded;
	uint32_t at;   /* the stack as it is */
	uint64_t past; /* frames deeper than are kept */
	uint32_t depth;
};

static uint64_t weight_of(const struct folded *folded, const struct call_frame *frame)
{
	return folded->export->weight == EXPORT_BLOCKS ? frame->blocks : frame->instructions;
}

static int frame_came(struct fold *fold, const struct call_frame *frame)
{
	struct folded *folded = fold->folded;

	if (fold->depth == DEPTH_MAX)
		fold->past++;
	else if (stacks_of(&folded->stacks, fold->at, frame->function, 0, NULL, &fold->at))
		return -ENOMEM;
	else
		fold->depth++;
	/* what ran before the range does not count: it is added again when the frame goes */
	folded->stacks.all[fold->at].weight -= weight_of(folded, frame);
	return 0;
}

static void frame_went(struct fold *fold, const struct call_frame *frame)
{
	struct stacks_one *stack = &fold->folded->stacks.all[fold->at];

	stack->weight += weight_of(fold->folded, frame);
	if (fold->past) {
		fold->past--;
		return;
	}
	fold->at = stack->outer;
	fold->depth--;
}

static int fold_thread(struct folded *folded, const struct export_thread *thread,
		       struct calls *calls)
{
	struct fold fold = { .folded = folded };
	/* threads of one name are one */
	const char *comm = stacks_name(&folded->stacks, thread->path->stream->comm);
	struct call_change change;
	int more = comm ? stacks_of(&folded->stacks, STACKS_ROOT, NULL, 0, comm, &fold.at)
			: -ENOMEM;

	if (!more)
		more = calls_range(calls, &thread->range);
	for (uint32_t i = 0; i < calls->depth && !more; i++)
		more = frame_came(&fold, &calls->frames[i]);
	while (!more && (more = calls_next(calls, &change)) > 0) {
		more = 0;
		export_beat(folded->export, calls->blocks);
		if (change.kind == CALL_ENTER)
			more = frame_came(&fold, change.frame);
		else
			frame_went(&fold, change.frame);
	}
	return more;
}

/* ---- lines ---- */

/* A name without what divides names and lines, or changes a terminal. */
static void put_name(struct out *out, const char *name)
{
	size_t left = strlen(name), bytes;
	int is_unfit;

	for (; left; name += bytes, left -= bytes) {
		bytes = out_character(name, left, &is_unfit);
		if (is_unfit || *name == ';')
			out_char(out, is_unfit ? '_' : ':');
		else
			out_short(out, name, bytes);
	}
}

static void put_one(struct out *out, const struct stacks_one *one, int marks_kernel)
{
	char text[FUNCTION_TEXT_BYTES];

	put_name(out, one->function ? function_text(one->function, text, sizeof(text)) : one->name);
	if (one->function && marks_kernel && function_is_kernel(one->function))
		out_literal(out, "_[k]");
}

int export_stacks(struct out *out, const struct stacks *stacks, int marks_kernel)
{
	uint32_t *numbers = calloc(stacks->depth + 1ul, sizeof(*numbers));

	if (!numbers)
		return -ENOMEM;
	for (uint32_t i = 1; i < stacks->count; i++) {
		uint32_t depth = 0;

		if (!stacks->all[i].weight)
			continue;
		for (uint32_t at = i; at != STACKS_ROOT; at = stacks->all[at].outer)
			numbers[depth++] = at;
		while (depth--) {
			put_one(out, &stacks->all[numbers[depth]], marks_kernel);
			out_char(out, depth ? ';' : ' ');
		}
		out_u64(out, stacks->all[i].weight);
		out_char(out, '\n');
	}
	free(numbers);
	return 0;
}

int export_folded(struct export *export)
{
	struct folded folded = { .export = export };
	int err = stacks_init(&folded.stacks);

	for (size_t i = 0; i < export->thread_count && !err; i++) {
		const struct export_thread *thread = &export->threads[i];
		struct calls calls;

		calls_init(&calls, thread->path, &export->processes[thread->process].functions, 0);
		err = fold_thread(&folded, thread, &calls);
		export->done += calls.blocks;
		calls_release(&calls);
	}
	if (!err)
		err = export_stacks(export->out, &folded.stacks, 0);
	stacks_release(&folded.stacks);
	return err;
}
