/* SPDX-License-Identifier: MIT */
/* Files of /proc and /sys that hold one number. */
#ifndef BASE_NUMBER_FILE_H
#define BASE_NUMBER_FILE_H

/* The number that a file begins with; `absent`: there is none, or the file can't be read. */
long number_file_read(const char *path, long absent);

#endif
