/* SPDX-License-Identifier: MIT */
#include "trace/tsdl_lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void lex_init(struct lex *lex, const char *text, size_t bytes)
{
	*lex = (struct lex){ .at = text, .end = text + bytes, .line = 1 };
}

void lex_release(struct lex *lex)
{
	free(lex->text);
	lex->text = NULL;
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void skip_blank(struct lex *lex)
{
	while (lex->at < lex->end) {
		if (lex->end - lex->at >= 2 && lex->at[0] == '/' && lex->at[1] == '*') {
			const char *close = memmem(lex->at, (size_t)(lex->end - lex->at), "*/", 2);

			lex->at = close ? close + 2 : lex->end;
			continue;
		}
		if (!strchr(" \t\n", *lex->at) || !*lex->at)
			return;
		lex->line += *lex->at++ == '\n';
	}
}

/* Room for `bytes` and a NUL in lex->text. */
static int reserve(struct lex *lex, size_t bytes)
{
	char *larger;

	if (bytes < lex->room)
		return 0;
	larger = realloc(lex->text, bytes + 64);
	if (!larger) {
		lex->error = -ENOMEM;
		return -1;
	}
	lex->text = larger;
	lex->room = bytes + 64;
	return 0;
}

static enum token word(struct lex *lex)
{
	const char *start = lex->at;
	size_t bytes;

	while (lex->at < lex->end && (is_word(*lex->at) || *lex->at == '.'))
		lex->at++;
	bytes = (size_t)(lex->at - start);
	if (reserve(lex, bytes))
		return TOKEN_END;
	memcpy(lex->text, start, bytes);
	lex->text[bytes] = '\0';
	return TOKEN_WORD;
}

static enum token number(struct lex *lex)
{
	int negative = *lex->at == '-';
	uint64_t value = 0;

	lex->at += negative;
	while (lex->at < lex->end && is_digit(*lex->at))
		value = value * 10 + (uint64_t)(*lex->at++ - '0');
	lex->number = (int64_t)(negative ? 0 - value : value);
	return TOKEN_NUMBER;
}

/* One character of a string, which may be escaped: \ooo, or \ before any other. */
static char unescape(struct lex *lex)
{
	unsigned int code = 0;

	if (*lex->at != '\\' || lex->end - lex->at < 2)
		return *lex->at++;
	lex->at++;
	if (!is_digit(*lex->at))
		return *lex->at++;
	for (int i = 0; i < 3 && lex->at < lex->end && is_digit(*lex->at); i++)
		code = code * 8 + (unsigned int)(*lex->at++ - '0');
	return (char)code;
}

static enum token string(struct lex *lex)
{
	const char *close = ++lex->at;
	size_t bytes = 0;

	while (close < lex->end && *close != '"')
		close += *close == '\\' && lex->end - close > 1 ? 2 : 1;
	if (close >= lex->end) { /* never closed */
		lex->at = lex->end;
		return TOKEN_END;
	}
	if (reserve(lex, (size_t)(close - lex->at)))
		return TOKEN_END;
	while (lex->at < close) {
		char c = unescape(lex);

		if (c)
			lex->text[bytes++] = c;
	}
	lex->text[bytes] = '\0';
	lex->at = close + 1;
	return TOKEN_STRING;
}

enum token lex_next(struct lex *lex)
{
	skip_blank(lex);
	if (lex->at >= lex->end || lex->error)
		lex->token = TOKEN_END;
	else if (*lex->at == '"')
		lex->token = string(lex);
	else if (is_digit(*lex->at) ||
		 (*lex->at == '-' && lex->end - lex->at > 1 && is_digit(lex->at[1])))
		lex->token = number(lex);
	else if (is_word(*lex->at))
		lex->token = word(lex);
	else if (lex->end - lex->at > 1 && lex->at[0] == ':' && lex->at[1] == '=') {
		lex->at += 2;
		lex->token = TOKEN_ASSIGN;
	} else {
		lex->mark = *lex->at++;
		lex->token = TOKEN_MARK;
	}
	return lex->token;
}

void lex_resume(struct lex *lex)
{
	while (lex->at < lex->end) {
		const char *newline = memchr(lex->at, '\n', (size_t)(lex->end - lex->at));

		if (!newline) {
			lex->at = lex->end;
			return;
		}
		lex->at = newline + 1;
		lex->line++;
		if (lex->end - lex->at >= 2 && !memcmp(lex->at, "};", 2)) {
			lex->at += 2;
			return;
		}
	}
}

int lex_is(const struct lex *lex, char mark)
{
	return lex->token == TOKEN_MARK && lex->mark == mark;
}

int lex_is_word(const struct lex *lex, const char *text)
{
	return lex->token == TOKEN_WORD && !strcmp(lex->text, text);
}
