/* SPDX-License-Identifier: MIT */
/*
 * The code of a process, for origins that know only where it went: its files where they are mapped, and its
 * memory where there is none. What was mapped once is kept, so that it can be read when it is gone.
 *
 * One thread at a time uses a source.
 */
#ifndef SESSION_TRAIL_CODES_H
#define SESSION_TRAIL_CODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct codes {
	/* Read up to `most` bytes at an address. How many there are; 0: none. */
	size_t (*read)(struct codes *codes, uint64_t address, uint8_t *bytes, size_t most);
	uint64_t generation; /* grows whenever an address may have got another meaning */
	int has_kernel;	     /* what runs in the kernel is recorded, and can be read */
};

/* A process's. */
struct codes_piece {
	uint64_t start, end, offset, inode, device;
	uint8_t *bytes; /* of the file from `offset` on, mapped; NULL: it can't be had, ask the memory */
	size_t mapped;
};

struct kernel_codes;

struct process_codes {
	struct codes codes;
	struct kernel_codes *kernel;
	pid_t pid;
	struct codes_piece *pieces; /* the latest last */
	size_t count, room;
};

/* Nothing is read yet. `kernel` is the caller's; NULL: user code alone. Release it. */
void process_codes_init(struct process_codes *codes, pid_t pid, struct kernel_codes *kernel);

/* Look what is mapped now: 0, or -errno with what was known before still there. */
int process_codes_renew(struct process_codes *codes);
void process_codes_release(struct process_codes *codes);

#endif
