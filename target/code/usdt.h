/* SPDX-License-Identifier: MIT */
/*
 * The USDT probes of a module, from .note.stapsdt. Prelinking, or splitting off a debug file, moves
 * sections but does not change the addresses in notes. .stapsdt.base shows how far the sections
 * moved; the addresses here are corrected by that.
 */
#ifndef TARGET_CODE_USDT_H
#define TARGET_CODE_USDT_H

#include "target/code/file.h"
#include "target/code/probe_place.h"

#include <stddef.h>
#include <stdint.h>

#define CODE_USDT_MAX 1000000

/* One place of a probe; a probe that was inlined has several. Texts are the file's. */
struct code_usdt {
	const char *provider, *name;
	const char *arguments; /* as the note has them */
	uint64_t address;
	uint64_t semaphore; /* 0: none */
};

struct code_usdt_list {
	struct code_usdt *all; /* by provider, name, address */
	size_t count, room;
};

/*
 * Read all. 0, also for a file without probes; -WM_E_MODULE_DAMAGED with those before the damage in
 * the list; -ENOMEM. Release also after an error. The file must live longer.
 */
int code_usdt_read(struct code_usdt_list *list, struct code_file *file);
void code_usdt_release(struct code_usdt_list *list);

/*
 * The fields of a probe, arg1 and so on, in fields[max]. Returns how many it has, more than `max`
 * perhaps. One that can't be read has type 0.
 */
int code_usdt_fields(const struct code_usdt *usdt, struct code_file *file,
		     struct code_field *fields, int max);

/* The text of argument `number`, from 1, in text[bytes]; "" for an absent one. */
void code_usdt_argument(const struct code_usdt *usdt, int number, char *text, size_t bytes);

#endif
