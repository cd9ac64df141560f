/* SPDX-License-Identifier: MIT */
/*
 * Names that look like a word that was not found, to say "did you mean".
 */
#ifndef BASE_SIMILAR_NAMES_H
#define BASE_SIMILAR_NAMES_H

#include <stddef.h>

/*
 * Edit distance of two words: insertions, deletions, replacements and swaps of neighbours, letter
 * case set aside. Words are compared by their first 255 bytes. Any thread.
 */
unsigned int similar_distance(const char *a, const char *b);

/*
 * Whether a name is that word in a scope, as debuggers take it: shop::Order::add for Order::add.
 * Any thread.
 */
int similar_is_scoped(const char *word, const char *name);

/*
 * Pick from all[count] the names near `word`, nearest first, equally near ones in their order, and
 * each once; put pointers to up to `max` of them into out[]. A name is near in three cases: up to a
 * third of the word's letters is wrong; it is the word in a scope, also misspelt; one of the two
 * begins with the other. Returns how many were put. Any thread; allocates nothing.
 */
int similar_list(const char *word, const char *const *all, size_t count, const char **out,
		 size_t max);

/*
 * "; did you mean A, B or C?" of the names near `word` into text[]; "" without any. Returns text.
 * Any thread; allocates nothing.
 */
char *similar_words(const char *word, const char *const *all, size_t count, char *text,
		    size_t room);

#endif
