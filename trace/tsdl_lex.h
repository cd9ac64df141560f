/* SPDX-License-Identifier: MIT */
/*
 * The tokens of TSDL, as far as our own metadata has them.
 */
#ifndef TRACE_TSDL_LEX_H
#define TRACE_TSDL_LEX_H

#include <stddef.h>
#include <stdint.h>

enum token {
	TOKEN_END,
	TOKEN_WORD,   /* an identifier, with dots in it: model.emf.uri */
	TOKEN_NUMBER, /* decimal or 0x; a '-' in front */
	TOKEN_STRING, /* unescaped */
	TOKEN_ASSIGN, /* := */
	TOKEN_MARK,   /* any other character */
};

struct lex {
	const char *at, *end;
	uint32_t line;
	enum token token; /* the one read last, and what it says: */
	char mark;
	int64_t number;
	char *text; /* of a word or string, NUL-terminated; valid until the next */
	size_t room;
	int error; /* -ENOMEM */
};

void lex_init(struct lex *lex, const char *text, size_t bytes);
enum token lex_next(struct lex *lex);

/* Read past the end of the top-level block that this is in: a line that begins with "};". */
void lex_resume(struct lex *lex);

/* Whether the token read last is this mark, or this word. */
int lex_is(const struct lex *lex, char mark);
int lex_is_word(const struct lex *lex, const char *word);

void lex_release(struct lex *lex);

#endif
