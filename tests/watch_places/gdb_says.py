# SPDX-License-Identifier: MIT
"""Runs inside gdb, attached to a program of shapes.py: prints what gdb knows of each expression.

$WATCH_PLACES names a JSON file of expressions; the answers go to the same name with ".gdb", one a
line: gdb 13 crashes on some expressions. Each is the first bit, counted from address 0, and a
number of bits; or the cause of failure. An integer's bits are found in memory: gdb stores 0 to it,
then all ones, which shows a bit-field's place."""

import json
import os

import gdb


def number(text):
    return int(gdb.parse_and_eval(text))


def address_of(text):
    return int(gdb.parse_and_eval(f"&({text})").cast(gdb.lookup_type("unsigned long")))


def bits_of(text, kind):
    """The first bit of a number, from address 0 on, and how many there are."""
    start, end = number("(unsigned long)&__data_start"), number("(unsigned long)&_end")
    process = gdb.selected_inferior()
    before = bytes(process.read_memory(start, end - start))
    seen = []
    for value in ("0", "-1"):
        gdb.execute(f"set var {text} = ({kind}){value}")
        seen.append(int.from_bytes(bytes(process.read_memory(start, end - start)), "little"))
        process.write_memory(start, before)
    changed = seen[0] ^ seen[1]
    if not changed:
        raise gdb.error("no bit changes")
    first = (changed & -changed).bit_length() - 1
    return [start * 8 + first, changed.bit_length() - first]


INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_CHAR)


def answer(text):
    try:
        kind = gdb.parse_and_eval(text).type.strip_typedefs()
        if kind.code in INTEGERS:
            return bits_of(text, kind)
        return [address_of(text) * 8, number(f"sizeof({text})") * 8]
    except gdb.error as error:
        return str(error)


path = os.environ["WATCH_PLACES"]
with open(path) as file:
    texts = json.load(file)
with open(path + ".gdb", "w") as file:
    for text in texts:
        print(json.dumps(answer(text)), file=file, flush=True)
