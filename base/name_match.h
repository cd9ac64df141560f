/* SPDX-License-Identifier: MIT */
/* Whether a name is the one that a user gave, or fits his glob. Any thread; allocates nothing. */
#ifndef BASE_NAME_MATCH_H
#define BASE_NAME_MATCH_H

/*
 * A glob as fnmatch(3) without flags: * also matches slashes, a backslash takes the next character
 * literally. Brackets are a class, or, in names that have some, themselves: "accounts[2].*" matches
 * "accounts[2].cents" and "accounts2.cents".
 */
int name_match(const char *pattern, const char *name);

/* The same of SUBSYSTEM:EVENT, or of what is behind its first colon. */
int name_match_marker(const char *pattern, const char *name);

/* The same for names of hardware events, which perf and libpfm4 take in any letter case. */
int name_match_event(const char *pattern, const char *name);

/*
 * The same of a module, by its path or, without a slash in the pattern, by the last part of it:
 * libz.so.1.2.13 also as "libz.so.1", "libz.so", and "libz", which its events are called by.
 */
int name_match_module(const char *pattern, const char *path);

/* The part after the last slash, or the whole path if that part is empty. */
const char *name_last_part(const char *path);

#endif
