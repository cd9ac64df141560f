/* SPDX-License-Identifier: MIT */
/*
 * Arming and disarming many sites at once. The order of a batch (numbers as in batch.c and
 * marker/change.c):
 *
 *   1. check    every site's bytes are what the build recorded, or it is refused before any write
 *   2. publish  (the caller) plans; a hit may arrive from here on
 *   3. sync     every core; pairs with the load of the plan in hit.c
 *   4. store    one byte a site, if it still has the expected bytes
 *   5. sync     every core: from here all threads take the jump, or none does
 *
 * Between 4 and 5 a thread may run old or new code. Both are correct: the four bytes after the
 * first are the jump's displacement from the day of linking, so whatever a core fetches is one of
 * two whole instructions of the same length.
 *
 * What the manuals promise. AMD64 APM volume 2, 7.6.1: a store inside one naturally aligned
 * quadword to code that other cores run is seen as old or new; one byte always is that. Intel SDM
 * volume 3, 9.1.3, asks that each core serializes before it runs modified code, and calls the rest
 * model-specific: step 5 makes each core serialize (membarrier(2), SYNC_CORE), and between 4 and 5
 * we rely on the one-byte store, as the kernel and HotSpot do. Strict mode doesn't: there no thread
 * runs in between.
 */
#ifndef INSIDE_PATCH_BATCH_H
#define INSIDE_PATCH_BATCH_H

#include "inside/patch/text.h"

#include <stddef.h>
#include <stdint.h>

struct batch_site {
	/* the instruction; portable: the flag, wm_record.armed. First: sort.h */
	uintptr_t address;
	int32_t displacement; /* what follows the first byte */
	uint8_t portable;
	uint8_t prot;	  /* of the code's pages (PROT_*) */
	uint8_t found[5]; /* out: the code at the site, unless it is portable or can't be read */
	int error;	  /* out: 0, -WM_E_SITE_CHANGED, -WM_E_NO_TEXT_WRITE or -EFAULT */
	void *owner;	  /* the caller's */
};

/*
 * Step 1, for sites in order of address: read each and set its error. `arm`: what is expected is
 * the dormant form, else the armed one; a site that has the other form already is not an error.
 * Returns how many were refused.
 */
size_t batch_check(const struct text *text, struct batch_site *sites, size_t count, int arm);

/*
 * Steps 3 to 5, for sites in order of address that passed the check. Writes bytes of sites alone.
 * Checks each again right before its write: a site that changed since step 1 stays as it is, with
 * -WM_E_SITE_CHANGED in its error, and the others are written. If a write fails, what was written
 * is taken back and that error is returned; 0 else.
 */
int batch_commit(const struct text *text, struct batch_site *sites, size_t count, int arm);

/* The five bytes that a site has. */
void batch_bytes(const struct batch_site *site, int arm, uint8_t bytes[5]);

/* Make every core that runs this process serialize (or be switched out, which does). */
void batch_sync_cores(void);

/*
 * Register with the kernel for that, as the first batch_sync_cores() does if need be. While a
 * process has one thread it takes a microsecond, else some 15 ms (membarrier(2) waits for all
 * cores). Children of a fork inherit it.
 */
void batch_register(void);

#endif
