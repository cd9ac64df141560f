/* SPDX-License-Identifier: MIT */
/*
 * Files that came over a socket from a traced program, which may be anything.
 */
#ifndef TARGET_PROCESS_SEALED_H
#define TARGET_PROCESS_SEALED_H

#include <stdint.h>

/*
 * How long a file is that can never be cut, so that no access to what is mapped of it faults: only
 * a memfd that is sealed against shrinking. 0 and *bytes, or -WM_E_PROTOCOL for anything else, also
 * for no descriptor (-1).
 */
int sealed_bytes(int fd, uint64_t *bytes);

#endif
