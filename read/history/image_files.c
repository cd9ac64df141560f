/* SPDX-License-Identifier: MIT */
#include "read/history/image_files.h"

#include "read/history/image_file.h"
#include "read/history/kernel_symbols.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct known {
	struct image_read read; /* first, so that one can get from it to this */
	struct known *next;
	char *path, *build_id; /* build_id NULL: none */
	uint64_t kernel_base;  /* 0: it is a file */
	char *kernel_names;    /* of symbols that no file has */
	struct code_rows rows;
	int has_rows;
};

struct image_files {
	char *root;
	struct known *known; /* what was asked for last comes first */
};

int image_files_open(struct image_files **out, const char *root)
{
	struct image_files *files = *out = calloc(1, sizeof(*files));

	if (!files)
		return -ENOMEM;
	files->root = strdup(root);
	if (files->root)
		return 0;
	free(files);
	*out = NULL;
	return -ENOMEM;
}

int image_files_is_later(const struct image_files *files, const char *path, uint64_t ns)
{
	char full[PATH_MAX];
	struct stat about;

	if (path[0] != '/' ||
	    snprintf(full, sizeof(full), "%s%s", files->root, path) >= (int)sizeof(full) ||
	    stat(full, &about))
		return 0;
	return (uint64_t)about.st_mtim.tv_sec * 1000000000u + (uint64_t)about.st_mtim.tv_nsec > ns;
}

static void known_free(struct known *known)
{
	code_rows_release(&known->rows);
	code_symbols_release(&known->read.symbols);
	code_file_close(known->read.file);
	free(known->kernel_names);
	free(known->build_id);
	free(known->path);
	free(known);
}

void image_files_close(struct image_files *files)
{
	if (!files)
		return;
	for (struct known *known = files->known, *next; known; known = next) {
		next = known->next;
		known_free(known);
	}
	free(files->root);
	free(files);
}

static int is_of(const struct known *known, const char *path, const char *build_id,
		 uint64_t kernel_base)
{
	if (known->kernel_base != kernel_base || !known->build_id != !build_id)
		return 0;
	return !strcmp(known->path, path) && (!build_id || !strcmp(known->build_id, build_id));
}

static struct known *known_new(const char *path, const char *build_id, uint64_t kernel_base)
{
	struct known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->kernel_base = kernel_base;
	known->path = strdup(path);
	known->build_id = build_id ? strdup(build_id) : NULL;
	if (known->path && !known->build_id == !build_id)
		return known;
	known_free(known);
	return NULL;
}

static void known_read(struct known *known, const char *root)
{
	struct image_read *read = &known->read;

	if (known->kernel_base) {
		read->error = kernel_symbols_read(&read->symbols, &known->kernel_names,
						  &read->kernel_bytes, root, known->path,
						  known->kernel_base, known->build_id);
		return;
	}
	read->error = image_file_open(&read->file, root, known->path, known->build_id);
	if (!read->error)
		read->error = code_symbols_read(&read->symbols, read->file);
}

struct image_read *image_files_get(struct image_files *files, const char *path,
				   const char *build_id, uint64_t base)
{
	uint64_t kernel_base = kernel_symbols_are(path, base) ? base : 0;
	struct known **at = &files->known, *known;

	while (*at && !is_of(*at, path, build_id, kernel_base))
		at = &(*at)->next;
	known = *at;
	if (known) {
		*at = known->next;
	} else {
		known = known_new(path, build_id, kernel_base);
		if (!known)
			return NULL;
		known_read(known, files->root);
	}
	known->next = files->known;
	files->known = known;
	return &known->read;
}

const struct code_rows *image_files_rows(struct image_read *read)
{
	struct known *known = (struct known *)read;

	if (read->file && !known->has_rows) {
		known->has_rows = 1;
		if (code_rows_read(&known->rows, read->file))
			code_rows_release(&known->rows);
	}
	return &known->rows;
}
