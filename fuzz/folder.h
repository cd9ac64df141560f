/* SPDX-License-Identifier: MIT */
/*
 * The folder with an input's files, for readers that open them by their names. It is in memory, and
 * removed at the end.
 */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include <stddef.h>

/* Its path. It is there, with what was stored in it. */
const char *folder_path(void);

/* Have these bytes, and no others, in its file of that name. */
void folder_store(const char *name, const void *content, size_t bytes);

/* Remove all its files. */
void folder_clear(void);

#endif
