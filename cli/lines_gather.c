/* SPDX-License-Identifier: MIT */
#include "cli/lines_gather.h"

#include "cli/cli.h"

#include <errno.h>
#include <waymark/error.h>

/* What one process ran. */
static int gather(struct lines *lines, struct trail_view *view, const struct trail_wanted *wanted,
		  uint32_t process)
{
	const struct trail_path *of = NULL;
	struct ran ran = { 0 };
	struct image *image;
	int err = 0;

	for (size_t i = 0; !err && i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		struct trail_range range;

		if (path->stream->process != process || !trail_wants(wanted, path->stream))
			continue;
		of = path;
		trail_bounds_range(&wanted->bounds, view, path, &range);
		err = block_counts_take(&ran, &range);
	}
	if (!err && of) {
		image = trail_view_image(view, of);
		err = image ? lines_take(lines, image, &ran) : -ENOMEM;
	}
	block_counts_release(&ran);
	return err;
}

int lines_gather(struct lines *lines, struct trail_view *view, const struct trail_wanted *wanted)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < view->reader->meta.process_count; i++)
		err = gather(lines, view, wanted, i);
	return err;
}

size_t lines_complain(const struct lines *lines)
{
	const struct lines_module *module;
	size_t reported = 0;

	for (size_t i = 0; (module = lines_module(lines, i)); i++) {
		reported += module->row_count != 0;
		/*
		 * the kernel's own has no file; files that could not be opened are reported
		 * elsewhere
		 */
		if (module->row_count || module->error || module->path[0] != '/')
			continue;
		complain(-WM_E_NO_DEBUG, "the lines of %s", module->path);
	}
	return reported;
}
