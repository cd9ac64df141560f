/* SPDX-License-Identifier: MIT */
#include "trace/tsdl_enum.h"

#include "base/array.h"
#include "trace/tsdl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

#define BROKEN (-1)
#define ENUMS_MAX 65536u /* bounds the memory that a damaged number takes */
#define MARK "_enum_"

const char *tsdl_enum_name(const struct enumeration *of, char name[TSDL_ENUM_NAME_BYTES])
{
	snprintf(name, TSDL_ENUM_NAME_BYTES, "%s" MARK "%u", tsdl_type_name(of->type), of->number);
	return name;
}

void tsdl_enum_write(struct text *text, const struct enumeration *of)
{
	char name[TSDL_ENUM_NAME_BYTES];
	int is_signed;

	enumeration_type_bytes(of->type, &is_signed);
	text_format(text, "typealias enum : %s {", tsdl_type_name(of->type));
	for (uint32_t i = 0; i < of->count; i++) {
		text_format(text, "%s", i ? ",\n\t" : "\n\t");
		text_quoted(text, enumeration_name_at(of, i));
		if (is_signed)
			text_format(text, " = %lld", (long long)of->all[i].value);
		else
			text_format(text, " = %llu", (unsigned long long)of->all[i].value);
	}
	text_format(text, "\n} := %s;\n\n", tsdl_enum_name(of, name));
}

/* Split an alias into its type and *number, UINT64_MAX if it has none. 0: not our alias. */
static uint8_t alias_split(const char *alias, uint64_t *number)
{
	const char *mark = strstr(alias, MARK);
	size_t bytes = mark ? (size_t)(mark - alias) : strlen(alias);
	char *end = NULL;

	*number = UINT64_MAX;
	for (uint8_t type = 1; type <= WM_TYPE_ADDRESSES; type++) {
		const char *name = tsdl_type_name(type);

		if (strlen(name) != bytes || strncmp(name, alias, bytes) != 0)
			continue;
		if (mark && mark[sizeof(MARK) - 1] >= '0' && mark[sizeof(MARK) - 1] <= '9')
			*number = strtoull(mark + sizeof(MARK) - 1, &end, 10);
		return !mark || (end && !*end) ? type : 0;
	}
	return 0;
}

uint8_t tsdl_type_of(const struct tsdl_enums *enums, const char *name,
		     const struct enumeration **names)
{
	uint64_t number;
	uint8_t type = alias_split(name, &number);

	*names = number < enums->count ? enums->all[number] : NULL;
	if (*names && (*names)->type != type)
		*names = NULL;
	return type;
}

/* "NAME" = NUMBER, ... } */
static int read_values(struct lex *lex, struct enumeration_draft *draft)
{
	char *name;

	do {
		lex_next(lex);
		if (lex->token != TOKEN_STRING && lex->token != TOKEN_WORD)
			return BROKEN;
		name = strdup(lex->text);
		if (!name)
			return -ENOMEM;
		lex_next(lex);
		if (!lex_is(lex, '=') || lex_next(lex) != TOKEN_NUMBER) {
			free(name);
			return BROKEN;
		}
		enumeration_draft_add(draft, (uint64_t)lex->number, name);
		free(name);
		lex_next(lex);
	} while (lex_is(lex, ','));
	return lex_is(lex, '}') ? 0 : BROKEN;
}

static int keep(struct tsdl_enums *enums, struct enumeration_draft *draft, uint64_t number)
{
	if (number >= ENUMS_MAX)
		return BROKEN;
	if (number >= enums->count) {
		if (array_grow(&enums->all, &enums->room, number + 1, sizeof(*enums->all)))
			return -ENOMEM;
		memset(enums->all + enums->count, 0,
		       (number + 1 - enums->count) * sizeof(*enums->all));
		enums->count = number + 1;
	}
	enums->all[number] = enumeration_pool_make(&enums->pool, draft);
	return 0;
}

int tsdl_enum_read(struct tsdl_enums *enums, struct lex *lex)
{
	struct enumeration_draft draft = { 0 };
	uint64_t number;
	uint8_t type;
	int err;

	lex_next(lex);
	if (!lex_is(lex, ':') || lex_next(lex) != TOKEN_WORD)
		return BROKEN;
	draft.type = alias_split(lex->text, &number);
	lex_next(lex);
	err = lex_is(lex, '{') ? read_values(lex, &draft) : BROKEN;
	if (!err && (lex_next(lex) != TOKEN_ASSIGN || lex_next(lex) != TOKEN_WORD))
		err = BROKEN;
	if (!err) {
		type = alias_split(lex->text, &number);
		if (number != UINT64_MAX)
			err = type && type == draft.type ? keep(enums, &draft, number) : BROKEN;
	}
	if (!err && (lex_next(lex), !lex_is(lex, ';')))
		err = BROKEN;
	enumeration_draft_release(&draft);
	return err;
}

void tsdl_enums_release(struct tsdl_enums *enums)
{
	free(enums->all);
	enumeration_pool_release(&enums->pool);
	*enums = (struct tsdl_enums){ 0 };
}
