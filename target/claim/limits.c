/* SPDX-License-Identifier: MIT */
#include "target/claim/limits.h"

#include "base/lack.h"
#include "base/number_file.h"
#include "base/quantity.h"
#include "target/claim/holder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define FILE_BYTES_MAX 65536
#define HOLDERS_BYTES 512
#define TRIES 8		  /* some 0.5 s in all */
#define PAUSE_NS 4000000u /* at most, after the first try */

const char *limits_path = LIMITS_FILE;
uid_t limits_owner;

static const struct {
	const char *key, *words;
	enum claim_resource resource; /* 0: none */
	int is_bytes;
} keys[LIMIT_END] = {
	[LIMIT_DEBUG_REGISTERS] = { "debug-registers-per-user", "debug registers",
				    CLAIM_DEBUG_REGISTER, 0 },
	[LIMIT_COUNTERS] = { "counters-per-user", "counters", CLAIM_COUNTER, 0 },
	[LIMIT_LOCKED_BYTES] = { "locked-bytes-per-user", "bytes of locked memory",
				 CLAIM_LOCKED_MEMORY, 1 },
	[LIMIT_BUFFER_BYTES] = { "buffer-bytes-per-session", "bytes of buffer", 0, 1 },
};

/* ---- the file ---- */

/* In a user namespace that has no number for root, its files have this one. */
static int is_unmapped_root(uid_t uid)
{
	char text[64] = "";
	unsigned int inside, outside, count;
	FILE *file = fopen("/proc/self/uid_map", "re");

	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	return uid == number_file_read("/proc/sys/kernel/overflowuid", 65534) &&
	       sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 &&
	       !(inside == 0 && outside == 0 && count == UINT32_MAX);
}

/* The whole file, with a NUL behind it; the caller frees it. *text NULL: the file is missing. */
static int file_read(const char *path, uid_t owner, char **text, size_t *bytes,
		     struct detail detail)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat found;
	ssize_t got = 0;

	*text = NULL;
	*bytes = 0;
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &found)) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		if (error_is_lack(err))
			return detail_set(detail, err, "%s", path);
		return detail_set(detail, -WM_E_LIMIT, "%s: %s", path, strerrordesc_np(-err));
	}
	if (!S_ISREG(found.st_mode) || found.st_mode & (S_IWGRP | S_IWOTH) ||
	    (found.st_uid != owner && !is_unmapped_root(found.st_uid))) {
		close(fd);
		return detail_set(detail, -WM_E_LIMIT,
				  "%s is no file of root's that root alone may write to", path);
	}
	*text = malloc(FILE_BYTES_MAX + 1);
	while (*text && *bytes <= FILE_BYTES_MAX &&
	       (got = read(fd, *text + *bytes, FILE_BYTES_MAX + 1 - *bytes)) > 0)
		*bytes += (size_t)got;
	close(fd);
	if (!*text)
		return -ENOMEM;
	if (got < 0 || *bytes > FILE_BYTES_MAX)
		return detail_set(detail, -WM_E_LIMIT, "%s: %s", path,
				  got < 0 ? "it can't be read" : "it has more than 64 KiB");
	(*text)[*bytes] = '\0';
	return 0;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

static int key_find(const char *key)
{
	for (int i = 0; i < LIMIT_END; i++)
		if (!strcmp(keys[i].key, key))
			return i;
	return -1;
}

static int line_read(struct limits *limits, char *text, const char *path, unsigned int number,
		     struct detail detail)
{
	int (*read)(const char *, uint64_t, uint64_t, uint64_t *);
	char *equals, *key, *value;
	int which;

	text[strcspn(text, "#")] = '\0';
	key = trim(text);
	if (!*key)
		return 0;
	equals = strchr(key, '=');
	if (!equals)
		return detail_set(detail, -WM_E_LIMIT, "%s:%u: no KEY = VALUE: %.60s", path, number,
				  key);
	*equals = '\0';
	key = trim(key);
	which = key_find(key);
	if (which < 0)
		return detail_set(detail, -WM_E_LIMIT, "%s:%u: no such key: %.60s", path, number,
				  key);
	if (limits->lines[which])
		return detail_set(detail, -WM_E_LIMIT, "%s:%u: %s is in line %u already", path,
				  number, key, limits->lines[which]);
	limits->lines[which] = number;
	value = trim(equals + 1);
	read = keys[which].is_bytes ? quantity_size : quantity_number;
	if (read(value, 0, UINT64_MAX - 1, &limits->most[which]))
		return detail_set(detail, -WM_E_LIMIT, "%s:%u: %s takes %s, not %.40s", path,
				  number, key,
				  keys[which].is_bytes ? "a size, such as 64M" : "a number", value);
	return 0;
}

int limits_read(struct limits *limits, const char *path, uid_t owner, struct detail detail)
{
	unsigned int number = 0;
	char *text, *next;
	size_t bytes;
	int err = file_read(path, owner, &text, &bytes, detail);

	for (int i = 0; i < LIMIT_END; i++) {
		limits->most[i] = UINT64_MAX;
		limits->lines[i] = 0;
	}
	if (!err && text && strlen(text) != bytes)
		err = detail_set(detail, -WM_E_LIMIT, "%s: it is no text", path);
	next = err ? NULL : text;
	while (next && !err) {
		char *line = strsep(&next, "\n");

		err = line_read(limits, line, path, ++number, detail);
	}
	free(text);
	return err;
}

/* ---- what users hold ---- */

static uint64_t sum_of(const struct claim *claims, size_t count, enum claim_resource resource)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		if (claims[i].resource == resource &&
		    __builtin_add_overflow(sum, claims[i].count, &sum))
			return UINT64_MAX;
	return sum;
}

/* The rows of a resource that our user has; the sum of those held, and of those wanted. */
static void keep_ours(struct claim_list *list, enum claim_resource resource, uint64_t *held,
		      uint64_t *wanted)
{
	size_t kept = 0;

	*held = *wanted = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct claim_row *row = &list->rows[i];
		uint64_t *sum = row->state == CLAIM_HELD ? held : wanted;

		if (row->claim.resource != resource || row->owner.uid != geteuid())
			continue;
		if (__builtin_add_overflow(*sum, row->claim.count, sum))
			*sum = UINT64_MAX / 2;
		if (row->state == CLAIM_HELD)
			list->rows[kept++] = *row;
	}
	list->count = kept;
}

static int refuse(enum limit limit, const struct limits *limits, uint64_t asked, uint64_t held,
		  const struct claim_list *list, struct detail detail)
{
	struct claim_holders holders = { .ours = *list };
	char text[HOLDERS_BYTES];

	claim_holders_words(&holders, text, sizeof(text));
	return detail_set(detail, -WM_E_LIMIT,
			  "%" PRIu64 " %s asked, user %u has %" PRIu64 ", and %s = %" PRIu64
			  " in %s:%u%s%s",
			  asked, keys[limit].words, (unsigned int)geteuid(), held, keys[limit].key,
			  limits->most[limit], limits_path, limits->lines[limit],
			  text[0] ? "; " : "", text);
}

/* 0; -EAGAIN: others want too much together; -WM_E_LIMIT: too much is held. With words. */
static int weigh(enum limit limit, const struct limits *limits, uint64_t asked, uint64_t credit,
		 struct detail detail)
{
	struct claim_list list = { 0 };
	uint64_t held, wanted, most = limits->most[limit];
	int err = 0;

	claim_list_read_all(&list);
	keep_ours(&list, keys[limit].resource, &held, &wanted);
	held -= held < credit ? held : credit;
	if (asked > most || held > most - asked)
		err = refuse(limit, limits, asked, held, &list, detail);
	else if (wanted > most - held) {
		refuse(limit, limits, asked, held + (wanted - asked), &list, detail);
		err = -EAGAIN;
	}
	claim_list_release(&list);
	return err;
}

static int weigh_all(const struct limits *limits, const struct claim *claims, size_t count,
		     uint64_t credit, struct detail detail)
{
	int err = 0;

	for (int i = 0; i < LIMIT_END && !err; i++) {
		uint64_t asked = sum_of(claims, count, keys[i].resource);

		if (asked && limits->most[i] != UINT64_MAX)
			err = weigh(i, limits, asked,
				    claims[0].resource == keys[i].resource ? credit : 0, detail);
	}
	return err;
}

static int is_limited(const struct limits *limits, const struct claim *claims, size_t count)
{
	for (int i = 0; i < LIMIT_END; i++)
		if (limits->most[i] != UINT64_MAX && sum_of(claims, count, keys[i].resource))
			return 1;
	return 0;
}

/* Sleep for a random time, longer after each try, so that those who met do not meet again. */
static void back_off(unsigned int tries)
{
	uint32_t number = 0;

	(void)!getrandom(&number, sizeof(number), 0);
	nanosleep(&(struct timespec){ .tv_nsec = number % (PAUSE_NS << tries) }, NULL);
}

int limits_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		 uint64_t credit, struct detail detail)
{
	struct limits limits;
	int err = limits_read(&limits, limits_path, limits_owner, detail);

	if (err || !is_limited(&limits, claims, count))
		return err ? err : ledger_claim(ledger, claims, count, ids);
	for (unsigned int tries = 0; tries < TRIES; tries++) {
		err = ledger_claim(ledger, claims, count, ids);
		if (err)
			return err;
		for (size_t i = 0; i < count && !err; i++)
			if (!ledger_has(ledger, ids[i]))
				err = detail_set(detail, -WM_E_LIMIT,
						 "the ledger can't be written, so that no one can "
						 "see whether %s allows it",
						 limits_path);
		if (!err)
			err = weigh_all(&limits, claims, count, credit, detail);
		if (!err)
			return 0;
		ledger_remove(ledger, ids, count);
		if (err != -EAGAIN)
			return err;
		back_off(tries);
	}
	return -WM_E_LIMIT;
}

int claim_locked_bytes(struct ledger *ledger, uint64_t bytes, const char *what, uint64_t *id,
		       struct detail detail)
{
	struct claim claim = { .resource = CLAIM_LOCKED_MEMORY,
			       .scope = CLAIM_OF_USER,
			       .target = (int32_t)geteuid(),
			       .count = bytes };

	snprintf(claim.what, sizeof(claim.what), "%s", what);
	return limits_claim(ledger, &claim, 1, id, 0, detail);
}

int limits_check(enum claim_resource resource, struct detail detail)
{
	struct limits limits;
	int err = limits_read(&limits, limits_path, limits_owner, detail);

	for (int i = 0; i < LIMIT_END && !err; i++)
		if (keys[i].resource == resource && limits.most[i] != UINT64_MAX)
			err = weigh(i, &limits, 0, 0, detail);
	return err ? -WM_E_LIMIT : 0;
}

int limits_check_buffer(uint64_t bytes, struct detail detail)
{
	const struct claim_list none = { 0 };
	struct limits limits;
	int err = limits_read(&limits, limits_path, limits_owner, detail);

	if (!err && bytes > limits.most[LIMIT_BUFFER_BYTES])
		err = refuse(LIMIT_BUFFER_BYTES, &limits, bytes, 0, &none, detail);
	return err;
}

/* ---- units ---- */

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The rows of holders are kept, to be named. A counter weighs if it is one of the processor's. */
static void units_weigh(struct claim_list *list, const struct claim *wanted,
			const struct units *units, uint64_t *held, uint64_t *all)
{
	long tgid = units->tid ? target_status_number(units->tid, "Tgid") : 0;
	size_t kept = 0;

	*held = *all = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct claim_row *row = &list->rows[i];

		if (!claim_row_weighs(row, wanted->resource, tgid > 0 ? (pid_t)tgid : units->tid,
				      units->tid, units->cpu) ||
		    (wanted->resource == CLAIM_COUNTER && row->claim.address != wanted->address))
			continue;
		*all = add(*all, row->claim.count);
		if (row->state != CLAIM_HELD)
			continue;
		*held = add(*held, row->claim.count);
		list->rows[kept++] = *row;
	}
	list->count = kept;
}

static int units_refuse(const struct units *units, uint64_t asked, uint64_t taken,
			const struct claim_list *list, struct detail detail)
{
	struct claim_holders holders = { .ours = *list };
	char text[HOLDERS_BYTES];

	claim_holders_words(&holders, text, sizeof(text));
	return detail_set(detail, units->error,
			  "%" PRIu64 " asked, %" PRIu64 " of %" PRIu64 " %s are taken%s%s", asked,
			  taken, units->most, units->words, text[0] ? "; " : "", text);
}

int claim_units(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		const struct units *units, struct detail detail)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < count; i++)
		asked = add(asked, claims[i].count);
	for (unsigned int tries = 0; tries < TRIES; tries++) {
		struct claim_list list = { 0 };
		uint64_t held, all;
		int err = limits_claim(ledger, claims, count, ids, 0, detail), is_out;

		if (err)
			return err;
		claim_list_read_all(&list);
		units_weigh(&list, claims, units, &held, &all);
		if (!ledger_has(ledger, ids[0])) /* ours are not among them */
			all = add(held, asked);
		is_out = asked > units->most || held > units->most - asked;
		if (all > units->most || is_out) {
			ledger_remove(ledger, ids, count);
			err = units_refuse(units, asked, is_out ? held : all - asked, &list,
					   detail);
		}
		claim_list_release(&list);
		if (!err || is_out)
			return err;
		back_off(tries); /* others only want theirs up to now */
	}
	return units->error;
}
