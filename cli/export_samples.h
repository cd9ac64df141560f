/* SPDX-License-Identifier: MIT */
/* waymark export: samples of the kernel in forms that other tools read. */
#ifndef CLI_EXPORT_SAMPLES_H
#define CLI_EXPORT_SAMPLES_H

#include "read/export/export.h"

struct export_samples_options {
	const char *dir, *output; /* the latter NULL: stdout */
	int (*write)(struct export_samples *export);
	int is_counted;
	struct samples_options samples;
	struct image_options image;
};

/*
 * Whether samples are meant and not trails: --event says so, or the trace has no trail. An error
 * is left for the next reader.
 */
int export_samples_are_meant(const struct export_samples_options *options);

/* Write them. An exit status, all being said. */
int export_samples_command(struct export_samples_options *options);

#endif
