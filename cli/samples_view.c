/* SPDX-License-Identifier: MIT */
#include "cli/samples_view.h"

#include "cli/trail_view.h"

#include <stdio.h>
#include <string.h>

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
		else if (trail_complain_module_names(module))
			said->paths[said->count++] = module->path;
	}
}

void samples_complain(struct samples *samples)
{
	struct said said = { .count = 0 };

	for (uint32_t i = 0; i <= samples->reader->meta.process_count; i++)
		if (samples_image_known(samples, i))
			complain_image(&said, samples_image_known(samples, i));
	if (said.more)
		fprintf(stderr, "waymark: no names in %zu more files of processes\n", said.more);
}
