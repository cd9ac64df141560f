/* SPDX-License-Identifier: MIT */
/* Errors of this process's own, which say nothing about what it asked for. */
#ifndef BASE_LACK_H
#define BASE_LACK_H

#include <errno.h>

/* Whether it had no memory or no descriptor left: then the object is not to blame. */
static inline int error_is_lack(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

#endif
