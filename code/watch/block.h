/* SPDX-License-Identifier: MIT */
/*
 * Where a thread has a library's variables: the loader's secret, which glibc tells debuggers by words about its own structures
 * (_thread_db_*, as libthread_db reads them). What they say is read from the process's memory, and every number is checked.
 */
#ifndef CODE_WATCH_BLOCK_H
#define CODE_WATCH_BLOCK_H

#include "code/resolve.h"
#include "code/watch/trouble.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The beginning of a module's block in the thread with this thread pointer. 0; -WM_E_WATCH_NO_BLOCK: it has none yet; -WM_E_WATCH_BLOCKS: no C
 * library that tells; with words.
 */
int watch_block_find(uint64_t *block, const struct code_process *process,
		     const struct code_module *module, uint64_t thread_pointer,
		     struct watch_trouble *trouble);

/* Where the C library keeps the number of the thread with this thread pointer. 0 or -WM_E_WATCH_BLOCKS. */
int watch_block_number(uint64_t *address, const struct code_process *process,
		       uint64_t thread_pointer, struct watch_trouble *trouble);

#endif
