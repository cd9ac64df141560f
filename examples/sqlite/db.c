/* SPDX-License-Identifier: MIT */
#include "db.h"

#include <string.h>
#include <unistd.h>
#include <waymark/marker.h>

#define BUSY_TRIES 2000

/* SQLite calls this while another connection holds the lock: wait a little, longer each time. */
static int on_busy(void *data, int tries)
{
	struct db *db = data;
	unsigned int wait_us = tries < 8 ? 100u << tries : 25000u;

	WAYMARK(db, busy, tries, wait_us);
	db->busy_waits++;
	usleep(wait_us);
	return tries < BUSY_TRIES;
}

/*
 * After each commit: how long the log has grown. SQLite's own hook, which it replaces, checkpoints.
 */
static int on_commit(void *data, sqlite3 *handle, const char *database, int pages)
{
	(void)data;
	WAYMARK(db, wal, database, pages);
	if (pages >= 1000)
		sqlite3_wal_checkpoint_v2(handle, database, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	return SQLITE_OK;
}

int db_open(struct db *db, const char *path)
{
	int err;

	memset(db, 0, sizeof(*db));
	err = sqlite3_open_v2(path, &db->handle,
			      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			      NULL);
	if (err)
		return err;
	sqlite3_busy_handler(db->handle, on_busy, db);
	err = sqlite3_exec(db->handle,
			   "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
			   "PRAGMA foreign_keys = ON;",
			   NULL, NULL, NULL);
	sqlite3_wal_hook(db->handle, on_commit, db);
	return err;
}

void db_close(struct db *db)
{
	for (int i = 0; i < db->prepared_count; i++)
		sqlite3_finalize(db->prepared[i].statement);
	sqlite3_close(db->handle);
	memset(db, 0, sizeof(*db));
}

/* The statement for this text, prepared once for each connection. */
static int db_prepare(struct db *db, const char *sql, sqlite3_stmt **statement)
{
	int err;

	for (int i = 0; i < db->prepared_count; i++) {
		if (db->prepared[i].sql == sql) {
			*statement = db->prepared[i].statement;
			return SQLITE_OK;
		}
	}
	if (db->prepared_count == DB_STATEMENTS)
		return SQLITE_FULL;
	err = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
	if (err)
		return err;
	db->prepared[db->prepared_count].sql = sql;
	db->prepared[db->prepared_count++].statement = *statement;
	return SQLITE_OK;
}

int db_query(struct db *db, const char *sql, const int64_t *values, int count, int64_t *first)
{
	sqlite3_stmt *statement;
	int err, rows = 0;

	err = db_prepare(db, sql, &statement);
	if (err)
		return -err;
	for (int i = 0; i < count; i++)
		sqlite3_bind_int64(statement, i + 1, values[i]);

	WAYMARK_BEGIN(db, query, sql, WM_FIELD(key, count ? values[0] : 0));
	while ((err = sqlite3_step(statement)) == SQLITE_ROW)
		if (!rows++ && first)
			*first = sqlite3_column_int64(statement, 0);
	WAYMARK_END(db, query, rows,
		    WM_FIELD(error, err == SQLITE_DONE ? "" : sqlite3_errstr(err)));

	sqlite3_reset(statement);
	return err == SQLITE_DONE ? rows : -err;
}
