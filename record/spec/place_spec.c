/* SPDX-License-Identifier: MIT */
/* Specs of places in code: the names of usdt:, func: and addr:, and their fields. */
#include "base/quantity.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"
#include "target/code/symbol.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static const struct {
	const char *name;
	uint8_t type;
} types[] = {
	{ "i8", WM_TYPE_I8 },	{ "u8", WM_TYPE_U8 },	{ "i16", WM_TYPE_I16 },
	{ "u16", WM_TYPE_U16 }, { "i32", WM_TYPE_I32 }, { "u32", WM_TYPE_U32 },
	{ "i64", WM_TYPE_I64 }, { "u64", WM_TYPE_U64 }, { "bool", WM_TYPE_BOOL },
	{ "f32", WM_TYPE_F32 }, { "f64", WM_TYPE_F64 }, { "ptr", WM_TYPE_PTR },
	{ "x", WM_TYPE_PTR },	{ "str", WM_TYPE_STR }, { "char", WM_TYPE_CHAR },
	{ "s8", WM_TYPE_I8 },	{ "s16", WM_TYPE_I16 }, { "s32", WM_TYPE_I32 },
	{ "s64", WM_TYPE_I64 },
};

static int type_read(const struct spec_syntax *syntax, struct spec_span span, uint8_t *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i].name) == span.bytes &&
		    !memcmp(types[i].name, syntax->text + span.at, span.bytes)) {
			*type = types[i].type;
			return 0;
		}
	return spec_wrong(syntax, span, -WM_E_FIELD_TYPE, "is no type");
}

int spec_read_type(const struct spec_syntax *syntax, const char *text, struct spec_span span)
{
	(void)text;
	return type_read(syntax, span, &((struct code_request *)syntax->request)->return_type);
}

/* Whether it is an identifier of C; of a value, members may follow. */
static int is_name(const char *name, size_t bytes, int has_members)
{
	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_' &&
		    !(has_members && name[i] == '.'))
			return 0;
	return bytes && !isdigit((unsigned char)name[0]);
}

/* A name into text[CODE_NAME_BYTES], which is zeroed. 0; -WM_E_SPEC with words: it is too long. */
static int name_take(const struct spec_syntax *syntax, struct spec_span span, char *text)
{
	if (span.bytes >= CODE_NAME_BYTES)
		return spec_wrong(syntax, span, -WM_E_SPEC, "is longer than %d characters",
				  CODE_NAME_BYTES - 1);
	memcpy(text, syntax->text + span.at, span.bytes);
	return 0;
}

int spec_read_event(const struct spec_syntax *syntax, const char *name, struct spec_span span)
{
	struct code_request *request = syntax->request;
	size_t bytes = strcspn(name, ":");
	struct spec_span subsystem = { span.at, bytes }, event = { span.at + bytes + 1, 0 };

	if (bytes < span.bytes)
		event.bytes = span.bytes - bytes - 1;
	if (!is_name(name, bytes, 0) || !is_name(name + bytes + 1, event.bytes, 0))
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "is no event's name: SUBSYSTEM:EVENT, as db:query");
	/* name=arg1:str; else a marker would silently be called so */
	if (!strncmp(name, "arg", 3) && isdigit((unsigned char)name[3]))
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "is an argument, and name= calls the event: SUBSYSTEM:EVENT");
	return name_take(syntax, subsystem, request->subsystem) ||
			       name_take(syntax, event, request->event)
		       ? -WM_E_SPEC
		       : 0;
}

/* "VALUE:TYPE" behind "FIELD=", as a word of its own. */
static struct spec_word value_cut(const struct spec_syntax *syntax, struct spec_span span)
{
	const char *text = syntax->text + span.at, *colon = memchr(text, ':', span.bytes);
	struct spec_word word = { .all = span, .name = span };

	if (!colon)
		return word;
	word.mark = ':';
	word.name.bytes = (size_t)(colon - text);
	word.value = (struct spec_span){ span.at + word.name.bytes + 1,
					 span.bytes - word.name.bytes - 1 };
	return word;
}

/* FIELD=ret:TYPE: the result, and what it is called. */
static int result_rename(const struct spec_syntax *syntax, const struct spec_word *word,
			 const struct code_wish *wish)
{
	struct code_request *request = syntax->request;

	if (request->wants_return)
		return spec_wrong(syntax, word->all, -WM_E_SPEC,
				  "is there twice: ret, and what it is called");
	request->wants_return = 1;
	request->return_type = wish->type;
	memcpy(request->return_name, wish->name, sizeof(wish->name));
	return 0;
}

int spec_read_field(const struct spec_syntax *syntax, const struct spec_word *word)
{
	struct code_request *request = syntax->request;
	struct spec_word value = word->mark == '=' ? value_cut(syntax, word->value) : *word;
	struct code_wish wish = { .type = 0 };
	int err = value.mark ? type_read(syntax, value.value, &wish.type) : 0;

	if (err)
		return err;
	if (!is_name(syntax->text + value.name.at, value.name.bytes, 1))
		return spec_wrong(syntax, word->all, -WM_E_SPEC,
				  "is no field: NAME or NAME:TYPE, as arg1 or rdi:u32");
	if (word->mark == '=' && !is_name(syntax->text + word->name.at, word->name.bytes, 0))
		return spec_wrong(syntax, word->name, -WM_E_SPEC,
				  "is no name of a field: letters, digits and _, as in id=arg1");
	if (name_take(syntax, value.name, wish.value) || name_take(syntax, word->name, wish.name))
		return -WM_E_SPEC;
	for (unsigned int i = 0; i < request->wish_count; i++)
		if (!strcmp(request->wishes[i].name, wish.name))
			return spec_wrong(syntax, word->all, -WM_E_SPEC, "is there twice");
	if (!strcmp(request->return_name, wish.name))
		return spec_wrong(syntax, word->all, -WM_E_SPEC, "is there twice");
	if (word->mark == '=' && !strcmp(wish.value, "ret") &&
	    syntax->kind->variant == REQUEST_FUNCTION)
		return result_rename(syntax, word, &wish);
	if (request->wish_count == CODE_FIELDS_MAX)
		return spec_wrong(syntax, word->all, -WM_E_SPEC,
				  "is one too many: %d fields at most", CODE_FIELDS_MAX);
	request->wishes[request->wish_count++] = wish;
	return 0;
}

/* What a name or its glob may consist of: anything that can be seen, and the spaces of C++. */
static int is_text(const char *text)
{
	for (; *text; text++)
		if (!isgraph((unsigned char)*text) && !(*text & 0x80) && *text != ' ')
			return 0;
	return 1;
}

static int usdt_check(const struct spec_syntax *syntax, const struct code_request *request)
{
	const char *colon = strchr(request->name, ':');

	return !colon || colon == request->name || !colon[1] || strpbrk(colon + 1, ": ") ||
			       strpbrk(request->name, "/ ")
		       ? spec_wrong(syntax, syntax->name, -WM_E_SPEC, "is not PROVIDER:NAME")
		       : 0;
}

/* FILE:FUNCTION, as events are called, and as other tools take it; C++ has two colons. */
static const char *function_behind_file(const char *name)
{
	static const char of_both[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_*?./+-";
	size_t file_bytes = strspn(name, of_both);
	const char *function = name + file_bytes + 1;

	return file_bytes && name[file_bytes] == ':' && *function && !strpbrk(function, "./+-") &&
			       !function[strspn(function, of_both)]
		       ? function
		       : NULL;
}

static int function_check(const struct spec_syntax *syntax, const struct code_request *request)
{
	const char *function = request->module ? NULL : function_behind_file(request->name);
	size_t bytes = strlen(request->name);

	if (function)
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "has its file in front: write %s@%.*s", function,
				  (int)(function - 1 - request->name), request->name);
	/* a slash that ends no options is C++'s, or one too many */
	return request->name[bytes - 1] == '/' &&
			       (bytes < 9 || strcmp(request->name + bytes - 9, "operator/"))
		       ? spec_wrong(syntax, syntax->name, -WM_E_SPEC, "has a slash too many")
		       : 0;
}

/* FILE+OFFSET or SOURCE:LINE, which is the request's name so far. */
static int address_read(const struct spec_syntax *syntax, struct code_request *request)
{
	char *text = request->name, *plus = strrchr(text, '+'), *colon = strrchr(text, ':');
	uint64_t line;

	if (colon && colon != text && !quantity_number(colon + 1, 1, UINT_MAX, &line)) {
		*colon = 0;
		request->kind = REQUEST_LINE;
		request->line = (unsigned int)line;
		return 0;
	}
	if (!plus || plus == text || quantity_number(plus + 1, 0, UINT64_MAX, &request->offset))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "is neither FILE+OFFSET, as libz.so+0x1a40, nor SOURCE:LINE");
	*plus = 0;
	request->module = text;
	request->name = NULL;
	return 0;
}

/*
 * A condition or a sum may name a value as the program does, and the event has another name for it:
 * take that. The name has CODE_NAME_BYTES.
 */
static void name_settle(const struct code_request *request, char *name)
{
	const char *field = NULL;

	for (unsigned int i = 0; i < request->wish_count; i++) {
		if (!strcmp(request->wishes[i].name, name))
			return;
		if (!strcmp(request->wishes[i].value, name))
			field = request->wishes[i].name;
	}
	if (!field && *request->return_name && !strcmp(name, "ret"))
		field = request->return_name;
	if (field)
		memcpy(name, field, CODE_NAME_BYTES);
}

static void names_settle(struct code_request *request)
{
	for (unsigned int i = 0; i < request->predicate_count; i++)
		name_settle(request, request->predicates[i].name);
	for (unsigned int i = 0; i < request->sums.count; i++)
		name_settle(request, request->sums.fields[i].name);
}

_Static_assert(CODE_NAME_BYTES == PREDICATE_NAME_BYTES, "name_settle() copies them");

int spec_read_place(const struct spec_syntax *syntax)
{
	struct code_request *request = syntax->request;
	char *text = spec_part(syntax, syntax->name), *at;

	request->kind = (enum code_request_kind)syntax->kind->variant;
	request->name = text;
	if (!text)
		return -ENOMEM;
	if (*request->event && syntax->kind->variant != REQUEST_OFFSET && code_is_glob(text))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "is a glob, and name= is for one event: write the whole name");
	names_settle(request);
	if (spec_sums_finish(syntax, &request->sums, &request->callers))
		return -WM_E_SPEC;
	if (!is_text(text))
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC,
				  "has a character that can't be printed");
	if (request->kind == REQUEST_OFFSET)
		return address_read(syntax, request);
	at = strchr(text, '@');
	if (!*text || at == text)
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC, "has no name: %s%s",
				  syntax->kind->name, syntax->kind->form);
	if (at && !at[1])
		return spec_wrong(syntax, syntax->name, -WM_E_SPEC, "has no file behind @");
	if (at) {
		*at = 0;
		request->module = strdup(at + 1);
		if (!request->module)
			return -ENOMEM;
	}
	return request->kind == REQUEST_USDT ? usdt_check(syntax, request)
					     : function_check(syntax, request);
}
