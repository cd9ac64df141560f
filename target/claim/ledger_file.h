/* SPDX-License-Identifier: MIT */
/*
 * A claimant's part of a user's ledger: one file, NAME.claims with a random NAME, in the folder of
 * the user's sockets, mode 0600. It has a head, which names the claimant, and rows.
 *
 * The claimant locks the file by open file description (F_OFD_SETLK). The kernel releases the lock
 * when the claimant's descriptors close, in whatever way it ends. A file that no one has locked
 * does not count, and the next claimant removes it. So no file needs repair, and no process waits
 * for another.
 *
 *	make:	sweep -> create -> lock -> is it still there? -> write the head
 *	row:	one write of LEDGER_ROW_BYTES, also to clear it
 *	end:	remove the file -> close it
 *	sweep:	of each file that can be locked: remove it
 *
 * A claimant that a sweep overtakes between its create and its lock finds the file gone or locked,
 * and makes another.
 *
 * Readers take no lock. Each row has a sum: a row that is read while it is written has the wrong
 * one, and is read again. A writer that is killed in the middle has lost its lock.
 */
#ifndef TARGET_CLAIM_LEDGER_FILE_H
#define TARGET_CLAIM_LEDGER_FILE_H

#include "base/socketdir.h"

#include <dirent.h>
#include <stdint.h>
#include <sys/types.h>

#define LEDGER_SUFFIX ".claims"
#define LEDGER_NAME_BYTES 32
#define LEDGER_MAGIC 0x656761646c6d6157u /* "Wamldage" */
#define LEDGER_VERSION 3
#define LEDGER_ROW_BYTES 256
#define LEDGER_ROWS_MAX 16384  /* of a file, however long it is */
#define LEDGER_FILES_MAX 4096  /* of a folder, however many there are */
#define LEDGER_READ_MAX 262144 /* rows of a folder, with those that are clear */
#define LEDGER_DAMAGED_MAX 64  /* of a folder, since each of these takes a millisecond */

struct ledger_head {
	uint64_t sum; /* as a row's */
	uint64_t magic;
	uint32_t version;
	int32_t pid; /* the claimant's, as it sees itself */
	uint64_t start_time;
	uint64_t pid_namespace;
	uint32_t uid;
	char comm[16];
	uint8_t spare[196];
};
_Static_assert(sizeof(struct ledger_head) == LEDGER_ROW_BYTES, "the file's format");

struct ledger_row {
	uint64_t sum; /* all 0: no row here */
	uint32_t resource, scope, state, reserved;
	int32_t target, pid;
	uint64_t count, address, bytes;
	uint64_t since_ns; /* CLOCK_BOOTTIME, as for start times */
	uint8_t spare[64];
	char what[128];
};
_Static_assert(sizeof(struct ledger_row) == LEDGER_ROW_BYTES, "the file's format");

/* The inode of our PID namespace; 0: unknown. */
uint64_t ledger_namespace(void);

struct ledger_file {
	int fd; /* -1: none */
	char path[SOCKETDIR_BYTES + LEDGER_NAME_BYTES];
};

/*
 * Make a claimant's file in a folder of that user's, as that user where we may; the folder is made
 * if it is not there. 0, or with the folder in file->path -WM_E_SOCKET_DIR, -errno.
 */
int ledger_file_make(struct ledger_file *file, const char *dir, uid_t uid,
		     struct ledger_head *head);

/* Whether it was removed. */
int ledger_file_is_lost(const struct ledger_file *file);

/* Write a row, and fill in its sum. NULL: clear it. 0, -WM_E_LEDGER_FULL or -errno. */
int ledger_file_write(const struct ledger_file *file, size_t slot, struct ledger_row *row);

/* Remove it, as that user, and close it. */
void ledger_file_end(struct ledger_file *file, uid_t uid);

/* In a forked child: close it alone. */
void ledger_file_leave(struct ledger_file *file);

/*
 * Hand over each row of each file in a folder that has a live claimant, within the bounds above:
 * the folder's user may be hostile. *damaged gets the number of rows and files that make no sense
 * added. take() ends it with a negative error. 0, -errno.
 */
int ledger_folder_read(DIR *dir, uid_t uid, size_t *damaged,
		       int (*take)(void *data, const struct ledger_head *head,
				   const struct ledger_row *row),
		       void *data);

/*
 * The writer's position, reported before each step; tests end the writer there. NULL: no listener.
 */
enum ledger_step {
	LEDGER_OPENING,
	LEDGER_LOCKING,
	LEDGER_HEADING,
	LEDGER_WRITING,
	LEDGER_CLEARING,
	LEDGER_REMOVING,
	LEDGER_CLOSING,
	LEDGER_STEPS
};
extern void (*ledger_at)(enum ledger_step step);

#endif
