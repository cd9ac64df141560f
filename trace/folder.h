/* SPDX-License-Identifier: MIT */
/*
 * Folders that a trace is written to. The recorder may be root, and the folder's parent may belong
 * to the user whose program it records. So files are made only in a folder that no other user can
 * change, by its descriptor.
 */
#ifndef TRACE_FOLDER_H
#define TRACE_FOLDER_H

#include <sys/types.h>

/*
 * Whether the folder is our effective user's and no other user can write to it. 0,
 * -WM_E_OUTPUT_OWNER, -errno.
 */
int folder_check(int fd);

/*
 * Open a folder that folder_check() accepts; a symbolic link in its place is -WM_E_OUTPUT_OWNER.
 * Returns its descriptor or a negative error.
 */
int folder_open(const char *path);

/*
 * Make a file for writing; a file, or a link, that is there already is -EEXIST. Its descriptor or
 * -errno.
 */
int folder_create(int folder, const char *name, mode_t mode);

#endif
