/* SPDX-License-Identifier: MIT */
/* Notify the owner of a recording by eventfd(2) or by signal. */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <waymark/options.h>

/*
 * Check the notify options. The descriptor matters for WM_POLICY_NOTIFY alone; -1: none. 0; -EINVAL
 * for a signal that cannot be caught or is unknown, and for a descriptor that is no eventfd; -EBADF
 * for one that is not open for writing.
 */
int notify_check(enum wm_policy policy, int notify_fd, int notify_signal);

/* Notify the caller's process, by both or either. Any thread. */
void notify_send(int notify_fd, int notify_signal);

#endif
