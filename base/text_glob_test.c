/* SPDX-License-Identifier: MIT */
#include "base/text_glob.h"

#include <criterion/criterion.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

struct text {
	const char *bytes;
	uint32_t readable; /* bytes from here on are not */
};

static int byte_at(void *data, uint32_t at)
{
	const struct text *text = data;

	return at < text->readable ? (unsigned char)text->bytes[at] : -1;
}

static int match(const char *glob, const char *bytes)
{
	struct text text = { bytes, UINT32_MAX };

	return text_glob_match(glob, byte_at, &text);
}

Test(text_glob, literal_matches_itself_alone)
{
	cr_expect_eq(match("UPDATE", "UPDATE"), 1);
	cr_expect_eq(match("UPDATE", "UPDATED"), 0);
	cr_expect_eq(match("UPDATE", "UPDAT"), 0);
	cr_expect_eq(match("", ""), 1);
	cr_expect_eq(match("", "a"), 0);
}

Test(text_glob, star_takes_any_run)
{
	cr_expect_eq(match("UPDATE*", "UPDATE t SET"), 1);
	cr_expect_eq(match("*", ""), 1);
	cr_expect_eq(match("*ab", "aaab"), 1);
	cr_expect_eq(match("a*b*c", "a1b2b3c"), 1);
	cr_expect_eq(match("a*b*c", "a1b2b3"), 0);
	cr_expect_eq(match("*/etc/*", "/x/etc/y"), 1);
}

Test(text_glob, backslash_and_open_bracket_are_literal)
{
	cr_expect_eq(match("\\*", "*"), 1);
	cr_expect_eq(match("\\*", "a"), 0);
	cr_expect_eq(match("a[", "a["), 1);
	cr_expect_eq(match("a\\", "a\\"), 1);
	cr_expect_eq(match("\\[x]", "[x]"), 1);
}

/* All globs and texts of few characters: fnmatch(3) is the oracle. */
Test(text_glob, random_globs_match_as_fnmatch)
{
	static const char glob_letters[] = "ab*?[!]-\\", letters[] = "ab-]";
	unsigned int matches = 0;

	srand(1);
	for (int i = 0; i < 300000; i++) {
		char glob[7] = "", text[6] = "";
		int glob_bytes = rand() % 7, text_bytes = rand() % 6;

		for (int k = 0; k < glob_bytes; k++)
			glob[k] = glob_letters[(size_t)rand() % (sizeof(glob_letters) - 1)];
		for (int k = 0; k < text_bytes; k++)
			text[k] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		/* fnmatch takes these by rules of its own: escapes and ranges in sets */
		if (strchr(glob, '[') && (strchr(glob, '\\') || strchr(glob, '-')))
			continue;
		if (strchr(glob, '\\') && glob[strlen(glob) - 1] == '\\')
			continue;
		cr_assert_eq(match(glob, text), !fnmatch(glob, text, 0), "%s on %s", glob, text);
		matches += match(glob, text) == 1;
	}
	cr_expect_gt(matches, 1000);
}

Test(text_glob, unreadable_byte_is_reported_only_if_needed)
{
	struct text text = { "UPDATE", 3 };

	cr_expect_eq(text_glob_match("UPDATE", byte_at, &text), -1);
	cr_expect_eq(text_glob_match("SELECT", byte_at, &text), 0);
	cr_expect_eq(text_glob_match("UPD*", byte_at, &text), -1);
	text.readable = 0;
	cr_expect_eq(text_glob_match("*", byte_at, &text), -1);
}

Test(text_glob, reads_are_never_far_behind_the_last)
{
	static char bytes[4097];
	struct text text = { bytes, UINT32_MAX };

	memset(bytes, 'a', sizeof(bytes) - 1);
	cr_expect_eq(text_glob_match("*aaab", byte_at, &text), 0);
	cr_expect_eq(text_glob_match("*aaa", byte_at, &text), 1);
}
