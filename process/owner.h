/* SPDX-License-Identifier: MIT */
/*
 * Files made for another user, by root: as that user from the first moment, so that nobody who looks at
 * them meanwhile finds root's, and no link that the user puts in their way leads further than the user.
 */
#ifndef PROCESS_OWNER_H
#define PROCESS_OWNER_H

#include <sys/types.h>

/*
 * What this thread does with files from here on, it does as that user. 0, or -EPERM: we may not. Nothing
 * is changed then. Each success needs owner_leave() of the same thread.
 */
int owner_become(uid_t uid);

/* As ourselves again. Keeps errno. */
void owner_leave(void);

#endif
