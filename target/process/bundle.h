/* SPDX-License-Identifier: MIT */
/*
 * Taking a bundle (abi/control.h) apart, message by message. It comes from a process that may be
 * hostile: each piece is copied before it is looked at, and must be what its heads say to the byte.
 */
#ifndef TARGET_PROCESS_BUNDLE_H
#define TARGET_PROCESS_BUNDLE_H

#include "abi/control.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Of the buffer that a bundle is read into: a whole message, the zeros behind it, and one byte
 * more.
 */
#define BUNDLE_BUFFER_BYTES (CONTROL_BYTES_MAX + CONTROL_BUNDLE_ALIGN + 1)

/* All zero: none is open. */
struct bundle {
	uint32_t left; /* messages to come; 0: none is open */
	int is_file;
	int fd;		    /* if it is a file */
	uint64_t at, bytes; /* what was taken, and what there is in all */
	/* what the buffer holds */
	unsigned char *buffer;
	size_t used, filled;
};

/*
 * Begin. `body` is the message's, in `buffer`, which the bundle uses from here on until
 * bundle_next() has returned 0. `fd` is what came with it or -1; it is the bundle's in any case. 0
 * or -WM_E_PROTOCOL.
 */
int bundle_open(struct bundle *bundle, unsigned char *buffer, const unsigned char *body,
		size_t bytes, int fd);

/*
 * The next message: *head is a copy of its head, *body its body with a NUL behind it; both are
 * valid until the next call. Returns 1, 0 at the end, or -WM_E_PROTOCOL, after which no message
 * follows.
 */
int bundle_next(struct bundle *bundle, struct wm_message *head, unsigned char **body);

/* Leave the rest. Safe on a zeroed one. */
void bundle_close(struct bundle *bundle);

#endif
