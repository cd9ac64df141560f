/* SPDX-License-Identifier: MIT */
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/json.h"
#include "target/claim/holder.h"
#include "record/perf/object.h"
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS_MAX 48

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

static int option_take(void *data, int id, const char *text)
{
	struct options *options = data;

	if (id != 'j')
		return command_line_id("claims", "--pid", text, &options->pid);
	options->json = 1;
	return CLI_FINE;
}

static const struct option table[] = { { "pid", required_argument, NULL, 'p' },
				       { "json", no_argument, NULL, 'j' },
				       { "help", no_argument, NULL, 'h' },
				       { NULL, 0, NULL, 0 } };
static const struct command_line line = {
	.name = "claims", .usage = usage, .letters = "p:jh", .table = table, .take = option_take
};

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

static void count_text(const struct claim_row *row, char *text, size_t bytes)
{
	const struct claim *claim = &row->claim;
	char number[32];

	if (claim->resource == CLAIM_LOCKED_MEMORY)
		snprintf(text, bytes, "%s",
			 quantity_show_bytes(claim->count, number, sizeof(number)));
	else if (claim->resource == CLAIM_DEBUG_REGISTER)
		snprintf(text, bytes, "%" PRIu64 " of %d", claim->count, EVENT_SOURCES_MAX);
	else
		snprintf(text, bytes, "%" PRIu64, claim->count);
}

static void target_name(const struct claim_row *row, char comm[16])
{
	comm[0] = '\0';
	if (!row->is_foreign && row->claim.scope == CLAIM_OF_PROCESS)
		target_comm(row->claim.target, row->claim.target, comm);
	if (!row->is_foreign && row->claim.scope == CLAIM_OF_THREAD)
		target_comm(row->claim.target, row->claim.target, comm);
}

static void of_text(const struct claim_row *row, char *text, size_t bytes)
{
	const struct claim *claim = &row->claim;
	char comm[16];

	target_name(row, comm);
	if (comm[0])
		snprintf(text, bytes, "%s %d (%s)", claim_scope_name(claim->scope), claim->target,
			 comm);
	else if (claim->scope == CLAIM_OF_SYSTEM)
		snprintf(text, bytes, "system");
	else
		snprintf(text, bytes, "%s %d",
			 claim->scope == CLAIM_OF_CPU ? "CPU" : claim_scope_name(claim->scope),
			 claim->target);
}

static void since_text(const struct claim_row *row, char *text, size_t bytes)
{
	time_t now = time(NULL), then = (time_t)(row->since_ns / 1000000000);
	struct tm broken;

	localtime_r(&then, &broken);
	strftime(text, bytes, now - then < 12 * 3600 ? "%H:%M:%S" : "%Y-%m-%d", &broken);
}

static void put(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
}

static void put_column(struct out *out, const char *text, int columns)
{
	int length = (int)strlen(text);

	put(out, text);
	for (; length < columns; length++)
		out_char(out, ' ');
	out_literal(out, "  ");
}

/* The columns of one row; `for` is the last, and not padded. */
struct columns {
	char resource[COLUMNS_MAX], of[COLUMNS_MAX], count[COLUMNS_MAX], owner[COLUMNS_MAX],
		user[COLUMNS_MAX], since[COLUMNS_MAX];
};

/* "builder", or its number. */
static void user_text(uid_t uid, char *text, size_t bytes)
{
	const struct passwd *user = getpwuid(uid);

	if (user && user->pw_name[0])
		snprintf(text, bytes, "%s", user->pw_name);
	else
		snprintf(text, bytes, "%u", (unsigned int)uid);
}

static void fill(struct columns *columns, const struct claim_row *row)
{
	snprintf(columns->resource, COLUMNS_MAX, "%s", claim_resource_words(row->claim.resource));
	of_text(row, columns->of, COLUMNS_MAX);
	count_text(row, columns->count, COLUMNS_MAX);
	snprintf(columns->owner, COLUMNS_MAX, "%s %d", row->owner.comm, row->owner.pid);
	user_text(row->owner.uid, columns->user, COLUMNS_MAX);
	since_text(row, columns->since, COLUMNS_MAX);
}

static void widen(int *width, const char *text)
{
	int length = (int)strlen(text);

	*width = length > *width ? length : *width;
}

static void put_what(struct out *out, const struct claim_row *row)
{
	const struct claim *claim = &row->claim;

	put(out, claim->what);
	if (claim->bytes) {
		out_literal(out, ", ");
		out_u64(out, claim->bytes);
		put(out, claim->bytes == 1 ? " byte at " : " bytes at ");
		out_hex(out, claim->address);
	}
	if (row->state == CLAIM_WANTED)
		put(out, ", about to be taken or just given back");
	if (row->is_left)
		put(out, "; its owner has ended, and a child of his has the descriptors");
	if (row->is_foreign)
		put(out, "; the numbers are those of another PID namespace");
	out_char(out, '\n');
}

static void put_rows(struct out *out, const struct claim_list *list)
{
	struct columns head = { "RESOURCE", "OF", "COUNT", "HOLDER", "USER", "SINCE" }, columns;
	int widths[6] = { 0 };

	for (size_t i = 0; i <= list->count; i++) {
		columns = head;
		if (i)
			fill(&columns, &list->rows[i - 1]);
		widen(&widths[0], columns.resource);
		widen(&widths[1], columns.of);
		widen(&widths[2], columns.count);
		widen(&widths[3], columns.owner);
		widen(&widths[4], columns.user);
		widen(&widths[5], columns.since);
	}
	for (size_t i = 0; i <= list->count; i++) {
		columns = head;
		if (i)
			fill(&columns, &list->rows[i - 1]);
		put_column(out, columns.resource, widths[0]);
		put_column(out, columns.of, widths[1]);
		put_column(out, columns.count, widths[2]);
		put_column(out, columns.owner, widths[3]);
		put_column(out, columns.user, widths[4]);
		put_column(out, columns.since, widths[5]);
		if (i)
			put_what(out, &list->rows[i - 1]);
		else
			out_literal(out, "FOR\n");
	}
}

static void put_others(struct out *out, const struct claim_holders *others)
{
	char text[4096];

	claim_holders_words(others, text, sizeof(text));
	if (text[0]) {
		put(out, text);
		out_char(out, '\n');
	}
}

static void put_text(struct out *out, const struct shown *shown)
{
	if (shown->list.count)
		put_rows(out, &shown->list);
	else
		put(out, "no claims");
	if (!shown->list.count)
		out_char(out, '\n');
	put_others(out, &shown->others);
}

static void json_row(struct json *json, const struct claim_row *row)
{
	const struct claim *claim = &row->claim;
	char address[32], comm[16], user[COLUMNS_MAX];

	target_name(row, comm);
	snprintf(address, sizeof(address), "0x%" PRIx64, claim->address);
	json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "resource", claim_resource_name(claim->resource));
	json_string(json, "scope", claim_scope_name(claim->scope));
	json_number(json, "target", (uint32_t)claim->target);
	json_words(json, "target_name", comm[0] ? comm : NULL);
	json_number(json, "count", claim->count);
	if (claim->resource == CLAIM_DEBUG_REGISTER)
		json_number(json, "of", EVENT_SOURCES_MAX);
	else
		json_null(json, "of");
	json_string(json, "state", row->state == CLAIM_HELD ? "held" : "wanted");
	json_string(json, "for", claim->what);
	json_words(json, "address", claim->bytes ? address : NULL);
	json_number(json, "bytes", claim->bytes);
	json_number(json, "since_ns", row->since_ns);
	json_open(json, "holder", '{');
	json_number(json, "pid", (uint32_t)row->owner.pid);
	json_string(json, "name", row->owner.comm);
	json_number(json, "uid", row->owner.uid);
	user_text(row->owner.uid, user, sizeof(user));
	json_string(json, "user", user);
	json_number(json, "start_time", row->owner.start_time);
	json_bool(json, "ended", row->is_left);
	json_bool(json, "other_pid_namespace", row->is_foreign);
	json_close(json, '}');
	json_close(json, '}');
}

static void put_json(struct out *out, const struct shown *shown)
{
	const struct claim_holders *others = &shown->others;
	struct json json = { out, 0 };

	json_open(&json, NULL, '{');
	json_open(&json, "claims", '[');
	for (size_t i = 0; i < shown->list.count; i++)
		json_row(&json, &shown->list.rows[i]);
	json_close(&json, ']');
	json_number(&json, "damaged", shown->list.damaged);
	if (others->tracer_pid) {
		json_open(&json, "tracer", '{');
		json_number(&json, "pid", (uint32_t)others->tracer_pid);
		json_string(&json, "name", others->tracer_comm);
		json_close(&json, '}');
	} else {
		json_null(&json, "tracer");
	}
	json_open(&json, "perf", '[');
	for (size_t i = 0; i < others->perf_count; i++) {
		json_open(&json, NULL, '{');
		json_number(&json, "pid", (uint32_t)others->perf[i].pid);
		json_string(&json, "name", others->perf[i].comm);
		json_number(&json, "descriptors", others->perf[i].descriptors);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_number(&json, "unreadable", others->unreadable);
	json_close(&json, '}');
	out_char(out, '\n');
}

static int print(const struct shown *shown, int json)
{
	struct out *out = malloc(sizeof(*out));
	int err;

	if (!out)
		return complain(-ENOMEM, NULL);
	out_init(out, STDOUT_FILENO);
	if (json)
		put_json(out, shown);
	else
		put_text(out, shown);
	err = out_flush(out);
	free(out);
	if (err && err != -EPIPE)
		return complain(err, "writing the claims");
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
