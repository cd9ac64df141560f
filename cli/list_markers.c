/* SPDX-License-Identifier: MIT */
/* The markers of files and processes, and their sites, as tables. */
#include "cli/list.h"

#include "base/fieldname.h"
#include "record/marker/catalog.h"

#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 16

static const char *const state_words[] = {
	[SITE_IS_DORMANT] = "dormant",
	[SITE_IS_ARMED] = "armed",
	[SITE_IS_CHANGED] = "changed",
	[SITE_IS_SILENT] = "none",
};

static const struct row_column marker_columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "event, inline, begin or end" },
	{ "way", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "how a site asks: flag or jump" },
	{ "sites", ROW_U64, ROW_COUNT, 0, "how many there are" },
	{ "armed", ROW_U64, ROW_COUNT, ROW_QUIET, "sites that record" },
	{ "changed", ROW_U64, ROW_COUNT, ROW_QUIET, "sites whose code the program changed" },
	{ "hits", ROW_U64, ROW_COUNT, 0, "in all modules of the process; null: not counted" },
	{ "fields", ROW_TEXT, ROW_PLAIN, 0, "name and type of each" },
	{ "types_differ", ROW_BOOL, ROW_PLAIN, ROW_QUIET, "sites do not agree: it can't be armed" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "of the first site's source" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "there" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
	{ "refused", ROW_TEXT, ROW_PLAIN, 0, "why no agent can enter the process" },
};
static ROW_TABLE(marker_table, "marker", "A marker of a file or process.", marker_columns);

static const struct row_column site_columns[] = {
	{ "marker", ROW_TEXT, ROW_PLAIN, 0, "SUBSYSTEM:EVENT" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "in the process, or as linked" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, "dormant, armed, changed, or none" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "of the source" },
	{ "line", ROW_U64, ROW_PLAIN, 0, "there" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the program or library" },
};
static ROW_TABLE(site_table, "site", "A site of a marker.", site_columns);

void list_field(struct text *text, const char *name, uint8_t type)
{
	const char *word = catalog_type(type);

	text_format(text, "%s%s %s", text->bytes ? ", " : "", name, word ? word : "?");
}

const char *list_text(struct text *text)
{
	text_add(text, "", 1);
	return text->error ? NULL : text->at;
}

static void put_marker(struct rows *rows, const struct catalog_marker *marker)
{
	char names[FIELDS_MAX][FIELDNAME_BYTES];
	struct text fields = { 0 };
	int count = 0;

	while (count < FIELDS_MAX && marker->types[count])
		count++;
	fieldname_list(marker->fields, count, names);
	for (int i = 0; i < count; i++)
		list_field(&fields, names[i], marker->types[i]);
	ROWS_PUT(rows, marker_columns, row_text(marker->name), row_text(catalog_kind(marker->kind)),
		 row_text(marker->way == 'p' ? "flag" : "jump"), row_u64(marker->site_count),
		 row_u64(marker->counts[SITE_IS_ARMED]), row_u64(marker->counts[SITE_IS_CHANGED]),
		 marker->pid && marker->hits != CATALOG_HITS_UNKNOWN ? row_u64(marker->hits)
								     : row_null(),
		 row_words(list_text(&fields)), row_bool(marker->types_differ),
		 row_words(marker->sites[0].file), row_u64(marker->sites[0].line),
		 row_known((uint64_t)marker->pid), row_text(marker->module),
		 row_text(marker->refusal));
	text_release(&fields);
}

static void put_sites(struct rows *rows, const struct catalog_marker *marker)
{
	for (size_t i = 0; i < marker->site_count; i++) {
		const struct catalog_site *site = &marker->sites[i];

		ROWS_PUT(rows, site_columns, row_text(marker->name),
			 site->address ? row_address(site->address) : row_null(),
			 row_text(state_words[site->state]), row_words(site->file),
			 row_u64(site->line), row_known((uint64_t)marker->pid),
			 row_text(marker->module));
	}
}

void list_markers(struct rows *rows, const struct catalog *catalog, const char *take, int sites)
{
	rows_open(rows, &marker_table, NULL);
	for (size_t i = 0; i < catalog->count; i++)
		if (take[i])
			put_marker(rows, &catalog->markers[i]);
	rows_close(rows);
	if (!sites)
		return;
	rows_open(rows, &site_table, NULL);
	for (size_t i = 0; i < catalog->count; i++)
		if (take[i])
			put_sites(rows, &catalog->markers[i]);
	rows_close(rows);
}
