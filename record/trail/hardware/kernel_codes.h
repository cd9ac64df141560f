/* SPDX-License-Identifier: MIT */
/*
 * The kernel's code as it is now, by /proc/kcore, an ELF core of its memory. Pages that were read
 * once are kept.
 *
 * One thread at a time uses it.
 */
#ifndef RECORD_TRAIL_HARDWARE_KERNEL_CODES_H
#define RECORD_TRAIL_HARDWARE_KERNEL_CODES_H

#include "record/trail/sink.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_codes;

/*
 * Open it, below `root` ("": this machine's). 0; -ENOENT, -EPERM, -EACCES where it is not to be
 * read, -ENOEXEC for what is no core of 64 bits with code of a kernel's in it, -ENOMEM. *codes is
 * NULL then.
 */
int kernel_codes_open(struct kernel_codes **codes, const char *root);
void kernel_codes_close(struct kernel_codes *codes); /* NULL is allowed */

/* Up to `most` bytes at an address. How many there are; 0: none. */
size_t kernel_codes_read(struct kernel_codes *codes, uint64_t address, uint8_t *bytes, size_t most);

/*
 * Tell a sink of the kernel (base/kernel_image.h) and its modules. Where their addresses are not
 * shown, of the kernel alone. 0 or the sink's error.
 */
int kernel_modules_note(const struct kernel_codes *codes, struct trail_sink *sink,
			const char *root);

#endif
