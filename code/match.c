/* SPDX-License-Identifier: MIT */
/* Functions by the names that people give them. */
#include "code/symbol.h"

#include "code/demangle.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define WRITTEN_MAX 4096

struct pattern {
	const char *text;
	size_t bytes;
	int is_glob;
	int is_written; /* may be a name as the source has it, not the linker's */
	int has_parameters;
};

int code_is_glob(const char *pattern)
{
	const char *bracket = strchr(pattern, '[');

	/* Ranks of operators and arrays are no classes: operator[], f(int (&)[3]). */
	return strpbrk(pattern, "*?") || (bracket && strchr(bracket, ']') &&
					  !strchr(pattern, '(') && !strstr(pattern, "operator["));
}

/* The suffixes that compilers put behind the name of a copy of a whole function. */
static int is_clone_suffix(const char *suffix)
{
	static const char *const kinds[] = { ".constprop", ".isra",	  ".lto_priv",
					     ".llvm",	   ".localalias", ".clone" };

	while (*suffix) {
		size_t bytes = 0;

		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !bytes; i++)
			if (!strncmp(suffix, kinds[i], strlen(kinds[i])))
				bytes = strlen(kinds[i]);
		if (!bytes || (suffix[bytes] && suffix[bytes] != '.'))
			return 0;
		suffix += bytes;
		if (*suffix == '.' && isdigit((unsigned char)suffix[1]))
			suffix += 1 + strspn(suffix + 1, "0123456789");
	}
	return 1;
}

/* The part of a linkage name before such suffixes, in plain[]; 0 without a suffix. */
static int without_clone(const char *name, char *plain, size_t bytes)
{
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
		if (dot != name && is_clone_suffix(dot) && (size_t)(dot - name) < bytes) {
			memcpy(plain, name, (size_t)(dot - name));
			plain[dot - name] = 0;
			return 1;
		}
	return 0;
}

static int text_fits(const struct pattern *pattern, const char *text)
{
	if (pattern->is_glob)
		return fnmatch(pattern->text, text, FNM_NOESCAPE) == 0;
	return !strcmp(pattern->text, text);
}

/* "std::f(int)" for a pattern "f(int)" is another function: whole names only. */
static int written_fits(const struct pattern *pattern, const char *name)
{
	char text[WRITTEN_MAX];

	if (!pattern->is_written)
		return 0;
	/* Also where it has a '(': operator(), (anonymous namespace)::f, {lambda(int)#1}. */
	if (code_demangle(name, 0, text, sizeof(text)) && text_fits(pattern, text))
		return 1;
	return pattern->has_parameters && code_demangle(name, 1, text, sizeof(text)) &&
	       text_fits(pattern, text);
}

static int fits(const struct pattern *pattern, const char *name)
{
	char plain[WRITTEN_MAX];

	if (text_fits(pattern, name) || written_fits(pattern, name))
		return 1;
	if (pattern->is_glob || !without_clone(name, plain, sizeof(plain)))
		return 0;
	return text_fits(pattern, plain) || written_fits(pattern, plain);
}

int code_symbols_match(const struct code_symbols *symbols, const char *text,
		       int (*found)(const struct code_function *function,
				    const struct code_symbol *symbol, void *data),
		       void *data)
{
	const struct pattern pattern = {
		.text = text,
		.bytes = strlen(text),
		.is_glob = code_is_glob(text),
		.is_written = strncmp(text, "_Z", 2) && strncmp(text, "_R", 2) && strcmp(text, "*"),
		.has_parameters = strchr(text, '(') != NULL,
	};
	int count = 0;

	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		for (size_t k = 0; k < function->count; k++) {
			const struct code_symbol *symbol = &symbols->all[function->first + k];
			int ret;

			if (symbol->is_part || !fits(&pattern, symbol->name))
				continue;
			ret = found(function, symbol, data);
			if (ret)
				return ret;
			count++;
			break;
		}
	}
	return count;
}

void code_symbol_text(const struct code_symbol *symbol, int with_parameters, char *text,
		      size_t bytes)
{
	char written[WRITTEN_MAX];
	const char *from = symbol->name;
	size_t count;

	if (code_demangle(symbol->name, with_parameters, written, sizeof(written)))
		from = written;
	if (bytes > CODE_NAME_MAX + 1)
		bytes = CODE_NAME_MAX + 1;
	count = strlen(from);
	if (count > bytes - 1)
		count = bytes - 1;
	for (size_t i = 0; i < count; i++)
		text[i] = iscntrl((unsigned char)from[i]) ? '_' : from[i];
	text[count] = 0;
}
