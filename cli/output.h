/* SPDX-License-Identifier: MIT */
/*
 * The file of -o: written beside its name, and renamed over it once it is whole. A file of another user is
 * refused, as is a symbolic link to a file: root must not write where another user has it point.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

struct output {
	int fd;
	int folder;	/* -1: fd is a terminal, a pipe or a device, written in place */
	char fresh[32]; /* the file's name until it is whole */
	const char *path, *name;
};

/* 0, or a negative error. `path` is borrowed. */
int output_open(struct output *output, const char *path);

/* Give the file its name, or with `failed` remove it. 0 or -errno. */
int output_close(struct output *output, int failed);

#endif
