/* SPDX-License-Identifier: MIT */
/*
 * Rows on standard output, and the file of -o: we write a new file beside it, and rename that to
 * its name once it is whole. We refuse a file of another user, and a symbolic link to a file:
 * another user must not choose where root writes.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/text_buffer.h"
#include "read/rows/render.h"

struct output {
	int fd;
	int folder;	/* -1: fd is a terminal, a pipe or a device, written in place */
	char fresh[32]; /* the file's name until it is whole */
	const char *path, *name;
};

/*
 * open(2) of a file to write, which waits for no reader of a FIFO; writing to it does wait. A
 * descriptor, -errno, or -WM_E_OUTPUT_READER.
 */
int output_open_ready(const char *path, int flags);

/* 0, or a negative error. `path` is borrowed. */
int output_open(struct output *output, const char *path);

/* Give the file its name, or with `failed` remove it. 0 or -errno. */
int output_close(struct output *output, int failed);

/* Begin rows on standard output; one set at a time. */
struct rows *output_rows(enum rows_format format);

/*
 * They are complete. Returns the exit status: `status`; or CLI_FAILED, with a message, where they
 * could not be written. A reader that has gone is no failure.
 */
int output_rows_end(int status);

/* Let `out` write into a text; one at a time. */
void output_to_text(struct out *out, struct text *text);

#endif
