/* SPDX-License-Identifier: MIT */
/* waymark list --events: what the kernel can count, whether it can here, and why not. */
#ifndef CLI_LIST_EVENTS_H
#define CLI_LIST_EVENTS_H

/* `glob` may be NULL. Complains if it matches nothing. Returns an exit status. */
int list_events(const char *glob, int json);

#endif
