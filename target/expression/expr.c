/* SPDX-License-Identifier: MIT */
#include "target/expression/expr.h"

#include "base/quantity.h"
#include "target/code/code_request.h"
#include "target/expression/named.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define PREFIX "watch:"
#define TEXT_MAX 1024
#define BRACKETS_MAX 64
#define LENGTH_MAX 32 /* four debug registers of 8 bytes */
#define ANONYMOUS "(anonymous namespace)"

/* The position in the text, and its end. */
struct reader {
	struct watch_expr *expr;
	const char *text; /* all of it */
	size_t at, end;
	unsigned int depth;    /* of brackets, * and & */
	int has_no_source;     /* read "table.c::count" as an object and its member */
	size_t parameters_end; /* of a function's in the name; 0: no parameters */
	struct watch_trouble *trouble;
};

static char peek(const struct reader *reader)
{
	return reader->at < reader->end ? reader->text[reader->at] : 0;
}

static void skip_spaces(struct reader *reader)
{
	while (peek(reader) == ' ')
		reader->at++;
}

static int begins(const struct reader *reader, const char *word)
{
	size_t bytes = strlen(word);

	return reader->end - reader->at >= bytes && !memcmp(reader->text + reader->at, word, bytes);
}

static int syntax(struct reader *reader, const char *expected)
{
	size_t left = reader->end - reader->at;

	if (!left)
		return expression_trouble_set(reader->trouble, -WM_E_WATCH_SYNTAX, reader->at, 0,
					      "%s is missing at its end", expected);
	if (reader->depth < 2 && strchr("*?", peek(reader)))
		return expression_trouble_set(
			reader->trouble, -WM_E_WATCH_SYNTAX, reader->at, left,
			"no globs are taken: name the variable or member in place of \"%.*s\", "
			"and check it with `waymark list --watch EXPR`",
			left > 32 ? 32 : (int)left, reader->text + reader->at);
	return expression_trouble_set(reader->trouble, -WM_E_WATCH_SYNTAX, reader->at, left,
				      "%s is expected in place of \"%.*s\"", expected,
				      left > 32 ? 32 : (int)left, reader->text + reader->at);
}

/* ---- numbers ---- */

static int number_read(struct reader *reader, uint64_t *number)
{
	const char *end = quantity_number_at(reader->text + reader->at, UINT64_MAX, number);

	if (!end || end > reader->text + reader->end || isalnum((unsigned char)*end) || *end == '_')
		return syntax(reader, "a number");
	reader->at = (size_t)(end - reader->text);
	return 0;
}

/* ---- names ---- */

static int is_letter(char c, int is_first)
{
	return isalpha((unsigned char)c) || c == '_' || c == '$' || c & 0x80 ||
	       (!is_first && isdigit((unsigned char)c));
}

static size_t identifier_end(const struct reader *reader, size_t at)
{
	size_t start = at;

	while (at < reader->end && is_letter(reader->text[at], at == start))
		at++;
	return at;
}

/* Behind the bracket that closes the one at `at`; `at` itself where none does. */
static size_t bracket_end(const struct reader *reader, size_t at)
{
	unsigned int depth = 0;

	for (size_t i = at; i < reader->end; i++) {
		char c = reader->text[i];

		if (c == '<' || c == '(')
			depth++;
		else if ((c == '>' || c == ')') && !--depth)
			return i + 1;
	}
	return at;
}

static int is_scope(const struct reader *reader, size_t at)
{
	return reader->end - at >= 2 && reader->text[at] == ':' && reader->text[at + 1] == ':';
}

/* A source file before the name: 'table.c'::, src/table.c::. Without one this reads nothing. */
static int source_read(struct reader *reader)
{
	size_t start = reader->at, at = start, bytes;
	int has_dot = 0;

	if (reader->has_no_source)
		return 0;
	if (peek(reader) == '\'') {
		const char *close = memchr(reader->text + start + 1, '\'', reader->end - start - 1);

		at = close ? (size_t)(close - reader->text) + 1 : start;
		if (at == start || at == start + 2 || !is_scope(reader, at))
			return syntax(reader, "a file between quotes with :: behind it");
		bytes = at - start - 2;
		start++;
	} else {
		for (; at < reader->end &&
		       (is_letter(reader->text[at], 0) || strchr("./+-", reader->text[at]));
		     at++)
			has_dot |= reader->text[at] == '.';
		if (!has_dot || !is_scope(reader, at))
			return 0;
		bytes = at - start;
	}
	reader->expr->source = strndup(reader->text + start, bytes);
	reader->at = at + 2;
	return reader->expr->source ? 0 : -ENOMEM;
}

/* One part of a qualified name, up to :: or the end, behind what the name so far is. */
static int component_read(struct reader *reader, char *name, size_t *used)
{
	size_t start = reader->at, end, behind;

	if (begins(reader, ANONYMOUS)) {
		reader->at += strlen(ANONYMOUS);
		end = reader->at;
	} else {
		end = identifier_end(reader, start);
		if (end == start)
			return syntax(reader, "a name");
		if (end < reader->end && reader->text[end] == '<')
			end = bracket_end(reader, end);
		/* f(int)::last, as gdb writes it where there is another f */
		behind = end < reader->end && reader->text[end] == '(' ? bracket_end(reader, end)
								       : end;
		reader->at = is_scope(reader, behind) ? behind : end;
		if (reader->at > end)
			reader->parameters_end = behind;
	}
	memcpy(name + *used, reader->text + start, end - start);
	*used += end - start;
	return 0;
}

static int name_read(struct reader *reader)
{
	char *name = malloc(reader->end - reader->at + 1);
	size_t used = 0, start;
	int err = 0;

	if (!name)
		return -ENOMEM;
	if (is_scope(reader, reader->at))
		reader->at += 2;
	start = reader->at;
	err = component_read(reader, name, &used);
	while (!err && is_scope(reader, reader->at)) {
		memcpy(name + used, "::", 2);
		used += 2;
		reader->at += 2;
		err = component_read(reader, name, &used);
	}
	name[used] = 0;
	reader->expr->name = name;
	if (err || !reader->parameters_end)
		return err;
	reader->expr->function = strndup(reader->text + start, reader->parameters_end - start);
	return reader->expr->function ? 0 : -ENOMEM;
}

/* ---- expressions ---- */

static int step_add(struct reader *reader, const struct watch_step *step)
{
	struct watch_expr *expr = reader->expr;

	if (expr->step_count == WATCH_STEPS_MAX)
		return expression_trouble_set(reader->trouble, -WM_E_WATCH_SYNTAX, step->at,
					      step->bytes, "has more than %d steps",
					      WATCH_STEPS_MAX);
	expr->steps[expr->step_count++] = *step;
	return 0;
}

static int unary_read(struct reader *reader);

static int base_read(struct reader *reader)
{
	struct watch_expr *expr = reader->expr;
	int err;

	expr->at = reader->at;
	if (isdigit((unsigned char)peek(reader))) {
		err = number_read(reader, &expr->address);
	} else {
		err = source_read(reader);
		if (!err)
			err = name_read(reader);
	}
	expr->bytes = reader->at - expr->at;
	return err;
}

static int primary_read(struct reader *reader)
{
	int err;

	if (peek(reader) != '(' || begins(reader, ANONYMOUS))
		return base_read(reader);
	reader->at++;
	err = unary_read(reader);
	if (err)
		return err;
	skip_spaces(reader);
	if (peek(reader) != ')')
		return syntax(reader, "a closing bracket");
	reader->at++;
	return 0;
}

/* The end of "member", "Base::member", "ns::Base<int>::member"; `at` if absent. */
static size_t member_end(const struct reader *reader, size_t at)
{
	size_t start = at;

	for (;;) {
		size_t end = identifier_end(reader, at), behind = end;

		if (end == at)
			return start;
		if (end < reader->end && reader->text[end] == '<')
			behind = bracket_end(reader, end);
		if (!is_scope(reader, behind))
			return end;
		at = behind + 2;
	}
}

static int member_read(struct reader *reader, struct watch_step *step)
{
	size_t end;

	reader->at += step->kind == WATCH_ARROW ? 2 : 1;
	skip_spaces(reader);
	end = member_end(reader, reader->at);
	if (end == reader->at)
		return syntax(reader, "a member's name");
	step->name = strndup(reader->text + reader->at, end - reader->at);
	reader->at = end;
	return step->name ? 0 : -ENOMEM;
}

static int index_read(struct reader *reader, struct watch_step *step)
{
	uint64_t number;
	int is_negative, err;

	reader->at++;
	skip_spaces(reader);
	is_negative = peek(reader) == '-';
	reader->at += (size_t)is_negative;
	if (!isdigit((unsigned char)peek(reader)))
		return syntax(reader, "a number, as an index is one,");
	err = number_read(reader, &number);
	if (err)
		return err;
	if (number > INT64_MAX)
		return syntax(reader, "a smaller index");
	step->index = is_negative ? -(int64_t)number : (int64_t)number;
	skip_spaces(reader);
	if (peek(reader) != ']')
		return syntax(reader, "a closing bracket");
	reader->at++;
	return 0;
}

static int postfix_read(struct reader *reader, size_t from)
{
	for (;;) {
		struct watch_step step = { .from = from, .length = reader->at - from };
		int err;

		skip_spaces(reader);
		step.at = reader->at;
		if (peek(reader) == '[') {
			step.kind = WATCH_INDEX;
			err = index_read(reader, &step);
		} else if (peek(reader) == '.' || begins(reader, "->")) {
			step.kind = peek(reader) == '.' ? WATCH_MEMBER : WATCH_ARROW;
			err = member_read(reader, &step);
		} else {
			return 0;
		}
		step.bytes = reader->at - step.at;
		if (!err)
			err = step_add(reader, &step);
		if (err) {
			free(step.name);
			return err;
		}
	}
}

/* A step in front of what it is done to. */
static int prefix_read(struct reader *reader, struct watch_step *step)
{
	int err;

	step->from = reader->at;
	err = unary_read(reader);
	step->length = reader->at - step->from;
	err = err ? err : step_add(reader, step);
	if (err)
		free(step->name);
	return err;
}

static int unary_read(struct reader *reader)
{
	struct watch_step step = { 0 };
	struct named_cast cast;
	size_t from;
	int err;

	skip_spaces(reader);
	if (++reader->depth > BRACKETS_MAX)
		return syntax(reader, "something less deep");
	step.at = reader->at;
	step.bytes = 1;
	from = named_cast_read(reader->text, reader->at, reader->end, &cast);
	if (from) {
		step.kind = WATCH_CAST;
		step.index = cast.pointers;
		step.bytes = from - step.at;
		step.name = strndup(reader->text + cast.at, cast.bytes);
		reader->at = from;
		reader->expr->has_cast = 1;
		return step.name ? prefix_read(reader, &step) : -ENOMEM;
	}
	if (peek(reader) != '*' && peek(reader) != '&') {
		from = reader->at;
		err = primary_read(reader);
		return err ? err : postfix_read(reader, from);
	}
	step.kind = peek(reader) == '*' ? WATCH_DEREF : WATCH_ADDRESS;
	reader->at++;
	return prefix_read(reader, &step);
}

/* ---- what follows the expression ---- */

/* "/8". */
static int length_read(struct reader *reader)
{
	struct watch_expr *expr = reader->expr;
	size_t at = ++reader->at;
	int err;

	if (!isdigit((unsigned char)peek(reader)))
		return syntax(reader, "a length in bytes");
	err = number_read(reader, &expr->length);
	if (!err && (!expr->length || expr->length > LENGTH_MAX)) {
		reader->at = at;
		err = syntax(reader, "a length from 1 to 32 bytes");
	}
	return err;
}

static int offset_read(struct reader *reader)
{
	struct watch_expr *expr = reader->expr;
	int is_negative = peek(reader) == '-', err;
	uint64_t number;

	if (!expr->name || expr->step_count)
		return syntax(reader, "a slash and a length");
	reader->at++;
	skip_spaces(reader);
	err = number_read(reader, &number);
	if (err)
		return err;
	if (number > INT64_MAX)
		return syntax(reader, "a smaller number");
	expr->offset = is_negative ? -(int64_t)number : (int64_t)number;
	skip_spaces(reader);
	return peek(reader) == '/' ? 0 : syntax(reader, "a slash and a length");
}

static int module_read(struct reader *reader)
{
	if (++reader->at == reader->end)
		return syntax(reader, "a module's name");
	reader->expr->module = strndup(reader->text + reader->at, reader->end - reader->at);
	reader->at = reader->end;
	return reader->expr->module ? 0 : -ENOMEM;
}

static int all_read(struct reader *reader)
{
	struct watch_expr *expr = reader->expr;
	size_t start;
	int err;

	skip_spaces(reader);
	start = reader->at;
	err = unary_read(reader);
	skip_spaces(reader);
	if (!err && (peek(reader) == '+' || peek(reader) == '-'))
		err = offset_read(reader);
	if (!err && peek(reader) == '/')
		err = length_read(reader);
	if (err)
		return err;
	expr->words = strndup(reader->text + start, reader->at - start);
	if (!expr->words)
		return -ENOMEM;
	for (size_t end = strlen(expr->words); end && expr->words[end - 1] == ' '; end--)
		expr->words[end - 1] = 0;
	skip_spaces(reader);
	if (peek(reader) == '@')
		err = module_read(reader);
	if (!err && reader->at < reader->end)
		err = syntax(reader, "its end, or . -> [ / @ or :KIND,");
	return err;
}

/* Cut ":KIND" off; "::x" is the end of a name. */
static int kind_read(struct reader *reader)
{
	static const struct {
		const char *word;
		int kind; /* -1: r */
	} kinds[] = { { ":w", WATCH_WRITE },
		      { ":rw", WATCH_READ_WRITE },
		      { ":wr", WATCH_READ_WRITE },
		      { ":x", WATCH_EXECUTE },
		      { ":r", -1 } };

	reader->expr->kind = WATCH_WRITE;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t bytes = strlen(kinds[i].word), at = reader->end - bytes;

		if (reader->end - reader->at <= bytes ||
		    memcmp(reader->text + at, kinds[i].word, bytes) || reader->text[at - 1] == ':')
			continue;
		if (kinds[i].kind < 0)
			return expression_trouble_set(reader->trouble, -WM_E_WATCH_SYNTAX, at,
						      bytes,
						      "no processor watches reads alone; take rw");
		reader->expr->kind = (enum watch_kind)kinds[i].kind;
		reader->end = at;
		return 0;
	}
	return 0;
}

/* A length belongs to what is written or read, and an address has no other. */
static int length_check(const struct watch_expr *expr, struct watch_trouble *trouble)
{
	if (expr->kind == WATCH_EXECUTE && expr->length)
		return expression_trouble_set(
			trouble, -WM_E_WATCH_SYNTAX, 0, 0,
			"code is watched where it begins, without a length: %s", expr->text);
	if (expr->kind != WATCH_EXECUTE && !expr->name && !expr->length && !expr->has_cast)
		return expression_trouble_set(trouble, -WM_E_WATCH_SYNTAX, 0, 0,
					      "an address has no length of its own: %s/8",
					      expr->words);
	return 0;
}

static int expr_parse(struct watch_expr *expr, const char *text, int has_no_source,
		      struct watch_trouble *trouble)
{
	struct reader reader = { .expr = expr,
				 .at = strlen(PREFIX),
				 .has_no_source = has_no_source,
				 .trouble = trouble };
	int err;

	*expr = (struct watch_expr){ 0 };
	if (trouble)
		*trouble = (struct watch_trouble){ 0 };
	if (!expression_is(text) || strlen(text) > TEXT_MAX)
		return expression_trouble_set(trouble, -WM_E_WATCH_SYNTAX, 0, 0, "%.64s", text);
	expr->text = strdup(text);
	if (!expr->text)
		return -ENOMEM;
	reader.text = expr->text;
	reader.end = strlen(text);
	err = kind_read(&reader);
	if (!err)
		err = all_read(&reader);
	return err ? err : length_check(expr, trouble);
}

int expression_parse(struct watch_expr *expr, const char *text, struct watch_trouble *trouble)
{
	int err = expr_parse(expr, text, 0, trouble);

	if (err || !expr->source || expr->text[expr->at] == '\'')
		return err;
	expr->instead = malloc(sizeof(*expr->instead));
	if (!expr->instead)
		return -ENOMEM;
	if (expr_parse(expr->instead, text, 1, NULL)) {
		expression_release(expr->instead);
		free(expr->instead);
		expr->instead = NULL;
	}
	return 0;
}

void expression_release(struct watch_expr *expr)
{
	for (unsigned int i = 0; i < expr->step_count; i++)
		free(expr->steps[i].name);
	free(expr->text);
	free(expr->words);
	free(expr->source);
	free(expr->name);
	free(expr->function);
	free(expr->module);
	if (expr->instead)
		expression_release(expr->instead);
	free(expr->instead);
	*expr = (struct watch_expr){ 0 };
}

int expression_is(const char *text)
{
	return !strncmp(text, PREFIX, strlen(PREFIX));
}

int expression_takes(const struct watch_expr *expr, const char *path,
		     const struct code_aliases *aliases)
{
	const struct code_request request = { .module = expr->module };

	return code_request_takes(&request, path, aliases);
}
