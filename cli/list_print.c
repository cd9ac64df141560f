/* SPDX-License-Identifier: MIT */
#include "cli/list.h"

#include "base/fieldname.h"

#include <inttypes.h>
#include <stdio.h>
#include <waymark/error.h>

#define FIELDS_MAX 16
#define NAME_COLUMNS_MIN 16
#define NAME_COLUMNS_MAX 32
#define LINE_COLUMNS 80

static const char *const state_words[] = {
	[SITE_IS_DORMANT] = "dormant",
	[SITE_IS_ARMED] = "armed",
	[SITE_IS_CHANGED] = "changed",
	[SITE_IS_SILENT] = "-",
};

static int field_count(const struct catalog_marker *marker)
{
	int count = 0;

	while (count < FIELDS_MAX && marker->types[count])
		count++;
	return count;
}

static const char *type_word(uint8_t type)
{
	const char *word = catalog_type(type);

	return word ? word : "?";
}

/* One state for all sites, or how many of those that can be armed are. */
static const char *state_text(const struct catalog_marker *marker, char text[32])
{
	unsigned int live = marker->counts[SITE_IS_DORMANT] + marker->counts[SITE_IS_ARMED] +
			    marker->counts[SITE_IS_CHANGED];

	for (int state = SITE_IS_DORMANT; state <= SITE_IS_CHANGED; state++)
		if (marker->counts[state] == live)
			return live ? state_words[state] : state_words[SITE_IS_SILENT];
	snprintf(text, 32, "%u armed%s", marker->counts[SITE_IS_ARMED],
		 marker->counts[SITE_IS_CHANGED] ? ", some changed" : "");
	return text;
}

void list_put(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
}

void list_put_padded(struct out *out, const char *text, size_t columns)
{
	list_put(out, text);
	for (size_t at = strlen(text); at < columns; at++)
		out_char(out, ' ');
}

void list_put_module(struct out *out, pid_t pid, const char *module)
{
	out_literal(out, "# ");
	if (pid) {
		out_literal(out, "process ");
		out_u64(out, (uint64_t)pid);
		out_literal(out, ", ");
	}
	list_put(out, module);
	out_char(out, '\n');
}

void list_put_field(struct out *out, const char *name, uint8_t type)
{
	list_put(out, name);
	out_char(out, ' ');
	list_put(out, type_word(type));
}

void list_json_field(struct json *json, const char *key, const char *name, uint8_t type)
{
	json_open(json, key, '{');
	json_string(json, "name", name);
	json_string(json, "type", type_word(type));
	json_close(json, '}');
}

static void put_place(struct out *out, const struct catalog_site *site)
{
	list_put(out, site->file);
	out_char(out, ':');
	out_u64(out, site->line);
}

/* "    name type, name type", broken before it passes the line's end. */
static void put_fields(struct out *out, const struct catalog_marker *marker)
{
	char names[FIELDS_MAX][FIELDNAME_BYTES];
	int count = field_count(marker);
	size_t column = 4;

	if (!count)
		return;
	fieldname_list(marker->fields, count, names);
	out_literal(out, "    ");
	for (int i = 0; i < count; i++) {
		size_t columns = strlen(names[i]) + strlen(type_word(marker->types[i])) + 3;

		if (i && column + columns > LINE_COLUMNS) {
			out_literal(out, ",\n    ");
			column = 4;
		} else if (i) {
			out_literal(out, ", ");
		}
		list_put_field(out, names[i], marker->types[i]);
		column += columns;
	}
	if (marker->types_differ)
		out_literal(out, "\n    (other sites give it other types: it can't be armed)");
	out_char(out, '\n');
}

static void put_sites(struct out *out, const struct catalog_marker *marker)
{
	for (size_t i = 0; i < marker->site_count; i++) {
		const struct catalog_site *site = &marker->sites[i];

		out_literal(out, "    ");
		if (site->address)
			out_hex(out, site->address);
		else
			out_char(out, '-');
		out_literal(out, "  ");
		list_put_padded(out, state_words[site->state], 9);
		put_place(out, site);
		out_char(out, '\n');
	}
}

/* "12 hits", or "- hits" where they are not counted. */
static void put_hits(struct out *out, const struct catalog_marker *marker)
{
	char text[32];

	if (marker->hits == CATALOG_HITS_UNKNOWN)
		snprintf(text, sizeof(text), "- hits");
	else
		snprintf(text, sizeof(text), "%" PRIu64 " hit%s", marker->hits,
			 marker->hits == 1 ? "" : "s");
	list_put_padded(out, text, 14);
	out_literal(out, "  ");
}

static void put_marker(struct out *out, const struct catalog_marker *marker, size_t columns,
		       int sites)
{
	char text[32], count[24];

	list_put_padded(out, marker->name, columns);
	out_literal(out, "  ");
	list_put_padded(out, catalog_kind(marker->kind), 8);
	snprintf(count, sizeof(count), "%zu site%s", marker->site_count,
		 marker->site_count == 1 ? "" : "s");
	list_put_padded(out, count, 11);
	list_put_padded(out, state_text(marker, text), 9);
	if (marker->pid)
		put_hits(out, marker);
	put_place(out, &marker->sites[0]);
	out_char(out, '\n');
	put_fields(out, marker);
	if (sites)
		put_sites(out, marker);
}

static void put_refusal(struct out *out, const char *refusal)
{
	out_literal(out, "    (refused: ");
	list_put(out, refusal);
	out_literal(out, ")\n");
}

void list_text(struct out *out, const struct catalog *catalog, const char *take, int sites)
{
	size_t columns = NAME_COLUMNS_MIN;
	const struct catalog_marker *before = NULL;

	for (size_t i = 0; i < catalog->count; i++)
		if (take[i] && strlen(catalog->markers[i].name) > columns)
			columns = strlen(catalog->markers[i].name);
	if (columns > NAME_COLUMNS_MAX)
		columns = NAME_COLUMNS_MAX;
	for (size_t i = 0; i < catalog->count; i++) {
		const struct catalog_marker *marker = &catalog->markers[i];

		if (!take[i])
			continue;
		if (!before || before->pid != marker->pid ||
		    strcmp(before->module, marker->module)) {
			if (before)
				out_char(out, '\n');
			list_put_module(out, marker->pid, marker->module);
			if (marker->refusal)
				put_refusal(out, marker->refusal);
		}
		put_marker(out, marker, columns, sites);
		before = marker;
	}
}

static void json_fields(struct json *json, const struct catalog_marker *marker)
{
	char names[FIELDS_MAX][FIELDNAME_BYTES];
	int count = field_count(marker);

	fieldname_list(marker->fields, count, names);
	json_open(json, "fields", '[');
	for (int i = 0; i < count; i++)
		list_json_field(json, NULL, names[i], marker->types[i]);
	json_close(json, ']');
}

static void json_sites(struct json *json, const struct catalog_marker *marker)
{
	json_open(json, "places", '[');
	for (size_t i = 0; i < marker->site_count; i++) {
		const struct catalog_site *site = &marker->sites[i];

		json_open(json, NULL, '{');
		json_number(json, "address", site->address);
		json_string(json, "state",
			    site->state == SITE_IS_SILENT ? "none" : state_words[site->state]);
		json_string(json, "file", site->file);
		json_number(json, "line", site->line);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_hits(struct json *json, const struct catalog_marker *marker)
{
	if (marker->hits == CATALOG_HITS_UNKNOWN)
		json_null(json, "hits");
	else
		json_number(json, "hits", marker->hits);
}

static void json_marker(struct json *json, const struct catalog_marker *marker, int sites)
{
	json_open(json, NULL, '{');
	json_string(json, "name", marker->name);
	json_string(json, "kind", catalog_kind(marker->kind));
	json_string(json, "way", marker->way == 'p' ? "flag" : "jump");
	if (marker->pid)
		json_number(json, "pid", (uint64_t)marker->pid);
	json_string(json, "module", marker->module);
	json_fields(json, marker);
	json_number(json, "sites", marker->site_count);
	json_number(json, "armed", marker->counts[SITE_IS_ARMED]);
	json_number(json, "changed", marker->counts[SITE_IS_CHANGED]);
	if (marker->pid)
		json_hits(json, marker);
	if (marker->refusal) {
		json_string(json, "reason", wm_error_text(-WM_E_INJECT));
		json_string(json, "detail", marker->refusal);
	}
	json_string(json, "file", marker->sites[0].file);
	json_number(json, "line", marker->sites[0].line);
	if (sites)
		json_sites(json, marker);
	json_close(json, '}');
}

void list_json(struct out *out, const struct catalog *catalog, const char *take, int sites)
{
	struct json json = { out, 0 };

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < catalog->count; i++) {
		if (!take[i])
			continue;
		json_line(&json);
		json_marker(&json, &catalog->markers[i], sites);
	}
	out_literal(out, "\n]\n");
}
