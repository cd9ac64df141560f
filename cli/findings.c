/* SPDX-License-Identifier: MIT */
#include "cli/findings.h"

#include "base/quantity.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MAX 5 /* parts on one line */

static const char *text_of(const struct finding *finding)
{
	return finding->text ? finding->text : finding->kind;
}

static void print_subject(const struct finding *finding)
{
	complain_words("%s", finding->subject);
	if (finding->pid)
		fprintf(stderr, " in process %d", (int)finding->pid);
}

static void print_remedy(const struct finding *finding, const char *margin)
{
	if (*finding->remedy)
		fprintf(stderr, "%s%s\n", margin, finding->remedy);
}

/* "SUBJECT: TEXT: DETAIL" */
static void print_line(const struct finding *finding)
{
	if (finding->subject) {
		print_subject(finding);
		fputs(": ", stderr);
	}
	complain_words("%s%s%s", text_of(finding), finding->detail ? ": " : "",
		       finding->detail ? finding->detail : "");
}

/* A place that has the text of the line above. */
static void print_place(const struct finding *finding)
{
	fputs("    ", stderr);
	print_subject(finding);
	if (finding->address)
		fprintf(stderr, " at 0x%llx", (unsigned long long)finding->address);
	if (finding->module)
		complain_words(" in %s", finding->module);
	if (finding->detail)
		complain_words(": %s", finding->detail);
	fputc('\n', stderr);
}

/* Parts with the same text: "  COUNT: TEXT: SUBJECT, SUBJECT, and 7 more". */
static void print_group(const struct finding *parts, size_t count, int verbose)
{
	uint64_t sum = 0;
	char text[32];

	for (size_t i = 0; i < count; i++)
		sum += parts[i].count;
	fputs("  ", stderr);
	if (sum)
		fprintf(stderr, "%s: ", quantity_show_count(sum, text, sizeof(text)));
	if (count == 1 && !parts->module) {
		print_line(parts);
	} else {
		complain_words("%s", text_of(parts));
		for (size_t i = 0; i < count && i < NAMED_MAX && !verbose; i++) {
			fputs(i ? ", " : ": ", stderr);
			print_subject(&parts[i]);
		}
		if (count > NAMED_MAX && !verbose)
			fprintf(stderr, ", and %s more (-v names all)",
				quantity_show_count(count - NAMED_MAX, text, sizeof(text)));
	}
	fputc('\n', stderr);
	print_remedy(parts, "    ");
	for (size_t i = 0; i < count && verbose && (count > 1 || parts->module); i++)
		print_place(&parts[i]);
}

static int is_shown(const struct finding *finding, int verbose)
{
	return verbose || finding->severity != FINDING_DETAIL;
}

/* Print the parts at all[0..count-1]. */
static void print_parts(const struct finding *all, size_t count, int verbose)
{
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && all[i].subject && all[next].subject &&
				   !strcmp(text_of(&all[next]), text_of(&all[i]));)
			next++;
		if (is_shown(&all[i], verbose))
			print_group(&all[i], next - i, verbose);
	}
}

void findings_print(const struct findings *list, size_t first, int verbose)
{
	for (size_t i = first, next; i < list->count; i = next) {
		const struct finding *finding = &list->all[i], *after;

		for (next = i + 1; next < list->count && list->all[next].is_part;)
			next++;
		if (!is_shown(finding, verbose))
			continue;
		fputs("waymark: ", stderr);
		print_line(finding);
		fputs(next > i + 1 && is_shown(finding + 1, verbose) ? ":\n" : "\n", stderr);
		print_parts(finding + 1, next - i - 1, verbose);
		after = next < list->count ? &list->all[next] : NULL;
		if (!after || after->remedy != finding->remedy)
			print_remedy(finding, "  ");
	}
}

static const struct row_column columns[] = {
	{ "kind", ROW_TEXT, ROW_PLAIN, 0, "as refusal, unrecorded, late-modules" },
	{ "severity", ROW_TEXT, ROW_PLAIN, 0, "note, detail, loss or failure" },
	{ "subject", ROW_TEXT, ROW_PLAIN, 0,
	  "the event, program or spec; null: the text names it" },
	{ "text", ROW_TEXT, ROW_PLAIN, 0, "what happened" },
	{ "detail", ROW_TEXT, ROW_PLAIN, 0, "more about this subject" },
	{ "remedy", ROW_TEXT, ROW_PLAIN, 0, "what to do about it" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how many places, processes ... it is about" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the first process" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "of a place in code: the file" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0,
	  "of a place in code, as linked; of a marker, in the process" },
};
static ROW_TABLE(finding_table, "finding",
		 "What a recording did not do as asked, or its user should know.", columns);

void findings_rows(struct rows *rows, const struct findings *list)
{
	static const char *const severities[] = { "note", "detail", "loss", "failure" };

	rows_open(rows, &finding_table, NULL);
	for (size_t i = 0; i < list->count; i++) {
		const struct finding *finding = &list->all[i];

		ROWS_PUT(rows, columns, row_text(finding->kind),
			 row_text(severities[finding->severity]), row_text(finding->subject),
			 row_text(text_of(finding)), row_text(finding->detail),
			 row_words(finding->remedy), row_known(finding->count),
			 row_known((uint64_t)finding->pid), row_text(finding->module),
			 finding->address ? row_address(finding->address) : row_null());
	}
	rows_close(rows);
}

int findings_unmatched(const struct spec_list *specs, const struct name_list *names, int placed)
{
	struct findings list = { 0 };
	int any;

	spec_findings(specs, names, placed, &list);
	any = findings_failure(&list) != NULL;
	findings_print(&list, 0, 0);
	findings_release(&list);
	return any;
}
