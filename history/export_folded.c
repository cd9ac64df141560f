/* SPDX-License-Identifier: MIT */
#include "history/export.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of deeper stacks only the outermost frames are written: lines grow by depth, and so does their
 * number.
 */
#define DEPTH_MAX 1000u
#define SLOTS_MIN 4096u
#define ROOT 0u

/* A stack: another one and a function more. The first is empty. */
struct stack {
	const struct function *function; /* NULL: a thread's name */
	const char *comm;
	uint32_t outer;
	uint64_t weight;
};

struct folded {
	struct export *export;
	struct stack *stacks;
	size_t count, room;
	uint32_t *slots; /* numbers of stacks by outer and function: open addressing; 0: free */
	size_t slot_count;
};

static size_t slot_of(const struct folded *folded, uint32_t outer, const void *what)
{
	uint64_t key = ((uintptr_t)what >> 4) * 0x9e3779b97f4a7c15ull + outer;
	size_t at = (size_t)(key * 0xff51afd7ed558ccdull >> 20) & (folded->slot_count - 1);

	for (; folded->slots[at]; at = (at + 1) & (folded->slot_count - 1)) {
		const struct stack *stack = &folded->stacks[folded->slots[at]];

		if (stack->outer == outer &&
		    (stack->function ? (const void *)stack->function : stack->comm) == what)
			break;
	}
	return at;
}

static int slots_grow(struct folded *folded)
{
	size_t count = folded->slot_count ? folded->slot_count * 2 : SLOTS_MIN;
	uint32_t *slots;

	if (folded->count * 2 < folded->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(folded->slots);
	folded->slots = slots;
	folded->slot_count = count;
	for (size_t i = 1; i < folded->count; i++) {
		const struct stack *stack = &folded->stacks[i];

		slots[slot_of(folded, stack->outer,
			      stack->function ? (const void *)stack->function
					      : stack->comm)] = (uint32_t)i;
	}
	return 0;
}

/* The stack of `outer` and one more. 0 or -ENOMEM. */
static int stack_of(struct folded *folded, uint32_t outer, const struct function *function,
		    const char *comm, uint32_t *number)
{
	size_t slot;

	if (slots_grow(folded) || folded->count == UINT32_MAX ||
	    array_grow(&folded->stacks, &folded->room, folded->count + 1, sizeof(*folded->stacks)))
		return -ENOMEM;
	slot = slot_of(folded, outer, function ? (const void *)function : comm);
	if (!folded->slots[slot]) {
		folded->stacks[folded->count] = (struct stack){ .function = function,
								.comm = comm,
								.outer = outer };
		folded->slots[slot] = (uint32_t)folded->count++;
	}
	*number = folded->slots[slot];
	return 0;
}

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
	else if (stack_of(folded, fold->at, frame->function, NULL, &fold->at))
		return -ENOMEM;
	else
		fold->depth++;
	/* what ran before the range does not count: it is added again when the frame goes */
	folded->stacks[fold->at].weight -= weight_of(folded, frame);
	return 0;
}

static void frame_went(struct fold *fold, const struct call_frame *frame)
{
	struct stack *stack = &fold->folded->stacks[fold->at];

	stack->weight += weight_of(fold->folded, frame);
	if (fold->past) {
		fold->past--;
		return;
	}
	fold->at = stack->outer;
	fold->depth--;
}

static int fold_thread(struct folded *folded, const struct export_thread *thread, const char *comm,
		       struct calls *calls)
{
	struct fold fold = { .folded = folded };
	struct call_change change;
	int more = stack_of(folded, ROOT, NULL, comm, &fold.at);

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

/* Threads of one name are one. */
static const char *comm_of(const struct export *export, size_t thread)
{
	const char *comm = export->threads[thread].path->stream->comm;

	for (size_t i = 0; i < thread; i++)
		if (!strcmp(export->threads[i].path->stream->comm, comm))
			return export->threads[i].path->stream->comm;
	return comm;
}

/* ---- lines ---- */

/* A name without what divides names and lines. */
static void put_name(struct out *out, const char *name)
{
	for (; *name; name++)
		out_char(out, *name == ';' ? ':' : (unsigned char)*name < ' ' ? '_' : *name);
}

static void put_frame(struct out *out, const struct stack *stack)
{
	char text[FUNCTION_TEXT_BYTES];

	put_name(out, stack->function ? function_text(stack->function, text, sizeof(text))
				      : stack->comm);
}

static void put_stack(struct folded *folded, const struct stack *stack, uint32_t *frames)
{
	struct out *out = folded->export->out;
	uint32_t depth = 0;

	for (const struct stack *at = stack; at != folded->stacks; at = &folded->stacks[at->outer])
		frames[depth++] = (uint32_t)(at - folded->stacks);
	while (depth--) {
		put_frame(out, &folded->stacks[frames[depth]]);
		if (depth)
			out_char(out, ';');
	}
	out_char(out, ' ');
	out_u64(out, stack->weight);
	out_char(out, '\n');
}

int export_folded(struct export *export)
{
	struct folded folded = { .export = export };
	uint32_t *frames = calloc(DEPTH_MAX + 2, sizeof(*frames));
	struct stack root = { 0 };
	int err = frames ? array_grow(&folded.stacks, &folded.room, 1, sizeof(root)) : -ENOMEM;

	if (!err)
		folded.stacks[folded.count++] = root;
	for (size_t i = 0; i < export->thread_count && !err; i++) {
		const struct export_thread *thread = &export->threads[i];
		struct calls calls;

		calls_init(&calls, thread->path, &export->processes[thread->process].functions, 0);
		err = fold_thread(&folded, thread, comm_of(export, i), &calls);
		export->done += calls.blocks;
		calls_release(&calls);
	}
	for (size_t i = 1; i < folded.count && !err; i++)
		if (folded.stacks[i].weight)
			put_stack(&folded, &folded.stacks[i], frames);
	free(folded.stacks);
	free(folded.slots);
	free(frames);
	return err;
}
