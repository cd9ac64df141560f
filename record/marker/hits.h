/* SPDX-License-Identifier: MIT */
/* How often a process's markers were hit, as its agent counts. */
#ifndef RECORD_MARKER_HITS_H
#define RECORD_MARKER_HITS_H

#include "record/marker/catalog.h"

/*
 * Ask the process's agent, if it has one, and set `hits` of the process's markers in the sorted
 * catalog. Those that the agent does not report within a second, and those whose types differ, stay
 * CATALOG_HITS_UNKNOWN. Loads nothing into the process and opens no session.
 */
void hits_ask(struct catalog *catalog, pid_t pid);

#endif
