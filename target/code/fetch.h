/* SPDX-License-Identifier: MIT */
/*
 * Debug files from the servers that DEBUGINFOD_URLS names, through libdebuginfod, which keeps them
 * in the user's cache. The library is loaded when the first file is wanted; nothing is fetched
 * without it.
 */
#ifndef TARGET_CODE_FETCH_H
#define TARGET_CODE_FETCH_H

#include <stddef.h>

/*
 * From here on files may be fetched: of commands that read, as it takes seconds and more. progress
 * is called some times a second while it does, with all 0 as long as the size is unknown, and once
 * with done -1 at the end; NULL is allowed.
 */
void code_fetch_allow(void (*progress)(const char *build_id, long done, long all));

/*
 * The path of the debug file with that build id, in hexadecimal digits. 0; -ENOENT: none, or none
 * may be fetched. After a server failed, or has sent nothing for 10 s, no other file is wanted of
 * it. Any thread; one at a time fetches.
 */
int code_fetch_debug(const char *build_id, char *path, size_t room);

#endif
