/* SPDX-License-Identifier: MIT */
/*
 * The markers of files and of running processes, read from outside: nothing runs in the process, and
 * nothing in it changes.
 */
#ifndef SESSION_CATALOG_H
#define SESSION_CATALOG_H

#include "process/target.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum site_state {
	SITE_IS_DORMANT,
	SITE_IS_ARMED,
	SITE_IS_CHANGED, /* neither: something else was written there */
	SITE_IS_SILENT, /* the end of a scope: it has no instruction, its beginning stands for it */
};

struct catalog_site {
	uint64_t address; /* as linked in a file, as it lies in a process; 0 for a silent one */
	enum site_state state;
	unsigned int line;
	const char *file;
};

#define CATALOG_HITS_UNKNOWN UINT64_MAX

struct catalog_marker {
	char *name; /* SUBSYSTEM:EVENT */
	char kind;  /* as in abi/site.h */
	char way;   /* likewise */
	pid_t pid;  /* 0: of a file */
	const char *module;
	const char *fields; /* the arguments' text */
	const char *shut;   /* why no agent can come into the process; NULL: one can */
	uint8_t types[16];  /* at the first site */
	int types_differ;   /* at some other site, which may have other fields */
	struct catalog_site *sites;
	size_t site_count, site_room;
	unsigned int counts[4]; /* of sites, by enum site_state */
	uint64_t hits;		/* in all modules of the process; see session/hits.h */
};

/* A module of a process whose markers can't be read. */
struct catalog_fault {
	pid_t pid;
	const char *module;
	int error;
};

struct catalog {
	struct catalog_marker *markers; /* by process, module, name, kind and fields once sorted */
	size_t count, room;
	struct catalog_fault *faults;
	size_t fault_count, fault_room;
	char **texts; /* what the markers point into */
	size_t text_count, text_room;
	void *index; /* while it is filled */
};

/*
 * Add the markers of a file. 0, also when it has none; -errno, -WM_E_NOT_ELF, -WM_E_FOREIGN_ARCH,
 * -WM_E_SITE_TABLE, -ENOMEM. Markers that were added before an error stay.
 */
int catalog_add_file(struct catalog *catalog, const char *path);

/*
 * Add those of all modules of a process, and a fault for each unreadable module. -errno, as -ESRCH
 * and -EPERM, -WM_E_GONE, -WM_E_FOREIGN_ARCH, with words about it.
 */
int catalog_add_process(struct catalog *catalog, pid_t pid, struct detail detail);

/* Put the markers in order. */
void catalog_sort(struct catalog *catalog);

/* Frees all; safe on a zeroed one. */
void catalog_release(struct catalog *catalog);

/* "event", "inline", "begin" or "end"; "?" for what this version does not know. */
const char *catalog_kind(char kind);

/* A field's type in words; NULL past the last field and for what is none. */
const char *catalog_type(uint8_t type);

#endif
