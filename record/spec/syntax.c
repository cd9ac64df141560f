/* SPDX-License-Identifier: MIT */
#include "record/spec/syntax.h"

#include "base/quantity.h"
#include "base/signal_name.h"
#include "base/similar_names.h"
#include "record/spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define SHOWN_MAX 64	     /* bytes of the text in a message */
#define OPERATOR "operator/" /* of C++: the end of a name */
#define UNITS "/sys/bus/event_source/devices/"

/* ---- messages ---- */

static int is_part(const struct spec_syntax *syntax, struct spec_span span, const char *word)
{
	return strlen(word) == span.bytes && !memcmp(syntax->text + span.at, word, span.bytes);
}

/* A copy of a part, cut where it is too long for it. Returns text. */
static char *part_copy(const struct spec_syntax *syntax, struct spec_span span, char *text,
		       size_t room)
{
	snprintf(text, room, "%.*s", (int)span.bytes, syntax->text + span.at);
	return text;
}

/* The kinds that a spec's first word may mean. Returns text. */
static char *kinds_meant(const struct spec_syntax *syntax, char *text, size_t room)
{
	struct spec_span first = { 0, strcspn(syntax->text, ":/") };
	const char *all[SPEC_KINDS_MAX];
	char word[SHOWN_MAX + 1];
	size_t count = 0;

	for (const struct spec_kind *kind = spec_kinds; kind->name; kind++)
		all[count++] = kind->name;
	return similar_words(part_copy(syntax, first, word, sizeof(word)), all, count, text, room);
}

int spec_wrong(const struct spec_syntax *syntax, struct spec_span span, int error,
	       const char *format, ...)
{
	char words[512], part[SHOWN_MAX + 1], meant[128] = "";
	size_t column = 1;
	va_list args;

	for (size_t i = 0; i < span.at; i++)
		column += ((unsigned char)syntax->text[i] & 0xc0) != 0x80;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	if (syntax->is_short && span.at < syntax->name.at + syntax->name.bytes)
		kinds_meant(syntax, meant, sizeof(meant));
	if (!span.bytes)
		return detail_set(syntax->wrong, error, "column %zu: %s%s", column, words, meant);
	return detail_set(syntax->wrong, error, "\"%s\" (column %zu) %s%s",
			  part_copy(syntax, span, part, sizeof(part)), column, words, meant);
}

char *spec_part(const struct spec_syntax *syntax, struct spec_span span)
{
	return strndup(syntax->text + span.at, span.bytes);
}

/* "freq=N, period=N, addr"; into text[]. Returns text. */
static char *options_put(const struct spec_kind *kind, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < kind->option_count && used < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%s%s%s", i ? ", " : "",
					 kind->options[i].name, kind->options[i].value ? "=" : "",
					 kind->options[i].value ? kind->options[i].value : "");
	if (kind->field && used < room)
		snprintf(text + used, room - used, ", NAME, NAME:TYPE and FIELD=NAME");
	return text;
}

/* ---- options ---- */

/* Whether a word may name a parameter that is called as an option which is not written so. */
static int is_fields(const struct spec_kind *kind, const struct spec_option *option,
		     const struct spec_word *word)
{
	if (!kind->field || option->divider != '+')
		return 0;
	return option->type == SPEC_FLAG ? word->mark != 0 : word->mark != '=';
}

/* The option of a kind that a word is; NULL: none. */
static const struct spec_option *option_find(const struct spec_syntax *syntax,
					     const struct spec_kind *kind,
					     const struct spec_word *word)
{
	for (unsigned int i = 0; i < kind->option_count; i++)
		if (is_part(syntax, word->all, kind->options[i].name))
			return is_fields(kind, &kind->options[i], word) ? NULL : &kind->options[i];
	for (unsigned int i = 0; i < kind->option_count; i++)
		if (is_part(syntax, word->name, kind->options[i].name))
			return is_fields(kind, &kind->options[i], word) ? NULL : &kind->options[i];
	return NULL;
}

/* Another kind that has it. One with fields takes most words for these: of it no others ask. */
static const struct spec_kind *option_elsewhere(const struct spec_syntax *syntax,
						const struct spec_word *word)
{
	int is_field = syntax->kind->field && word->mark != '=';

	for (const struct spec_kind *kind = spec_kinds; kind->name; kind++)
		if ((!is_field || kind->field) && option_find(syntax, kind, word))
			return kind;
	return NULL;
}

static int option_unknown(const struct spec_syntax *syntax, const struct spec_word *word,
			  const struct spec_kind *other)
{
	const struct spec_kind *kind = syntax->kind;
	char all[256], meant[128], name[SHOWN_MAX + 1];
	const char *names[SPEC_OPTIONS_MAX];

	for (unsigned int i = 0; i < kind->option_count; i++)
		names[i] = kind->options[i].name;
	similar_words(part_copy(syntax, word->name, name, sizeof(name)), names, kind->option_count,
		      meant, sizeof(meant));
	if (!*options_put(kind, all, sizeof(all)))
		return spec_wrong(syntax, word->all, -WM_E_SPEC, "is wrong: %s%s has no options",
				  kind->name, kind->form);
	if (other)
		return spec_wrong(syntax, word->all, -WM_E_SPEC,
				  "is an option of %s, and not of %s, which has %s", other->name,
				  kind->name, all);
	return spec_wrong(syntax, word->all, -WM_E_SPEC, "is no option of %s%s%s", kind->name,
			  *meant ? meant : ", which has ", *meant ? "" : all);
}

/* A bound as people write it: 64K. Returns text. */
static char *size_put(uint64_t bytes, char text[32])
{
	unsigned int unit = 0;

	for (; bytes && bytes % 1024 == 0 && unit < 4; unit++)
		bytes /= 1024;
	snprintf(text, 32, "%llu%.*s", (unsigned long long)bytes, unit != 0, &"-KMGT"[unit]);
	return text;
}

static int value_wrong(const struct spec_syntax *syntax, const struct spec_option *option,
		       struct spec_span span)
{
	char min[32], max[32];

	if (option->type == SPEC_SIGNAL)
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "takes a signal: STOP, SIGUSR1, RTMIN+1 or 10");
	if (option->type == SPEC_SIZE)
		return spec_wrong(syntax, span, -WM_E_SPEC, "takes a size from %s to %s",
				  size_put(option->min, min), size_put(option->max, max));
	if (option->max >= INT32_MAX)
		return spec_wrong(syntax, span, -WM_E_SPEC, "takes a number from %llu on",
				  (unsigned long long)option->min);
	return spec_wrong(syntax, span, -WM_E_SPEC, "takes a number from %llu to %llu",
			  (unsigned long long)option->min, (unsigned long long)option->max);
}

static void value_store(const struct spec_syntax *syntax, const struct spec_option *option,
			uint64_t value)
{
	char *to = (char *)syntax->request + option->at;

	if (option->bytes == sizeof(uint64_t))
		*(uint64_t *)(void *)to |= value;
	else if (option->bytes == sizeof(uint32_t))
		*(uint32_t *)(void *)to |= (uint32_t)value;
	else
		*(uint8_t *)to |= (uint8_t)value;
}

/* Each value of an option that may have several. */
static int values_read(const struct spec_syntax *syntax, const struct spec_option *option,
		       struct spec_span span, unsigned int *count)
{
	size_t end = span.at + span.bytes;
	char value[SPEC_BYTES_MAX + 1];
	int err = 0;

	for (size_t at = span.at; !err && at <= end;) {
		struct spec_span one = { at, 0 };

		while (at < end && (!option->divider || syntax->text[at] != option->divider))
			at++;
		one.bytes = at++ - one.at;
		part_copy(syntax, one, value, sizeof(value));
		if (!one.bytes)
			err = spec_wrong(syntax, span, -WM_E_SPEC, "has an empty value: %s=%s",
					 option->name, option->value);
		else if (++*count > option->most)
			err = spec_wrong(syntax, one, -WM_E_SPEC, "is one too many: %s takes %u",
					 option->name, option->most);
		else
			err = option->read(syntax, value, one);
	}
	return err;
}

static int value_read(const struct spec_syntax *syntax, const struct spec_option *option,
		      const struct spec_word *word)
{
	char value[SPEC_BYTES_MAX + 1];
	uint64_t number = 0;
	int err;

	part_copy(syntax, word->value, value, sizeof(value));
	if (option->type == SPEC_SIZE)
		err = quantity_size(value, option->min, option->max, &number);
	else if (option->type == SPEC_NUMBER)
		err = quantity_number(value, option->min, option->max, &number);
	else
		err = !(number = (uint64_t)signal_name_read(value));
	if (err)
		return value_wrong(syntax, option, word->all);
	value_store(syntax, option, number);
	return 0;
}

static int option_read(const struct spec_syntax *syntax, const struct spec_option *option,
		       const struct spec_word *word, unsigned int *count)
{
	int is_bare = !word->mark || is_part(syntax, word->all, option->name);

	for (const struct spec_word *before = syntax->words; before < word; before++)
		if (option->type != SPEC_NAMES && before->name.bytes == word->name.bytes &&
		    !memcmp(syntax->text + before->name.at, syntax->text + word->name.at,
			    word->name.bytes))
			return spec_wrong(syntax, word->all, -WM_E_SPEC, "is there twice");
	if (option->value && (is_bare ? !option->flag : !word->value.bytes))
		return spec_wrong(syntax, word->all, -WM_E_SPEC, "needs a value: %s=%s",
				  option->name, option->value);
	if (is_bare || (option->type == SPEC_FLAG && option->read && word->mark == ':')) {
		value_store(syntax, option, option->flag);
		return is_bare ? 0 : option->read(syntax, NULL, word->value);
	}
	if (!option->value)
		return spec_wrong(syntax, word->all, -WM_E_SPEC, "takes no value: write %s",
				  option->name);
	return option->type == SPEC_NAMES ? values_read(syntax, option, word->value, count)
					  : value_read(syntax, option, word);
}

/*
 * Whether a word that is no option of its kind is a field. FIELD=VALUE may be what another kind
 * has as an option: then only an argument is surely no value of that.
 */
static int is_field(const struct spec_syntax *syntax, const struct spec_word *word,
		    const struct spec_kind *other)
{
	const char *value = syntax->text + word->value.at;

	if (!syntax->kind->field)
		return 0;
	if (word->mark != '=')
		return !other;
	return other ? !strncmp(value, "arg", 3) && isdigit((unsigned char)value[3])
		     : isalpha((unsigned char)*value) || *value == '_';
}

/*
 * The option that FIELD=VALUE is one slip away from: a letter too few or too many, or two swapped.
 * NULL: no option. With another letter it may well be a field (num, host), as is what has a type.
 */
static const struct spec_option *option_slipped(const struct spec_syntax *syntax,
						const struct spec_word *word)
{
	const struct spec_kind *kind = syntax->kind;
	char name[SHOWN_MAX + 1];

	if (!kind->field || word->mark != '=' ||
	    memchr(syntax->text + word->value.at, ':', word->value.bytes))
		return NULL;
	part_copy(syntax, word->name, name, sizeof(name));
	for (unsigned int i = 0; i < kind->option_count; i++) {
		const char *option = kind->options[i].name;
		size_t same = 0;

		if (!kind->options[i].value || strlen(option) < 3 ||
		    similar_distance(name, option) != 1)
			continue;
		while (name[same] == option[same])
			same++;
		if (strlen(name) != strlen(option) || name[same + 1] == option[same])
			return &kind->options[i];
	}
	return NULL;
}

static int option_wrong(const struct spec_syntax *syntax, const struct spec_word *word,
			const struct spec_option *meant)
{
	return spec_wrong(syntax, word->all, -WM_E_SPEC,
			  "is no option; did you mean %s=%s? A field of that name needs its type, "
			  "as :u64",
			  meant->name, meant->value);
}

static int options_read(const struct spec_syntax *syntax)
{
	const struct spec_kind *kind = syntax->kind;
	const struct spec_option *last = NULL;
	unsigned int counts[SPEC_OPTIONS_MAX] = { 0 };
	int err = 0;

	for (unsigned int i = 0; i < syntax->word_count && !err; i++) {
		const struct spec_word *word = &syntax->words[i];
		const struct spec_option *option = option_find(syntax, kind, word);
		const struct spec_option *meant = option ? NULL : option_slipped(syntax, word);
		const struct spec_kind *other = option ? NULL : option_elsewhere(syntax, word);

		if (option) {
			err = option_read(syntax, option, word, &counts[option - kind->options]);
			last = option->divider == ',' ? option : last;
		} else if (last && !word->mark) {
			err = values_read(syntax, last, word->all, &counts[last - kind->options]);
		} else if (meant) {
			err = option_wrong(syntax, word, meant);
		} else if (is_field(syntax, word, other)) {
			err = kind->field(syntax, word);
		} else {
			err = option_unknown(syntax, word, other);
		}
	}
	return err;
}

/* ---- cutting ---- */

static int word_add(struct spec_syntax *syntax, size_t at, size_t end)
{
	struct spec_word word = { 0 };
	size_t name;

	while (at < end && syntax->text[at] == ' ')
		at++;
	while (at < end && syntax->text[end - 1] == ' ')
		end--;
	word.all = (struct spec_span){ at, end - at };
	if (at == end)
		return spec_wrong(syntax, word.all, -WM_E_SPEC,
				  "an option is empty: write %s%s/OPTION,OPTION/",
				  syntax->kind->name, syntax->kind->form);
	if (syntax->word_count == SPEC_OPTIONS_MAX)
		return spec_wrong(syntax, word.all, -WM_E_SPEC,
				  "is one too many: %d options at most", SPEC_OPTIONS_MAX);
	for (name = at;
	     name < end && !strchr(syntax->kind->field ? ":=" : "=", syntax->text[name]);)
		name++;
	word.name = (struct spec_span){ at, name - at };
	if (name < end) {
		word.mark = syntax->text[name];
		word.value = (struct spec_span){ name + 1, end - name - 1 };
	}
	syntax->words[syntax->word_count++] = word;
	return 0;
}

/*
 * The first or the last of a character in a part of the text that is not between double quotes;
 * `end`: none. A quote without another one is a character like others.
 */
static size_t unquoted_find(const char *text, size_t at, size_t end, char wanted, int is_last)
{
	size_t found = end;

	for (; at < end; at++) {
		size_t close = at + 1;

		while (text[at] == '"' && close < end && text[close] != '"')
			close += text[close] == '\\' && close + 1 < end ? 2 : 1;
		if (text[at] == '"' && close < end)
			at = close;
		else if (text[at] == wanted)
			found = at;
		if (found != end && !is_last)
			break;
	}
	return found;
}

static int words_cut(struct spec_syntax *syntax, size_t at, size_t end)
{
	int err = 0;

	while (!err && at <= end) {
		size_t to = unquoted_find(syntax->text, at, end, ',', 0);

		err = word_add(syntax, at, to);
		at = to + 1;
	}
	return err;
}

/* Whether what is behind the last slash of a name would be options if another slash followed. */
static int is_unclosed(const struct spec_syntax *syntax, size_t slash, size_t end)
{
	struct spec_syntax trial = *syntax;
	const char *module = memchr(syntax->text, '@', slash);
	int is = 0;

	if (memchr(syntax->text + slash, '.', end - slash) && syntax->kind->field)
		return 0; /* a package of Go by its host, a file */
	trial.wrong = (struct detail){ 0 };
	trial.request = calloc(1, syntax->kind->bytes);
	if (!trial.request || words_cut(&trial, slash + 1, end))
		goto out;
	/* a module may be named by its path: then only what hardly is a file's name */
	is = module && !option_find(&trial, trial.kind, &trial.words[0]) &&
			     strncmp(syntax->text + slash + 1, "arg", 3)
		     ? 0
		     : !options_read(&trial);
out:
	free(trial.request);
	return is;
}

/* Behind the slashes that a name of a unit has: "msr/tsc/"; else `at`. */
static size_t unit_end(const struct spec_syntax *syntax, size_t at)
{
	const char *name = syntax->text + at, *first = strchr(name, '/');
	const char *second = first ? strchr(first + 1, '/') : NULL;
	char path[sizeof(UNITS) + COUNT_NAME_BYTES];

	snprintf(path, sizeof(path), UNITS "%.*s", second ? (int)(first - name) : 0, name);
	return second && first > name && !access(path, F_OK) ? (size_t)(second + 1 - syntax->text)
							     : at;
}

/* Cut "/OPTIONS/" off what is behind "KIND:". */
static int options_cut(struct spec_syntax *syntax)
{
	const struct spec_kind *kind = syntax->kind;
	size_t at = syntax->name.at, end = at + syntax->name.bytes, slash, before;
	int is_closed, is_found;

	if (kind->slashes == SPEC_NAME_ALL)
		return 0;
	if (kind->slashes == SPEC_NAME_UNITS)
		at = unit_end(syntax, at);
	is_closed = end > at && syntax->text[end - 1] == '/';
	before = kind->slashes == SPEC_NAME_PLAIN ? end : end - (size_t)is_closed;
	slash = unquoted_find(syntax->text, at, before, '/', kind->slashes != SPEC_NAME_PLAIN);
	is_found = slash < before;
	if (!is_found)
		slash = end;
	if (is_closed || kind->slashes == SPEC_NAME_PLAIN)
		syntax->name.bytes = slash - syntax->name.at;
	if (is_closed && slash >= end - 1) {
		if (end >= strlen(OPERATOR) && kind->slashes != SPEC_NAME_PLAIN &&
		    !memcmp(syntax->text + end - strlen(OPERATOR), OPERATOR, strlen(OPERATOR)))
			return 0;
		return spec_wrong(syntax, (struct spec_span){ end - 1, 1 }, -WM_E_SPEC,
				  "opens options, and there are none: write %s%s/OPTION,OPTION/",
				  kind->name, kind->form);
	}
	if (is_found && !is_closed &&
	    (kind->slashes == SPEC_NAME_PLAIN || is_unclosed(syntax, slash, end)))
		return spec_wrong(syntax, (struct spec_span){ slash, end - slash }, -WM_E_SPEC,
				  "has no slash behind it: write %s%s/OPTION,OPTION/", kind->name,
				  kind->form);
	return is_closed ? words_cut(syntax, slash + 1, end - 1) : 0;
}

/* "watch:SYMBOL@kernel", not "watch:x@kernel.so": a kind of its own. */
static int is_of_kernel(const char *name)
{
	const char *at = strstr(name, SPEC_KERNEL_SUFFIX);

	return at && strchr(":/", at[strlen(SPEC_KERNEL_SUFFIX)]);
}

static int kind_unknown(const struct spec_syntax *syntax, struct spec_span word)
{
	char meant[128], all[256];
	size_t used = 0;

	for (const struct spec_kind *kind = spec_kinds; kind->name && used < sizeof(all); kind++)
		if (kind->slot != offsetof(struct spec, kernel) || kind->variant != KERNEL_WATCH)
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
						 used ? ", " : ", which are ", kind->name);
	return *kinds_meant(syntax, meant, sizeof(meant))
		       ? spec_wrong(syntax, word, -WM_E_SPEC, "is no kind of event%s", meant)
		       : spec_wrong(syntax, word, -WM_E_SPEC, "is no kind of event%s", all);
}

/* The kind, and where its name begins. */
static int kind_cut(struct spec_syntax *syntax)
{
	const char *text = syntax->text;
	size_t word = strcspn(text, ":/"), all = strlen(text), before = strcspn(text, "/");
	const struct spec_kind *kind = spec_kinds;
	const char *colon = memchr(text, ':', before);

	while (kind->name && !is_part(syntax, (struct spec_span){ 0, word }, kind->name))
		kind++;
	syntax->kind = kind;
	syntax->name = (struct spec_span){ word + (text[word] == ':'), 0 };
	syntax->name.bytes = all - syntax->name.at;
	if (!kind->name) {
		if (!colon || memchr(colon + 1, ':', before - (size_t)(colon + 1 - text)))
			return kind_unknown(syntax, (struct spec_span){ 0, word });
		syntax->kind = spec_kinds; /* the marker */
		syntax->is_short = 1;
		syntax->name = (struct spec_span){ 0, all };
		return 0;
	}
	if (!*kind->form && text[word] == ':')
		return spec_wrong(syntax, (struct spec_span){ word, all - word }, -WM_E_SPEC,
				  "is wrong: %s takes no name", kind->name);
	if (*kind->form && text[word] != ':')
		return spec_wrong(syntax, (struct spec_span){ 0, word }, -WM_E_SPEC,
				  "needs a name: %s%s", kind->name, kind->form);
	if (kind->slot == offsetof(struct spec, watch) && is_of_kernel(text + syntax->name.at))
		syntax->kind = kind + 1;
	return 0;
}

int spec_read(struct spec *spec, const char *text, struct detail wrong)
{
	struct spec_syntax syntax = { .text = text, .spec = spec, .request = spec, .wrong = wrong };
	int err;

	*spec = (struct spec){ 0 };
	detail_set(wrong, 0, "%s", "");
	if (strlen(text) > SPEC_BYTES_MAX)
		return detail_set(wrong, -WM_E_SPEC, "longer than %d bytes", SPEC_BYTES_MAX);
	err = kind_cut(&syntax);
	if (!err)
		err = options_cut(&syntax);
	if (!err && syntax.kind->bytes) {
		syntax.request = calloc(1, syntax.kind->bytes);
		*(void **)(void *)((char *)spec + syntax.kind->slot) = syntax.request;
		err = syntax.request ? 0 : -ENOMEM;
	}
	if (!err)
		err = options_read(&syntax);
	if (!err)
		err = syntax.kind->read(&syntax);
	if (!err) {
		spec->text = strdup(text);
		err = spec->text ? 0 : -ENOMEM;
	}
	if (err)
		spec_release(spec);
	return err;
}
