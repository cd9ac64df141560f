/* SPDX-License-Identifier: MIT */
/*
 * A shop on SQLite, to be watched at work: two clerks take orders, one restocks, one looks things
 * up and one draws up reports, each on a connection of its own. Runs for SECONDS, or until SIGINT
 * or SIGTERM; then checks its database against what it did, and fails if anything is amiss.
 *
 *	shop DATABASE [SECONDS]
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <waymark/marker.h>

#include "db.h"

#define CUSTOMERS 2000
#define PRODUCTS 500
#define STOCK_AT_FIRST 1000000

#define WORDS(...)                                                                                 \
	(const int64_t[]){ __VA_ARGS__ }, (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / 8)

static const char schema[] =
	"CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL);"
	"CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT NOT NULL, cents INTEGER NOT NULL,"
	"  stock INTEGER NOT NULL CHECK (stock >= 0));"
	"CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES customer,"
	"  at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP);"
	"CREATE TABLE line (orders INTEGER NOT NULL REFERENCES orders, product INTEGER NOT NULL"
	"  REFERENCES product, count INTEGER NOT NULL, PRIMARY KEY (orders, product)) WITHOUT ROWID;"
	"CREATE INDEX orders_customer ON orders (customer);"
	"CREATE INDEX line_product ON line (product);"
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
	"  INSERT INTO customer SELECT i, 'Customer ' || i, 'City ' || i % 40 FROM n;"
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
	"  INSERT INTO product SELECT i, 'Product ' || i, 100 + i * 7 % 900, 1000000 FROM n;";

static const char *path;
static atomic_int stopping; /* lock-free, so a handler may set it */

struct worker {
	const char *name;
	void (*work)(struct worker *worker);
	pthread_t thread;
	struct db db;
	unsigned int seed;
	int64_t orders, lines, sold, restocked,
		reads; /* what it did, to be found in the database */
	int failed;
};

static void on_stop(int signal_number)
{
	(void)signal_number;
	stopping = 1;
}

/*
 * Nothing that SQLite refuses is expected here: a lock that stays busy has its own, long patience.
 */
static int run(struct worker *worker, const char *sql, const int64_t *values, int count,
	       int64_t *first)
{
	int rows = db_query(&worker->db, sql, values, count, first);

	if (rows < 0) {
		fprintf(stderr, "shop: %s: %s: %s\n", worker->name, sqlite3_errstr(-rows), sql);
		worker->failed = 1;
		stopping = 1;
	}
	return rows;
}

static void take_order(struct worker *worker)
{
	int64_t customer = rand_r(&worker->seed) % CUSTOMERS + 1, order = 0, sold = 0, cents = 0;
	int64_t product = rand_r(&worker->seed) % PRODUCTS;
	int count = rand_r(&worker->seed) % 5 + 1;

	if (run(worker, "BEGIN IMMEDIATE", NULL, 0, NULL) < 0)
		return;
	run(worker, "INSERT INTO orders (customer) VALUES (?) RETURNING id", WORDS(customer),
	    &order);
	for (int i = 0; i < count; i++) {
		int64_t id = (product + i * 17) % PRODUCTS + 1, pieces = i + 1, price = 0;

		run(worker, "UPDATE product SET stock = stock - ? WHERE id = ? RETURNING cents",
		    WORDS(pieces, id), &price);
		run(worker, "INSERT INTO line VALUES (?, ?, ?)", WORDS(order, id, pieces), NULL);
		sold += pieces;
		cents += pieces * price;
	}
	if (run(worker, "COMMIT", NULL, 0, NULL) < 0)
		return;
	worker->orders++;
	worker->lines += count;
	worker->sold += sold;
	WAYMARK(shop, order, order, customer, WM_FIELD(lines, count),
		WM_FIELD(total, (double)cents / 100));
}

static void restock(struct worker *worker)
{
	int64_t first = rand_r(&worker->seed) % (PRODUCTS - 10) + 1, pieces = 7;
	int rows = run(
		worker,
		"UPDATE product SET stock = stock + ? WHERE id BETWEEN ? AND ? + 9 RETURNING id",
		WORDS(pieces, first, first), NULL);

	if (rows > 0)
		worker->restocked += rows * pieces;
	usleep(5000);
}

static void look_up(struct worker *worker)
{
	int64_t customer = rand_r(&worker->seed) % CUSTOMERS + 1;

	run(worker, "SELECT name, city FROM customer WHERE id = ?", WORDS(customer), NULL);
	run(worker,
	    "SELECT o.id, p.name, l.count * p.cents FROM orders o JOIN line l ON l.orders = o.id"
	    " JOIN product p ON p.id = l.product WHERE o.customer = ? ORDER BY o.id DESC LIMIT 20",
	    WORDS(customer), NULL);
	worker->reads += 2;
	usleep(200);
}

static void report(struct worker *worker)
{
	int64_t best = 0;

	WAYMARK_SCOPE(shop, report);
	run(worker,
	    "SELECT p.id, sum(l.count) AS sold FROM line l JOIN product p ON p.id = l.product"
	    " GROUP BY p.id ORDER BY sold DESC LIMIT 10",
	    NULL, 0, &best);
	run(worker,
	    "SELECT c.city, count(*), sum(l.count * p.cents) FROM customer c JOIN orders o ON"
	    " o.customer = c.id JOIN line l ON l.orders = o.id JOIN product p ON p.id = l.product"
	    " GROUP BY c.city ORDER BY 3 DESC",
	    NULL, 0, NULL);
	worker->reads += 2;
	usleep(100000);
}

static void *worker_main(void *data)
{
	struct worker *worker = data;

	pthread_setname_np(pthread_self(), worker->name);
	if (db_open(&worker->db, path)) {
		fprintf(stderr, "shop: %s: can't open %s\n", worker->name, path);
		worker->failed = 1;
		stopping = 1;
	}
	while (!stopping)
		worker->work(worker);
	return NULL;
}

/* The number that a query yields, or -1. */
static int64_t number(struct db *db, const char *sql)
{
	int64_t value = -1;

	return db_query(db, sql, NULL, 0, &value) < 0 ? -1 : value;
}

static int check(const char *what, int64_t found, int64_t expected)
{
	if (found == expected)
		return 0;
	fprintf(stderr, "shop: %s: found %" PRId64 ", expected %" PRId64 "\n", what, found,
		expected);
	return 1;
}

/* The database against what the workers say that they did. */
static int verify(const struct worker *all)
{
	struct db db;
	int failed;

	if (db_open(&db, path))
		return 1;
	failed = check("rows of PRAGMA integrity_check that say ok",
		       number(&db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
	failed += check("broken references",
			number(&db, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
	failed += check("orders", number(&db, "SELECT count(*) FROM orders"), all->orders);
	failed += check("lines", number(&db, "SELECT count(*) FROM line"), all->lines);
	failed += check("pieces sold", number(&db, "SELECT ifnull(sum(count), 0) FROM line"),
			all->sold);
	failed += check("stock", number(&db, "SELECT sum(stock) FROM product"),
			(int64_t)PRODUCTS * STOCK_AT_FIRST - all->sold + all->restocked);
	db_close(&db);
	return failed;
}

static int create(void)
{
	struct db db;
	int err = db_open(&db, path);

	if (!err)
		err = sqlite3_exec(db.handle, schema, NULL, NULL, NULL);
	if (err)
		fprintf(stderr, "shop: %s: %s\n", path, sqlite3_errmsg(db.handle));
	db_close(&db);
	return err;
}

static void wait_for_end(double seconds)
{
	struct timespec step = { 0, 20000000 };

	for (double past = 0; !stopping && (seconds <= 0 || past < seconds); past += 0.02)
		nanosleep(&step, NULL);
	stopping = 1;
}

int main(int argc, char **argv)
{
	static struct worker workers[] = {
		{ .name = "clerk-1", .work = take_order },
		{ .name = "clerk-2", .work = take_order },
		{ .name = "restock", .work = restock },
		{ .name = "look-up", .work = look_up },
		{ .name = "report", .work = report },
	};
	const int count = sizeof(workers) / sizeof(*workers);
	struct sigaction action = { .sa_handler = on_stop };
	struct worker all = { .name = "all" };
	int waits = 0;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: shop DATABASE [SECONDS]\n");
		return 2;
	}
	path = argv[1];
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (create())
		return 1;
	for (int i = 0; i < count; i++) {
		workers[i].seed = (unsigned int)i + 1;
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			return 1;
	}
	wait_for_end(argc == 3 ? atof(argv[2]) : 0);
	for (int i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		all.orders += workers[i].orders;
		all.lines += workers[i].lines;
		all.sold += workers[i].sold;
		all.restocked += workers[i].restocked;
		all.reads += workers[i].reads;
		all.failed += workers[i].failed;
		waits += workers[i].db.busy_waits;
		db_close(&workers[i].db);
	}
	if (all.failed || verify(&all))
		return 1;
	printf("shop: %" PRId64 " orders, %" PRId64 " lines, %" PRId64
	       " reads, %d waits for a lock;"
	       " the database is intact\n",
	       all.orders, all.lines, all.reads, waits);
	return 0;
}
