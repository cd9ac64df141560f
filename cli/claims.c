/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "record/perf/object.h"
#include "target/claim/holder.h"
#include "target/process/target.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	uint32_t pid; /* 0: all */
	int json;
};

/* The rows to print. */
struct shown {
	struct claim_list list;
	struct claim_holders others; /* but ours, which are in the list */
	pid_t pid;
	int error; /* of reading some ledger */
};

static const char
	usage[] = "Usage: waymark claims [OPTION]...\n\n"
		  "Show the ledger of claims: who holds debug registers, counters, the branch unit,\n"
		  "locked memory, descriptors and processes' SIGTRAP, for what, since when; and\n"
		  "which other processes have perf events; the kernel reports nothing more about\n"
		  "them.\n\n"
		  "  -p, --pid=PID  what weighs on this process, and who traces it\n"
		  "  -j, --json     as a JSON object\n"
		  "  -h, --help     this help\n";

static const struct command_option table[] = {
	{ "pid", 'p', COMMAND_ID, COMMAND_TO(options, pid) },
	{ "json", 'j', COMMAND_FLAG, COMMAND_TO(options, json), .min = 1 },
	{ .name = NULL },
};
static const struct command_line line = { "claims", usage, table, 0 };

/* Whether a row takes something from a process, or might. */
static int is_about(const struct claim_row *row, pid_t pid)
{
	const struct claim *claim = &row->claim;

	switch (claim->scope) {
	case CLAIM_OF_THREAD:
		return (claim->pid ? claim->pid : target_status_number(claim->target, "Tgid")) ==
		       pid;
	case CLAIM_OF_PROCESS:
		return claim->target == pid;
	case CLAIM_OF_USER:
		return claim->target == target_status_number(pid, "Uid");
	default:
		return 1;
	}
}

static int compare(const void *a, const void *b)
{
	const struct claim_row *one = a, *two = b;

	if (one->claim.resource != two->claim.resource)
		return one->claim.resource < two->claim.resource ? -1 : 1;
	if (one->claim.scope != two->claim.scope)
		return one->claim.scope < two->claim.scope ? -1 : 1;
	if (one->claim.target != two->claim.target)
		return one->claim.target < two->claim.target ? -1 : 1;
	return (one->since_ns > two->since_ns) - (one->since_ns < two->since_ns);
}

/* Whether one of the rows is that process's. */
static int is_owner(const struct claim_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].owner.pid == pid)
			return 1;
	return 0;
}

/* The list has its owners, and what they hold. */
static void leave_owners_out(struct claim_holders *others, const struct claim_list *list)
{
	size_t kept = 0;

	for (size_t i = 0; i < others->perf_count; i++)
		if (!is_owner(list, others->perf[i].pid))
			others->perf[kept++] = others->perf[i];
	others->perf_count = kept;
	claim_list_release(&others->ours);
}

static int find(struct shown *shown, pid_t pid)
{
	struct claim_wanted wanted = { CLAIM_DEBUG_REGISTER, pid, -1 };
	struct claim_list *list = &shown->list;
	size_t kept = 0;
	int err;

	if (pid) {
		struct target target;

		err = target_read(&target, pid);
		if (err)
			return err;
		pid = wanted.tid = target.pid;
		shown->error = claim_list_read(list, target.uid, pid);
	}
	shown->pid = pid;
	err = claim_list_read_all(list);
	shown->error = shown->error ? shown->error : err;
	for (size_t i = 0; i < list->count; i++)
		if (!pid || is_about(&list->rows[i], pid))
			list->rows[kept++] = list->rows[i];
	list->count = kept;
	if (kept)
		qsort(list->rows, kept, sizeof(*list->rows), compare);
	err = claim_holders_find(&shown->others, &wanted);
	leave_owners_out(&shown->others, list);
	return err;
}

static const struct row_column claim_columns[] = {
	{ "resource", ROW_TEXT, ROW_PLAIN, 0, "debug-register, sigtrap, descriptors ..." },
	{ "scope", ROW_TEXT, ROW_PLAIN, 0, "thread, process, user, cpu or system" },
	{ "target", ROW_U64, ROW_PLAIN, ROW_QUIET, "the scope's number" },
	{ "target_name", ROW_TEXT, ROW_PLAIN, 0, "of a thread or process" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how many; of locked-memory, bytes" },
	{ "of", ROW_U64, ROW_COUNT, 0, "how many there are" },
	{ "holder", ROW_TEXT, ROW_PLAIN, 0, "the program that holds it" },
	{ "pid", ROW_U64, ROW_PLAIN, 0, "its process" },
	{ "user", ROW_TEXT, ROW_PLAIN, 0, "whose process that is" },
	{ "uid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the user's number" },
	{ "start_time", ROW_U64, ROW_PLAIN, ROW_DETAIL,
	  "of the process, as /proc/PID/stat has it" },
	{ "since", ROW_U64, ROW_TIME, 0, "when it was claimed" },
	{ "state", ROW_TEXT, ROW_PLAIN, 0, "held; wanted: about to be taken, or just given back" },
	{ "ended", ROW_BOOL, ROW_PLAIN, ROW_QUIET,
	  "the holder; a child of it has the descriptors" },
	{ "other_pid_namespace", ROW_BOOL, ROW_PLAIN, ROW_QUIET,
	  "the numbers are those of another" },
	{ "for", ROW_TEXT, ROW_PLAIN, 0, "what it is for" },
	{ "bytes", ROW_U64, ROW_PLAIN, ROW_QUIET, "how many are watched" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "where" },
};
static ROW_TABLE(claim_table, "claim", "What recordings hold of what is scarce.", claim_columns);

static const struct row_column perf_columns[] = {
	{ "pid", ROW_U64, ROW_PLAIN, 0, "the process" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "its program" },
	{ "descriptors", ROW_U64, ROW_COUNT, 0, "of perf events" },
};
static ROW_TABLE(perf_table, "perf", "Other processes with events of the kernel.", perf_columns);

static const struct row_column ledger_columns[] = {
	{ "damaged", ROW_U64, ROW_COUNT, ROW_DETAIL, "claims that can't be read" },
	{ "tracer_pid", ROW_U64, ROW_PLAIN, ROW_DETAIL, "who traces the process of -p" },
	{ "tracer", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its program" },
	{ "unreadable", ROW_U64, ROW_COUNT, ROW_DETAIL, "processes that can't be looked at" },
};
static ROW_TABLE(ledger_table, "ledger", "What waymark claims --json ends with.", ledger_columns);

static void put_claim(struct rows *rows, const struct claim_row *row)
{
	const struct claim *claim = &row->claim;
	int has_name = !row->is_foreign &&
		       (claim->scope == CLAIM_OF_PROCESS || claim->scope == CLAIM_OF_THREAD);
	const struct passwd *user = getpwuid(row->owner.uid);
	char comm[16] = "", uid[16];

	if (has_name)
		target_comm(claim->target, claim->target, comm);
	snprintf(uid, sizeof(uid), "%u", (unsigned int)row->owner.uid);
	ROWS_PUT(rows, claim_columns, row_text(claim_resource_name(claim->resource)),
		 row_text(claim_scope_name(claim->scope)), row_u64((uint32_t)claim->target),
		 row_words(comm), row_u64(claim->count),
		 claim->resource == CLAIM_DEBUG_REGISTER ? row_u64(EVENT_SOURCES_MAX) : row_null(),
		 row_text(row->owner.comm), row_u64((uint32_t)row->owner.pid),
		 row_text(user && user->pw_name[0] ? user->pw_name : uid), row_u64(row->owner.uid),
		 row_u64(row->owner.start_time), row_u64(row->since_ns),
		 row_text(row->state == CLAIM_HELD ? "held" : "wanted"), row_bool(row->is_left),
		 row_bool(row->is_foreign), row_text(claim->what), row_u64(claim->bytes),
		 claim->bytes ? row_address(claim->address) : row_null());
}

static void put_others(struct rows *rows, const struct shown *shown)
{
	const struct claim_holders *others = &shown->others;
	const struct row_value ledger[] = {
		row_u64(shown->list.damaged),
		row_known((uint32_t)others->tracer_pid),
		others->tracer_pid ? row_text(others->tracer_comm) : row_null(),
		row_u64(others->unreadable),
	};
	char text[4096];

	claim_holders_words(others, text, sizeof(text));
	if (text[0])
		rows_note(rows, "%s", text);
	if (rows->format == ROWS_TEXT)
		return;
	rows_open(rows, &perf_table, NULL);
	for (size_t i = 0; i < others->perf_count; i++)
		ROWS_PUT(rows, perf_columns, row_u64((uint32_t)others->perf[i].pid),
			 row_text(others->perf[i].comm), row_u64(others->perf[i].descriptors));
	rows_close(rows);
	rows_record(rows, &ledger_table, ledger);
}

static int print(const struct shown *shown, int json)
{
	struct rows *rows = output_rows(json ? ROWS_JSON : ROWS_TEXT);

	rows_open(rows, &claim_table, &(struct rows_layout){ .none = "no claims" });
	for (size_t i = 0; i < shown->list.count; i++)
		put_claim(rows, &shown->list.rows[i]);
	rows_close(rows);
	put_others(rows, shown);
	if (output_rows_end(CLI_FINE))
		return CLI_FAILED;
	if (shown->list.damaged)
		fprintf(stderr,
			"waymark: %zu claim%s can't be read: written by another version, or spoilt\n",
			shown->list.damaged, shown->list.damaged == 1 ? "" : "s");
	if (shown->error)
		return complain(shown->error, "reading a ledger; its claims are not shown");
	return CLI_FINE;
}

int cmd_claims(int argc, char **argv)
{
	struct options options = { 0 };
	struct shown shown = { 0 };
	int err, status = command_line_read(&line, argc, argv, &options);

	if (status >= 0)
		return status;
	if (optind < argc)
		return complain_usage("claims", "%s is one too many", argv[optind]);
	err = find(&shown, (pid_t)options.pid);
	status = err ? complain(err, options.pid ? "process %u" : "looking for holders",
				options.pid)
		     : print(&shown, options.json);
	claim_list_release(&shown.list);
	claim_holders_release(&shown.others);
	return status;
}
