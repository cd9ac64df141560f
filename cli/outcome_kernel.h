/* SPDX-License-Identifier: MIT */
/* What a recording has of the kernel's events, on standard error. */
#ifndef CLI_OUTCOME_KERNEL_H
#define CLI_OUTCOME_KERNEL_H

struct wm_session;

/* As it begins: what is missing for want of a privilege. */
void outcome_kernel(const struct wm_session *session);

/* At its end: what the kernel left out. */
void outcome_kernel_end(const struct wm_session *session);

#endif
