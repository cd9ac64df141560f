/* SPDX-License-Identifier: MIT */
/*
 * A user's ledger as a file: "claims" in the folder of his sockets, mode 0600.
 *
 * It is made of blocks of LEDGER_BLOCK_BYTES: a head, which names the owner, and rows. Each owner
 * has blocks of its own, so no process ever waits for another; there is no lock on the whole, and
 * nothing is mapped. The owner locks two bytes of each block, by open file description
 * (F_OFD_SETLK). So the kernel releases them when the owner's descriptors close, in whatever way it
 * ends:
 *
 *	TAKEN, its byte 0	the block is his to write
 *	LIVE, its byte 1	what is in it counts
 *
 *	take:	lock TAKEN -> wipe it and write the head, at one go -> lock LIVE
 *	row:	one write of LEDGER_ROW_BYTES
 *	give:	unlock LIVE -> wipe -> unlock TAKEN
 *
 * A block whose LIVE is not locked does not count. It is the rest of an owner who ended, of another
 * version, or of a file that was cut off or filled with noise. Taking a block wipes it. So no state
 * of the file needs repair.
 *
 * Readers take no lock: LIVE? -> read the block -> LIVE still? Each row has a sum over itself and
 * its block's tenancy, a number drawn at each take. A row that was read while it was written, or
 * that is of the block's last owner, does not have the right sum, and is read again. Nor can a
 * reader see half a row of a writer that was killed: the sum is wrong, and the writer's lock is
 * gone.
 *
 * TAKEN and LIVE are two locks: with one, the new owner's lock would cover another's rows until
 * they are wiped.
 *
 * Geometry and lock bytes are the same in all versions, whatever is in the blocks.
 */
#ifndef CLAIM_LEDGER_FILE_H
#define CLAIM_LEDGER_FILE_H

#include "base/socketdir.h"

#include <stdint.h>
#include <sys/types.h>

#define LEDGER_FILE "claims"
#define LEDGER_MAGIC 0x656761646c6d6157u /* "Wamldage" */
#define LEDGER_VERSION 2
#define LEDGER_BLOCK_BYTES 4096
#define LEDGER_ROW_BYTES 256
#define LEDGER_ROWS 15	       /* of a block */
#define LEDGER_BLOCKS_MAX 4096 /* of a file, however long it is */

struct ledger_head {
	uint64_t magic;
	uint32_t version;
	int32_t pid; /* the owner's, as he sees himself */
	uint64_t sum;
	uint64_t tenancy;
	uint64_t start_time;
	uint64_t pid_namespace;
	uint32_t uid;
	char comm[16];
	uint8_t spare[188];
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

struct ledger_block {
	struct ledger_head head;
	struct ledger_row rows[LEDGER_ROWS];
};
_Static_assert(sizeof(struct ledger_block) == LEDGER_BLOCK_BYTES, "the file's format");

struct ledger_file {
	int fd; /* -1: none */
	dev_t device;
	ino_t inode;
	char path[SOCKETDIR_BYTES + sizeof(LEDGER_FILE)];
};

/*
 * Open the ledger in a folder of that user's, as that user where we may; made if it is not there
 * and `is_writer`. No link and nothing but a file of his is opened. 0, -ENOENT, -WM_E_SOCKET_DIR
 * (also where the file is not his), -errno. file->path says where in any case.
 */
int ledger_file_open(struct ledger_file *file, const char *dir, uid_t uid, int is_writer);

void ledger_file_release(struct ledger_file *file);

/* Whether the file's name leads elsewhere by now: it was removed or replaced. */
int ledger_file_is_lost(const struct ledger_file *file);

/*
 * Take the first block that has no owner. *head has the new owner; its tenancy is drawn. 0 and
 * *number; -WM_E_LEDGER_FULL, -errno. A descriptor's own blocks look free to it, so is_own()
 * identifies the caller's.
 */
int ledger_file_take(const struct ledger_file *file, struct ledger_head *head,
		     int (*is_own)(const void *data, uint32_t number), const void *data,
		     uint32_t *number);

/* Write one row of our own block, and fill in its sum. NULL: clear the row. 0 or -errno. */
int ledger_file_write(const struct ledger_file *file, uint32_t number, unsigned int slot,
		      struct ledger_row *row, uint64_t tenancy);

/* Wipe our own block and release it. */
void ledger_file_give(const struct ledger_file *file, uint32_t number);

/* How many blocks may be in use. */
uint32_t ledger_file_blocks(const struct ledger_file *file);

/*
 * Read a block, by another descriptor than its owner's. 1: each row is whole or all 0; 0: it has no
 * owner, or makes no sense; -errno. Adds the number of bad rows to *damaged; 1 for a bad head.
 */
int ledger_file_read(const struct ledger_file *file, uint32_t number, struct ledger_block *block,
		     size_t *damaged);

/*
 * Check that our own block is as we wrote it: others may truncate the file or overwrite it. 0 or
 * -errno.
 */
int ledger_file_restore(const struct ledger_file *file, uint32_t number,
			const struct ledger_block *block);

/*
 * The writer's position, reported before each step; tests end the writer there. NULL: no listener.
 */
enum ledger_step {
	LEDGER_OPENING,
	LEDGER_TAKING,
	LEDGER_WIPING,
	LEDGER_STANDING_FOR,
	LEDGER_WRITING,
	LEDGER_CLEARING,
	LEDGER_GIVING,
	LEDGER_UNLOCKING,
	LEDGER_CLOSING,
	LEDGER_STEPS
};
extern void (*ledger_at)(enum ledger_step step);

#endif
