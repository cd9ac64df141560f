/* SPDX-License-Identifier: MIT */
#include "cli/trail_view.h"

#include "abi/detour.h"
#include "base/lack.h"
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/damage.h"
#include "cli/pulse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define BLOCK_WORD "block:"
#define WATCH_WORD "watch:"
#define NAME_BYTES 256
#define NAMES_MAX 10000 /* that are looked through for near ones */
#define THREADS_SHOWN 10
#define SAID_MAX 20 /* files; many processes may have the same */

static void reading(const struct trace_reader *reader, uint64_t done)
{
	uint64_t all = 0;

	if (!pulse_is_due())
		return;
	for (uint32_t i = 0; i < reader->stream_count; i++)
		all += reader->streams[i].bytes;
	pulse_show("reading", done, all);
}

int trail_view_open(struct trail_view *view, const char *dir, const struct image_options *options)
{
	int err;

	*view = (struct trail_view){ .dir = dir };
	err = trace_reader_open(&view->reader, dir);
	if (err)
		return complain(err, "%s", dir);
	view->reader->pulse = reading;
	view->begin_ns = reader_begin_ns(view->reader);
	err = images_open(&view->images, view->reader, options);
	if (!err)
		err = trails_read(&view->trails, view->reader);
	pulse_end();
	if (err)
		return complain(err, "%s", dir);
	if (!view->trails.path_count) {
		complain(-WM_E_NOT_RECORDED, "a trail: %s; record one with -e trail/soft/", dir);
		trail_complain_missing(view, &(struct trail_wanted){ 0 }, 0);
		return CLI_FAILED;
	}
	return CLI_FINE;
}

int trail_wants(const struct trail_wanted *wanted, const struct trace_stream *stream)
{
	return (!wanted->tid || stream->tid == wanted->tid) &&
	       (!wanted->pid || stream->pid == wanted->pid);
}

size_t trail_view_count(const struct trail_view *view, const struct trail_wanted *wanted)
{
	size_t count = 0;

	for (size_t i = 0; i < view->trails.path_count; i++)
		count += (size_t)trail_wants(wanted, view->trails.paths[i].stream);
	return count;
}

struct image *trail_view_image(struct trail_view *view, const struct trail_path *path)
{
	return images_get(&view->images, path->stream->process);
}

struct image *trail_item_image(struct image *image, const struct trail_item *item)
{
	struct image *in = image_in(image, item->table);

	return in ? in : image;
}

/*
 * Names come from files by address: where other code ran there than a file has, they may be wrong.
 */
static void check_code(const struct trail_view *view, uint32_t process)
{
	for (size_t i = 0; i < view->trails.space_count; i++) {
		const struct trail_space *space = &view->trails.spaces[i];

		for (uint32_t id = 0; space->process == process && id < space->table.count; id++) {
			const struct trail_block *block = trail_table_block(&space->table, id);

			if (block)
				image_check(view->images.all[process], &space->table, block);
		}
	}
}

/* Say of a module that names were wanted of it and not had, if so. Returns whether it was said. */
static int complain_names(const struct image_module *module)
{
	static const char memory[] = "/memfd:";
	int is_memory = !strncmp(module->path, memory, sizeof(memory) - 1);

	/* nothing in trampolines has a name */
	if (!module->is_asked || !module->error || module->path[0] != '/' ||
	    (is_memory &&
	     !strncmp(module->path + sizeof(memory) - 1, DETOUR_NAME, sizeof(DETOUR_NAME) - 1)))
		return 0;
	complain_words("waymark: no names in %s: %s", module->path, wm_error_text(module->error));
	if (!error_is_lack(module->error) && !is_memory)
		complain_words("; give the folder where it is with --root, or install its debug "
			       "file%s%s",
			       module->build_id ? ", of build id " : "",
			       module->build_id ? module->build_id : "");
	fputc('\n', stderr);
	return 1;
}

/* One line for each file that has other code than ran. */
static void complain_others(struct image *image)
{
	const struct image_module *module;

	for (size_t i = 0; (module = image_module(image, i)); i++) {
		if (!module->others)
			continue;
		complain_words(
			"waymark: %s has other code than ran there in %zu place%s: a marker or "
			"a probe was armed, it was changed, or another file lay there before; "
			"names in it may be wrong",
			module->path, module->others, module->others == 1 ? "" : "s");
		fputc('\n', stderr);
	}
}

void trail_complain_names(const struct images *images)
{
	const char *paths[SAID_MAX];
	size_t count = 0, more = 0, said;
	struct image_module *module;

	for (uint32_t i = 0; images->all && i <= images->reader->meta.process_count; i++)
		for (size_t j = 0; images->all[i] && (module = image_module(images->all[i], j));
		     j++) {
			for (said = 0; said < count; said++)
				if (!strcmp(paths[said], module->path))
					break;
			if (said < count)
				continue;
			if (count == SAID_MAX)
				more += module->is_asked && module->error;
			else if (complain_names(module))
				paths[count++] = module->path;
		}
	if (more)
		fprintf(stderr, "waymark: no names in %zu more files of processes\n", more);
}

int trail_view_close(struct trail_view *view, int status)
{
	fflush(stdout);
	for (uint32_t i = 0; view->images.all && i < view->reader->meta.process_count; i++) {
		if (view->images.all[i]) {
			check_code(view, i);
			complain_others(view->images.all[i]);
		}
	}
	trail_complain_names(&view->images);
	images_close(&view->images);
	if (view->reader && damage_complain(view->reader, view->dir) != CLI_FINE &&
	    status == CLI_FINE)
		status = CLI_FAILED;
	if (view->reader)
		trails_release(&view->trails, view->reader);
	trace_reader_close(view->reader);
	return status;
}

/* ---- bounds ---- */

/* Take marker:SUBSYS:EVENT#N apart. 0, or -EINVAL where it is no such thing. */
static int event_of(const char *text, char name[NAME_BYTES], uint64_t *nth)
{
	static const char *const words[] = { "marker:", "event:" };
	const char *number = strchr(text, '#'), *from = NULL;
	size_t bytes;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			from = text + strlen(words[i]);
	if (!from)
		return -EINVAL;
	bytes = number ? (size_t)(number - from) : strlen(from);
	if (bytes >= NAME_BYTES || !memchr(from, ':', bytes))
		return -EINVAL;
	memcpy(name, from, bytes);
	name[bytes] = '\0';
	*nth = 1;
	return number ? quantity_number(number + 1, 1, UINT64_MAX, nth) : 0;
}

int trail_bounds_take(void *options, const struct command_option *option, const char *text,
		      const char *command)
{
	struct trail_bounds *bounds = (void *)((char *)options + option->at);
	int is_to = option->min != 0;
	struct trail_bound *bound = is_to ? &bounds->to : &bounds->from;
	char name[NAME_BYTES];
	uint64_t nth;

	*(is_to ? &bounds->to_text : &bounds->from_text) = text;
	if (!strncmp(text, BLOCK_WORD, strlen(BLOCK_WORD)) &&
	    !quantity_number(text + strlen(BLOCK_WORD), 0, UINT64_MAX, &bound->value))
		bound->kind = TRAIL_BOUND_BLOCK;
	else if (!quantity_time(text, 0, &bound->value) || !event_of(text, name, &nth))
		bound->kind = TRAIL_BOUND_NS;
	else
		return complain_usage(command,
				      "--%s takes a time (5, 1.5s, 300us), marker:SUBSYS:EVENT, "
				      "event:SUBSYS:EVENT with or without #N, or block:N, not %s",
				      is_to ? "to" : "from", text);
	return CLI_FINE;
}

/* There is no event of that name: which are there? */
static int complain_event(const struct trail_view *view, const char *name)
{
	const struct facts *meta = &view->reader->meta;
	const char **all = calloc(NAMES_MAX, sizeof(*all));
	size_t count = 0;
	int status;

	for (uint32_t i = 0; all && i < meta->process_count; i++) {
		const struct trace_schema *schema = meta->processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count && count < NAMES_MAX; j++)
			all[count++] = schema->classes[j]->name;
	}
	status = complain_near(-WM_E_NOT_RECORDED, name, all, count);
	free(all);
	return status;
}

static int find(struct trail_bound *bound, struct trail_moment *hit, const char *text,
		struct trail_view *view)
{
	uint64_t begin = reader_begin_ns(view->reader), count, nth;
	struct trail_moment moment;
	char name[NAME_BYTES];
	int err;

	if (bound->kind != TRAIL_BOUND_NS)
		return CLI_FINE;
	if (event_of(text, name, &nth)) {
		bound->value = bound->value > UINT64_MAX - begin ? UINT64_MAX
								 : begin + bound->value;
		return CLI_FINE;
	}
	err = trail_event_find(view->reader, name, nth, &moment, &count);
	if (err == -ENOENT)
		return complain_event(view, name);
	if (err == -ERANGE)
		return complain(-WM_E_NOT_RECORDED, "%s; it has %llu of %s", text,
				(unsigned long long)count, name);
	if (err)
		return complain(err, "%s", view->dir);
	bound->value = moment.ns;
	if (!strncmp(name, WATCH_WORD, strlen(WATCH_WORD)))
		*hit = moment;
	return CLI_FINE;
}

/* Whether the hit's thread has a trail that leads up to it, or one that may, by its time. */
static int look_for_hit(const struct trail_moment *hit, const char *text,
			const struct trail_view *view)
{
	uint64_t block;

	for (size_t i = 0; hit->tid && i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		int reports = path->origin == TRAIL_STEP || path->origin == TRAIL_SOFT;

		if (path->stream->pid == hit->pid && path->stream->tid == hit->tid &&
		    (!reports || trail_trapped(view->reader, path, hit, &block)))
			return CLI_FINE;
	}
	if (!hit->tid)
		return CLI_FINE;
	return complain(
		-WM_E_NOT_RECORDED,
		"a trail that leads up to this hit: %s, in thread %u; only so many are kept: have "
		"a condition that fewer meet: watch:counter/if=value==0,trail/",
		text, hit->tid);
}

/* Whether all threads' trails are empty between the bounds. */
static int is_empty(const struct trail_bounds *bounds, const struct trail_view *view)
{
	struct trail_range range;
	struct trail_item item;

	for (size_t i = 0; i < view->trails.path_count; i++) {
		trail_bounds_range(bounds, view, &view->trails.paths[i], &range);
		if (trail_range_next(&range, &item))
			return 0;
	}
	return view->trails.path_count != 0;
}

static int complain_empty(const struct trail_bounds *bounds, const struct trail_view *view)
{
	complain_words("waymark: no trail has anything between %s and %s: %s",
		       bounds->from_text ? bounds->from_text : "its begin",
		       bounds->to_text ? bounds->to_text : "its end", view->dir);
	fputc('\n', stderr);
	return CLI_FAILED;
}

int trail_bounds_find(struct trail_bounds *bounds, const char *command, struct trail_view *view)
{
	int status = find(&bounds->from, &bounds->from_hit, bounds->from_text, view);

	if (status == CLI_FINE)
		status = find(&bounds->to, &bounds->to_hit, bounds->to_text, view);
	if (status == CLI_FINE)
		status = look_for_hit(&bounds->from_hit, bounds->from_text, view);
	if (status == CLI_FINE)
		status = look_for_hit(&bounds->to_hit, bounds->to_text, view);
	if (status == CLI_FINE && bounds->from.kind && bounds->from.kind == bounds->to.kind &&
	    bounds->from.value > bounds->to.value)
		status = complain_usage(command, "--from %s is after --to %s", bounds->from_text,
					bounds->to_text);
	if (status == CLI_FINE && (bounds->from_text || bounds->to_text) && is_empty(bounds, view))
		status = complain_empty(bounds, view);
	return status;
}

void trail_bounds_range(const struct trail_bounds *bounds, const struct trail_view *view,
			const struct trail_path *path, struct trail_range *range)
{
	struct trail_bound from = bounds->from, to = bounds->to;

	if (trail_trapped(view->reader, path, &bounds->from_hit, &from.value))
		from.kind = TRAIL_BOUND_BLOCK;
	if (trail_trapped(view->reader, path, &bounds->to_hit, &to.value))
		to.kind = TRAIL_BOUND_BLOCK;
	trail_range_init(range, view->reader, path, &from, &to);
}

/* ---- what is missing ---- */

void trail_lost_count(struct trail_lost *lost, const struct trace_reader *reader,
		      const struct trail_range *range)
{
	const struct trail_path *path = range->cursor.path;

	*lost = (struct trail_lost){ 0 };
	for (size_t i = range->cursor.part; i < range->end_part; i++) {
		const struct trail_part *part = &path->parts[i];

		if (part->count)
			continue;
		if (part->between.event == TRAIL_LOST) {
			lost->places++;
			lost->blocks += part->between.values[0];
		}
		/* kernel code is not the program's, and unrequested parts are not missing */
		lost->unrecorded += trail_is_gap(&part->between) &&
				    part->between.values[0] != TRAIL_GAP_KERNEL &&
				    part->between.values[0] != TRAIL_GAP_ELSEWHERE;
	}
	/* a damaged one is reported as that; one that is still being recorded has no end yet */
	lost->is_cut = range->end_part == path->count && !path->damage && !reader->live &&
		       (path->parts[path->count - 1].count ||
			path->parts[path->count - 1].between.event != TRAIL_END);
}

static void say_lost(const struct trace_stream *stream, const struct trail_lost *lost)
{
	char places[32], blocks[32];

	complain_words("waymark: the trail of %s-%u lacks", stream->comm, stream->tid);
	if (lost->places) {
		fprintf(stderr, " the blocks that were lost at %s place%s",
			quantity_show_count(lost->places, places, sizeof(places)),
			lost->places == 1 ? "" : "s");
		if (lost->blocks)
			fprintf(stderr, " (%s that are known of)",
				quantity_show_count(lost->blocks, blocks, sizeof(blocks)));
	}
	if (lost->unrecorded)
		fprintf(stderr, "%s what ran unrecorded at %s place%s", lost->places ? " and" : "",
			quantity_show_count(lost->unrecorded, places, sizeof(places)),
			lost->unrecorded == 1 ? "" : "s");
	fputc('\n', stderr);
}

static void say_cut(const struct trace_stream *stream)
{
	complain_words("waymark: the trail of %s-%u has no end: its recording was cut off",
		       stream->comm, stream->tid);
	fputc('\n', stderr);
}

static uint32_t pid_of(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	return reader->meta.processes[threads->process].pid;
}

int trail_lost_is_gone(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	/* for one that was over, the damage is reported */
	return threads->is_missing && !threads->over && !reader->live;
}

static void say_gone(const struct trace_reader *reader, const struct trail_thread_entry *threads)
{
	complain_words(
		"waymark: of thread %u of process %u nothing is there: its recording was cut off",
		threads->tid, pid_of(reader, threads));
	fputc('\n', stderr);
}

size_t trail_complain_missing(const struct trail_view *view, const struct trail_wanted *wanted,
			      int with_losses)
{
	size_t shown = 0, more = 0;

	fflush(stdout); /* where both go to one place, this comes after */
	for (size_t i = 0; i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		struct trail_range range;
		struct trail_lost lost;
		int is_lost;

		if (!trail_wants(wanted, path->stream))
			continue;
		trail_bounds_range(&wanted->bounds, view, path, &range);
		trail_lost_count(&lost, view->reader, &range);
		is_lost = with_losses && (lost.places || lost.unrecorded);
		if ((is_lost || lost.is_cut) && shown == THREADS_SHOWN) {
			more++;
			continue;
		}
		shown += is_lost || lost.is_cut;
		if (is_lost)
			say_lost(path->stream, &lost);
		if (lost.is_cut)
			say_cut(path->stream);
	}
	for (size_t i = 0; i < view->trails.threads.count; i++) {
		const struct trail_thread_entry *threads = &view->trails.threads.all[i];

		if (!trail_lost_is_gone(view->reader, threads) ||
		    (wanted->tid && threads->tid != wanted->tid) ||
		    (wanted->pid && pid_of(view->reader, threads) != wanted->pid))
			continue;
		if (shown++ < THREADS_SHOWN)
			say_gone(view->reader, threads);
		else
			more++, shown--;
	}
	if (more)
		fprintf(stderr, "  and so do those of %zu more threads\n", more);
	return shown + more;
}
