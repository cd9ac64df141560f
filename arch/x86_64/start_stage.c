/* SPDX-License-Identifier: MIT */
/*
 * The return address that the first `call` of a start file leaves. glibc's sysdeps/x86_64/start.S
 * and dl-machine.h (RTLD_START), the same since long before 2.34:
 *
 *	the loader's     call _dl_start           8 below the first stack pointer, 8 bytes into it
 *	                 call _dl_init            in the same place, some 60 bytes into it
 *	the program's    call __libc_start_main   24 below the stack pointer that it finds
 *
 * That is the first stack pointer, or some words above where the loader was run by its own name and
 * has dropped its own arguments. The loader's `call` aligns the stack, which is aligned already.
 */
#include "arch/start_stage.h"

#define START_BYTES 64	       /* of the program's start file, at most: up to the return address */
#define DL_START_BYTES 16      /* of the loader's: up to the first return address */
#define LOADER_START_BYTES 256 /* and up to the second */

enum startup start_stage_find(const uint64_t words[STARTUP_WORDS], uint64_t entry,
			      uint64_t loader_entry)
{
	uint64_t into_loader = words[STARTUP_WORDS_BELOW - 1] - loader_entry;

	/*
	 * It may be the entry itself: the loader saves it and jumps to it, and the kernel names it.
	 */
	for (int i = 0; i < STARTUP_WORDS; i++)
		if (entry && words[i] > entry && words[i] - entry < START_BYTES)
			return STARTUP_OVER;
	if (into_loader - 1 < DL_START_BYTES)
		return STARTUP_LOADING;
	if (into_loader < LOADER_START_BYTES)
		return STARTUP_CONSTRUCTING;
	return STARTUP_OVER;
}
