# SPDX-License-Identifier: MIT
"""Programs of random types in C and C++, and expressions that name parts of their variables.

Few names are used again and again, so that classes hide the members of their bases, and bases have
members of one name."""

import random

NAMES = ["a", "b", "c", "x", "y", "z"]
SCALARS = ["char", "signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int",
           "long", "unsigned long", "long long", "float", "double", "long double"]
BIT_TYPES = [("int", 32), ("unsigned int", 32), ("unsigned char", 8), ("short", 16), ("long", 64),
             ("unsigned long", 64)]
COLOURS = ["red", "green", "blue"]

# Objects of the C++ library; what they lead to is in the program's own data, as the judge needs it.
LIBRARY = """#include <array>
#include <memory>
#include <string>
#include <vector>
struct Keep { template <typename P> void operator()(P *) const {} };
template <typename P> struct Pool {
	using value_type = P;
	Pool() = default;
	template <typename O> Pool(const Pool<O> &) {}
	P *allocate(size_t) { alignas(64) static char room[2 * sizeof(P)]; return (P *)room; }
	void deallocate(P *, size_t) {}
	friend bool operator==(const Pool &, const Pool &) { return true; }
	friend bool operator!=(const Pool &, const Pool &) { return false; }
};
std::string text0 = "words";
"""


class Type:
    """A structure, class or union: its members are (name, kind, detail)."""

    def __init__(self, name, word):
        self.name, self.word = name, word
        self.members = []  # of its own, those of anonymous ones among them
        self.bases = []

    def families(self):
        """All base classes, with itself."""
        found = [self]
        for base in self.bases:
            found += [one for one in base.families() if one not in found]
        return found


class Program:
    def __init__(self, seed, is_cxx):
        self.random = random.Random(seed)
        self.is_cxx = is_cxx
        self.types, self.lines, self.variables = [], [], []
        self.number = 0
        self.lines.append("enum colour { " + ", ".join(COLOURS) + " };")
        if is_cxx:
            self.lines.append(LIBRARY)
            self.variables.append(("text0", "array", None))
        for _ in range(14):
            self.type_make()
        for i, one in enumerate(self.types):
            self.variable_make(one, i)

    def fresh(self, prefix):
        self.number += 1
        return f"{prefix}{self.number}"

    def spelled(self, one):
        return one.name if self.is_cxx else f"{one.word} {one.name}"

    # ---- members ----

    def member_make(self, into, names, depth, is_trivial):
        """One member's text; what it adds goes into `into`."""
        roll = self.random.random()
        if roll < 0.12 and depth < 3:  # an anonymous one
            word = self.random.choice(["struct", "union"])
            inner = [self.member_make(into, names, depth + 1, True)
                     for _ in range(self.random.randint(1, 3))]
            inner = [text for text in inner if text]
            return f"{word} {{ {' '.join(inner)} }};" if inner else ""
        if roll < 0.16:
            return f"{self.random.choice(['int', 'unsigned char', 'long'])} : " \
                   f"{self.random.choice([0, 3, 5])};"
        if not names:
            return ""
        name = names.pop()
        if roll < 0.40:
            word, most = self.random.choice(BIT_TYPES)
            into.members.append((name, "bits", None))
            return f"{word} {name} : {self.random.randint(1, most)};"
        if roll < 0.44:
            into.members.append((name, "bits", None))
            return f"enum colour {name} : {self.random.randint(3, 20)};"
        if roll < 0.50:
            into.members.append((name, "array", None))
            size = self.random.randint(1, 4)
            return f"{self.random.choice(SCALARS)} {name}[{size}];"
        if roll < 0.58 and self.types:
            target = self.random.choice(self.types)
            into.members.append((name, "pointer", target))
            return f"{self.spelled(target)} *{name};"
        if roll < 0.74 and self.types and not is_trivial:
            target = self.random.choice(self.types)
            into.members.append((name, "record", target))
            prefix = "[[no_unique_address]] " if self.is_cxx and self.random.random() < 0.2 else ""
            if self.random.random() < 0.2:
                into.members[-1] = (name, "records", target)
                return f"{self.spelled(target)} {name}[2];"
            return f"{prefix}{self.spelled(target)} {name};"
        if roll < 0.78:
            into.members.append((name, "scalar", None))
            return f"enum colour {name};"
        into.members.append((name, "scalar", None))
        align = f" __attribute__((aligned({self.random.choice([2, 8, 16])})))" \
            if self.random.random() < 0.08 else ""
        return f"{self.random.choice(SCALARS)} {name}{align};"

    def members_make(self, one, is_trivial):
        names = self.random.sample(NAMES, self.random.randint(1, len(NAMES)))
        texts = [self.member_make(one, names, 0, is_trivial)
                 for _ in range(self.random.randint(1, 6))]
        return [text for text in texts if text]

    # ---- types ----

    def type_make(self):
        if not self.is_cxx:
            one = Type(self.fresh("t"), self.random.choice(["struct", "struct", "union"]))
            packed = " __attribute__((packed))" if self.random.random() < 0.2 else ""
            texts = self.members_make(one, False) or ["int a;"]
            if texts == ["int a;"] and not one.members:
                one.members.append(("a", "scalar", None))
            self.lines.append(f"struct{packed} {one.name} {{ {' '.join(texts)} }};"
                              if one.word == "struct" else
                              f"union{packed} {one.name} {{ {' '.join(texts)} }};")
            self.types.append(one)
            return
        self.class_make()

    def class_make(self):
        one = Type(self.fresh("T"), "struct")
        count = self.random.choice([0, 0, 1, 1, 2, 2, 3])
        bases = self.random.sample(self.types, min(count, len(self.types)))
        one.bases = bases
        heads = [("virtual " if self.random.random() < 0.3 else "") + base.name for base in bases]
        body = self.members_make(one, False)
        if self.random.random() < 0.3:
            body.append(f"virtual void call_{one.name}() {{}}")
        left = [name for name in NAMES if name not in [m[0] for m in one.members]]
        if left and self.random.random() < 0.15:
            one.members.append((left[0], "static", None))
            body.append(f"static int {left[0]};")
        head = f" : {', '.join(heads)}" if heads else ""
        space = self.random.choice(["", "", "near", "far"])
        name = one.name
        if self.random.random() < 0.2:
            self.template(one, head, body, space)
        else:
            definition = f"struct {name}{head} {{ {' '.join(body)} }};"
            definition += self.static_members(one, f"{name}::", "")
            if space:
                one.name = f"{space}::{name}"
                definition = f"namespace {space} {{ {definition} }}"
            self.lines.append(definition)
        self.types.append(one)

    def static_members(self, one, prefix, template):
        return "".join(f" {template}int {prefix}{name};" for name, kind, _ in one.members
                       if kind == "static")

    def template(self, one, head, body, space):
        name = one.name
        word = self.random.choice(["long", "unsigned long", "short", "char *", "int"])
        left = [n for n in NAMES if n not in [m[0] for m in one.members]]
        if left:
            one.members.append((left[0], "scalar", None))
            body.append(f"P {left[0]};")
        text = f"template <typename P> struct {name}{head} {{ {' '.join(body)} }};"
        text += self.static_members(one, f"{name}<P>::", "template <typename P> ")
        one.name = f"{name}<{word}>"
        if space:
            one.name = f"{space}::{one.name}"
            text = f"namespace {space} {{ {text} }}"
        self.lines.append(text)

    def variable_make(self, one, number):
        spelled = self.spelled(one)
        self.lines.append(f"{spelled} v{number}; {spelled} *p{number} = &v{number};")
        self.variables += [(f"v{number}", "record", one), (f"p{number}", "pointer", one)]
        if self.random.random() < 0.3:
            self.lines.append(f"{spelled} r{number}[3];")
            self.variables.append((f"r{number}", "records", one))
        for base in one.families()[1:]:
            # where the base is ambiguous, there is no such pointer
            if self.random.random() < 0.2 and self.only_one(one, base):
                name = self.fresh("q")
                self.lines.append(f"{base.name} *{name} = &v{number};")
                self.variables.append((name, "pointer", base))

        if self.is_cxx:
            self.library_make(one, number)

    def library_make(self, one, number):
        """Pointers and containers of the C++ library."""
        name = one.name
        lines = {f"u{number}": f"std::unique_ptr<{name}, Keep> u{number}(&v{number});",
                 f"i{number}": f"std::unique_ptr<{name}> &i{number} = "
                               f"*new std::unique_ptr<{name}>(&v{number});",
                 f"s{number}": f"std::shared_ptr<{name}> s{number}(&v{number}, Keep());",
                 f"w{number}": f"std::vector<{name}, Pool<{name}>> w{number}(2);",
                 f"y{number}": f"std::array<{name}, 2> y{number};"}
        for variable, line in lines.items():
            if self.random.random() < 0.15:
                self.lines.append(line)
                kind = "records" if variable[0] in "wy" else "smart"
                self.variables.append((variable, kind, one))

    def only_one(self, one, base):
        return sum(self.count(one, base)) == 1

    def count(self, one, base):
        return [1] if one is base else [n for up in one.bases for n in self.count(up, base)]

    def text(self, extra, head):
        """The program, which waits for its input's end once all is constructed."""
        used = "".join(f"\tuse(&{name});\n" for name, _, _ in self.variables)
        keep = "static void use(void *p) { __asm__ volatile(\"\" : : \"r\"(p) : \"memory\"); }\n"
        # a cast may lead beyond the last variable, and what is compared ends at _end
        room = "char room_behind[64];\n"
        return ("#include <stdio.h>\n" + head + "\n".join(self.lines) + "\n" + room + keep +
                "int main(void)\n{\n" + used + extra +
                "\tputs(\"ready\");\n\tfflush(stdout);\n\tgetchar();\n\treturn 0;\n}\n")

    # ---- expressions ----

    def member_of(self, one):
        """A member's name, in one of the classes that it might be in, qualified or not."""
        family = one.families()
        holder = self.random.choice(family)
        if not holder.members or self.random.random() < 0.02:
            return self.random.choice(NAMES), "scalar", None
        name, kind, detail = self.random.choice(holder.members)
        if self.is_cxx and self.random.random() < 0.4:
            via = self.random.choice([holder, holder, self.random.choice(family)])
            return f"{via.name}::{name}", kind, detail
        return name, kind, detail

    def cast(self, text, one):
        """A pointer to one type as one to another: a base class, a derived one, or any."""
        family = [other for other in self.types if one in other.families()] + one.families()
        target = self.random.choice(family if self.random.random() < 0.8 else self.types)
        void = "(void *)" if self.random.random() < 0.1 else ""
        return f"(({self.spelled(target)} *){void}{text})", target

    def expression(self):
        text, kind, one = self.random.choice(self.variables)
        if kind == "pointer" and self.random.random() < 0.3:
            text, one = self.cast(text, one)
            kind = "smart"  # a pointer that may be followed
        elif kind == "record" and self.random.random() < 0.1:
            text, one = self.cast(f"&{text}", one)
            kind = "smart"
        for _ in range(self.random.randint(0, 4)):
            if kind == "record":
                name, kind, one = self.member_of(one)
                text = f"{text}.{name}"
            elif kind == "smart" or (kind == "pointer" and text[0] in "pq" and
                                     text[1:].isdigit()):
                if self.random.random() < 0.3:
                    text, kind = f"(*{text})", "record"
                else:
                    name, kind, one = self.member_of(one)
                    text = f"{text}->{name}"
            elif kind == "records":
                text, kind = f"{text}[{self.random.randint(0, 1)}]", "record"
            elif kind == "array" and self.random.random() < 0.7:
                text, kind = f"{text}[0]", "scalar"
            else:
                break
        if kind == "smart":
            return f"*{text}"
        if kind == "scalar" and self.random.random() < 0.1:
            return f"*({self.random.choice(SCALARS)} *)&{text}"
        return text

    def expressions(self, count):
        found, tries = [], 0
        while len(found) < count and tries < 40 * count:
            tries += 1
            text = self.expression()
            if text not in found:
                found.append(text)
        return found
