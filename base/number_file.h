/* SPDX-License-Identifier: MIT */
/* Files of /proc and /sys that hold one number. */
#ifndef BASE_NUMBER_FILE_H
#define BASE_NUMBER_FILE_H

/* Read the number at the beginning of a file. Returns `absent` without a number or a file. */
long number_file_read(const char *path, long absent);

#endif
