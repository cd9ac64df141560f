/* SPDX-License-Identifier: MIT */
/* The branches of each thread, oldest first: where from, where to, and what came between. */
#include "cli/trail.h"

#include "trace/trail/event.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_place(struct out *out, struct image *image, uint64_t address)
{
	const struct image_place *place = image_place(image, address);
	struct image_line line;

	out_hex(out, address);
	out_char(out, ' ');
	if (place && place->function) {
		out_escaped(out, place->function, strlen(place->function));
		out_char(out, '+');
		out_hex(out, address - place->start);
	} else if (place && place->module) {
		out_escaped(out, place->module->name, strlen(place->module->name));
		out_char(out, '+');
		out_hex(out, address - place->module->base);
	} else {
		out_literal(out, "[unknown]");
	}
	image_line(image, address, &line);
	if (line.source) {
		out_literal(out, " (");
		out_escaped(out, line.source, strlen(line.source));
		out_char(out, ':');
		out_u64(out, line.line);
		out_char(out, ')');
	}
}

static void put_item(struct out *out, struct image *image, const struct trail_item *item)
{
	if (item->block) {
		put_place(out, image, item->block->start);
		out_literal(out, " .. ");
		out_hex(out, item->block->start + item->block->last);
	} else {
		const char *name = trail_shapes[item->between->event].name;

		out_literal(out, "-- ");
		out_text(out, name, strlen(name));
	}
	out_char(out, '\n');
}

int trail_branches(struct trail_show *show)
{
	for (size_t i = 0; i < show->view.trails.path_count; i++) {
		const struct trail_path *path = &show->view.trails.paths[i];
		struct trail_range range;
		struct trail_item item;
		struct image *image;

		if (!trail_is_wanted(show, path))
			continue;
		image = trail_view_image(&show->view, path);
		if (!image)
			return -ENOMEM;
		trail_range_wanted(show, path, &range);
		trail_range_last(&range, show->options.last);
		while (trail_range_next(&range, &item) && !show->out->error)
			put_item(show->out, image, &item);
	}
	return 0;
}
