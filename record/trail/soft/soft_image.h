/* SPDX-License-Identifier: MIT */
/*
 * The engine's file (engine/): a shared object that needs no loader, only its segments mapped.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_IMAGE_H
#define RECORD_TRAIL_SOFT_SOFT_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SOFT_IMAGE_SEGMENTS_MAX 16

/* A segment, in whole pages; addresses from the image's first page on. */
struct soft_segment {
	uint64_t at, bytes, offset; /* of the file */
	uint64_t filled;	    /* from `at` on: bytes of the file's; the rest is 0 */
	int prot;
};

struct soft_image {
	int fd;
	uint64_t bytes, entry;
	struct soft_segment segments[SOFT_IMAGE_SEGMENTS_MAX];
	size_t count;
};

/*
 * The file that is `named`, or, NULL, the one that is found as the agent is
 * (target/process/agentpath.h). 0; -WM_E_NO_ENGINE, -WM_E_PROTOCOL: it is another version's,
 * -WM_E_ENGINE_FILE, -ENOMEM, -EMFILE: detail[bytes] names it. Close it also after an error.
 */
int soft_image_find(struct soft_image *image, const char *named, char *detail, size_t bytes);
void soft_image_close(struct soft_image *image);

/*
 * A random address for it in a process: a hint for mmap(2). *is_far (ENGINE_BOOT_FAR): its program
 * has a sanitizer's shadow memory, and the engine is elsewhere. Any thread.
 */
uint64_t soft_image_place(pid_t pid, int *is_far);

#endif
