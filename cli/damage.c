/* SPDX-License-Identifier: MIT */
#include "cli/damage.h"

#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define SHOWN_MAX 10

static void print_damage(const struct trace_damage *damage)
{
	complain_words("  %s, byte %llu: %s; %llu bytes left out\n", damage->file,
		       (unsigned long long)damage->offset, damage->what,
		       (unsigned long long)damage->bytes);
}

int damage_complain(const struct trace_reader *reader, const char *dir)
{
	const char *end = reader->is_indexed ? reader_end_words(reader) : NULL;
	uint32_t shown = reader->damage_count < SHOWN_MAX ? reader->damage_count : SHOWN_MAX;

	fflush(stdout); /* where both go to one place, this comes after */
	if (end) {
		complain_words("waymark: %s: %s%s%s\n", dir, end, reader->write_error ? ": " : "",
			       reader->write_error ? strerror(reader->write_error) : "");
	}
	if (!reader->damages_ever)
		return CLI_FINE;
	complain(-WM_E_TRACE_DAMAGED, "%s", dir);
	for (uint32_t i = 0; i < shown; i++)
		print_damage(&reader->damages[i]);
	if (reader->damages_ever > shown)
		fprintf(stderr, "  and at %llu more places\n",
			(unsigned long long)(reader->damages_ever - shown));
	if (reader->meta.is_broken)
		fputs("  what other readers need may be whole: read it with babeltrace2\n", stderr);
	else
		fprintf(stderr,
			"  for other readers, cut it clean with waymark report --repair %s\n", dir);
	return CLI_FAILED;
}
