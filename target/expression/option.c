/* SPDX-License-Identifier: MIT */
#include "target/expression/option.h"

#include "base/quantity.h"
#include "base/signal_name.h"

#include <string.h>
#include <waymark/error.h>

#define WORD_MAX 96

static const struct {
	const char *text;
	enum watch_relation relation;
} relations[] = {
	/* the longer ones first */
	{ "==", WATCH_IS },	  { "!=", WATCH_IS_NOT }, { "<=", WATCH_AT_MOST },
	{ ">=", WATCH_AT_LEAST }, { "<", WATCH_BELOW },	  { ">", WATCH_ABOVE },
	{ "&", WATCH_HAS_BITS },
};

static char *trimmed(char *text)
{
	size_t bytes;

	text += strspn(text, " ");
	for (bytes = strlen(text); bytes && text[bytes - 1] == ' '; bytes--)
		text[bytes - 1] = 0;
	return text;
}

static int subject_of(const char *text, enum watch_subject *subject)
{
	static const char *const names[] = {
		[WATCH_IF_VALUE] = "value", [WATCH_IF_OLD] = "old", [WATCH_IF_TID] = "tid"
	};

	for (size_t i = WATCH_IF_VALUE; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], text)) {
			*subject = (enum watch_subject)i;
			return 1;
		}
	return 0;
}

/* CONDITION of if=CONDITION; the text is ours to cut. Returns 1 when it is one. */
static int condition_parse(struct watch_test *test, char *text)
{
	size_t at = strcspn(text, "=!<>&"), k = 0;
	char *number;
	uint64_t tid;

	if (!strcmp(trimmed(text), "changed")) {
		test->subject = WATCH_IF_CHANGED;
		return 1;
	}
	while (k < sizeof(relations) / sizeof(relations[0]) &&
	       strncmp(text + at, relations[k].text, strlen(relations[k].text)))
		k++;
	if (k == sizeof(relations) / sizeof(relations[0]))
		return 0;
	test->relation = relations[k].relation;
	number = trimmed(text + at + strlen(relations[k].text));
	text[at] = 0;
	if (!subject_of(trimmed(text), &test->subject) || !*number ||
	    strlen(number) >= sizeof(test->number) || strpbrk(number, "=!<>&|"))
		return 0;
	if (test->subject == WATCH_IF_TID &&
	    (test->relation > WATCH_IS_NOT || quantity_number(number, 1, INT32_MAX, &tid)))
		return 0;
	memcpy(test->number, number, strlen(number) + 1);
	return 1;
}

static int condition_add(struct watch_options *options, char *text, size_t at, size_t bytes)
{
	struct watch_test test = { .at = at, .bytes = bytes };

	if (options->test_count == WATCH_TESTS_MAX || !condition_parse(&test, text))
		return 0;
	options->tests[options->test_count++] = test;
	return 1;
}

/* One that has a value behind "=", or may. Returns 1 when it is understood. */
static int valued_parse(struct watch_options *options, char *word, size_t at, size_t bytes)
{
	uint64_t number = 0;
	int err;

	if (!strncmp(word, "if=", 3))
		return condition_add(options, word + 3, at, bytes);
	if (!strncmp(word, "bt=", 3)) {
		err = quantity_number(word + 3, 1, WATCH_FRAMES_MAX, &number);
		options->frames = (unsigned int)number;
		return !err;
	}
	if (!strncmp(word, "signal=", 7)) {
		options->signal = signal_name_read(word + 7);
		return options->signal != 0;
	}
	if (!strncmp(word, "thread=", 7)) {
		err = strcmp(word + 7, "main") && quantity_number(word + 7, 1, INT32_MAX, &number);
		options->thread = number ? (pid_t)number : WATCH_THREAD_MAIN;
		return !err;
	}
	return 0;
}

#define WORDS_OF(number) #number
#define BT_WORDS_OF(most) ": a backtrace has 1 to " WORDS_OF(most) " callers"
#define BT_WORDS BT_WORDS_OF(WATCH_FRAMES_MAX)
#define SIGNAL_WORDS ": a signal is STOP, SIGUSR1, RTMIN+1 or 10"

int expression_option_parse(struct watch_options *options, const char *text, size_t bytes,
			    size_t at, struct watch_trouble *trouble)
{
	char copy[WORD_MAX], *word;

	if (bytes < sizeof(copy)) {
		memcpy(copy, text, bytes);
		copy[bytes] = 0;
		word = trimmed(copy);
		if (!strcmp(word, "bt"))
			options->frames = WATCH_FRAMES_DEFAULT;
		else if (!strcmp(word, "count"))
			options->counts = 1;
		else if (!strcmp(word, "trail"))
			options->trail = 1;
		else if (!strcmp(word, "follow"))
			options->follows = 1;
		else if (!strcmp(word, "outside"))
			options->is_outside = 1;
		else if (!strcmp(word, "kernel"))
			options->is_outside = options->has_kernel = 1;
		else if (!valued_parse(options, word, at, bytes))
			word = NULL;
		if (word)
			return 0;
	}
	return expression_trouble_set(trouble, -WM_E_WATCH_OPTION, at, bytes, "%.*s%s",
				      bytes > 64 ? 64 : (int)bytes, text,
				      !strncmp(text, "bt=", 3)	     ? BT_WORDS
				      : !strncmp(text, "signal=", 7) ? SIGNAL_WORDS
								     : "");
}
