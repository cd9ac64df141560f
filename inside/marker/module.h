/* SPDX-License-Identifier: MIT */
/*
 * One module (the program or a shared library) in memory: its segments, its build id, its site
 * table. The table comes from a file that may be damaged or hostile, so every reference in it is
 * checked against the module's own segments before it is used, and it is read by way of the kernel
 * (inside/patch/text.h), since the module may vanish at any time. Under the agent's lock.
 */
#ifndef INSIDE_MARKER_MODULE_H
#define INSIDE_MARKER_MODULE_H

#include "inside/patch/text.h"

#include <stddef.h>
#include <stdint.h>

#define MODULE_SEGMENTS_MAX 16
#define MODULE_SITES_MAX (1u << 20)
#define SITE_TEXT_MAX 16384 /* with its NUL */

struct variant;

struct site {
	uintptr_t address; /* of the instruction; 0: the end of a scope, which has none */
	uintptr_t record;  /* of its struct wm_record */
	int32_t displacement;
	char kind; /* 'm', 'i', 'b' or 'e' */
	uint8_t portable;
	uint8_t prot; /* of its segment (PROT_*) */
	uint8_t armed;
	uint8_t conflict;    /* shares its record with a site of other types: never armed */
	uint8_t refused;     /* reported already */
	uint8_t is_foreign;  /* another tool's byte is there, or was (restored.c) */
	uint16_t name_bytes; /* of "SUBSYSTEM:EVENT", without NUL */
	uint32_t text_bytes; /* with NUL */
	uint32_t fields_at;  /* where in the text FIELDS begins */
	const char *text;    /* abi/site.h */
	uint8_t types[16];
	struct module *module;
	struct variant *variant; /* whose it is, by registry.c */
	struct site *next;	 /* of its variant */
};

struct segment {
	uintptr_t start, end;
	int prot; /* PROT_* */
};

struct module {
	struct module *next;
	uintptr_t link, base, dynamic; /* the loader's struct link_map, and two of its members */
	struct segment segments[MODULE_SEGMENTS_MAX];
	unsigned int segment_count;
	struct segment relro;
	uintptr_t frames; /* its .eh_frame_hdr; 0: it has none */
	uint8_t build_id[20];
	uint8_t build_id_bytes;
	uintptr_t build_id_at;
	uint8_t seen;	   /* registry.c: in the current walk */
	uint8_t fresh;	   /* registry.c: nothing was armed in it yet */
	uint64_t came_ns;  /* registry.c: when it was found, CLOCK_MONOTONIC */
	int error;	   /* why its table is refused; 0 */
	uintptr_t records; /* where its wm_records begin */
	uint32_t record_count;
	uint32_t site_count;
	struct site *sites; /* in order of address */
	char *texts;	    /* all sites' texts */
	size_t texts_bytes;
	char *path; /* "" if unknown */
	size_t path_bytes;
};

/* What the loader says of a module. */
struct module_place {
	uintptr_t link, base, dynamic;
	uintptr_t phdrs; /* 0: find them by the ELF header at base */
	unsigned int phdr_count;
};

/*
 * Read a module. *module gets it, to be released with module_free(); one without markers has no
 * sites; a damaged table is no failure but leaves its reason in `error` and no sites. Returns 0,
 * -ENOMEM, -EFAULT if there is no such module any more, -ENOEXEC if there is no ELF header.
 */
int module_read(const struct text *text, const struct module_place *place, const char *path,
		struct module **module);

void module_free(struct module *module);

/* "SUBSYSTEM:EVENT" of a site, into `name` of RULE_BYTES_MAX bytes at least. */
void module_site_name(const struct site *site, char *name);

#endif
