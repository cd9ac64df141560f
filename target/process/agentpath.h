/* SPDX-License-Identifier: MIT */
/* Where libwaymark-agent.so is, and the trail's engine. */
#ifndef TARGET_PROCESS_AGENTPATH_H
#define TARGET_PROCESS_AGENTPATH_H

#include <limits.h>

/*
 * Find the agent library: what WAYMARK_AGENT names, which a program that gains privileges ignores;
 * else beside the file that this code is in (a build tree has it in inside/ or ../inside, an
 * installation in the same folder or in ../lib), in a program that gains privileges only if that
 * folder belongs to the file's owner or root and no one else can write it; else in the folder that
 * libraries were configured to be installed in. Absolute, links resolved. 0, or -WM_E_NO_AGENT:
 * path[] is then what was looked for last.
 */
int agentpath_find(char path[PATH_MAX]);

/*
 * The same, but the one that the program names, whatever WAYMARK_AGENT says. NULL: it names none.
 */
int agentpath_find_as(char path[PATH_MAX], const char *named);

/*
 * The same for libwaymark-trail.so, which a build tree has in engine, and WAYMARK_ENGINE
 * names.
 */
int agentpath_find_engine(char path[PATH_MAX]);

/*
 * Put the path so that glibc's loader alone finds it in LD_PRELOAD. Programs inherit that from
 * programs; musl's loader would take the agent, for which it has no symbols, and end the program.
 * Where the folders for that are missing, the path is left alone.
 */
void agentpath_for_glibc(char path[PATH_MAX]);

#endif
