/* SPDX-License-Identifier: MIT */
/*
 * The numbered folders, DIR/0001 and so on, of a recording that writes more than one. Those of an
 * earlier recording into DIR stay, and the numbers continue.
 */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include "read/rows/render.h"

#include <limits.h>
#include <stdint.h>

struct folders {
	const char *dir;
	unsigned int first, newest;    /* numbers of this recording's; 0: none yet */
	unsigned int before;	       /* the highest number that was there */
	int made_dir;		       /* by us */
	uint64_t keep;		       /* so many, the newest; 0: all */
	char name[PATH_MAX + 16];      /* of the newest */
	char next_name[PATH_MAX + 16]; /* of the next one, after folders_next() */
};

/*
 * Make DIR where it is not there, and find the numbers in it. 0; -WM_E_OUTPUT_OWNER when another
 * user can change it, or -errno.
 */
int folders_open(struct folders *folders, const char *dir);

/* The name for the next folder. It is the newest when folders_took() says so. */
const char *folders_next(struct folders *folders);

/* The next folder was made: remove the oldest, where there are more than are to be kept. */
void folders_took(struct folders *folders);

/* As a table of one row, or of none before folders_open(). */
void folders_rows(struct rows *rows, const struct folders *folders, uint64_t passed_over);

/* Remove DIR again, if we have made it and it is empty. */
void folders_close(struct folders *folders);

/* The newest numbered folder in DIR, or DIR where it has none; into name[]. */
void folders_newest(const char *dir, char name[PATH_MAX + 16]);

/* Remove the files of a trace; with_streams: also those with its events, and the folder. */
void folder_remove(const char *dir, int with_streams);

#endif
