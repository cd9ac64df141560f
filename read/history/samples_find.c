/* SPDX-License-Identifier: MIT */
/* Threads, functions and sums of samples, found again. */
#include "abi/trail.h"
#include "base/array.h"
#include "base/kernel_image.h"
#include "base/name_match.h"
#include "read/history/samples_own.h"

#include <errno.h>
#include <stdlib.h>

#define SLOTS_MIN 4096u

/* ---- threads ---- */

static int thread_fill(struct samples *samples, struct samples_thread *thread, uint64_t ns)
{
	const struct tsdl *meta = &samples->reader->meta;
	const char *program = NULL, *comm;

	thread->process = process_number_at(&samples->numbers, thread->pid, ns, &thread->until_ns);
	if (thread->process != PROCESS_NUMBER_NONE)
		program = meta->processes[thread->process].exe;
	if (!thread->pid && !thread->tid)
		program = "[idle]";
	comm = thread_names_find(&samples->names, thread->pid, thread->tid, ns);
	if (comm && !*comm)
		comm = NULL;
	program = program && *program ? name_last_part(program) : comm ? comm : "?";
	thread->program = stacks_name(&samples->stacks, program);
	thread->comm = stacks_name(&samples->stacks, comm ? comm : program);
	if (!thread->program || !thread->comm ||
	    stacks_of(&samples->stacks, STACKS_ROOT, NULL, 0, thread->program, &thread->stack) ||
	    stacks_of(&samples->stacks, thread->stack, NULL, 0, thread->comm, &thread->stack))
		return -ENOMEM;
	return 0;
}

int samples_thread_find(struct samples *samples, uint32_t pid, uint32_t tid, uint64_t ns,
			uint32_t *number)
{
	size_t *slot = &samples->tids[tid % SAMPLES_TID_SLOTS], at = 0;
	struct samples_thread *thread;

	/* of several programs that had this number, the one at that time ended first behind it */
	for (size_t i = *slot; i; i = samples->threads[i - 1].older) {
		thread = &samples->threads[i - 1];
		if (thread->pid == pid && thread->tid == tid && ns < thread->until_ns &&
		    (!at || thread->until_ns < samples->threads[at - 1].until_ns))
			at = i;
	}
	if (!at) {
		if (array_grow(&samples->threads, &samples->thread_room, samples->thread_count + 1,
			       sizeof(*samples->threads)))
			return -ENOMEM;
		thread = &samples->threads[samples->thread_count];
		*thread = (struct samples_thread){ .pid = pid, .tid = tid, .older = *slot };
		if (thread_fill(samples, thread, ns))
			return -ENOMEM;
		at = *slot = ++samples->thread_count;
	}
	*number = (uint32_t)(at - 1);
	return 0;
}

/* ---- functions ---- */

/* The image of a sum's process. NULL: no memory. */
static struct image *samples_image(struct samples *samples, uint32_t process)
{
	static const struct tsdl_process unknown;
	struct image_options options = samples->options.image;
	const struct tsdl *meta = &samples->reader->meta;
	uint32_t at = process < meta->process_count ? process : meta->process_count;
	struct samples_process *of = &samples->processes[at];

	options.files = samples->files;
	options.trace = at < meta->process_count ? samples->reader : NULL;
	if (!of->image &&
	    image_open(&of->image, at < meta->process_count ? &meta->processes[at] : &unknown,
		       &options))
		return NULL;
	return of->image;
}

size_t samples_function_count(const struct samples *samples, uint32_t process)
{
	return samples->processes[process].functions.count;
}

struct image *samples_image_known(const struct samples *samples, uint32_t process)
{
	return samples->processes ? samples->processes[process].image : NULL;
}

static size_t frame_slot(const struct samples_frame *frames, size_t count,
			 const struct image *image, uint64_t address)
{
	uint64_t key = address + ((uintptr_t)image >> 4);
	size_t at = (size_t)(key * 0x9e3779b97f4a7c15ull >> 20) & (count - 1);

	while (frames[at].function && (frames[at].address != address || frames[at].image != image))
		at = (at + 1) & (count - 1);
	return at;
}

static int frames_grow(struct samples *samples)
{
	size_t count = samples->frame_slots ? samples->frame_slots * 2 : SLOTS_MIN;
	struct samples_frame *frames;

	if (samples->frame_count * 2 < samples->frame_slots)
		return 0;
	frames = calloc(count, sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (size_t i = 0; i < samples->frame_slots; i++) {
		const struct samples_frame *frame = &samples->frames[i];

		if (frame->function)
			frames[frame_slot(frames, count, frame->image, frame->address)] = *frame;
	}
	free(samples->frames);
	samples->frames = frames;
	samples->frame_slots = count;
	return 0;
}

struct functions *samples_functions(struct samples *samples, uint32_t process)
{
	struct image *image = samples_image(samples, process);
	struct samples_process *of = &samples->processes[process];

	return image && (of->functions.image || !functions_open(&of->functions, image))
		       ? &of->functions
		       : NULL;
}

/*
 * Code in no module is of a function for each address, and not of one for all; but the kernel's
 * without names is one.
 */
static const struct function *function_find(struct samples *samples, uint32_t process,
					    struct image *image, uint64_t address)
{
	struct functions *functions = samples_functions(samples, process);
	const struct function *function;

	if (!functions)
		return NULL;
	if (!address) /* record/ has recorded the engine's own so */
		return functions_named(functions, "[engine]", 1);
	function = functions_in(functions, image, address);
	if (!function || function->module)
		return function;
	return address < TRAIL_KERNEL ? functions_entered(functions, function, address)
				      : functions_named(functions, KERNEL_PATH, TRAIL_KERNEL);
}

const struct function *samples_function(struct samples *samples, uint32_t process, uint64_t address,
					uint64_t ns, uint32_t *whose)
{
	struct samples_frame *frame;
	struct image *image;

	if (address >= TRAIL_KERNEL)
		process = samples->kernel;
	if (process > samples->reader->meta.process_count)
		process = samples->reader->meta.process_count;
	*whose = process;
	image = samples_image(samples, process);
	image = image ? image_then(image, ns, NULL) : NULL;
	if (!image || frames_grow(samples))
		return NULL;
	frame = &samples->frames[frame_slot(samples->frames, samples->frame_slots, image, address)];
	if (!frame->function) {
		*frame = (struct samples_frame){ address, image,
						 function_find(samples, process, image, address) };
		samples->frame_count += frame->function != NULL;
	}
	return frame->function;
}

/* ---- sums ---- */

static uint32_t sum_hash(const struct samples_sum *sum)
{
	uint64_t key = sum->address * 0x9e3779b97f4a7c15ull +
		       (((uint64_t)sum->stack << 32 | sum->thread) ^ sum->event);

	return (uint32_t)(key * 0xff51afd7ed558ccdull >> 20);
}

static int is_same(const struct samples_sum *a, const struct samples_sum *b)
{
	return a->stack == b->stack && a->thread == b->thread && a->event == b->event &&
	       a->address == b->address;
}

int samples_sum_find(struct samples *samples, const struct samples_sum *like, uint32_t *number)
{
	uint32_t hash = sum_hash(like);

	if (slots_fit(&samples->slots) || samples->sum_count == UINT32_MAX - 1 ||
	    array_grow(&samples->sums, &samples->sum_room, samples->sum_count + 1,
		       sizeof(*samples->sums)))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&samples->slots, hash, &at, number);)
		if (is_same(&samples->sums[*number], like))
			return 0;
	*number = (uint32_t)samples->sum_count;
	samples->sums[samples->sum_count++] = *like;
	slots_add(&samples->slots, hash, *number);
	return 0;
}
