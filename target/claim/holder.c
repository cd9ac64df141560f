/* SPDX-License-Identifier: MIT */
#include "target/claim/holder.h"

#include "base/array.h"
#include "target/process/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void claim_holders_release(struct claim_holders *holders)
{
	claim_list_release(&holders->ours);
	free(holders->perf);
	*holders = (struct claim_holders){ 0 };
}

/* The rows of this very request, which is still about to open its units. */
static int is_own_wish(const struct claim_row *row)
{
	return row->state == CLAIM_WANTED && row->owner.pid == getpid() && !row->is_foreign &&
	       !row->is_left;
}

static void keep_those_that_weigh(struct claim_list *list, const struct claim_wanted *wanted,
				  pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (!is_own_wish(&list->rows[i]) &&
		    claim_row_weighs(&list->rows[i], wanted->resource, pid, wanted->tid,
				     wanted->cpu))
			list->rows[kept++] = list->rows[i];
	list->count = kept;
}

/* What can't be read is left out. */
static void read_ledgers(struct claim_list *list, pid_t tid, pid_t pid)
{
	long uid = tid ? target_status_number(tid, "Uid") : -1;

	if (uid >= 0 && (!geteuid() || (uid_t)uid == geteuid()))
		claim_list_read(list, (uid_t)uid, pid);
	claim_list_read_all(list);
}

/* How many perf events are among a process's descriptors; -1: they are not shown to us. */
static int perf_descriptors(pid_t pid)
{
	int *numbers, count = target_descriptors(pid, &numbers), found = 0;

	for (int i = 0; i < count; i++)
		found += target_descriptor_is(pid, numbers[i], "anon_inode:[perf_event]");
	free(numbers);
	return count < 0 && count != -ESRCH ? -1 : found;
}

static int is_named(const struct claim_list *ours, pid_t pid)
{
	for (size_t i = 0; i < ours->count; i++)
		if (ours->rows[i].owner.pid == pid)
			return 1;
	return 0;
}

static int look_at(struct claim_holders *holders, pid_t pid)
{
	int count = perf_descriptors(pid);
	struct claim_perf *new;

	if (count < 0)
		holders->unreadable += !target_is_kernels(pid);
	if (count <= 0 || pid == getpid() || is_named(&holders->ours, pid))
		return 0;
	if (array_grow(&holders->perf, &holders->perf_room, holders->perf_count + 1,
		       sizeof(*holders->perf)))
		return -ENOMEM;
	new = &holders->perf[holders->perf_count++];
	*new = (struct claim_perf){ .pid = pid, .descriptors = (unsigned int)count };
	target_comm(pid, pid, new->comm);
	return 0;
}

static int find_perf(struct claim_holders *holders)
{
	pid_t *pids;
	int count = target_processes(&pids), err = 0;

	for (int i = 0; i < count && !err; i++)
		err = look_at(holders, pids[i]);
	free(pids);
	return err;
}

static int is_by_perf(enum claim_resource resource)
{
	return resource == CLAIM_DEBUG_REGISTER || resource == CLAIM_BRANCH_UNIT ||
	       resource == CLAIM_LOCKED_MEMORY;
}

int claim_holders_find(struct claim_holders *holders, const struct claim_wanted *wanted)
{
	long pid = wanted->tid ? target_status_number(wanted->tid, "Tgid") : 0;
	long tracer = 0;
	int err = 0;

	*holders = (struct claim_holders){ 0 };
	read_ledgers(&holders->ours, wanted->tid, pid > 0 ? (pid_t)pid : wanted->tid);
	keep_those_that_weigh(&holders->ours, wanted, pid > 0 ? (pid_t)pid : wanted->tid);
	if (wanted->tid &&
	    (wanted->resource == CLAIM_DEBUG_REGISTER || wanted->resource == CLAIM_SIGTRAP))
		tracer = target_status_number(wanted->tid, "TracerPid");
	if (tracer > 0) {
		holders->tracer_pid = (pid_t)tracer;
		target_comm(holders->tracer_pid, holders->tracer_pid, holders->tracer_comm);
	}
	if (is_by_perf(wanted->resource))
		err = find_perf(holders);
	if (err)
		claim_holders_release(holders);
	return err;
}

/* Words that grow; what has no room is counted all the same. */
struct words {
	char *text;
	size_t bytes, length;
	const char *joint; /* before what comes next */
};

static void say(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct words *words, const char *format, ...)
{
	size_t at = words->length < words->bytes ? words->length : words->bytes;
	va_list args;
	int more;

	va_start(args, format);
	more = vsnprintf(at < words->bytes ? words->text + at : NULL, words->bytes - at, format,
			 args);
	va_end(args);
	words->length += more > 0 ? (size_t)more : 0;
}

static void next(struct words *words)
{
	say(words, "%s", words->joint);
	words->joint = ", ";
}

static int is_same_owner(const struct claim_row *a, const struct claim_row *b)
{
	return a->owner.pid == b->owner.pid && a->owner.start_time == b->owner.start_time &&
	       a->state == b->state && a->is_left == b->is_left;
}

static void say_count(struct words *words, enum claim_resource resource, uint64_t count)
{
	if (resource == CLAIM_LOCKED_MEMORY)
		say(words, "%" PRIu64 " KiB", (count + 1023) / 1024);
	else if (resource == CLAIM_SIGTRAP)
		say(words, "its SIGTRAP");
	else
		say(words, "%" PRIu64, count);
}

/* All rows of row i's owner, unless an earlier row of that owner already named them. */
static void say_owner(struct words *words, const struct claim_list *list, size_t i)
{
	const struct claim_row *row = &list->rows[i];
	const char *joint = " (";
	uint64_t count = 0;

	for (size_t k = 0; k < i; k++)
		if (is_same_owner(&list->rows[k], row))
			return;
	for (size_t k = i; k < list->count; k++)
		if (is_same_owner(&list->rows[k], row))
			count += list->rows[k].claim.count;
	next(words);
	if (row->is_left)
		say(words, "a child of %s %d, which has ended, has ", row->owner.comm,
		    row->owner.pid);
	else
		say(words, "%s %d %s ", row->owner.comm, row->owner.pid,
		    row->state == CLAIM_HELD ? "holds" : "is about to take");
	say_count(words, row->claim.resource, count);
	for (size_t k = i; k < list->count; k++) {
		if (!is_same_owner(&list->rows[k], row) || !list->rows[k].claim.what[0])
			continue;
		say(words, "%s%s", joint, list->rows[k].claim.what);
		joint = ", ";
	}
	if (joint[0] == ',')
		say(words, ")");
}

size_t claim_holders_words(const struct claim_holders *holders, char *text, size_t bytes)
{
	struct words words = { .text = text, .bytes = bytes, .joint = "" };

	if (bytes)
		text[0] = '\0';
	for (size_t i = 0; i < holders->ours.count; i++)
		say_owner(&words, &holders->ours, i);
	if (holders->tracer_pid) {
		next(&words);
		say(&words, "%s %d traces it", holders->tracer_comm, holders->tracer_pid);
	}
	for (size_t i = 0; i < holders->perf_count; i++) {
		const struct claim_perf *perf = &holders->perf[i];

		next(&words);
		say(&words, "%s %d has %u perf event%s open", perf->comm, perf->pid,
		    perf->descriptors, perf->descriptors == 1 ? "" : "s");
	}
	if (holders->left) {
		next(&words);
		say(&words,
		    "%" PRIu64
		    " of them, unless a holder named here has them, were set by a debugger that "
		    "has gone: the kernel keeps those for the thread until it ends",
		    holders->left);
	}
	if (holders->unreadable) {
		if (words.length)
			words.joint = "; ";
		next(&words);
		say(&words, "%zu process%s of others can't be looked into", holders->unreadable,
		    holders->unreadable == 1 ? "" : "es");
	}
	return words.length;
}

static uint64_t count_left(const struct claim_holders *holders, uint64_t taken)
{
	uint64_t known = 0;

	for (size_t i = 0; i < holders->ours.count; i++)
		known += holders->ours.rows[i].claim.count;
	return !holders->tracer_pid && taken > known ? taken - known : 0;
}

size_t claim_holder_text(const struct claim_wanted *wanted, char *text, size_t bytes)
{
	return claim_holder_text_of(wanted, 0, text, bytes);
}

size_t claim_holder_text_of(const struct claim_wanted *wanted, uint64_t taken, char *text,
			    size_t bytes)
{
	struct claim_holders holders;
	size_t length;

	if (bytes)
		text[0] = '\0';
	if (claim_holders_find(&holders, wanted))
		return 0;
	holders.left = count_left(&holders, taken);
	length = claim_holders_words(&holders, text, bytes);
	claim_holders_release(&holders);
	return length;
}
