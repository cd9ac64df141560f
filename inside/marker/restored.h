/* SPDX-License-Identifier: MIT */
/*
 * What other tools do to armed sites: a uprobe or a debugger's breakpoint takes the place of the
 * first byte, and when a uprobe goes, the file's byte is there. As inside/detour/foreign_bytes.h
 * has it for detours. Under the agent's lock.
 */
#ifndef INSIDE_MARKER_RESTORED_H
#define INSIDE_MARKER_RESTORED_H

#include "inside/patch/text.h"

/* Sites were armed or disarmed, or have gone. */
void restored_changed(void);

/* What another tool has held is armed, or gone: what is missing ends here. */
struct site;
void restored_end(struct site *site);

/* Whether any site is armed. */
int restored_any(void);

/* Compare all armed sites; re-arm those that another tool reset, and report since when. */
void restored_look(const struct text *text);

#endif
