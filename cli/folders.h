/* SPDX-License-Identifier: MIT */
/*
 * The numbered folders, DIR/0001 and so on, of a recording that writes more than one. Those of an
 * earlier recording into DIR stay, and the numbers continue.
 */
#ifndef CLI_FOLDERS_H
#define CLI_FOLDERS_H

#include <limits.h>
#include <stdint.h>

struct folders {
	const char *dir;	       /* the caller sets this, made_dir, keep, and fd to -1 */
	int fd;			       /* of it, locked; -1: none */
	unsigned int newest;	       /* the highest number that is there */
	unsigned int first, last;      /* of this recording's; 0: none */
	unsigned int written;	       /* how many these are */
	int made_dir;		       /* by us */
	uint64_t keep;		       /* so many, the newest; 0: all */
	unsigned int stuck;	       /* up to this number all are removed that can be */
	char name[PATH_MAX + 16];      /* of the newest that we wrote */
	char next_name[PATH_MAX + 16]; /* of the next one, after folders_next() */
};

/*
 * Make the folder `dir` where it is not there, lock it, and find the numbers in it. 0;
 * -WM_E_OUTPUT_OWNER: another user can change it; -WM_E_TRACE_IN_USE: another recording has it;
 * -WM_E_TRACE_DIR: it is a trace itself; or -errno.
 */
int folders_open(struct folders *folders);

/*
 * The name for the next folder. It is the newest when folders_took() says so. folders_failed(): it
 * could not be written, at least not whole.
 */
const char *folders_next(struct folders *folders);
void folders_took(struct folders *folders);
void folders_failed(struct folders *folders);

/* Remove the oldest, where there are more than are to be kept. */
void folders_prune(struct folders *folders);

/* Unlock DIR, and remove it again, if we have made it and it is empty. */
void folders_close(struct folders *folders);

/* The newest numbered folder in DIR, or DIR where it has none; into name[]. */
void folders_newest(const char *dir, char name[PATH_MAX + 16]);

#endif
