/* SPDX-License-Identifier: MIT */
/*
 * Find a thread's block of a library's thread-local variables. Only the loader knows where it is.
 * glibc describes its own structures to debuggers (_thread_db_*, as libthread_db reads them). This
 * code reads them from the process's memory and checks every number.
 */
#ifndef TARGET_EXPRESSION_TLS_BLOCK_H
#define TARGET_EXPRESSION_TLS_BLOCK_H

#include "target/code/resolve.h"
#include "target/expression/trouble.h"

#include <stdint.h>

/*
 * The beginning of a module's block in the thread with this thread pointer. 0;
 * -WM_E_WATCH_NO_BLOCK: the thread has none yet; -WM_E_WATCH_BLOCKS: no C library describes its
 * structures; with words.
 */
int expression_block_find(uint64_t *block, const struct code_process *process,
			  const struct code_module *module, uint64_t thread_pointer,
			  struct watch_trouble *trouble);

/*
 * Where the C library keeps the number of the thread with this thread pointer. 0 or
 * -WM_E_WATCH_BLOCKS.
 */
int expression_block_number(uint64_t *address, const struct code_process *process,
			    uint64_t thread_pointer, struct watch_trouble *trouble);

#endif
