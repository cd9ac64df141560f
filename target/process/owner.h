/* SPDX-License-Identifier: MIT */
/*
 * Files that root makes for another user: as that user from the first moment. So no one meanwhile
 * sees a file of root's, and a link that the user puts there leads no further than the user's own
 * access.
 */
#ifndef TARGET_PROCESS_OWNER_H
#define TARGET_PROCESS_OWNER_H

#include <sys/types.h>

/*
 * This thread accesses files as that user, who may be us, from here on. 0, or -EPERM with nothing
 * changed: we may not. Each success needs owner_leave() in the same thread.
 */
int owner_become(uid_t uid);

/* As ourselves again. Keeps errno. */
void owner_leave(void);

#endif
