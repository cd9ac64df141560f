/* SPDX-License-Identifier: MIT */
/* Where an input's files stand that a reader opens by their names: a folder under /tmp, gone when the fuzzer ends. */
#ifndef FUZZ_FOLDER_H
#define FUZZ_FOLDER_H

#include <stddef.h>

/* Its path. It is there, with what was stored in it. */
const char *folder_path(void);

/* Have these bytes, and no others, in its file of that name. */
void folder_store(const char *name, const void *content, size_t bytes);

#endif
