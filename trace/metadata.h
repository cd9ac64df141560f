/* SPDX-License-Identifier: MIT */
/*
 * The file `metadata` of a trace that is being written. A reader finds whole declarations at any
 * time, also after SIGKILL.
 *
 * To replace the file, the writer renames a new one over it. To append, the writer uses one
 * write(2) for each page of the file, and no declaration crosses a page: the kernel copies a page's
 * bytes in one step, and neither a signal nor a reader comes between.
 */
#ifndef TRACE_METADATA_H
#define TRACE_METADATA_H

#include "base/text_buffer.h"

#include <stdint.h>

struct metadata {
	int fd; /* -1: nothing to append to; metadata_replace() opens it */
	uint64_t bytes;
	size_t body_bytes; /* of the writer's text, how much the file has */
};

/* The file becomes head and body. 0, -ENOMEM, -errno. */
int metadata_replace(struct metadata *metadata, int dir, const struct text *head,
		     const struct text *body);

/*
 * Append what body has grown by. 0, or a negative error: the file is as before, or -1 is its
 * descriptor and it has to be replaced. -E2BIG: a declaration is larger than a page.
 */
int metadata_append(struct metadata *metadata, const struct text *body);

void metadata_release(struct metadata *metadata);

#endif
