/* SPDX-License-Identifier: MIT */
/*
 * A connection to SQLite whose statements are marked: the span db:query from a statement's start to
 * its end, db:busy whenever a lock is waited for, db:wal after each commit.
 */
#ifndef EXAMPLES_SQLITE_DB_H
#define EXAMPLES_SQLITE_DB_H

#include <sqlite3.h>
#include <stdint.h>

#define DB_STATEMENTS 32

struct db {
	sqlite3 *handle;
	struct {
		const char *sql; /* the caller's literal: compared as a pointer */
		sqlite3_stmt *statement;
	} prepared[DB_STATEMENTS];
	int prepared_count;
	int busy_waits; /* times this connection waited for a lock */
};

/* Open for one thread, in WAL mode. SQLITE_OK or SQLite's error; db_close() either way. */
int db_open(struct db *db, const char *path);
void db_close(struct db *db);

/*
 * Run one statement to its end, `values` bound to its parameters in order. Returns the number of
 * rows, or a negative SQLite error. *first, where it isn't NULL, gets the first row's first column.
 */
int db_query(struct db *db, const char *sql, const int64_t *values, int count, int64_t *first);

#endif
