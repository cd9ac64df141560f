# SPDX-License-Identifier: MIT
"""Works with zlib and SQLite in four threads, and checks all that comes out.

works.py ROUNDS        so many rounds, then the digest of all results
works.py forever       until standard input ends; every round must have the first one's digest
"""
import hashlib
import sqlite3
import sys
import threading
import zlib

THREADS = 4
TEXT = b"".join(b"%d bottles of beer on the wall, take %d down\n" % (i, i * 7919 % 97) for i in range(400))


def compress_round(seed):
    digest = hashlib.sha256()
    for level in (1, 6, 9):
        data = TEXT[seed % 100:] * 2
        packed = zlib.compress(data, level)
        if zlib.decompress(packed) != data:
            raise SystemExit("zlib gave back something else")
        digest.update(packed)
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    raw = stream.compress(TEXT) + stream.flush(zlib.Z_SYNC_FLUSH) + stream.flush()
    if zlib.decompressobj(-15).decompress(raw) != TEXT:
        raise SystemExit("zlib's stream gave back something else")
    digest.update(b"%d %d" % (zlib.crc32(TEXT, seed), zlib.adler32(TEXT)))
    return digest.digest()


def database_round(seed):
    database = sqlite3.connect(":memory:")
    database.create_function("twice", 1, lambda value: value * 2)
    database.execute("create table item (id integer primary key, name text, worth real)")
    database.execute("create index item_name on item (name)")
    with database:
        database.executemany("insert into item values (?, ?, ?)",
                             ((i, f"item {i * seed % 101}", i / 7) for i in range(1, 300)))
    try:
        with database:
            database.execute("delete from item where id > 50")
            database.execute("insert into item values (1, 'again', 0)")
        raise SystemExit("SQLite took a key twice")
    except sqlite3.IntegrityError:
        pass
    rows = database.execute("select name, count(*), round(sum(twice(worth)), 6) from item"
                            " group by name having count(*) > 1 order by 2 desc, 1").fetchall()
    if database.execute("pragma integrity_check").fetchone() != ("ok",):
        raise SystemExit("SQLite's database is damaged")
    total = database.execute("select count(*) from item").fetchone()[0]
    database.close()
    if total != 299:
        raise SystemExit(f"SQLite rolled back to {total} rows")
    return repr(rows).encode()


def one_round():
    results = [None] * THREADS

    def work(number):
        results[number] = compress_round(number + 1) + database_round(number + 1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if None in results:
        raise SystemExit("a thread came to no result")
    return hashlib.sha256(b"".join(results)).hexdigest()


def forever():
    ended = threading.Event()

    def wait():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    first, rounds = one_round(), 1
    print("under way", flush=True)
    while not ended.is_set():
        if one_round() != first:
            raise SystemExit("a round came to another result")
        rounds += 1
    print(f"all of {rounds} rounds were alike: {first}")


def main():
    if sys.argv[1] == "forever":
        forever()
    else:
        digests = [one_round() for _ in range(int(sys.argv[1]))]
        print(hashlib.sha256("".join(digests).encode()).hexdigest())


main()
