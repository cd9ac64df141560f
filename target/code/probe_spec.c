/* SPDX-License-Identifier: MIT */
#include "target/code/probe_spec.h"

#include "base/name_match.h"
#include "base/quantity.h"
#include "target/code/file.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define FIELD_FORM "%.60s: a field is NAME or NAME:TYPE, as arg1, rdi:u32, ret, args or safe"

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

/* Say which part of the text is wrong. Returns the error. */
static int refuse(struct code_request *request, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int refuse(struct code_request *request, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(request->wrong, sizeof(request->wrong), format, arguments);
	va_end(arguments);
	return error;
}

static int type_of(const char *name, uint8_t *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, name)) {
			*type = types[i].type;
			return 0;
		}
	return -WM_E_FIELD_TYPE;
}

/* A word that is no value: ret, args or safe. 1 if it was one, else 0. */
static int word_take(struct code_request *request, const struct code_wish *wish, int *err)
{
	const int is_ret = !strcmp(wish->name, "ret"), is_args = !strcmp(wish->name, "args");
	int *flag = is_ret    ? &request->wants_return
		    : is_args ? &request->wants_all
			      : &request->is_safe;

	if (!is_ret && !is_args && strcmp(wish->name, "safe"))
		return 0;
	*err = 0;
	if (is_ret && request->kind != REQUEST_FUNCTION)
		*err = refuse(
			request, -WM_E_SPEC,
			"only a function has a return: leave out ret, or write func:NAME/ret/");
	else if (*flag)
		*err = refuse(request, -WM_E_SPEC, "%s is there twice", wish->name);
	else if (wish->type && !is_ret)
		*err = refuse(request, -WM_E_SPEC, "%s takes no type", wish->name);
	else if (is_args && request->kind > REQUEST_FUNCTION)
		*err = refuse(request, -WM_E_SPEC, "args: an address has none; name registers");
	if (is_ret)
		request->return_type = wish->type;
	*flag = 1;
	return 1;
}

/* One of FIELDS: NAME or NAME:TYPE; the text is ours to cut. */
static int wish_parse(struct code_request *request, char *text)
{
	char *colon = strchr(text, ':');
	struct code_wish wish = { 0 };
	size_t bytes = colon ? (size_t)(colon - text) : strlen(text);
	int err;

	if (colon && type_of(colon + 1, &wish.type))
		return refuse(request, -WM_E_FIELD_TYPE, "%s", text);
	if (!bytes)
		return refuse(request, -WM_E_SPEC, "a field has no name");
	if (bytes >= sizeof(wish.name))
		return refuse(request, -WM_E_SPEC, "%.100s: longer than %zu characters", text,
			      sizeof(wish.name) - 1);
	for (size_t i = 0; i < bytes; i++)
		if ((!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '.') ||
		    isdigit((unsigned char)*text))
			return refuse(request, -WM_E_SPEC, FIELD_FORM, text);
	memcpy(wish.name, text, bytes);
	if (word_take(request, &wish, &err))
		return err;
	for (unsigned int i = 0; i < request->wish_count; i++)
		if (!strcmp(request->wishes[i].name, wish.name))
			return refuse(request, -WM_E_SPEC, "%s is there twice", wish.name);
	if (request->wish_count == CODE_FIELDS_MAX)
		return refuse(request, -WM_E_SPEC, "more than %d fields", CODE_FIELDS_MAX);
	request->wishes[request->wish_count++] = wish;
	return 0;
}

/* What only a field is called, and hardly a file. */
static int is_field_word(const char *text)
{
	static const char *const words[] = { "ret", "args", "safe" };
	size_t bytes = strcspn(text, ":,");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (bytes == strlen(words[i]) && !strncmp(text, words[i], bytes))
			return 1;
	return bytes == 4 && !strncmp(text, "arg", 3) && isdigit((unsigned char)text[3]);
}

/* Whether the text behind the last slash would be fields if another slash followed. */
static int lacks_slash(const struct code_request *request, const char *text)
{
	struct code_request trial = { .kind = request->kind };
	const char *slash = strrchr(text, '/'), *at = strchr(text, '@');
	char *copy, *field, *rest;
	int err = 0;

	/* a module may be named by its path, a package of Go by its host */
	if (!slash || slash == text || strchr(slash, '.') ||
	    (at && at < slash && !is_field_word(slash + 1)))
		return 0;
	rest = copy = strdup(slash + 1);
	while (copy && !err && (field = strsep(&rest, ",")))
		err = wish_parse(&trial, field);
	free(copy);
	return copy && !err;
}

/* Cut "/FIELDS/" from the end of the text and read them. */
static int fields_take(struct code_request *request, char *text)
{
	size_t bytes = strlen(text);
	char *slash, *field, *rest;
	int err = 0;

	if (bytes < 2 || text[bytes - 1] != '/')
		return lacks_slash(request, text)
			       ? refuse(request, -WM_E_SPEC,
					SPEC_LACKS_SLASH "func:NAME/arg1:str,ret/")
			       : 0;
	slash = memrchr(text, '/', bytes - 1);
	if (!slash) {
		/* no FIELDS behind it; C++ has an operator/ */
		if (bytes < 9 || strcmp(text + bytes - 9, "operator/"))
			text[bytes - 1] = 0;
		return 0;
	}
	text[bytes - 1] = 0;
	*slash = 0;
	rest = slash + 1;
	while (!err && (field = strsep(&rest, ",")))
		err = wish_parse(request, field);
	return err;
}

static int set(char **to, const char *text, size_t bytes)
{
	*to = strndup(text, bytes);
	return *to ? 0 : -ENOMEM;
}

/* What a name or its glob may consist of: anything that can be seen, and the spaces of C++. */
static int is_text(const char *text, int with_spaces)
{
	if (!*text)
		return 0;
	for (; *text; text++)
		if (!isgraph((unsigned char)*text) && !(*text & 0x80) &&
		    !(with_spaces && *text == ' '))
			return 0;
	return 1;
}

/* NAME or NAME@MODULE, which is what is left of a spec. */
static int names_take(struct code_request *request, const char *text)
{
	const char *at = strchr(text, '@');
	size_t bytes = at ? (size_t)(at - text) : strlen(text);

	if (!bytes)
		return refuse(request, -WM_E_SPEC, "there is no name");
	if (!is_text(text, 1))
		return refuse(request, -WM_E_SPEC,
			      "the name has a character that can't be printed");
	if (at && !at[1])
		return refuse(request, -WM_E_SPEC, "there is no file behind @");
	if (at && set(&request->module, at + 1, strlen(at + 1)))
		return -ENOMEM;
	return set(&request->name, text, bytes);
}

static int parse_usdt(struct code_request *request, const char *text)
{
	int err = names_take(request, text);
	const char *colon = err ? NULL : strchr(request->name, ':');

	if (err)
		return err;
	return !colon || colon == request->name || !colon[1] || strpbrk(colon + 1, ": ") ||
			       strpbrk(request->name, "/ ")
		       ? refuse(request, -WM_E_SPEC, "%.100s is not PROVIDER:NAME", request->name)
		       : 0;
}

static int parse_function(struct code_request *request, const char *text)
{
	size_t bytes;
	int err = names_take(request, text);

	if (err)
		return err;
	/* A slash that ends no FIELDS is C++'s, or one too many. */
	bytes = strlen(request->name);
	return request->name[bytes - 1] == '/' &&
			       (bytes < 9 || strcmp(request->name + bytes - 9, "operator/"))
		       ? refuse(request, -WM_E_SPEC, "there is a slash too many")
		       : 0;
}

#define ADDRESS_FORM "%.60s is neither FILE+OFFSET, as libz.so+0x1a40, nor SOURCE:LINE"

static int parse_address(struct code_request *request, const char *text)
{
	const char *plus = strrchr(text, '+'), *colon = strrchr(text, ':');
	uint64_t line;

	if (!is_text(text, 1))
		return refuse(request, -WM_E_SPEC, ADDRESS_FORM, text);
	if (colon && colon != text && !quantity_number(colon + 1, 1, UINT_MAX, &line)) {
		request->kind = REQUEST_LINE;
		request->line = (unsigned int)line;
		return set(&request->name, text, (size_t)(colon - text));
	}
	request->kind = REQUEST_OFFSET;
	if (!plus || plus == text || quantity_number(plus + 1, 0, UINT64_MAX, &request->offset))
		return refuse(request, -WM_E_SPEC, ADDRESS_FORM, text);
	return set(&request->module, text, (size_t)(plus - text));
}

int code_request_parse(struct code_request *request, const char *text)
{
	static const struct {
		const char *prefix;
		enum code_request_kind kind;
		int (*parse)(struct code_request *request, const char *text);
	} kinds[] = {
		{ "usdt:", REQUEST_USDT, parse_usdt },
		{ "func:", REQUEST_FUNCTION, parse_function },
		{ "addr:", REQUEST_OFFSET, parse_address },
	};
	char rest[REQUEST_BYTES_MAX + 1];
	int err;

	*request = (struct code_request){ 0 };
	if (strlen(text) > REQUEST_BYTES_MAX)
		return refuse(request, -WM_E_SPEC, "longer than %d bytes", REQUEST_BYTES_MAX);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t bytes = strlen(kinds[i].prefix);

		if (strncmp(text, kinds[i].prefix, bytes))
			continue;
		request->kind = kinds[i].kind;
		memcpy(rest, text + bytes, strlen(text + bytes) + 1);
		err = fields_take(request, rest);
		return err ? err : kinds[i].parse(request, rest);
	}
	return -WM_E_SPEC;
}

void code_request_release(struct code_request *request)
{
	free(request->name);
	free(request->module);
	*request = (struct code_request){ 0 };
}

static int takes_name(const char *wanted, const char *path)
{
	char text[PATH_MAX];

	if (name_match_module(wanted, path))
		return 1;
	if (strchr(wanted, '/'))
		return 0;
	code_file_short_name(path, text,
			     sizeof(text)); /* its events may have '_' for a character */
	return name_match(wanted, text);
}

int code_request_takes(const struct code_request *request, const char *path,
		       const struct code_aliases *aliases)
{
	const char *wanted = request->module;
	char text[PATH_MAX];

	if (!wanted || takes_name(wanted, path))
		return 1;
	if (strchr(wanted, '/') && realpath(wanted, text) && !strcmp(text, path))
		return 1;
	return aliases && ((aliases->link && takes_name(wanted, aliases->link)) ||
			   (aliases->argument && takes_name(wanted, aliases->argument)));
}
