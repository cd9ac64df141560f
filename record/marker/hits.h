/* SPDX-License-Identifier: MIT */
/* How often a process's markers were hit, as its agent counts. */
#ifndef RECORD_MARKER_HITS_H
#define RECORD_MARKER_HITS_H

#include "record/marker/catalog.h"

/*
 * Ask the process's agent, if it has one, and set `hits` of the process's markers in the catalog.
 * Markers that the agent does not report stay CATALOG_HITS_UNKNOWN; after an error all do. Loads
 * nothing into the process and opens no session. Takes a second at most. Returns 0, -ENOENT if no
 * agent listens, -WM_E_AGENT_SILENT, -WM_E_GONE, -WM_E_PROTOCOL, -ENOMEM, -errno.
 */
int hits_ask(struct catalog *catalog, pid_t pid);

#endif
