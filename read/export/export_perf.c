/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>

#define STACK_MIN 17u
#define STACK_MAX 32u
#define STACK_LIMIT 1024u /* where each branch leads to a function's beginning */
#define PAGE 4096u

/* Branches that follow each other with nothing but straight code between. */
struct brstack {
	struct export *export;
	struct image *image; /* of that era */
	struct branch {
		uint64_t from, to;
	} branches[STACK_LIMIT];
	uint32_t count, room;
	uint32_t again; /* the first of them was the last of the stack before */
	uint64_t seed;
	int error;
	size_t process;			 /* whose these are */
	const struct trail_table *table; /* its era's and process's mappings were written last */
	size_t mapped;
};

/* An address as perf writes it, without 0x. */
static void put_hex(struct out *out, uint64_t value)
{
	char text[20];
	int bytes = snprintf(text, sizeof(text), "%16lx", (unsigned long)value);

	out_short(out, text, (size_t)bytes);
}

/* The next branch does not follow the last one directly, or the stack is full. */
static void flush(struct brstack *stack)
{
	struct out *out = stack->export->out;
	uint32_t count = stack->count;

	stack->count = 0;
	if (count == stack->again) { /* nothing new */
		stack->again = 0;
		return;
	}
	stack->again = 0;
	put_hex(out, stack->branches[count - 1].to);
	out_char(out, ' ');
	for (uint32_t i = count; i--;) {
		out_char(out, ' ');
		out_hex(out, stack->branches[i].from);
		out_char(out, '/');
		out_hex(out, stack->branches[i].to);
		out_literal(out, "/P/-/-/0 ");
	}
	out_char(out, '\n');
	/*
	 * of different lengths, so that readers which do not recognise a repeated branch count no
	 * line of a loop more than others
	 */
	stack->seed = stack->seed * 6364136223846793005ull + 1442695040888963407ull;
	stack->room = STACK_MIN + (uint32_t)(stack->seed >> 33) % (STACK_MAX - STACK_MIN + 1);
}

/* Whether it counts as a call: repeated, the function would be entered twice. */
static int is_entry(struct brstack *stack, uint64_t to)
{
	const struct image_place *place = image_place(stack->image, to);

	if (!place)
		stack->error = -ENOMEM;
	return place && place->start == to;
}

/*
 * Readers count the code between the branches of a stack. So that the code between two stacks is
 * counted too, the last branch of one is the first of the next.
 */
static void branch(struct brstack *stack, uint64_t from, uint64_t to)
{
	stack->branches[stack->count++] = (struct branch){ from, to };
	if (stack->count < stack->room || (is_entry(stack, to) && stack->count < STACK_LIMIT))
		return;
	flush(stack);
	stack->branches[stack->count++] = (struct branch){ from, to };
	stack->again = 1;
}

/* ---- what is mapped where ---- */

static void put_mapping(struct export *export, const struct export_process *process,
			const struct image_module *module, const struct code_segment *segment)
{
	uint64_t begin = module->base + segment->address, end = begin + segment->bytes;
	char text[160];
	int bytes;

	begin -= begin % PAGE;
	end += (PAGE - end % PAGE) % PAGE;
	bytes = snprintf(text, sizeof(text),
			 "PERF_RECORD_MMAP2 %u/%u: [%#lx(%#lx) @ %#lx 00:00 0 0]: r-xp ",
			 process->pid, process->pid, (unsigned long)begin,
			 (unsigned long)(end - begin),
			 (unsigned long)(segment->offset - segment->offset % PAGE));
	out_short(export->out, text, (size_t)bytes);
	out_text(export->out, module->path, strlen(module->path));
	out_char(export->out, '\n');
}

static int put_mappings(struct export *export, const struct export_process *process,
			struct image *image)
{
	struct image_module *module;

	for (size_t i = 0; (module = image_module(image, i)); i++) {
		if (!image_has(image, module))
			continue;
		/* asked for, it is opened */
		if (!image_place(image, module->start))
			return -ENOMEM;
		for (size_t j = 0; module->file && j < module->file->segment_count; j++) {
			const struct code_segment *segment = &module->file->segments[j];

			if (segment->type == PT_LOAD && segment->flags & PF_X)
				put_mapping(export, process, module, segment);
		}
	}
	return 0;
}

/* Whether going on at `to` after a block is a branch that was taken. */
static int is_taken(const struct trail_block *block, uint64_t to)
{
	switch (block->kind) {
	case TRAIL_FALL:
	case TRAIL_STOP:
		return 0;
	case TRAIL_SYSCALL:
		return to >= TRAIL_KERNEL;
	case TRAIL_BRANCH:
		return to != block->start + block->bytes;
	default:
		return 1;
	}
}

/* The thread continues at `to`: 0 if it is unknown how it came there. */
static int goes_on(struct brstack *stack, const struct trail_block *before, uint64_t to)
{
	if (!before || !trail_block_leads(before, to))
		return 0;
	if (is_taken(before, to))
		branch(stack, before->start + before->last, to);
	return 1;
}

/* The event behind `before`: whether code is straight over it. */
static int event(struct brstack *stack, const struct trail_block *before,
		 const struct trail_between *between)
{
	switch ((enum trail_event)between->event) {
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
	case TRAIL_FORK:
	case TRAIL_SYSCALLED:
	case TRAIL_SIGNAL:
		if (before && between->at && !between->left && !goes_on(stack, before, between->at))
			return 0;
		return between->event != TRAIL_SIGNAL;
	default:
		return 0;
	}
}

/* The next branches are of this item's era: write its mappings before them, if it is a new one. */
static int era(struct brstack *stack, const struct trail_item *item)
{
	struct export_process *process = &stack->export->processes[stack->process];
	const struct trail_table *before = stack->table;

	if (!item->block || (before == item->table && stack->mapped == stack->process))
		return 0;
	if (before && stack->mapped == stack->process &&
	    before->era.number == item->table->era.number)
		return 0;
	flush(stack);
	stack->table = item->table;
	stack->mapped = stack->process;
	stack->image = image_in(process->image, item->table);
	return stack->image ? put_mappings(stack->export, process, stack->image) : -ENOMEM;
}

/* A thread's branches, oldest first; ends early where writing has failed. */
static int thread_put(struct brstack *stack, const struct export_thread *thread)
{
	struct export *export = stack->export;
	struct trail_range range = thread->range;
	const struct trail_block *before = NULL;
	uint64_t blocks = 0;
	struct trail_item item;
	int err = 0;

	stack->process = thread->process;
	while (trail_range_next(&range, &item) && !export->out->error &&
	       !(err = era(stack, &item))) {
		if (!item.block) {
			int is_straight = event(stack, before, item.between);

			if (!is_straight)
				flush(stack);
			if (!is_straight || item.between->at)
				before = NULL;
			continue;
		}
		if (before && !goes_on(stack, before, item.block->start))
			flush(stack);
		before = item.ran == item.block->instructions ? item.block : NULL;
		export_beat(export, ++blocks);
	}
	flush(stack);
	export->done += blocks;
	return err ? err : stack->error;
}

int export_perf_script(struct export *export)
{
	struct brstack stack = { .export = export, .room = STACK_MAX, .seed = 1 };
	int err = 0;

	for (size_t i = 0; i < export->thread_count && !err; i++)
		err = thread_put(&stack, &export->threads[i]);
	return err;
}
