/* SPDX-License-Identifier: MIT */
/*
 * Read the markers of files and of running processes from outside, without running code in a
 * process or changing it.
 */
#ifndef RECORD_MARKER_CATALOG_H
#define RECORD_MARKER_CATALOG_H

#include "target/process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum site_state {
	SITE_IS_DORMANT,
	SITE_IS_ARMED,
	SITE_IS_CHANGED, /* neither: other code was written there */
	SITE_IS_SILENT,	 /* the end of a scope: it has no instruction of its own */
};

struct catalog_site {
	uint64_t address; /* as linked for a file, in memory for a process; 0 if silent */
	enum site_state state;
	unsigned int line;
	const char *file;
	size_t marker; /* its number in the catalog */
};

#define CATALOG_HITS_UNKNOWN UINT64_MAX

struct catalog_marker {
	char *name; /* SUBSYSTEM:EVENT */
	char kind;  /* as in abi/site.h */
	char way;   /* as in abi/site.h */
	pid_t pid;  /* 0: in a file */
	const char *module;
	const char *fields;  /* the text of the arguments */
	const char *refusal; /* why no agent can enter the process; NULL: one can */
	uint8_t types[16];   /* of the first site */
	int types_differ;    /* another site has other types */
	/* set by catalog_sort(), and ordered by address; before that, each marker has one site: */
	const struct catalog_site *sites;
	size_t site_count;
	size_t site;		/* its number in the catalog */
	unsigned int counts[4]; /* of sites, by enum site_state */
	uint64_t hits;		/* in all modules of the process; see record/marker/hits.h */
};

/* A module of a process whose markers can't be read. */
struct catalog_fault {
	pid_t pid;
	const char *module;
	int error;
};

struct catalog {
	/* after catalog_sort() by process, module, name, kind and fields */
	struct catalog_marker *markers;
	struct catalog_site *sites; /* of all */
	size_t count, room, site_room;
	struct catalog_fault *faults;
	size_t fault_count, fault_room;
	char **texts; /* strings that the markers point to */
	size_t text_count, text_room;
};

/*
 * Add the markers of a file. Returns 0, also if it has none; or -errno, -WM_E_NOT_ELF,
 * -WM_E_FOREIGN_ARCH, -WM_E_MODULE_DAMAGED, -ENOMEM. Markers added before an error stay.
 */
int catalog_add_file(struct catalog *catalog, const char *path);

/*
 * Add the markers of all modules of a process, and a fault for each unreadable module. Returns 0;
 * or with words in detail -errno such as -ESRCH and -EPERM, -WM_E_GONE, -WM_E_FOREIGN_ARCH.
 */
int catalog_add_process(struct catalog *catalog, pid_t pid, struct detail detail);

/* Sort, once all is added. */
void catalog_sort(struct catalog *catalog);

/* Free everything; a zeroed catalog is allowed. */
void catalog_release(struct catalog *catalog);

/* "event", "inline", "begin" or "end"; "?" for what this version does not know. */
const char *catalog_kind(char kind);

/* The name of a field's type; NULL after the last field, and for an unknown type. */
const char *catalog_type(uint8_t type);

#endif
