/* SPDX-License-Identifier: MIT */
/*
 * The memory that an injection has in the process: made by two calls of a borrowed thread, filled
 * from outside, removed by a third. Its parts, in this order, each whole pages:
 *
 *	code     readable and executable once filled: the borrowed thread's, then the loader's
 *	data     struct loader_data (arch/loader.h)
 *	stack    of the raw thread
 *	dtv      its table of thread-local blocks
 *	tls      static thread-local memory, up to the thread control block and past it
 */
#ifndef TARGET_PROCESS_SCRATCH_H
#define TARGET_PROCESS_SCRATCH_H

#include "arch/loader.h"
#include "target/process/remote_thread.h"
#include "target/process/glibc.h"

struct scratch {
	uint64_t start, bytes; /* start 0: absent */
	uint64_t loader;       /* the loader's code */
	uint64_t data, stack_end, dtv, dtv_entries, tcb;
};

/*
 * Map and fill it: with `data`, which has all but the addresses in here; tid_offset is where a
 * thread control block keeps the thread's number. 0; -WM_E_INJECT, with words; -ESRCH and the like
 * when the loan failed.
 */
int scratch_map(struct scratch *scratch, struct remote_thread *remote, const struct glibc *glibc,
		uint64_t tid_offset, struct loader_data *data, struct detail detail);

/* Start the raw thread in it. As scratch_map(). After an error unmap it by another loan. */
int scratch_start(const struct scratch *scratch, struct remote_thread *remote,
		  struct detail detail);

/* Unmap it. 0 or an error: it stays. */
int scratch_unmap(struct scratch *scratch, struct remote_thread *remote);

#endif
