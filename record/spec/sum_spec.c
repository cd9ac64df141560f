/* SPDX-License-Identifier: MIT */
/* Sums in place of events: the fields of sum=, min=, max=, avg=, hist= and by=. */
#include "abi/page.h"
#include "record/spec/kinds.h"
#include "record/spec/spec.h"

#include <string.h>
#include <waymark/error.h>

static const struct {
	const char *option;
	enum sum_as as;
} options[] = {
	{ "by", SUM_BY },   { "hist", SUM_HIST }, { "sum", SUM_SUM },
	{ "avg", SUM_SUM }, { "min", SUM_MIN },	  { "max", SUM_MAX },
};

/* What the option means that has a value at `at`. */
static enum sum_as as_of(const struct spec_syntax *syntax, size_t at)
{
	const struct spec_word *word = syntax->words;
	size_t i = 0;

	while (at >= word->all.at + word->all.bytes)
		word++;
	while (strlen(options[i].option) != word->name.bytes ||
	       memcmp(syntax->text + word->name.at, options[i].option, word->name.bytes) != 0)
		i++;
	return options[i].as;
}

static struct code_sums *sums_of(const struct spec_syntax *syntax)
{
	struct code_request *request = syntax->request;

	return syntax->kind->slot == offsetof(struct spec, request) ? &request->sums
								    : &syntax->spec->sums;
}

int spec_read_sum(const struct spec_syntax *syntax, const char *name, struct spec_span span)
{
	struct code_sums *sums = sums_of(syntax);
	struct sum_field field = { .as = (uint8_t)as_of(syntax, span.at) };
	unsigned int at = 0;

	if (span.bytes >= sizeof(field.name) || strpbrk(name, ",=\n "))
		return spec_wrong(syntax, span, -WM_E_SPEC, "is no field's name");
	if (field.as == SUM_BY && !strncmp(name, "hist_", strlen("hist_")))
		return spec_wrong(syntax, span, -WM_E_SPEC,
				  "begins as what hist= makes: write argN");
	strcpy(field.name, name);
	sums->is_wanted = 1;
	for (unsigned int i = 0; i < sums->count; i++)
		if (sums->fields[i].as == field.as && !strcmp(sums->fields[i].name, name))
			return field.as == SUM_SUM
				       ? 0
				       : spec_wrong(syntax, span, -WM_E_SPEC, "is there twice");
	if (sums->count == SUM_FIELDS_MAX)
		return spec_wrong(syntax, span, -WM_E_SPEC, "is one too many: %d fields at most",
				  SUM_FIELDS_MAX);
	while (at < sums->count && sums->fields[at].as <= field.as)
		at++;
	memmove(&sums->fields[at + 1], &sums->fields[at], (sums->count - at) * sizeof(field));
	sums->fields[at] = field;
	sums->count++;
	return 0;
}

static int names(const struct code_sums *sums, const char *name)
{
	for (unsigned int i = 0; i < sums->count; i++)
		if (!strcmp(sums->fields[i].name, name))
			return 1;
	return 0;
}

/* A field that is in no sum or condition would be recorded nowhere. 0 or an error. */
static int check_wishes(const struct spec_syntax *syntax, const struct code_request *request)
{
	const struct spec_span all = { 0, strlen(syntax->text) };
	const struct code_sums *sums = &request->sums;
	const char *result = *request->return_name ? request->return_name : "ret";

	if (request->wants_all)
		return spec_wrong(syntax, all, -WM_E_SPEC,
				  "has args, and sums in place of events: leave args out");
	if (request->wants_return && !names(sums, result) && !names(sums, "duration"))
		return spec_wrong(syntax, all, -WM_E_SPEC,
				  "has %s, which no sum has: add by=%s, or leave it out", result,
				  result);
	for (unsigned int i = 0; i < request->wish_count; i++) {
		const char *wish = request->wishes[i].name;
		int is_tested = 0;

		for (unsigned int k = 0; k < request->predicate_count; k++)
			is_tested |= !strcmp(request->predicates[k].name, wish);
		if (!is_tested && !names(sums, wish))
			return spec_wrong(syntax, all, -WM_E_SPEC,
					  "has %s, which no sum has: add by=%s, or leave it out",
					  wish, wish);
	}
	return 0;
}

int spec_sums_finish(const struct spec_syntax *syntax, const struct code_sums *sums,
		     uint32_t *callers)
{
	int has_chain = 0, has_caller = 0;

	if (!sums->is_wanted)
		return 0;
	/* a marker has no request of its own */
	if (syntax->kind->slot == offsetof(struct spec, request) &&
	    check_wishes(syntax, syntax->request))
		return -WM_E_SPEC;
	for (unsigned int i = 0; i < sums->count; i++) {
		has_chain |= !strcmp(sums->fields[i].name, FIELD_CALLCHAIN);
		has_caller |= !strcmp(sums->fields[i].name, SUM_CALLER);
	}
	if (*callers && !has_chain)
		return spec_wrong(syntax, (struct spec_span){ 0, strlen(syntax->text) }, -WM_E_SPEC,
				  "has bt, and sums: add by=%s", FIELD_CALLCHAIN);
	if (has_chain && !*callers)
		*callers = CALLERS_DEFAULT;
	if (has_caller && !*callers)
		*callers = 1;
	return 0;
}
