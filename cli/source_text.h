/* SPDX-License-Identifier: MIT */
/* A source file's text, by the path that debug information has for it. */
#ifndef CLI_SOURCE_TEXT_H
#define CLI_SOURCE_TEXT_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_BYTES_MAX (256u << 20)

struct source_text {
	char path[PATH_MAX]; /* where it was found, from the root on */
	char *bytes;
	size_t *lines; /* where each begins; one more, behind the last */
	size_t count;
	int64_t written_s;
};

/*
 * Find a source file here: in `dir`, under the longest end of its path that exists there; else at
 * the path itself, relative to the current folder if it is relative. `dir` may be NULL. 0 and
 * found[], or -ENOENT.
 */
int source_find(const char *path, const char *dir, char found[PATH_MAX]);

/* Find and read it. 0, -ENOENT, -EFBIG, -ENOMEM, -errno. Release also after an error. */
int source_text_read(struct source_text *text, const char *path, const char *dir);
void source_text_release(struct source_text *text);

/* Warn if the source was changed after the program was built. built_s 0: not known. */
void source_complain_changed(const char *path, int64_t written_s, int64_t built_s);

/* A line, counted from 1, without its end. NULL: there are fewer. */
const char *source_text_line(const struct source_text *text, uint32_t number, size_t *bytes);

/* Whether a glob is of a path: of all of it, or, if it has no slash, of its last part. */
int source_matches(const char *glob, const char *path);

#endif
