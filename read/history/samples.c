/* SPDX-License-Identifier: MIT */
#include "read/history/samples.h"

#include "abi/trail.h"
#include "base/array.h"
#include "base/kernel_image.h"
#include "base/name_match.h"
#include "read/history/calls.h"
#include "read/history/samples_trail.h"
#include "read/pass/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct samples_frame {
	uint64_t address;
	const struct image *image; /* of its process, then */
	const struct function *function;
};

#define SAMPLES_TID_SLOTS 65536u

/* Where the fields of a class are that a sample is made of. */
struct layout {
	int ip, period, callchain; /* numbers of fields; -1: none */
};

static int field_of(const struct trace_class *class, const char *name, uint8_t type)
{
	for (unsigned int i = 0; i < class->count; i++)
		if (class->types[i] == type && !strcmp(class->fields[i], name))
			return (int)i;
	return -1;
}

static struct layout layout_of(const struct trace_class *class)
{
	return (struct layout){ .ip = field_of(class, "ip", WM_TYPE_PTR),
				.period = field_of(class, "period", WM_TYPE_U64),
				.callchain = field_of(class, "callchain", WM_TYPE_ADDRESSES) };
}

static int is_sample(const struct trace_class *class)
{
	return class->has_thread && field_of(class, "ip", WM_TYPE_PTR) >= 0;
}

static int matches(const char *glob, const char *name)
{
	return !glob || name_match(glob, name) ||
	       (!strncmp(name, "sample:", 7) && name_match(glob, name + 7));
}

/* The kernel's with a place; others with callers, markers and probes too, where they are named. */
static int is_wanted_class(const char *glob, const struct fact_process *process,
			   const struct trace_class *class)
{
	return matches(glob, class->name) && ((process->is_kernel && is_sample(class)) ||
					      (glob && layout_of(class).callchain >= 0));
}

int samples_are_in(const struct trace_reader *reader)
{
	return samples_events(reader, NULL, NULL, 0) != 0;
}

/* Whether names[] has it already; count may be more than the `most` that it holds. */
static int is_among(const char *name, const char **names, size_t count, size_t most)
{
	for (size_t i = 0; i < count && i < most; i++)
		if (!strcmp(names[i], name))
			return 1;
	return 0;
}

size_t samples_events(const struct trace_reader *reader, const char *glob, const char **names,
		      size_t most)
{
	size_t count = 0;

	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct fact_process *process = &reader->meta.processes[i];
		uint32_t classes = process->schema ? process->schema->count : 0;

		for (uint32_t j = 0; j < classes; j++) {
			const struct trace_class *class = process->schema->classes[j];

			if (!is_wanted_class(glob, process, class) ||
			    is_among(class->name, names, count, most))
				continue;
			if (count < most)
				names[count] = class->name;
			count++;
		}
	}
	return count;
}

/* ---- threads ---- */

static int thread_fill(struct samples *samples, struct samples_thread *thread, uint64_t ns)
{
	const struct facts *meta = &samples->reader->meta;
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

size_t samples_function_count(const struct samples *samples, uint32_t process)
{
	return samples->functions[process].count;
}

struct functions *samples_functions(struct samples *samples, uint32_t process)
{
	struct image *image = images_get(samples->images, process);
	struct functions *of = &samples->functions[process];

	return image && (of->image || !functions_open(of, image)) ? of : NULL;
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

/*
 * The function at an address of a process, at a time by the wall clock, and whose image has it.
 * NULL: no memory.
 */
static const struct function *samples_function(struct samples *samples, uint32_t process,
					       uint64_t address, uint64_t ns, uint32_t *whose)
{
	const struct function *function;
	struct image *image;
	uint32_t hash, number;

	if (address >= TRAIL_KERNEL)
		process = samples->kernel;
	if (process > samples->reader->meta.process_count)
		process = samples->reader->meta.process_count;
	*whose = process;
	image = images_get(samples->images, process);
	image = image ? image_then(image, ns, NULL) : NULL;
	if (!image || slots_fit(&samples->frame_slots) ||
	    array_grow(&samples->frames, &samples->frame_room, samples->frame_count + 1,
		       sizeof(*samples->frames)))
		return NULL;
	hash = slots_hash(address + ((uintptr_t)image >> 4));
	for (uint64_t at = hash; slots_next(&samples->frame_slots, hash, &at, &number);)
		if (samples->frames[number].address == address &&
		    samples->frames[number].image == image)
			return samples->frames[number].function;
	function = function_find(samples, process, image, address);
	if (!function)
		return NULL;
	slots_add(&samples->frame_slots, hash, (uint32_t)samples->frame_count);
	samples->frames[samples->frame_count++] = (struct samples_frame){ address, image,
									  function };
	return function;
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

/* The sum for such a sample. 0 or -ENOMEM. */
static int samples_sum_find(struct samples *samples, const struct samples_sum *like,
			    uint32_t *number)
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

/* ---- events ---- */

/* Its number, that of a new one for a new class. 0 or -ENOMEM. */
static int event_find(struct samples *samples, const struct trace_class *class, uint32_t *number)
{
	static const char clocks[][20] = { "sample:cpu-clock", "sample:task-clock" };
	struct samples_event *event;
	struct layout layout;

	for (*number = 0; *number < samples->event_count; ++*number)
		if (!strcmp(samples->events[*number].name, class->name))
			return 0;
	if (array_grow(&samples->events, &samples->event_room, samples->event_count + 1,
		       sizeof(*samples->events)))
		return -ENOMEM;
	layout = layout_of(class);
	event = &samples->events[samples->event_count++];
	*event = (struct samples_event){ .name = class->name,
					 .has_period = layout.period >= 0,
					 .has_stacks = layout.callchain >= 0 };
	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		size_t bytes = strlen(clocks[i]);

		event->is_time |= event->has_period && !strncmp(class->name, clocks[i], bytes) &&
				  (!class->name[bytes] || class->name[bytes] == ':');
	}
	return 0;
}

static int is_wanted(const struct samples *samples, const struct merge_event *event)
{
	const struct samples_options *options = &samples->options;

	if ((options->pid && event->pid != options->pid) ||
	    (options->tid && event->tid != options->tid))
		return 0;
	return event->class &&
	       is_wanted_class(options->event,
			       &samples->reader->meta.processes[event->stream->process],
			       event->class);
}

/* ---- one sample ---- */

static uint64_t address_at(const struct wm_event_field *chain, size_t index)
{
	uint64_t address;

	memcpy(&address, (const uint8_t *)chain->value.run.start + 8 * index, sizeof(address));
	return address;
}

/*
 * The address by which a frame's function is found. A caller's is where its call returns to, so
 * the byte before is the call's; but the first frame of user space, behind the kernel's, was
 * interrupted.
 */
static uint64_t place_of(const struct wm_event_field *chain, size_t index)
{
	uint64_t address = address_at(chain, index);
	int is_entry = address < TRAIL_KERNEL && address_at(chain, index - 1) >= TRAIL_KERNEL;

	return address - (address && !is_entry);
}

/*
 * How many frames a stack has: what comes behind the program's frames and is of the kernel was no
 * frame.
 */
static size_t frames_of(const struct wm_event_field *chain)
{
	size_t count = chain ? chain->value.run.bytes / 8 : 0, at = 1;

	count = count < SAMPLES_DEPTH_MAX ? count : SAMPLES_DEPTH_MAX;
	while (at < count &&
	       (address_at(chain, at) < TRAIL_KERNEL || address_at(chain, at - 1) >= TRAIL_KERNEL))
		at++;
	return at < count ? at : count;
}

/* What an event says of a sample. */
struct taken {
	const struct merge_event *from;
	const struct wm_event_field *chain; /* NULL: it has none */
	uint64_t ip, weight;
	uint32_t thread;
};

/*
 * The stack of a thread's functions, from the outermost to the sample's; `stack` is what they
 * are on. 0 or -ENOMEM.
 */
static int stack_find(struct samples *samples, uint32_t process, uint32_t stack,
		      const struct taken *taken, struct samples_sum *like)
{
	const struct wm_event_field *chain = taken->chain;
	const struct function *function;
	uint32_t whose = 0;
	int err = 0;

	for (size_t i = frames_of(chain); i-- > 1 && !err;) {
		function = samples_function(samples, process, place_of(chain, i), taken->from->ns,
					    &whose);
		err = function ? stacks_of(&samples->stacks, stack, function, whose, NULL, &stack)
			       : -ENOMEM;
	}
	if (err)
		return err;
	function = samples_function(samples, process, taken->ip, taken->from->ns, &whose);
	like->process = whose;
	return function ? stacks_of(&samples->stacks, stack, function, whose, NULL, &like->stack)
			: -ENOMEM;
}

int samples_stack(struct samples *samples, const struct merge_event *event, uint64_t place,
		  uint32_t *stack)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct layout layout = layout_of(event->class);
	struct taken taken = { .from = event, .ip = place };
	struct samples_sum like = { .stack = STACKS_ROOT };
	uint32_t process = process_number_at(&samples->numbers, event->pid, event->ns, NULL);
	int err = 0;

	if (layout.callchain >= 0) {
		trace_fields(fields, event->class, event->fields);
		if (fields[layout.callchain].value.run.bytes) {
			taken.chain = &fields[layout.callchain];
			taken.ip = address_at(taken.chain, 0);
		}
	}
	if (taken.ip)
		err = stack_find(samples, process, STACKS_ROOT, &taken, &like);
	*stack = like.stack;
	return err;
}

struct samples_reading {
	struct samples *samples;
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct samples_trail *trail; /* NULL: no callers are in it */
	struct samples_trail trails; /* zeroed: none */
	int (*take_one)(struct samples_reading *reading, const struct taken *taken);
	size_t without; /* samples that were recorded without callers, so far */
	int (*take)(const struct samples_one *one, void *data);
	void *data;
};

/* Have the trail look for the callers of a sample that was recorded without. */
static int take_without(struct samples_reading *reading, const struct taken *taken)
{
	return taken->chain ? 0
			    : samples_trail_add(reading->trail, taken->thread, taken->ip,
						taken->from->ns);
}

static int take_sample(struct samples_reading *reading, const struct taken *taken)
{
	struct samples *samples = reading->samples;
	struct samples_thread *thread = &samples->threads[taken->thread];
	struct samples_sum like = { .thread = taken->thread, .address = taken->ip };
	const struct samples_callers *callers = NULL;
	struct samples_event *event;
	uint32_t sum;
	int err = event_find(samples, taken->from->class, &like.event);

	if (err)
		return err;
	if (reading->trail && !taken->chain)
		callers = &reading->trail->callers[reading->without++];
	if (callers && callers->stack == STACKS_ROOT)
		callers = NULL;
	err = stack_find(samples, thread->process, callers ? callers->stack : thread->stack, taken,
			 &like);
	if (!err)
		err = samples_sum_find(samples, &like, &sum);
	if (err)
		return err;
	event = &samples->events[like.event];
	event->count++;
	event->weight += taken->weight;
	event->has_stacks |= callers != NULL;
	event->cut += callers ? (uint64_t)callers->is_cut
			      : taken->chain && taken->chain->state == FIELD_CUT;
	samples->threads[like.thread].count++;
	samples->sums[sum].count++;
	samples->sums[sum].weight += taken->weight;
	return reading->take
		       ? reading->take(&(struct samples_one){ sum, taken->weight, taken->from->ns },
				       reading->data)
		       : 0;
}

static int take_event(struct samples_reading *reading, const struct merge_event *from,
		      int (*take)(struct samples_reading *reading, const struct taken *taken))
{
	struct layout layout = layout_of(from->class);
	struct taken taken = { .from = from, .weight = 1 };
	int err = samples_thread_find(reading->samples, from->pid, from->tid, from->ns,
				      &taken.thread);

	if (err)
		return err;
	trace_fields(reading->fields, from->class, from->fields);
	if (layout.period >= 0)
		taken.weight = reading->fields[layout.period].value.u;
	if (layout.callchain >= 0)
		taken.chain = &reading->fields[layout.callchain];
	if (layout.ip >= 0)
		taken.ip = reading->fields[layout.ip].value.u;
	else if (taken.chain->value.run.bytes)
		taken.ip = address_at(taken.chain, 0);
	else
		return 0; /* its callers could not be read */
	return take(reading, &taken);
}

static void samples_reading_free(struct samples_reading *reading)
{
	if (reading)
		samples_trail_release(&reading->trails);
	free(reading);
}

int samples_open(struct samples *samples, struct images *images,
		 const struct samples_options *options)
{
	struct trace_reader *reader = images->reader;
	uint32_t count = reader->meta.process_count;
	int err;

	*samples = (struct samples){
		.images = images, .reader = reader, .options = *options, .kernel = count
	};
	for (uint32_t i = 0; i < count; i++)
		if (reader->meta.processes[i].is_kernel)
			samples->kernel = i;
	samples->functions = calloc((size_t)count + 1, sizeof(*samples->functions));
	samples->tids = calloc(SAMPLES_TID_SLOTS, sizeof(*samples->tids));
	err = stacks_init(&samples->stacks);
	if (!err)
		err = thread_names_read(&samples->names, reader);
	if (!err)
		err = process_numbers_make(&samples->numbers, reader);
	return samples->functions && samples->tids ? err : -ENOMEM;
}

void samples_close(struct samples *samples)
{
	for (uint32_t i = 0; samples->functions && i <= samples->reader->meta.process_count; i++)
		functions_close(&samples->functions[i]);
	stacks_release(&samples->stacks);
	free(samples->functions);
	free(samples->events);
	free(samples->threads);
	free(samples->sums);
	free(samples->frames);
	free(samples->frame_slots.all);
	free(samples->slots.all);
	free(samples->tids);
	samples_reading_free(samples->reading);
	thread_names_release(&samples->names);
	process_numbers_release(&samples->numbers);
	*samples = (struct samples){ 0 };
}

/* ---- the pass ---- */

static int samples_want(const struct pass_observer *observer, uint32_t process,
			const struct trace_class *class)
{
	const struct samples *samples = (const struct samples *)observer;

	return is_wanted_class(samples->options.event, &samples->reader->meta.processes[process],
			       class);
}

static int samples_take(struct pass_observer *observer, const struct merge_event *event)
{
	struct samples *samples = (struct samples *)observer;

	return is_wanted(samples, event)
		       ? take_event(samples->reading, event, samples->reading->take_one)
		       : 0;
}

static int pass_alone(struct samples *samples)
{
	struct pass_observer *observer = &samples->observer;

	return pass_read(samples->reader, &observer, 1);
}

/* Whether samples that are wanted were recorded without callers. */
static int is_any_without(const struct samples *samples)
{
	const struct facts *meta = &samples->reader->meta;
	const struct trace_schema *schema = samples->kernel < meta->process_count
						    ? meta->processes[samples->kernel].schema
						    : NULL;

	for (uint32_t i = 0; schema && i < schema->count; i++)
		if (is_sample(schema->classes[i]) &&
		    matches(samples->options.event, schema->classes[i]->name) &&
		    layout_of(schema->classes[i]).callchain < 0)
			return 1;
	return 0;
}

int samples_observe(struct samples *samples, int (*take)(const struct samples_one *one, void *data),
		    void *data)
{
	struct samples_reading *reading = calloc(1, sizeof(*reading));
	struct samples_trail *trail;
	int err;

	if (!reading)
		return -ENOMEM;
	samples->observer = (struct pass_observer){ samples_want, samples_take };
	samples->reading = reading;
	*reading = (struct samples_reading){
		.samples = samples, .take_one = take_without, .take = take, .data = data
	};
	if (samples->options.wants_trails && is_any_without(samples)) {
		trail = reading->trail = &reading->trails;
		err = samples_trail_open(trail, samples);
		if (!err && trail->trails.path_count)
			err = pass_alone(samples);
		if (!err)
			err = samples_trail_walk(trail);
		if (err)
			return err;
		if (!trail->trails.path_count)
			reading->trail = NULL;
	}
	reading->take_one = take_sample;
	return 0;
}

int samples_read(struct samples *samples, int (*take)(const struct samples_one *one, void *data),
		 void *data)
{
	int err = samples_observe(samples, take, data);

	return err ? err : pass_alone(samples);
}
