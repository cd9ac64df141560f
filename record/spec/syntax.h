/* SPDX-License-Identifier: MIT */
/*
 * The grammar of event specs, one for all kinds:
 *
 *	KIND[:NAME][/OPTION,OPTION=VALUE.../]
 *
 * A spec is read in three steps: its text is cut into kind, name and options; each option is stored
 * in the kind's request as its kind's table says (kinds.c); last the kind reads its name. So a new
 * option is a line of that table. Each message has one form: the part that is wrong, its column,
 * and what is allowed.
 */
#ifndef RECORD_SPEC_SYNTAX_H
#define RECORD_SPEC_SYNTAX_H

#include "base/detail.h"

#include <stddef.h>
#include <stdint.h>

#define SPEC_BYTES_MAX 1024
#define SPEC_OPTIONS_MAX 32 /* in one spec; of one kind */
#define SPEC_KINDS_MAX 32

struct spec;
struct spec_kind;

/* A part of a spec's text. */
struct spec_span {
	size_t at, bytes;
};

/* One of the options as written: NAME, NAME=VALUE; of a field NAME:TYPE, FIELD=NAME:TYPE. */
struct spec_word {
	struct spec_span all, name, value;
	char mark; /* what is before the value: '=', ':' of a field; 0: it has none */
};

/* A spec's text and its parts. */
struct spec_syntax {
	const char *text;
	const struct spec_kind *kind;
	int is_short;	       /* SUBSYSTEM:EVENT, a marker without its kind */
	struct spec_span name; /* no bytes: none */
	struct spec_word words[SPEC_OPTIONS_MAX];
	unsigned int word_count;
	struct spec *spec;
	void *request; /* the kind's, where its options are stored */
	struct detail wrong;
};

/* What these mean among the options of a kind with fields. */
#define SPEC_FIELD_FORM "[FIELD=]NAME[:TYPE]"
#define SPEC_FIELD_MEANING                                                                           \
	"an argument: arg1, arg2...; a parameter's name; a register. FIELD is what the event calls " \
	"it. TYPE is u8 to u64, i8 to i64, x, f32, f64, bool, char, ptr or str"

enum spec_type {
	SPEC_FLAG,   /* NAME: ors `flag` into its place; with `read`, NAME:VALUE too */
	SPEC_NUMBER, /* NAME=N, from `min` to `max`; NAME alone is `flag`, where that is not 0 */
	SPEC_SIZE,   /* NAME=SIZE, the same */
	SPEC_SIGNAL, /* NAME=SIGNAL, its number */
	SPEC_NAMES,  /* NAME=VALUE: `read` takes each of up to `most` values */
};

struct spec_option {
	const char *name;
	enum spec_type type;
	const char *value;   /* what its value is called: "N"; NULL: it has none */
	const char *meaning; /* in one line */
	size_t at, bytes;    /* its place in the kind's request */
	uint64_t flag, min, max;
	/* of SPEC_NAMES: what is between values; ',': words that are no options are values, too */
	char divider;
	unsigned int most;
	int (*read)(const struct spec_syntax *syntax, const char *value, struct spec_span span);
};

enum spec_slashes {
	SPEC_NAME_PLAIN, /* the first slash opens the options */
	SPEC_NAME_PATHS, /* the name may have slashes: the last pair has the options between it */
	SPEC_NAME_UNITS, /* the same, and "UNIT/TERMS/" is a name */
	SPEC_NAME_ALL,	 /* there are no options */
};

struct spec_kind {
	const char *name;
	const char *form;    /* what is behind the name: ":NAME[@FILE]"; "": nothing */
	const char *meaning; /* in one line */
	const struct spec_option *options;
	unsigned int option_count;
	enum spec_slashes slashes;
	int variant;	    /* enum code_request_kind, kernel_kind */
	size_t slot, bytes; /* the request's pointer in struct spec, its size; 0: the spec itself */
	/* Reads a word that is no option; NULL: such words are wrong. */
	int (*field)(const struct spec_syntax *syntax, const struct spec_word *word);
	/* Reads the name, and checks the request, whose options are there. */
	int (*read)(const struct spec_syntax *syntax);
};

/* All kinds, in the order of the manual; one without a name ends them. */
extern const struct spec_kind spec_kinds[];

/*
 * Read a spec. 0, or with words -WM_E_SPEC, -ENOMEM, or an error of the kind: -WM_E_FIELD_TYPE,
 * -WM_E_WATCH_SYNTAX, -WM_E_COUNT_EVENT, -WM_E_COUNT_UNIT, -WM_E_PERF_DENIED, -EACCES. Release the
 * spec unless it fails. Any thread.
 */
int spec_read(struct spec *spec, const char *text, struct detail wrong);
void spec_release(struct spec *spec);

/* ---- for the kinds ---- */

/* Words about a part of the text: what is wrong with it, what is allowed. Returns the error. */
int spec_wrong(const struct spec_syntax *syntax, struct spec_span span, int error,
	       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A copy of a part, to be freed; NULL without memory. */
char *spec_part(const struct spec_syntax *syntax, struct spec_span span);

#endif
