# SPDX-License-Identifier: MIT
"""values.py SEED: a C program of 60 functions with random parameters and results.

The program prints, in the form of `waymark dump`, what each call must be recorded as. A function is called once.
"""
import random
import sys

chance = random.Random(int(sys.argv[1]))
FIELDS_MAX = 16

# type: how a value is made of a small number, and how printf shows it; None: no field can hold it.
# Without __int128: LLVM before 18 passes it in two ways, and what follows it isn't recorded.
SCALARS = {
    "bool": ("{} & 1", '"%s"', "({}) ? \"true\" : \"false\""),
    "char": ("'a' + {} % 26", "\"'%c'\"", "{}"),
    "signed char": ("-{} % 128", '"%d"', "{}"),
    "unsigned char": ("255 - {}", '"%d"', "{}"),
    "short": ("-1000 - {}", '"%d"', "{}"),
    "unsigned short": ("65535 - {}", '"%d"', "{}"),
    "int": ("-100000 - {}", '"%d"', "{}"),
    "unsigned int": ("4000000000u + {}", '"%u"', "{}"),
    "enum color": ("(enum color)({} % 3)", '"%s"', "colors[{}]"),
    "enum sign": ("(enum sign)({} % 3 - 1)", '"%s"', "signs[{} + 1]"),
    "long": ("-5000000000 - {}", '"%ld"', "{}"),
    "unsigned long": ("18000000000000000000ul + {}", '"%lu"', "{}"),
    "float": ("{} + 0.5f", '"%g"', "{}"),
    "double": ("{} - 0.25", '"%g"', "{}"),
    "void *": ("(void *)(long)({} + 4096)", '"%p"', "{}"),
    "const int *": ("(const int *)(long)({} * 4 + 4)", '"%p"', "{}"),
    "long double": ("{} + 0.5L", None, None),
}
HEAD = """#include <stdbool.h>
#include <stdio.h>
#define KEEP __attribute__((noinline))
enum color { RED, GREEN, BLUE };
enum sign { MINUS = -1, ZERO, PLUS };
static const char *const colors[] = { "RED", "GREEN", "BLUE" };
static const char *const signs[] = { "MINUS", "ZERO", "PLUS" };
static int fields;
static volatile int zero;
static void begin(const char *name) { printf("values:%s", name); fields = 0; }
static void next(const char *name) { printf("%s%s = ", fields++ ? ", " : ": { ", name); }
static void end(void) { puts(fields ? " }" : ""); }
"""


class Scalar:
    is_packed = has_bits = False

    def __init__(self, name):
        self.name = name
        self.value, self.format, self.shown = SCALARS[name]

    def leaves(self, path):
        return [(path, self)] if self.format else []

    def make(self, number):
        return "(" + self.value.format(f"({number} + zero)") + ")"

    def declare(self, name):
        return f"{self.name} {name}"


class Complex:
    is_packed = has_bits = False

    def __init__(self, part):
        self.name, self.part = f"_Complex {part}", Scalar(part)
        self.imaginary = "2.0i" if part == "double" else "2.0if"

    def leaves(self, path):
        return [(path + ".real", self.part), (path + ".imag", self.part)]

    def make(self, number):
        return f"({number} + zero + {self.imaginary})"

    def declare(self, name):
        return f"{self.name} {name}"


class Structure:
    """Its members are fields, if it has 16 bytes at most; arrays and bit-fields are not."""

    def __init__(self, number, older):
        self.name = f"struct s{number}"
        self.packed = " __attribute__((packed))" if chance.random() < 0.1 else ""
        self.members = []
        for at in range(chance.choice((1, 2, 2, 2, 3, 4))):
            kind = chance.random()
            if kind < 0.2 and older:
                what = chance.choice([one for one in older if not self.packed or not one.has_bits])
            else:
                what = Scalar(chance.choice(list(SCALARS)))
            extra = "[2]" if kind > 0.95 else \
                    " : 5" if what.name == "int" and kind > 0.5 and not self.packed else ""
            self.members.append((f"m{at}", what, extra))
        # Compilers disagree about an inner structure of bit-fields that a packed one misaligns.
        self.has_bits = any(extra == " : 5" or what.has_bits for _, what, extra in self.members)
        self.is_packed = self.packed or any(what.is_packed for _, what, _ in self.members)

    def text(self):
        inner = " ".join(f"{what.declare(name)}{extra};" for name, what, extra in self.members)
        return f"{self.name} {{ {inner} }}{self.packed};\n"

    def leaves(self, path):
        return [leaf for name, what, extra in self.members if not extra
                for leaf in what.leaves(f"{path}.{name}")]

    def make(self, number):
        parts = [f"{{ {what.make(number)} }}" if extra == "[2]" else
                 "1" if extra else what.make(number + at)
                 for at, (name, what, extra) in enumerate(self.members)]
        return f"(({self.name}){{ {', '.join(parts)} }})"

    def declare(self, name):
        return f"{self.name} {name}"


def shown(what, name, path):
    """Statements that print each field of a value."""
    text = ""
    for leaf, scalar in what.leaves(path):
        value = {".real": f"__real__ {name}", ".imag": f"__imag__ {name}"}.get(
            leaf[-5:], name + leaf[len(path):])
        text += (f"next(\"{leaf.replace('.', '_')}\"); "
                 f"printf({scalar.format}, {scalar.shown.format(value)}); ")
    if isinstance(what, Structure) and text:
        return f"if (sizeof({what.name}) <= 16) {{ {text}}} "
    return text


structures = []
for i in range(40):
    structures.append(Structure(i, structures[:]))
print(HEAD + "".join(s.text() for s in structures))


def any_type():
    kind = chance.random()
    if kind < 0.5:
        return Scalar(chance.choice(list(SCALARS)))
    return Complex(chance.choice(("float", "double"))) if kind < 0.56 else chance.choice(structures)


main = ""
for i in range(60):
    result, parameters, room = any_type(), [], FIELDS_MAX
    while result.is_packed:  # it may come back in memory
        result = any_type()
    for _ in range(chance.randrange(0, 11)):
        what = any_type()
        if len(what.leaves("")) <= room:
            room -= len(what.leaves(""))
            parameters.append((f"p{len(parameters)}", what))
    listed = ", ".join(what.declare(name) for name, what in parameters) or "void"
    print(f"KEEP {result.name} f{i}({listed});\nKEEP {result.name} f{i}({listed})\n{{\n\tbegin(\"f{i}:begin\");")
    for name, what in parameters:
        print("\t" + shown(what, name, name))
    print(f"\tend();\n\treturn {result.make(i)};\n}}\n")
    values = ", ".join(what.make(10 * i % 90 + at) for at, (name, what) in enumerate(parameters))
    main += f"\t{{ {result.name} r = f{i}({values}); begin(\"f{i}:end\"); {shown(result, 'r', 'ret')}end(); }}\n"
print(f"int main(void)\n{{\n{main}\treturn 0;\n}}")
