/* SPDX-License-Identifier: MIT */
/* For libraries that open files by names of their own choice: names that a container gives them. */
#ifndef TARGET_CODE_ROOTED_H
#define TARGET_CODE_ROOTED_H

/* Whether names under a root "/proc/PID/root" lead elsewhere than our own. */
int rooted_is_apart(const char *root);

/*
 * Call something in a thread of its own, whose names begin in `root`; no link leads out of there.
 * Waits until it has ended. 0 or -errno: it was not called. It needs CAP_SYS_CHROOT.
 */
int rooted_call(const char *root, void (*call)(void *data), void *data);

#endif
