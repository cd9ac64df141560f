/* SPDX-License-Identifier: MIT */
/*
 * What each session wants armed: globs over SUBSYSTEM:EVENT, now and in modules to come. Under the
 * agent's lock; rule_match() and rule_check() anywhere.
 */
#ifndef INSIDE_MARKER_RULE_H
#define INSIDE_MARKER_RULE_H

#include <stdbool.h>
#include <stdint.h>

#define RULE_BYTES_MAX 512 /* of one glob, with its NUL */
#define RULES_MAX 4096	   /* of one session */

/*
 * Whether a name matches. `*` is any run of characters, `?` any one, `[a-z]` and `[!a-z]` one of a
 * set; none of them matches the colon. Takes time in proportion to both lengths' product at most.
 */
bool rule_match(const char *glob, const char *name);

/* Whether the glob matches only itself. */
bool rule_is_plain(const char *glob);

/* 0, or -WM_E_SPEC for a glob that is no SUBSYSTEM:EVENT. */
int rule_check(const char *glob);

/*
 * Add a rule to session `lane`: want, or want no more, what matches. Later rules prevail. A rule of
 * the same text is replaced. Returns 0, -WM_E_SPEC, -ENOMEM, or -E2BIG past RULES_MAX.
 */
int rule_add(unsigned int lane, const char *glob, bool want);

/* Whether the session wants the marker of that name. */
bool rule_wants(unsigned int lane, const char *name);

/* Whether the session has any rule. */
bool rule_any(unsigned int lane);

void rule_clear(unsigned int lane);

uint32_t rule_hash(const char *name); /* a marker's name, for tables */

#endif
