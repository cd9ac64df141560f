/* SPDX-License-Identifier: MIT */
/*
 * Which bytes are a site table (abi/site.h). Tools such as patchelf move .note.waymark, whose words
 * are relative to itself. The tables stay, with their sizes and the distance between them. Each
 * entry refers to a record: this finds the table again.
 */
#ifndef BASE_SITE_TABLE_H
#define BASE_SITE_TABLE_H

#include "abi/site.h"

#include <stddef.h>

#define SITE_TABLE_TRIES                                                                           \
	64 /* places whose first entry looks right: a hostile module has any number */

/* What a note says, wherever it is. */
struct site_table {
	uint64_t bytes, record_bytes;
	uint64_t distance; /* from the first site to the first record, modulo 2^64 */
};

static inline uint64_t site_table_word(int32_t word)
{
	return (uint64_t)(int64_t)word;
}

static inline struct site_table site_table_of(const struct wm_site_note *note)
{
	uint64_t start = site_table_word(note->sites_start);
	uint64_t records = offsetof(struct wm_site_note, markers_start) +
			   site_table_word(note->markers_start);

	return (struct site_table){
		.bytes = offsetof(struct wm_site_note, sites_stop) +
			 site_table_word(note->sites_stop) - start,
		.record_bytes = offsetof(struct wm_site_note, markers_stop) +
				site_table_word(note->markers_stop) - records,
		.distance = records - start,
	};
}

/* Whether an entry, `at` bytes into the table, refers to a record. */
static inline int site_table_leads(const struct site_table *table, const struct wm_site *entry,
				   uint64_t at)
{
	uint64_t record = at + offsetof(struct wm_site, record) + site_table_word(entry->record) -
			  table->distance;

	return table->record_bytes <= INT32_MAX && record < table->record_bytes &&
	       record % sizeof(struct wm_record) == 0;
}

#endif
