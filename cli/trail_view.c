/* SPDX-License-Identifier: MIT */
#include "cli/trail_view.h"

#include "abi/detour.h"
#include "base/lack.h"
#include "cli/cli.h"
#include "cli/damage.h"
#include "cli/pulse.h"
#include "cli/trail_lost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

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
	static const struct trail_bounds whole;
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
		trail_complain_cut(view, &(struct trail_lost_wanted){ .bounds = &whole });
		return CLI_FAILED;
	}
	return CLI_FINE;
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

/* One line for each file that names were wanted of and not had, or of other code. */
static void complain_files(struct image *image)
{
	struct image_module *module;

	for (size_t i = 0; (module = image_module(image, i)); i++) {
		if (module->others) {
			complain_words(
				"waymark: %s has other code than ran there in %zu place%s: a marker "
				"or a probe was armed, it was changed, or another file lay there "
				"before; names in it may be wrong",
				module->path, module->others, module->others == 1 ? "" : "s");
			fputc('\n', stderr);
		}
		complain_names(module);
	}
}

#define SAID_MAX 20 /* files; many processes may have the same */

struct said {
	const char *paths[SAID_MAX];
	size_t count, more;
};

static int is_said(const struct said *said, const char *path)
{
	for (size_t i = 0; i < said->count; i++)
		if (!strcmp(said->paths[i], path))
			return 1;
	return 0;
}

static void complain_image(struct said *said, struct image *image)
{
	struct image_module *module;

	for (size_t i = 0; (module = image_module(image, i)); i++) {
		if (is_said(said, module->path))
			continue;
		if (said->count == SAID_MAX)
			said->more += module->is_asked && module->error;
		else if (complain_names(module))
			said->paths[said->count++] = module->path;
	}
}

void trail_complain_names(const struct images *images)
{
	struct said said = { .count = 0 };

	for (uint32_t i = 0; images->all && i <= images->reader->meta.process_count; i++)
		if (images->all[i])
			complain_image(&said, images->all[i]);
	if (said.more)
		fprintf(stderr, "waymark: no names in %zu more files of processes\n", said.more);
}

int trail_view_close(struct trail_view *view, int status)
{
	fflush(stdout);
	for (uint32_t i = 0; view->images.all && i < view->reader->meta.process_count; i++) {
		if (view->images.all[i]) {
			check_code(view, i);
			complain_files(view->images.all[i]);
		}
	}
	images_close(&view->images);
	if (view->reader && damage_complain(view->reader, view->dir) != CLI_FINE &&
	    status == CLI_FINE)
		status = CLI_FAILED;
	if (view->reader)
		trails_release(&view->trails, view->reader);
	trace_reader_close(view->reader);
	return status;
}
