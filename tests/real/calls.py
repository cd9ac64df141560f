# SPDX-License-Identifier: MIT
"""Calls functions so many times that a test can count them: recursion, exceptions, generators."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def thrower(depth):
    if depth == 0:
        raise ValueError("deep")
    thrower(depth - 1)


def squares(count):
    for i in range(count):
        yield i * i


def cube(n):
    return n ** 3


def catcher(depth):
    try:
        thrower(depth)
    except ValueError as error:
        return str(error)
    return ""


print(fib(15), sum(squares(100)), [catcher(20) for _ in range(10)].count("deep"),
      sum(map(cube, range(300))))
