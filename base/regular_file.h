/* SPDX-License-Identifier: MIT */
/* Files whose paths a target, or a trace, names. */
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

#include <sys/stat.h>

/*
 * Open a regular file to read. The path may lead to a device, and opening some devices has effects:
 * a watchdog starts. Or to a FIFO, which would hold us up. The file is to be read, and not mapped:
 * a process that cuts it short would end us by SIGBUS.
 *
 * Returns the descriptor, with *about filled in; or -errno, -EISDIR; -ENODEV where it is no
 * regular file.
 */
int regular_file_open(const char *path, struct stat *about);

#endif
