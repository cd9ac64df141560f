/* SPDX-License-Identifier: MIT */
/*
 * A module's functions by name: out of .symtab, .dynsym, .gnu_debugdata and the separate debug
 * file, put together. Addresses are as linked in the module itself.
 */
#ifndef TARGET_CODE_SYMBOL_H
#define TARGET_CODE_SYMBOL_H

#include "target/code/file.h"

#include <stddef.h>
#include <stdint.h>

#define CODE_NAME_MAX 240 /* of what is made of a symbol for people; longer ones are cut */

enum code_bind { BIND_GLOBAL, BIND_WEAK, BIND_LOCAL };

struct code_symbol {
	const char *name; /* the linker's, without a version; the file's, as all texts here */
	const char *unit; /* source file that a local symbol is of; "" if unknown */
	uint64_t address, bytes;
	enum code_bind bind;
	int is_ifunc; /* the address is of a function that chooses the one that is meant */
	int is_part;  /* a piece of a function that is jumped to, not called: foo.cold */
	int is_old;   /* a version that programs which are linked today don't get */
};

/* A function: all that begins at one address, under one name or several. */
struct code_function {
	uint64_t address, bytes; /* bytes: 0 if no symbol says */
	size_t first, count;	 /* its symbols; the first is the one to call it by */
	int is_ifunc, is_part;
};

struct code_symbols {
	struct code_symbol *all; /* by address, then the better name first */
	size_t count, room;
	struct code_function *functions; /* by address */
	size_t function_count;
	int is_stripped;	      /* nothing but .dynsym, if that */
	struct code_written *written; /* names as the source has them, once wanted */
};

/*
 * Read all. 0, also for a file without symbols; -ENOMEM. Tables that are damaged count as stripped.
 * Release also after an error. The file must live longer.
 */
int code_symbols_read(struct code_symbols *symbols, struct code_file *file);
void code_symbols_release(struct code_symbols *symbols);

/*
 * The function whose bytes hold an address (one without a size: up to the next), or NULL; also
 * where thousands of others begin between it and the address.
 */
const struct code_function *code_function_at(const struct code_symbols *symbols, uint64_t address);

/* The first that has exactly that name, or NULL. */
const struct code_function *code_function_named(const struct code_symbols *symbols,
						const char *name);

/*
 * Call found() for each function that a pattern names, in order of address, each once, with the
 * best symbol that fits. The pattern is a linkage name, or a C++ or Rust name as written, with or
 * without parameters, and with or without the type of the result, qualifiers and tags of an ABI; or
 * a glob for either. A name comes first: f(char*) is a glob only where no function is called so.
 * Without a glob, clones that the compiler made of the whole function, such as foo.constprop.0,
 * belong to foo. A return other than 0 ends it and is returned. Returns how many were found else.
 */
int code_symbols_match(const struct code_symbols *symbols, const char *pattern,
		       int (*found)(const struct code_function *function,
				    const struct code_symbol *symbol, void *data),
		       void *data);

/* Whether such a pattern is one linkage name, or takes it as a glob. */
int code_name_fits(const char *pattern, const char *name);

/* Whether a pattern has characters of a glob. */
int code_is_glob(const char *pattern);

/*
 * What a symbol is called to people, in text[bytes]: as written in the source, without parameters
 * or with them; control characters replaced; cut to CODE_NAME_MAX at most.
 */
void code_symbol_text(const struct code_symbol *symbol, int with_parameters, char *text,
		      size_t bytes);

struct code_symbol_found {
	uint64_t address; /* of a thread-local variable: in the module's thread-local block */
	uint64_t bytes;	  /* 0: its symbol doesn't say */
	int is_function;
};

/*
 * Any symbol, of data too; or a thread-local variable. 0, -ENOENT, or -ENOTUNIQ where local ones
 * share the name.
 */
int code_symbol_find(struct code_file *file, const char *name, int is_thread,
		     struct code_symbol_found *found);

/* Likewise, its address alone. */
int code_symbol_value(struct code_file *file, const char *name, uint64_t *address);

/*
 * Call take() with the name of each symbol of data, until it returns something else than 0, which
 * is returned.
 */
int code_symbol_data(struct code_file *file, int (*take)(const char *name, void *data), void *data);

/*
 * The symbol of the data at an address as linked, and the address's offset in it: "pool" or
 * "pool+0x28" in text[room]. 0, or -ENOENT or another error with text[] unchanged.
 */
int code_symbol_data_at(struct code_file *file, uint64_t address, char *text, size_t room);

/*
 * Functions whose names look like one that was not found: those of C++ and Rust that it ends, as
 * "Order::add" does "shop::Order::add"; else as similar_list(), through names as the source has
 * them where the one that was asked for has a "::". The texts are the symbols'.
 */
int code_symbols_near(const struct code_symbols *symbols, const char *name, const char **out,
		      size_t max);

#endif
