/* SPDX-License-Identifier: MIT */
/*
 * The C library of another process: which it is, where its functions lie, how large thread-local
 * memory has to be. All read from the process's memory, so a library that was replaced on disk
 * meanwhile makes no difference.
 */
#ifndef TARGET_PROCESS_GLIBC_H
#define TARGET_PROCESS_GLIBC_H

#include "base/maps.h"
#include "target/process/target.h"

#include <stdint.h>

struct glibc {
	/* addresses in the process */
	uint64_t attr_init, attr_detach, attr_stack, create;
	uint64_t dlopen, dlsym, dlerror;
	uint64_t errno_at;
	uint64_t tls_init; /* _dl_allocate_tls_init(); 0 where this loader has none */
	uint64_t tls_lock; /* the word of the lock that it takes; 0: unknown */
	uint64_t errno_offset, tls_words; /* of libc's own TLS block */
	uint64_t entry,
		loader_entry; /* where the program's code begins (0: not known), and the loader's */
	uint64_t malloc_low, malloc_high; /* the text of its memory allocator, with some to spare */
	int has_other_malloc; /* another module has an allocator that may replace libc's */
	/* bounds that hold for all modules together */
	uint64_t tls_bytes;
	unsigned int modules;
	char agent_path[4096]; /* of an agent that is loaded already, or "" */
};

/*
 * Read it, by way of mem_fd (/proc/PID/mem). `tid` names a thread of the process. 0, or with words:
 * -WM_E_FOREIGN_LIBC, -EAGAIN when the program is still being loaded, -errno.
 */
int glibc_read(struct glibc *glibc, pid_t tid, const struct maps *maps, int mem_fd,
	       struct detail detail);

#endif
