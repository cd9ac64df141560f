/* SPDX-License-Identifier: MIT */
/*
 * What a user asks to have watched, as text:
 *
 *	watch:EXPR[/LEN][@MODULE][:KIND]
 *
 * EXPR is written as C writes it: a name, `a.b`, `p->b`, `a[3]`, `a[1][2].x`, `*p`, `&e`, brackets
 * around any of them; a number is an address. An index is a number. A C++ reference is what it
 * refers to.
 *
 * A cast is to a pointer: `((Derived *)p)->b`, `*(long *)0x4c6010`. It changes what is watched as
 * C++ does: a pointer to a base class becomes one to the object that the base class is part of.
 *
 * A name may say where it is declared, as gdb has it, with "::" behind each: namespaces, classes,
 * the function of a static variable, and first of all a source file, which has a dot in it:
 * `shop::orders`, `next_id::last`, `table.c::count`, `src/table.c::next_id::last`. Quotes around
 * the file are allowed. Parameters select one of several functions with the same name:
 * `f(int)::last`. Anonymous and inline namespaces may be left out. Without a source file, any
 * matches.
 *
 * A member may have a base class before it, for a name that several have, or that the class itself
 * hides: `object.Base::member`. `table.c::count` names a source file if that has such a variable.
 *
 * &EXPR is EXPR's address. To watch an address is to watch what is at it: `&a` is `a`, `*&a` too.
 *
 * LEN is a number of bytes from EXPR on, whatever its type. With LEN, a number or a linker symbol
 * needs no debug information: `0x4c6010/8`, `counter/4`, `buffer+16/8`. A number without @MODULE is
 * an address in the process, with it one as linked.
 *
 * MODULE is as of the other specs: a file's path, its name, its name up to ".so"; globs are taken.
 *
 * KIND: w who writes (the default), rw who reads or writes, x who runs it: then EXPR is a function,
 * by its name, or an address without LEN.
 */
#ifndef TARGET_EXPRESSION_EXPR_H
#define TARGET_EXPRESSION_EXPR_H

#include "target/code/file.h"
#include "target/expression/option.h"
#include "target/expression/trouble.h"

#include <stddef.h>
#include <stdint.h>

#define WATCH_STEPS_MAX 24

enum watch_kind {
	WATCH_WRITE = WATCH_ON_WRITE,
	WATCH_READ_WRITE = WATCH_ON_ACCESS,
	WATCH_EXECUTE = WATCH_ON_EXECUTE,
};

enum watch_step_kind {
	WATCH_MEMBER,  /* .name */
	WATCH_ARROW,   /* ->name */
	WATCH_INDEX,   /* [index] */
	WATCH_DEREF,   /* * */
	WATCH_ADDRESS, /* & */
	WATCH_CAST,    /* (name *): `index` counts the "*" */
};

/* What a step does to the result of the steps before it. */
struct watch_step {
	enum watch_step_kind kind;
	char *name;	     /* of a member, or a cast's type; else NULL */
	int64_t index;	     /* of WATCH_INDEX, WATCH_CAST */
	size_t at, bytes;    /* the step itself, in the text */
	size_t from, length; /* in the text too: what it is done to */
};

struct watch_expr {
	char *text;   /* as given */
	char *words;  /* its name in tables and as an event: EXPR[/LEN], trimmed */
	char *source; /* before the name; NULL: any */
	char *name;   /* "shop::orders"; NULL: `address` is the base */
	/* with its parameters, where the name has them: "f(int)" of f(int)::last; NULL: any f */
	char *function;
	size_t at, bytes; /* of the base, with its source, in the text */
	uint64_t address;
	int64_t offset;	 /* of SYMBOL+OFFSET/LEN; 0 else */
	uint64_t length; /* LEN; 0: what the type has */
	char *module;	 /* NULL: any, or of a number: none */
	enum watch_kind kind;
	struct watch_step steps[WATCH_STEPS_MAX];
	unsigned int step_count;
	int has_cast; /* so a number needs no LEN */
	struct watch_options options;
	/* without a source: table.c::count, the member of a base class c; NULL: no such reading */
	struct watch_expr *instead;
};

/*
 * Read a spec without its options, which the caller puts in; all of it is copied. 0, -ENOMEM or
 * -WM_E_WATCH_SYNTAX. Release also after an error. Any thread.
 */
int expression_parse(struct watch_expr *expr, const char *text, struct watch_trouble *trouble);
void expression_release(struct watch_expr *expr);

/* Whether a spec is one: begins with "watch:". */
int expression_is(const char *text);

/*
 * Whether a module, by its path in the process or an alias, may have the base. `aliases` may be
 * NULL.
 */
int expression_takes(const struct watch_expr *expr, const char *path,
		     const struct code_aliases *aliases);

#endif
