/* SPDX-License-Identifier: MIT */
/*
 * The files that processes without an agent have mapped: where a mapping of one puts the addresses
 * that it was linked with, and its build id. Each file is read once.
 */
#ifndef RECORD_KERNEL_TASK_FILES_H
#define RECORD_KERNEL_TASK_FILES_H

#include "abi/control.h"

#include <stdint.h>
#include <sys/types.h>

struct task_files;

/* NULL: no memory. Free allows NULL. */
struct task_files *task_files_new(void);
void task_files_free(struct task_files *files);

/*
 * Fill in the module whose file has these bytes mapped at `start`. The file is looked for as the
 * process sees it, if that is still there, else at its path. Without the file the module has no
 * build id, and its base is a guess that holds for most. 0, or -ENOENT for what is no module.
 */
int task_files_module(struct task_files *files, pid_t pid, const char *path, uint64_t start,
		      uint64_t offset, struct control_module *module);

#endif
