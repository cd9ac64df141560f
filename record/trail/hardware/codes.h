/* SPDX-License-Identifier: MIT */
/*
 * The code of a process, for origins that know only where it went: its files where they are mapped,
 * and its memory where there is no file. Each mapping is kept, with the time from which on it
 * existed. So its code can be read also once it is gone or another mapping has replaced it.
 *
 * One thread at a time uses a source.
 */
#ifndef RECORD_TRAIL_HARDWARE_CODES_H
#define RECORD_TRAIL_HARDWARE_CODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct codes {
	/* Read up to `most` bytes at an address. How many there are; 0: none. */
	size_t (*read)(struct codes *codes, uint64_t address, uint8_t *bytes, size_t most);
	uint64_t generation; /* grows whenever an address may have got another meaning */
	/*
	 * Code that is read from now on ran between these times, in ticks: return the code that was
	 * at an address then, and nothing if it changed between them. Both 0: the code there now.
	 * NULL: the source knows no times.
	 */
	void (*time)(struct codes *codes, uint64_t from, uint64_t to);
	int has_kernel; /* what runs in the kernel is recorded, and can be read */
};

/* A process's. */
struct codes_piece {
	uint64_t start, end, offset, inode, device;
	uint64_t since; /* ticks; 0: from the beginning */
	int is_late;	/* it was found there after that: it may have come before */
	/* of the file from `offset` on, mapped; NULL: it can't be had, ask the memory */
	uint8_t *bytes;
	size_t mapped;
};

struct kernel_codes;

#define CODES_PAGE_BYTES 4096u

struct process_codes {
	struct codes codes;
	struct kernel_codes *kernel;
	pid_t pid;
	struct codes_piece *pieces;
	size_t count, room;
	uint64_t from, to;	     /* codes.time() */
	size_t known_from, known_to; /* pieces that had come by then */
	const uint8_t *copied;	     /* the page of a mapped file that copy[] has; NULL: none */
	uint8_t copy[CODES_PAGE_BYTES];
};

/* Nothing is read yet. `kernel` is the caller's; NULL: user code alone. Release it. */
void codes_of_process_init(struct process_codes *codes, pid_t pid, struct kernel_codes *kernel);

/*
 * Look what is mapped now, at `ticks`; 0 at the beginning. 0, or -errno with what was known before
 * still there.
 */
int codes_of_process_renew(struct process_codes *codes, uint64_t ticks);

/*
 * Code was mapped at that time: as a line of its map would have it. `path` may be NULL. 0 or
 * -ENOMEM.
 */
int codes_of_process_mapped(struct process_codes *codes, const struct codes_piece *piece,
			    const char *path, uint64_t ticks);

void codes_of_process_release(struct process_codes *codes);

#endif
