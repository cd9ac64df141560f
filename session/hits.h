/* SPDX-License-Identifier: MIT */
/* How often the markers of a process were hit, as the agent in it tells. */
#ifndef SESSION_HITS_H
#define SESSION_HITS_H

#include "session/catalog.h"

/*
 * Ask the agent that listens in the process, if one does, and set `hits` of the catalog's markers of
 * that process; those it does not tell of stay CATALOG_HITS_UNKNOWN, and all do after an error.
 * Nothing is brought into the process, no session is opened. It takes a second at most. Returns 0,
 * -ENOENT when no agent listens, -WM_E_AGENT_SILENT, -WM_E_GONE, -WM_E_PROTOCOL, -ENOMEM, -errno.
 */
int hits_ask(struct catalog *catalog, pid_t pid);

#endif
