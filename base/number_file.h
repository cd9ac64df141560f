/* SPDX-License-Identifier: MIT */
/* Files of /proc and /sys that hold one number. */
#ifndef BASE_NUMBER_FILE_H
#define BASE_NUMBER_FILE_H

/* The number at the beginning of a file; `absent` if there is none, or the file can't be read. */
long number_file_read(const char *path, long absent);

#endif
