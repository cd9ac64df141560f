/* SPDX-License-Identifier: MIT */
/* The file of a module in a trace, found again on this machine. */
#ifndef READ_HISTORY_IMAGE_FILE_H
#define READ_HISTORY_IMAGE_FILE_H

#include "target/code/file.h"

/*
 * Open the file that was mapped as `path`, of that build id (in hex; NULL: it has none, and any
 * file will do), below `root` ("": as they are). "[vdso]" is the one in our own memory. Where the
 * file is not there or another, its separate debug file is taken instead, which has names and no
 * code: below /usr/lib/debug of `root`, then of this machine. 0; -ENOENT, -WM_E_FILE_REPLACED, or
 * as code_file_open(). Close with code_file_close().
 */
int image_file_open(struct code_file **file, const char *root, const char *path,
		    const char *build_id);

#endif
