/* SPDX-License-Identifier: MIT */
/* Functions by the names that people give them. */
#include "target/code/symbol.h"

#include "base/name_match.h"
#include "target/code/demangle.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WRITTEN_MAX 4096

struct pattern {
	const char *text;
	char squeezed[WRITTEN_MAX];
	int is_glob;
	int is_written; /* may be a name as the source has it, not the linker's */
	int has_parameters, has_tags, may_have_return;
};

int code_is_glob(const char *pattern)
{
	const char *bracket = strchr(pattern, '[');

	/*
	 * Ranks of operators and arrays are no classes, nor tags: operator[], f(int (&)[3]),
	 * [abi:cxx11].
	 */
	return strpbrk(pattern, "*?") ||
	       (bracket && strchr(bracket, ']') && !strchr(pattern, '(') &&
		!strstr(pattern, "operator[") && !strstr(pattern, "[abi:"));
}

/*
 * Whether a glob may be a name: operator*, f(char*), Box<char*>::set. Then it is that name wherever
 * there is one.
 */
static int may_be_name(const char *glob)
{
	return strpbrk(glob, "(<[") || strstr(glob, "operator");
}

static int is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* Without spaces that separate no words: "f(int, char *)" is "f(int,char*)". */
static void squeeze(const char *text, char squeezed[WRITTEN_MAX])
{
	size_t used = 0;

	for (; *text && used < WRITTEN_MAX - 1; text++)
		if (*text != ' ' || (used && is_of_word(squeezed[used - 1]) && is_of_word(text[1])))
			squeezed[used++] = *text;
	squeezed[used] = 0;
}

/*
 * The demangler writes char const*, most sources const char*: move each "const " at the begin of a
 * type behind the type's name.
 */
static void const_move(char *text)
{
	static const char word[] = "const ";
	const size_t bytes = sizeof(word) - 1;

	for (char *at = text; (at = strstr(at, word)); at++) {
		int depth = 0;
		char *end = at + bytes;

		if (at != text && !strchr("(<,", at[-1]) &&
		    (at - text < 2 || strncmp(at - 2, ", ", 2) != 0))
			continue;
		for (; *end && (depth || !strchr("*&,)>", *end)); end++)
			depth += (*end == '<') - (*end == '>');
		if (!*end)
			return;
		memmove(at, at + bytes, (size_t)(end - at) - bytes);
		memcpy(end - bytes, " const", bytes);
	}
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
	return pattern->is_glob ? name_match(pattern->text, text) : !strcmp(pattern->text, text);
}

static int squeezed_fits(const struct pattern *pattern, const char *text)
{
	char squeezed[WRITTEN_MAX];

	squeeze(text, squeezed);
	return pattern->is_glob ? name_match(pattern->squeezed, squeezed)
				: !strcmp(pattern->squeezed, squeezed);
}

/* Without the marks of an ABI: tagged[abi:cxx11](int). Whether there were any. */
static int tags_cut(char *text)
{
	char *at = strstr(text, "[abi:"), *end;
	int is_cut = 0;

	while (at && (end = strchr(at, ']'))) {
		memmove(at, end + 1, strlen(end + 1) + 1);
		at = strstr(at, "[abi:");
		is_cut = 1;
	}
	return is_cut;
}

/* Cut off the words behind the parameters: get() const. Whether there were any. */
static int qualifiers_cut(char *text)
{
	static const char *const all[] = { " const", " volatile", " &", " &&" };
	int is_cut = 0, more = 1;

	while (more) {
		more = 0;
		for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && !more; i++) {
			size_t bytes = strlen(text), end = strlen(all[i]);

			more = bytes > end && !strcmp(text + bytes - end, all[i]);
			if (more)
				text[bytes - end] = 0;
		}
		is_cut |= more;
	}
	return is_cut;
}

/* As it is, without qualifiers, without tags, without both. Changes the text. */
static int any_fits(const struct pattern *pattern, char *text)
{
	char whole[WRITTEN_MAX];

	if (squeezed_fits(pattern, text))
		return 1;
	if (!pattern->has_tags && strstr(text, "[abi:")) {
		snprintf(whole, sizeof(whole), "%s", text);
		if (tags_cut(whole) && (squeezed_fits(pattern, whole) ||
					(qualifiers_cut(whole) && squeezed_fits(pattern, whole))))
			return 1;
	}
	return pattern->has_parameters && qualifiers_cut(text) && squeezed_fits(pattern, text);
}

/* "int twice<int>": the type of the result and the name, which the demangler gives with parameters. */
static int return_fits(const struct pattern *pattern, const char *name)
{
	char whole[WRITTEN_MAX], rest[WRITTEN_MAX], plain[WRITTEN_MAX];
	size_t bytes, end;

	if (!code_demangle(name, 1, whole, sizeof(whole)) ||
	    !code_demangle(name, CODE_WITHOUT_RETURN, rest, sizeof(rest)) ||
	    !code_demangle(name, 0, plain, sizeof(plain)))
		return 0;
	bytes = strlen(whole);
	end = strlen(rest);
	if (end >= bytes || strcmp(whole + bytes - end, rest) != 0 ||
	    bytes - end + strlen(plain) >= sizeof(whole))
		return 0;
	memcpy(whole + bytes - end, plain, strlen(plain) + 1);
	return any_fits(pattern, whole);
}

/* "std::f(int)" for a pattern "f(int)" is another function: whole names only. */
static int written_fits(const struct pattern *pattern, const char *name)
{
	char text[WRITTEN_MAX];

	if (!pattern->is_written || name[0] != '_')
		return 0;
	/* Also where it has a '(': operator(), (anonymous namespace)::f, {lambda(int)#1}. */
	if (code_demangle(name, 0, text, sizeof(text)) && any_fits(pattern, text))
		return 1;
	if (pattern->has_parameters && code_demangle(name, 1, text, sizeof(text)) &&
	    any_fits(pattern, text))
		return 1;
	if (pattern->has_parameters &&
	    code_demangle(name, CODE_WITHOUT_RETURN, text, sizeof(text)) && any_fits(pattern, text))
		return 1;
	return pattern->may_have_return && return_fits(pattern, name);
}

static int fits(const struct pattern *pattern, const char *name)
{
	char plain[WRITTEN_MAX];

	if (text_fits(pattern, name) || written_fits(pattern, name))
		return 1;
	/* as code_name_text() writes a copy: f(int) [clone .isra.0] */
	if (strstr(pattern->text, "[clone ")) {
		code_name_text(name, pattern->has_parameters, plain, sizeof(plain));
		if (any_fits(pattern, plain))
			return 1;
	}
	if (pattern->is_glob || !without_clone(name, plain, sizeof(plain)))
		return 0;
	return text_fits(pattern, plain) || written_fits(pattern, plain);
}

static int match_all(const struct code_symbols *symbols, const struct pattern *pattern,
		     int (*found)(const struct code_function *function,
				  const struct code_symbol *symbol, void *data),
		     void *data)
{
	int count = 0;

	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		for (size_t k = 0; k < function->count; k++) {
			const struct code_symbol *symbol = &symbols->all[function->first + k];
			int ret;

			if (symbol->is_part || !fits(pattern, symbol->name))
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

static void pattern_init(struct pattern *pattern, const char *text)
{
	char moved[WRITTEN_MAX];

	*pattern = (struct pattern){
		.text = text,
		.is_written = strncmp(text, "_Z", 2) && strncmp(text, "_R", 2) && strcmp(text, "*"),
		.has_parameters = strchr(text, '(') != NULL,
		.has_tags = strstr(text, "[abi:") != NULL,
		.may_have_return = strchr(text, ' ') != NULL,
	};
	snprintf(moved, sizeof(moved), "%s", text);
	const_move(moved);
	squeeze(moved, pattern->squeezed);
}

int code_name_fits(const char *text, const char *name)
{
	struct pattern pattern;

	pattern_init(&pattern, text);
	if (fits(&pattern, name))
		return 1;
	pattern.is_glob = code_is_glob(text);
	return pattern.is_glob && fits(&pattern, name);
}

int code_symbols_match(const struct code_symbols *symbols, const char *text,
		       int (*found)(const struct code_function *function,
				    const struct code_symbol *symbol, void *data),
		       void *data)
{
	struct pattern pattern;
	int count = 0;

	pattern_init(&pattern, text);
	if (!code_is_glob(text) || may_be_name(text))
		count = match_all(symbols, &pattern, found, data);
	if (count || !code_is_glob(text))
		return count;
	pattern.is_glob = 1;
	return match_all(symbols, &pattern, found, data);
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
