#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A program made at random, in assembly.

It has no library, calls nothing but write(2) and its like, and what it does depends on what is said here alone. It covers the
instructions of user mode by class and each form of operand, and all ways of control. At checkpoints, and at its end, it writes all
of its registers and then its memory to its standard output: run by whatever means, that must be the same.

    program_make.py 1 > 1.S && cc -nostdlib -static -no-pie -o 1 1.S && ./1 | sha1sum
"""
import argparse
import random

import program_words as words

QUADS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
LONGS = "eax ecx edx ebx esp ebp esi edi".split() + [f"r{n}d" for n in range(8, 16)]
SHORTS = "ax cx dx bx sp bp si di".split() + [f"r{n}w" for n in range(8, 16)]
BYTES = "al cl dl bl spl bpl sil dil".split() + [f"r{n}b" for n in range(8, 16)]
HIGH = "ah ch dh bh".split()
NAMES = {8: QUADS, 4: LONGS, 2: SHORTS, 1: BYTES}
SUFFIX = {8: "q", 4: "l", 2: "w", 1: "b"}
RSP = 4
ARENA = 8192
MIDDLE = ARENA // 2


def features_here():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return next((set(line.split()[2:]) for line in file if line.startswith("flags")), set())


class Maker:
    """The text of one program."""

    def __init__(self, seed, fuel, rounds, features):
        self.random = random.Random(seed)
        self.fuel = fuel
        self.rounds = rounds
        self.features = features
        self.lines = []
        self.labels = 0
        self.checkpoints = 0
        self.function = 0
        self.functions = 5
        self.depth = 0
        self.wide = "avx512f" in features and "avx512vl" in features and "avx512bw" in features

    # ---- pieces ----

    def out(self, text):
        self.lines.append("\t" + text)

    def label(self, name):
        self.lines.append(name + ":")

    def fresh(self):
        self.labels += 1
        return f"l{self.labels}"

    def pick(self, things):
        return self.random.choice(things)

    def chance(self, one_in):
        return self.random.randrange(one_in) == 0

    def has(self, feature):
        return feature in self.features

    def words_of(self, table):
        return [word for feature, text in table.items() if self.has(feature) for word in text.split()]

    def number(self, *taken):
        return self.pick([n for n in range(16) if n != RSP and n not in taken])

    def reg(self, size, *taken):
        return "%" + NAMES[size][self.number(*taken)]

    def immediate(self, size):
        bits = self.pick([8, min(size, 4) * 8])
        return "$" + str(self.pick([0, 1, -1, self.random.randrange(-(1 << bits - 1), 1 << bits - 1)]))

    def put(self, number, value):
        """A register made that value; flags stay."""
        form = self.random.randrange(3)
        if form == 0:
            self.out(f"mov ${value}, %{LONGS[number]}")
        elif form == 1:
            self.out(f"lea {value}(%rip), %{QUADS[number]}" if isinstance(value, str) else
                     f"movq ${value}, %{QUADS[number]}")
        else:
            self.out(f"movabs ${value}, %{QUADS[number]}")

    def memory(self, align=1, reach=64, *taken):
        """An operand of the arena's middle, by any form of address; the registers it takes are set."""
        place = self.random.randrange(-1024, 1024 - reach) & -align
        form = self.random.randrange(12)
        at = f"arena+{MIDDLE + place}"
        if form == 0:
            return at
        if form in (1, 2):
            return at + "(%rip)"
        if form == 3:
            return f"%fs:{MIDDLE + place}"
        if form == 4 and align <= 8:
            return f"{self.random.randrange(0, 256) & -align}(%rsp)"
        if form == 5 and align <= 8 and reach <= 64:
            return f"{-(self.random.randrange(reach, 129) & -align or reach)}(%rsp)"
        base = self.number(*taken)
        index = self.number(base, *taken)
        scale = self.pick([1, 2, 4, 8])
        step = self.random.randrange(0, 16) * align
        names = LONGS if self.chance(4) else QUADS
        if form in (6, 7):
            disp = self.pick([0, self.random.randrange(-128, 128), self.random.randrange(-2000, 2000)])
            self.put(base, f"arena+{MIDDLE + place - disp}")
            return f"{disp or ''}(%{names[base]})"
        if form == 8:
            self.put(index, step)
            return f"arena+{MIDDLE + place - step * scale}(,%{names[index]},{scale})"
        if form == 9:
            self.put(base, MIDDLE + place)
            return f"%fs:(%{QUADS[base]})"
        disp = self.pick([0, self.random.randrange(-128, 128), self.random.randrange(-1000, 1000)])
        self.put(base, f"arena+{MIDDLE + place - disp - step * scale}")
        self.put(index, step)
        return f"{disp or ''}(%{names[base]},%{names[index]},{scale})"

    def either(self, size, align=1, *taken):
        return self.reg(size, *taken) if self.chance(2) else self.memory(align, size, *taken)

    def size(self):
        return self.pick([1, 2, 4, 8])

    # ---- general registers ----

    def alu(self):
        word = self.pick("add adc sub sbb and or xor cmp test mov".split())
        size = self.size()
        suffix = SUFFIX[size]
        form = self.random.randrange(7)
        if form == 0:
            self.out(f"{self.pick(['', '{load} ', '{store} '])}{word}{suffix} {self.reg(size)}, {self.reg(size)}")
        elif form == 1:
            self.out(f"{word}{suffix} {self.memory(1, size)}, {self.reg(size)}")
        elif form == 2:
            self.out(f"{word}{suffix} {self.reg(size)}, {self.memory(1, size)}")
        elif form == 3:
            self.out(f"{word}{suffix} {self.immediate(size)}, {self.reg(size)}")
        elif form == 4:
            self.out(f"{word}{suffix} {self.immediate(size)}, {self.memory(1, size)}")
        elif form == 5:
            self.out(f"{word}{suffix} {self.immediate(size)}, %{NAMES[size][0]}")
        else:
            high = "%" + self.pick(HIGH)
            low = "%" + self.pick(HIGH + BYTES[:4])
            self.out(f"{word}b {high}, {low}")

    def unary(self):
        size = self.size()
        self.out(f"{self.pick('inc dec neg not'.split())}{SUFFIX[size]} {self.either(size)}")

    def locked(self):
        size = self.size()
        at = self.memory(8, 16, 0, 1, 2, 3)
        suffix = SUFFIX[size]
        form = self.random.randrange(7)
        if form == 0:
            self.out(f"lock {self.pick('add adc sub sbb and or xor'.split())}{suffix} {self.reg(size)}, {at}")
        elif form == 1:
            self.out(f"lock {self.pick('inc dec neg not'.split())}{suffix} {at}")
        elif form == 2:
            self.out(f"{self.pick(['lock ', ''])}xadd{suffix} {self.reg(size)}, {at}")
        elif form == 3:
            self.out(f"{self.pick(['lock ', ''])}cmpxchg{suffix} {self.reg(size)}, {at}")
        elif form == 4:
            self.out(f"xchg{suffix} {self.reg(size)}, {at}")
        elif form == 5:
            self.out(f"lock {self.pick('bts btr btc'.split())}l ${self.random.randrange(32)}, {at}")
        else:
            self.out(f"lock cmpxchg8b {at}")
            self.out(f"cmpxchg16b {self.pick(['arena+64', 'arena+128(%rip)', '%fs:512'])}")

    def move(self):
        form = self.random.randrange(13)
        size = self.pick([2, 4, 8])
        if form == 0:
            self.out(f"movzb{SUFFIX[size]} {self.either(1)}, {self.reg(size)}")
        elif form == 1:
            self.out(f"movs{SUFFIX[1]}{SUFFIX[size]} {self.either(1)}, {self.reg(size)}")
        elif form == 2:
            self.out(f"movslq {self.either(4)}, {self.reg(8)}")
        elif form == 3:
            self.out(f"movabs {self.pick(['%al', '%ax', '%eax', '%rax'])}, arena+{self.random.randrange(4000)}")
        elif form == 4:
            self.out(f"movabs arena+{self.random.randrange(4000)}, {self.pick(['%al', '%ax', '%eax', '%rax'])}")
        elif form == 5:
            self.out(f"lea{SUFFIX[size]} {self.memory().split(':')[-1]}, {self.reg(size)}")
        elif form == 6:
            self.out(f"bswap {self.reg(self.pick([4, 8]))}")
        elif form == 7:
            self.out(f"xchg {self.reg(size)}, %{NAMES[size][0]}")
        elif form == 8:
            self.out(self.pick("cbtw cwtl cltq cwtd cltd cqto lahf sahf cmc stc clc".split()))
        elif form == 9:
            self.out("mov $arena+512, %ebx")
            self.out(self.pick(["xlatb", "addr32 xlatb"]))
        elif form == 10:
            if self.has("movbe"):
                self.out(f"movbe {self.memory(1, size)}, {self.reg(size)}")
                self.out(f"movbe {self.reg(size)}, {self.memory(1, size)}")
        elif form == 11:
            self.out(f"movabs ${self.random.getrandbits(63)}, {self.reg(8)}")
        else:
            self.out(f"mov %{self.pick(HIGH)}, {self.pick(['arena+100', '%al', '%dh'])}")

    def shift(self):
        size = self.size()
        word = self.pick("shl shr sar rol ror rcl rcr".split())
        to = self.either(size, 1, 1)
        if self.chance(6):
            size = self.pick([2, 4, 8])
            self.out(f"sh{self.pick('lr')}d{SUFFIX[size]} {self.pick(['%cl', '$0', '$3', '$17'])}, {self.reg(size)}, "
                     f"{self.either(size, 1, 1)}")
            return
        self.out(f"{word}{SUFFIX[size]} {self.pick(['%cl', '$1', '$0', '$7', '$33', '$67'])}, {to}")

    def bits(self):
        size = self.pick([2, 4, 8])
        word = self.pick("bt bts btr btc".split())
        form = self.random.randrange(5)
        if form == 0:
            self.out(f"{word}{SUFFIX[size]} {self.reg(size)}, {self.reg(size)}")
        elif form == 1:
            self.out(f"{word}{SUFFIX[size]} ${self.random.randrange(80)}, {self.either(size)}")
        elif form == 2: # bits counted from memory, either way
            number = self.number()
            self.out(f"mov ${self.random.randrange(-2000, 2000)}, %{QUADS[number]}")
            self.out(f"{word}{SUFFIX[size]} %{NAMES[size][number]}, {self.pick(['arena+3000', '%fs:3000'])}")
        elif form == 3:
            self.out(f"bs{self.pick('fr')}{SUFFIX[size]} {self.either(size)}, {self.reg(size)}")
        else:
            word = self.pick(["popcnt"] + ["lzcnt"] * self.has("abm") + ["tzcnt"] * self.has("bmi1"))
            self.out(f"{word}{SUFFIX[size]} {self.either(size)}, {self.reg(size)}")

    def bmi(self):
        size = self.pick([4, 8])
        s = SUFFIX[size]
        r = lambda: self.reg(size)
        forms = []
        if self.has("bmi1"):
            forms += [lambda: f"andn{s} {self.either(size)}, {r()}, {r()}",
                      lambda: f"bextr{s} {r()}, {self.either(size)}, {r()}",
                      lambda: f"bls{self.pick(['i', 'r', 'msk'])}{s} {self.either(size)}, {r()}"]
        if self.has("bmi2"):
            forms += [lambda: f"bzhi{s} {r()}, {self.either(size)}, {r()}",
                      lambda: f"mulx{s} {self.either(size)}, {r()}, {r()}",
                      lambda: f"{self.pick(['pdep', 'pext'])}{s} {self.either(size)}, {r()}, {r()}",
                      lambda: f"rorx{s} $5, {self.either(size)}, {r()}",
                      lambda: f"{self.pick(['sarx', 'shlx', 'shrx'])}{s} {r()}, {self.either(size)}, {r()}"]
        if self.has("adx"):
            forms += [lambda: f"{self.pick(['adcx', 'adox'])}{s} {self.either(size)}, {r()}"]
        if self.has("sse4_2"):
            forms += [lambda: f"crc32{s} {self.either(size)}, {r()}",
                      lambda: f"crc32b {self.either(1)}, {r()}"]
        if forms:
            self.out(self.pick(forms)())

    def multiply(self):
        size = self.size()
        form = self.random.randrange(5)
        if form == 0:
            self.out(f"{self.pick(['mul', 'imul'])}{SUFFIX[size]} {self.either(size)}")
        elif form == 1:
            size = self.pick([2, 4, 8])
            self.out(f"imul{SUFFIX[size]} {self.either(size)}, {self.reg(size)}")
        elif form == 2:
            size = self.pick([2, 4, 8])
            self.out(f"imul{SUFFIX[size]} {self.immediate(size)}, {self.either(size)}, {self.reg(size)}")
        elif size == 1:
            by = self.number(0)
            self.out(f"orb $-128, %{BYTES[by]}")
            self.out("movzbl %al, %eax")
            self.out(f"divb %{BYTES[by]}")
        else:
            by = self.number(0, 2)
            self.out(f"or{SUFFIX[size]} $3, %{NAMES[size][by]}")
            self.out("xor %edx, %edx")
            self.out(f"shr{SUFFIX[size]} $1, %{NAMES[size][0]}")
            if self.chance(2):
                self.out(f"mov %{QUADS[by]}, arena+256")
                self.out(f"div{SUFFIX[size]} arena+256(%rip)")
            else:
                self.out(f"idiv{SUFFIX[size]} %{NAMES[size][by]}")

    def conditional(self):
        condition = self.pick(words.CONDITIONS)
        size = self.pick([2, 4, 8])
        if self.chance(2):
            self.out(f"set{condition} {self.either(1)}")
        else:
            self.out(f"cmov{condition}{SUFFIX[size]} {self.either(size)}, {self.reg(size)}")

    def stack(self):
        form = self.random.randrange(8)
        if form == 0:
            first, second = self.number(), self.number()
            self.out(f"push %{QUADS[first]}")
            self.out(f"push {self.immediate(8)}")
            self.out(f"pop %{QUADS[second]}")
            self.out(f"pop {self.pick(['%' + QUADS[first], 'arena+700(%rip)', '%fs:700', '-8(%rsp)'])}")
        elif form == 1:
            self.out(f"push{self.pick('wq')} {self.memory(8, 8)}")
            suffix = self.lines[-1].strip()[4]
            self.out(f"pop{suffix} {self.reg({'w': 2, 'q': 8}[suffix])}")
        elif form == 2:
            self.out("pushfq")
            self.out(f"pop %{QUADS[self.number()]}")
        elif form == 3:
            number = self.number()
            self.out(f"push ${self.random.randrange(65536) & 0xcd5}") # no trap flag
            self.out("popfq")
            self.out(f"set{self.pick(words.CONDITIONS)} %{BYTES[number]}")
            self.out("cld")
        elif form == 4:
            self.out("pushfw")
            self.out(f"popw %{SHORTS[self.number()]}")
        elif form == 5:
            self.out(f"enter ${8 * self.random.randrange(20)}, $0")
            self.out(f"mov {self.reg(8, 5)}, {-8}(%rbp)")
            self.out(f"movb ${self.random.randrange(100)}, {self.random.randrange(0, 20)}(%rsp)")
            self.out("leave")
        elif form == 6:
            self.out("push %rsp")
            self.out(f"pop %{QUADS[self.number()]}")
            self.out("push 8(%rsp)")
            self.out("pop 16(%rsp)")
        else: # the red zone
            self.out(f"mov {self.reg(8)}, -{8 * self.random.randrange(1, 17)}(%rsp)")
            self.out(f"add -{8 * self.random.randrange(1, 17)}(%rsp), {self.reg(8)}")

    def strings(self):
        size = self.size()
        s = SUFFIX[size]
        word = self.pick("movs stos lods cmps scas".split())
        prefix = self.pick(["", "rep ", "rep "] + (["repne "] if word in ("cmps", "scas") else []))
        down = self.chance(3)
        self.put(6, f"arena+{MIDDLE + self.random.randrange(-500, 500)}")
        self.put(7, f"arena+{MIDDLE + self.random.randrange(-500, 500)}")
        self.out(f"mov ${self.pick([0, 1, 7, 40])}, %ecx")
        if down:
            self.out("std")
        self.out(f"{prefix}{self.pick(['', '', 'addr32 '])}{word}{s}")
        if down:
            self.out("cld")

    def x87(self):
        self.out(self.pick(words.X87.split()))
        form = self.random.randrange(10)
        if form == 0:
            self.out(f"fld{self.pick('sl')} {self.memory(8, 8)}")
        elif form == 1:
            self.out(f"fstp{self.pick('sl')} {self.memory(8, 8)}")
        elif form == 2:
            self.out(f"fild{self.pick(['s', 'l', 'll'])} {self.memory(8, 8)}")
        elif form == 3:
            self.out(f"fistp{self.pick(['s', 'l', 'll'])} {self.memory(8, 8)}")
        elif form == 4:
            self.out(f"fldt {self.memory(8, 16)}")
            self.out(f"fstpt {self.memory(8, 16)}")
        elif form == 5:
            self.out(f"f{self.pick(['u', ''])}comi %st({self.random.randrange(8)}), %st")
        elif form == 6:
            self.out("fnstsw %ax")
            self.out(f"fnstcw {self.memory(2, 2)}")
        elif form == 7:
            self.out(f"fcmov{self.pick(['b', 'e', 'be', 'u', 'nb', 'ne'])} %st({self.random.randrange(8)}), %st")
        elif form == 8:
            self.out(f"{self.pick('fadds fmuls fdivs fsubrs'.split())} {self.memory(4, 4)}")
        else:
            self.out(self.pick(["fninit", "fnclex", "emms"]))

    # ---- vector registers ----

    def vector(self, most=16):
        return self.pick([15, self.random.randrange(most), self.random.randrange(most)])

    def sse(self):
        form = self.random.randrange(9)
        x = f"%xmm{self.vector()}"
        if form < 3:
            self.out(f"{self.pick(self.words_of(words.SSE))} {self.pick([f'%xmm{self.vector()}', self.memory(16, 16)])}, {x}")
        elif form == 3:
            self.out(f"{self.pick(self.words_of(words.SSE_IMMEDIATE))} ${self.random.randrange(128)}, "
                     f"{self.pick([f'%xmm{self.vector()}', self.memory(16, 16)])}, {x}")
        elif form == 4:
            size = self.pick([4, 8])
            self.out(f"{self.pick(words.SSE_SCALAR[size].split())} {self.pick([f'%xmm{self.vector()}', self.memory(1, size)])}, {x}")
        elif form == 5:
            self.out(self.pick([
                lambda: f"movd {self.either(4)}, {x}", lambda: f"movq {self.either(8)}, {x}",
                lambda: f"movd {x}, {self.either(4)}", lambda: f"movq {x}, {self.either(8)}",
                lambda: f"pmovmskb {x}, {self.reg(4)}", lambda: f"movmskps {x}, {self.reg(4)}",
                lambda: f"cvtsi2sdq {self.either(8)}, {x}", lambda: f"cvttsd2si {x}, {self.reg(8)}",
                lambda: f"cvtsi2ssl {self.either(4)}, {x}", lambda: f"cvtss2si {x}, {self.reg(4)}",
                lambda: f"pextrw $2, {x}, {self.reg(4)}", lambda: f"pinsrw $3, {self.reg(4)}, {x}",
            ])())
        elif form == 6:
            self.out(f"{self.pick('movaps movups movdqa movdqu movntdq'.split())} {x}, {self.memory(16, 16)}")
        elif form == 7:
            self.out(self.pick([
                lambda: f"movss {x}, {self.memory(1, 4)}", lambda: f"movsd {self.memory(1, 8)}, {x}",
                lambda: f"movlps {self.memory(1, 8)}, {x}", lambda: f"movhpd {x}, {self.memory(1, 8)}",
                lambda: f"p{self.pick(['sll', 'srl'])}dq ${self.random.randrange(16)}, {x}",
                lambda: f"psraw ${self.random.randrange(16)}, {x}",
                lambda: f"movmskpd {x}, {self.reg(4)}", lambda: f"paddd %mm{self.random.randrange(8)}, %mm3",
                lambda: f"movq2dq %mm{self.random.randrange(8)}, {x}", lambda: f"movq {self.memory(1, 8)}, %mm2",
            ])())
        else:
            self.put(7, f"arena+{MIDDLE + 64}")
            self.out(f"maskmovdqu %xmm{self.vector()}, {x}")

    def avx(self):
        if not self.has("avx"):
            return
        w = self.pick("xy") if self.has("avx2") else "x"
        bytes_ = 16 if w == "x" else 32
        r = lambda: f"%{w}mm{self.vector()}"
        rm = lambda: self.pick([r(), self.memory(1, bytes_)])
        form = self.random.randrange(12)
        if form < 3:
            self.out(f"v{self.pick(self.words_of(words.AVX))} {rm()}, {r()}, {r()}")
        elif form == 3:
            self.out(f"v{self.pick(self.words_of(words.AVX_IMMEDIATE))} ${self.random.randrange(32)}, {rm()}, {r()}, {r()}")
        elif form == 4:
            self.out(f"v{self.pick(words.AVX_SHIFTS.split())} ${self.random.randrange(64)}, {r()}, {r()}")
        elif form == 5:
            self.out(f"{self.pick(['vblendvps', 'vblendvpd', 'vpblendvb'])} {r()}, {rm()}, {r()}, {r()}")
        elif form == 6 and self.has("fma"):
            self.out(f"{self.pick(words.FMA.split())} {rm()}, {r()}, {r()}")
        elif form == 7:
            self.out(self.pick(["vzeroupper", "vzeroupper", "vzeroall"]))
        elif form == 8:
            self.out(self.pick([
                lambda: f"vmovups {r()}, {self.memory(1, 32)}", lambda: f"vmovdqu {self.memory(1, 32)}, {r()}",
                lambda: f"vmovd {self.either(4)}, %xmm{self.vector()}", lambda: f"vmovq %xmm{self.vector()}, {self.either(8)}",
                lambda: f"vpmovmskb {r()}, {self.reg(4)}", lambda: f"vmovmskps {r()}, {self.reg(8)}",
                lambda: f"vcvtsi2sdq {self.either(8)}, %xmm{self.vector()}, %xmm{self.vector()}",
                lambda: f"vpinsrd $1, {self.either(4)}, %xmm{self.vector()}, %xmm{self.vector()}",
                lambda: f"vextractf128 $1, %ymm{self.vector()}, {self.pick([f'%xmm{self.vector()}', self.memory(1, 16)])}",
                lambda: f"vinsertf128 $1, %xmm{self.vector()}, %ymm{self.vector()}, %ymm{self.vector()}",
                lambda: f"vbroadcastss {self.memory(1, 4)}, {r()}",
                lambda: f"vmaskmovps {r()}, {r()}, {self.memory(1, 32)}",
                lambda: f"vptest {r()}, {r()}", lambda: f"vmovss {self.memory(1, 4)}, %xmm{self.vector()}",
            ])())
        elif form == 9 and self.has("avx2"):
            one, two, three = self.random.sample(range(13), 2) + [15]
            regs = [one, two, three]
            self.random.shuffle(regs)
            base = self.number()
            self.out(f"vpxor %ymm{regs[1]}, %ymm{regs[1]}, %ymm{regs[1]}")
            self.out(f"vpcmpeqd %ymm{regs[0]}, %ymm{regs[0]}, %ymm{regs[0]}")
            self.out(f"mov $arena+{MIDDLE}, %{LONGS[base]}")
            self.out(f"vpgatherdd %{w}mm{regs[0]}, 4(%{QUADS[base]},%{w}mm{regs[1]},4), %{w}mm{regs[2]}")
        elif form == 10 and self.has("avx2"):
            self.out(f"vperm{self.pick(['d', 'ps'])} {self.pick([f'%ymm{self.vector()}', self.memory(1, 32)])}, "
                     f"%ymm{self.vector()}, %ymm{self.vector()}")
        else:
            self.out(f"vpshufd ${self.random.randrange(128)}, {rm()}, {r()}")

    def evex(self):
        if not self.wide:
            return
        w, bytes_ = self.pick([("x", 16), ("y", 32), ("z", 64), ("z", 64)])
        r = lambda: f"%{w}mm{self.vector(32)}"
        mask = self.pick(["", "", f"{{%k{self.random.randrange(1, 8)}}}", f"{{%k{self.random.randrange(1, 8)}}}{{z}}"])
        form = self.random.randrange(9)
        if form < 4:
            word, element = self.pick(self.words_of(words.EVEX if form else words.EVEX_IMMEDIATE)).split(":")
            element = int(element)
            source = r()
            if self.chance(2):
                source = self.memory(1, bytes_)
                if element and self.chance(2):
                    source = self.memory(1, element) + f"{{1to{bytes_ // element}}}"
            self.out(f"{word} {'' if form else f'${self.random.randrange(256)}, '}{source}, {r()}, {r()}{mask}")
        elif form == 4:
            self.out(f"{self.pick(self.words_of(words.EVEX_TWO))} {r()}, {r()}{mask}")
        elif form == 5:
            self.out(f"vmovdqu{self.pick(['8', '16', '32', '64'])} {r()}, {self.memory(1, 64)}{mask.replace('{z}', '')}")
        elif form == 6:
            k = self.random.randrange(8)
            self.out(self.pick([
                lambda: f"kmovq {self.reg(8)}, %k{k}", lambda: f"kmovd %k{k}, {self.reg(4)}",
                lambda: f"kmovw {self.memory(1, 2)}, %k{k}", lambda: f"kxorq %k{k}, %k2, %k3",
                lambda: f"kortestq %k{k}, %k1", lambda: f"vpcmpud ${self.random.randrange(8)}, {r()}, {r()}, %k{k}",
                lambda: f"vptestmq {r()}, {r()}, %k{k}", lambda: f"vpmovm2b %k{k}, {r()}" , lambda: f"vpmovb2m {r()}, %k{k}",
                lambda: f"vfpclassps $18, {r()}, %k{k}",
            ])())
        elif form == 7:
            index = self.vector(32)
            to = self.pick([n for n in (15, 3, 31, 20) if n != index])
            base = self.number()
            self.out(f"vpxord %zmm{index}, %zmm{index}, %zmm{index}")
            self.out("kxnorw %k1, %k1, %k1")
            self.out(f"mov $arena+{MIDDLE}, %{LONGS[base]}")
            if self.chance(2):
                self.out(f"vpgatherdd 8(%{QUADS[base]},%zmm{index},2), %zmm{to}{{%k1}}")
            else:
                self.out(f"vpscatterdd %zmm{to}, 8(%{QUADS[base]},%zmm{index},2){{%k1}}")
        else:
            self.out(self.pick([
                lambda: f"vpbroadcastq {self.reg(8)}, {r()}", lambda: f"vpmovdb %zmm{self.vector(32)}, %xmm{self.vector(32)}",
                lambda: f"vaddps {{rz-sae}}, %zmm{self.vector(32)}, %zmm{self.vector(32)}, %zmm{self.vector(32)}",
                lambda: f"vcvttps2dq {{sae}}, %zmm{self.vector(32)}, %zmm{self.vector(32)}",
                lambda: f"vmovq {self.either(8)}, %xmm{self.vector(32)}", lambda: f"vpextrq $1, %xmm{self.vector(32)}, {self.either(8)}",
                lambda: f"vextracti64x4 $1, %zmm{self.vector(32)}, {self.pick([f'%ymm{self.vector(32)}', self.memory(1, 32)])}",
                lambda: f"vcvtusi2sdq {self.either(8)}, %xmm{self.vector(32)}, %xmm{self.vector(32)}",
            ])())

    def images(self):
        """All of the vector registers, by the file."""
        form = self.random.randrange(4)
        if form == 0:
            self.out("fxsave image_scratch(%rip)")
            self.out(f"pxor %xmm{self.vector()}, %xmm15")
            self.out(f"fxrstor{self.pick(['', '64'])} image_scratch(%rip)")
        elif form == 1 and self.has("xsave"):
            self.out("push %rax")
            self.out("push %rdx")
            self.out("pushfq")
            self.out("xor %edx, %edx")
            self.out(f"mov ${self.pick([7, 0xe7, 2, 4, 0xe6])}, %eax")
            self.out(f"{self.pick(['xsave', 'xsavec' if self.has('xsavec') else 'xsave'])} image_scratch(%rip)")
            if self.chance(2):
                self.out("vpxor %xmm15, %xmm14, %xmm15" if self.has("avx") else "pxor %xmm14, %xmm15")
            self.out("xrstor image_scratch(%rip)")
            self.out("popfq")
            self.out("pop %rdx")
            self.out("pop %rax")
        elif form == 2:
            self.out(f"stmxcsr arena+{4 * self.random.randrange(500)}")
            self.out(f"mov $0x{self.pick(['1f80', '5f80', '9fc0', 'ff80'])}, %ecx")
            self.out("mov %ecx, arena+16")
            self.out("ldmxcsr arena+16(%rip)")
        else:
            self.out("fnstenv image_scratch(%rip)")
            self.out("fldenv image_scratch(%rip)")

    # ---- control ----

    def body(self, most):
        for _ in range(self.random.randrange(1, most + 1)):
            self.something()

    def jump_word(self, word):
        return self.pick(["", "{disp8} ", "{disp32} "]) + word if word.startswith("j") else word

    def forward(self):
        end = self.fresh()
        near = self.pick(["{disp32} ", ""])
        if self.chance(5):
            self.out(f"{near}jmp {end}")
            self.lines.append(f"\t.byte {', '.join(str(self.random.randrange(256)) for _ in range(self.random.randrange(9)))}"
                              if self.chance(2) else "\tud2")
        else:
            self.out(f"{near}j{self.pick(words.CONDITIONS)} {end}")
            self.body(3)
        self.label(end)

    def backward(self):
        start, end, counter = self.fresh(), self.fresh(), self.number()
        slot = f"counters+{8 * self.depth}"
        self.out(f"movq ${self.pick([2, 3, 5, 9])}, {slot}")
        self.depth += 1
        self.label(start)
        self.body(4)
        form = self.random.randrange(3)
        if form == 0:
            self.out(f"decq {slot}(%rip)")
            self.out(f"{self.pick(['', '{disp32} '])}jnz {start}")
        elif form == 1:
            self.out(f"decq {slot}")
            self.out(f"jle {end}")
            self.out(f"add {self.reg(4)}, {self.reg(4, counter)}")
            self.out(f"{self.pick(['', '{disp32} '])}j{self.pick(words.CONDITIONS)} {start}")
        else:
            self.out(f"mov {slot}, %ecx")
            self.out("cmpl $1, arena+9")
            self.out(f"decl {slot}")
            word = self.pick("loop loope loopne".split())
            self.out(f"{self.pick(['', 'addr32 '])}{word} {end}a")
            self.out(f"jmp {end}")
            self.label(end + "a")
            self.out(f"jmp {start}")
        self.label(end)
        self.depth -= 1

    def counted(self):
        """loop and jrcxz, by the short way."""
        start, end = self.fresh(), self.fresh()
        form = self.random.randrange(4)
        if form == 0:
            self.out(f"mov ${self.pick([1, 2, 6])}, %ecx")
            self.label(start)
            self.out(f"adc {self.reg(4, 1)}, {self.reg(4, 1)}")
            self.out(f"{self.pick(['', 'addr32 '])}{self.pick('loop loope loopne'.split())} {start}")
        elif form == 1:
            self.out(f"mov ${self.pick([0, 1])}, %ecx")
            self.out(f"{self.pick(['jrcxz', 'jecxz'])} {end}")
            self.out(f"inc {self.reg(8)}")
        elif form == 2: # the upper half alone is not 0
            self.out("movabs $0x100000000, %rcx")
            self.out(f"{self.pick(['jrcxz', 'jecxz'])} {end}")
            self.out(f"dec {self.reg(8)}")
        else:
            self.out("mov $4, %ecx")
            self.label(start)
            self.out("dec %ecx")
            self.out(f"jecxz {end}")
            self.out(f"jmp {start}")
        self.label(end)

    def target_operand(self, target):
        """That address, as an indirect branch may have it; what it takes is set."""
        form = self.random.randrange(10)
        number = self.number()
        index = self.number(number)
        if form < 3:
            number = self.pick([number, 1, 12, 13])
            self.put(number, target)
            return f"*%{QUADS[number]}"
        slot = f"slots+{8 * self.random.randrange(16)}"
        if form == 9:
            self.out(f"movq ${target}, {-16 - 8 * self.random.randrange(8)}(%rsp)")
            return "*" + self.lines[-1].split(", ")[-1]
        if form == 8:
            self.out(f"movq ${target}, {8 * self.random.randrange(8)}(%rsp)")
            return "*" + self.lines[-1].split(", ")[-1]
        self.out(f"movq ${target}, {slot}(%rip)")
        if form == 3:
            return f"*{slot}(%rip)"
        if form == 4:
            return f"*{slot}"
        if form == 5:
            disp = self.pick([0, 8, 1000])
            self.put(number, f"{slot}-{disp}")
            return f"*{disp or ''}(%{self.pick([QUADS, LONGS])[number]})"
        scale = self.pick([1, 2, 4, 8])
        step = self.random.randrange(16)
        self.put(index, step)
        if form == 6:
            return f"*{slot}-{step * scale}(,%{QUADS[index]},{scale})"
        self.put(number, f"{slot}-{step * scale}")
        return f"*(%{QUADS[number]},%{QUADS[index]},{scale})"

    def call_something(self):
        """Of a function further on; each ends."""
        if self.function + 1 >= self.functions or self.depth > 1:
            self.alu()
            return
        target = f"f{self.random.randrange(self.function + 1, self.functions)}"
        form = self.random.randrange(5)
        if form < 2:
            self.out(f"call {target}")
        elif form == 2:
            self.out(f"movq ${target}, plt_slot")
            self.out("call plt")
        elif form == 3:
            self.out(f"call {self.target_operand(target)}")
        else: # pushed, and gone to
            back = self.fresh()
            self.out(f"push ${back}")
            self.out(f"jmp {target}")
            self.label(back)
        if self.chance(2):
            self.out(f"set{self.pick(words.CONDITIONS)} {self.reg(1)}") # flags of the callee's

    def jump_something(self):
        end = self.fresh()
        form = self.random.randrange(13)
        if form < 4:
            self.out(f"jmp {self.target_operand(end)}")
            self.out("ud2")
        elif form == 4:
            self.out(f"push ${end}")
            self.out(self.pick(["ret", "rep ret"]))
            self.out("ud2")
        elif form == 5: # call, pop
            self.out(f"call {end}")
            self.label(end)
            self.out(f"pop {self.reg(8)}")
            return
        elif form == 6: # ret n
            self.out("push $17")
            self.out("push $19")
            self.out(f"push ${end}")
            self.out("stc" if self.chance(2) else "clc")
            self.out("ret $16")
        elif form == 7: # the return address is moved on, flags are live
            self.out("call 1f")
            self.out(".byte 0x0f, 0x0b, 0xe8")
            self.out(f"jmp {end}")
            self.label("1")
            self.out("addq $3, (%rsp)")
            self.out(f"cmp {self.reg(4)}, {self.reg(4)}")
            self.out("ret")
        elif form == 8: # through rsp itself
            self.out("mov %rsp, saved_rsp")
            self.out(f"mov ${end}, %esp")
            self.out("jmp *%rsp")
            self.label(end)
            self.out("mov saved_rsp(%rip), %rsp")
            return
        elif form == 9: # another stack, left as longjmp would
            self.out("mov %rsp, saved_rsp")
            self.out("mov $second_stack_top, %esp")
            self.out("call 1f")
            self.out("ud2")
            self.label("1")
            self.out("call 2f")
            self.out("ud2")
            self.label("2")
            self.out(f"cmp {self.reg(8)}, {self.reg(8)}")
            self.out(f"set{self.pick(words.CONDITIONS)} arena+33")
            self.out("mov saved_rsp, %rsp")
            self.out(f"jmp {end}")
        elif form == 10: # a switch to a stack that has flags and an address
            self.out("mov %rsp, saved_rsp")
            self.out("call 1f")
            self.out("ud2")
            self.label("1")
            self.out("mov $second_stack_top-64, %esp")
            self.out(f"push ${end}")
            self.out(f"push ${self.random.randrange(65536) & 0x8d5}")
            self.out("popfq")
            self.out("ret")
            self.label(end)
            self.out(f"set{self.pick(words.CONDITIONS)} arena+34")
            self.out("mov saved_rsp, %rsp")
            return
        elif form == 11: # an instruction in another
            middle = self.fresh()
            self.out(f"jmp {middle}+1")
            self.label(middle)
            self.out(".byte 0xb8") # mov $imm, %eax: its immediate is
            self.out("inc %ecx")
            self.out(".byte 0xeb, 0") # and a jump
        else:
            table, number = self.fresh(), self.number()
            entries = [self.fresh() for _ in range(4)]
            self.out(f"and $3, %{LONGS[number]}")
            self.out(f"jmp *{table}(,%{QUADS[number]},8)")
            self.out(".balign 8")
            self.label(table)
            for entry in entries:
                self.out(f".quad {entry}")
            for entry in entries:
                self.label(entry)
                self.alu()
        self.label(end)

    def recursion(self):
        start, end = self.fresh(), self.fresh()
        self.out(f"movl ${self.pick([3, 30, 150])}, recursion_depth")
        self.out(f"call {start}")
        self.out(f"jmp {end}")
        self.label(start)
        self.out(f"push {self.reg(8)}")
        self.out("decl recursion_depth(%rip)")
        self.out("jle 1f")
        self.alu()
        if self.chance(2):
            self.out(f"call {start}")
        else:
            self.out(f"mov ${start}, %ecx")
            self.out("call *%rcx")
        self.label("1")
        self.out(f"pop {self.reg(8)}")
        self.out("ret")
        self.label(end)

    def code_read(self):
        number, at = self.random.sample([0, 2, 3, 6, 7, 8, 15], 2)
        self.out("lea _start(%rip), %" + QUADS[at])
        self.out(f"mov {self.random.randrange(400)}(%{QUADS[at]}), %{LONGS[number]}")
        self.out(f"add 1f-4(%rip), %{LONGS[number]}")
        self.label("1")

    def sled(self):
        self.out(f".skip {self.pick([1, 2, 3, 40, 64, 65, 130])}, 0x90")
        if self.chance(3):
            self.out(f".balign {self.pick([16, 64, 4096])}")

    def system_call(self):
        self.out(f"mov ${self.pick([3, 24, 5000])}, %eax") # close, sched_yield, none
        self.out("mov $-1, %rdi")
        self.out("syscall")

    def odd(self):
        self.out(self.pick([
            "nopw 0(%rax,%rax,1)", "nopl (%rax)", "endbr64", "pause", "lfence", "mfence", "sfence", "prefetcht0 arena",
            "clflush arena+512(%rip)", "cld", "data16 nop", ".byte 0x66, 0x66, 0x48, 0x90", "xchg %ax, %ax",
            "rep nop", "fwait", "cs nopw 16(%rax,%rax,1)", ".byte 0x48, 0x40, 0x90", "mov %ds, %eax", "mov %es, %ax",
            "nop %edx", ".byte 0x3e; jae 1f; 1:", "rex.w nop", ".byte 0x3e; jmp 1f; 1:", "bnd jmp 1f; 1:", "lea 1f(%rip), %rax; notrack jmp *%rax; 1:",
        ]).replace("; ", "\n\t"))

    def checkpoint(self):
        self.checkpoints += 1
        self.out(f"movl ${self.checkpoints}, image(%rip)")
        self.out("call checkpoint")

    def something(self):
        kinds = [(self.alu, 20), (self.unary, 4), (self.locked, 4), (self.move, 8), (self.shift, 6), (self.bits, 5),
                 (self.bmi, 5), (self.multiply, 5), (self.conditional, 5), (self.stack, 6), (self.strings, 4), (self.x87, 4),
                 (self.sse, 8), (self.avx, 8), (self.evex, 8), (self.images, 1), (self.code_read, 1), (self.sled, 1),
                 (self.system_call, 1), (self.odd, 3), (self.counted, 3)]
        if self.depth < 3:
            kinds += [(self.forward, 10), (self.backward, 3), (self.call_something, 5), (self.jump_something, 6),
                      (self.recursion, 1)]
        what = self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        self.depth += 1 if what in (self.forward,) else 0
        what()
        self.depth -= 1 if what in (self.forward,) else 0

    # ---- the whole ----

    def text(self):
        self.lines += [PROLOGUE]
        for self.function in range(self.functions):
            self.label(f"f{self.function}")
            self.out("decl fuel(%rip)")
            self.out(f"jl f{self.function}_end")
            if self.chance(2):
                self.out("push %rbp")
                self.out("mov %rsp, %rbp")
            is_framed = "rbp, " not in self.lines[-1] and "%rbp" in self.lines[-1]
            self.out("lea -512(%rsp), %rsp")
            self.checkpoint()
            for _ in range(self.random.randrange(10, 30)):
                self.something()
                if self.chance(12):
                    self.checkpoint()
            self.out(self.pick(["lea 512(%rsp), %rsp", "add $512, %rsp"]))
            if is_framed:
                self.out("pop %rbp")
            self.label(f"f{self.function}_end")
            if self.function + 1 < self.functions and self.chance(5):
                self.out(f"jmp f{self.function + 1}") # a tail call
            else:
                self.out(self.pick(["ret", "rep ret"]))
        values = ", ".join(str(self.random.getrandbits(64)) for _ in range(ARENA // 8))
        wide = VECTORS_512 if self.wide else VECTORS_256 if self.has("avx") else ""
        text = "\n".join(self.lines) + "\n" + EPILOGUE
        return (text.replace("@VECTORS@", wide).replace("@VALUES@", values).replace("@FUEL@", str(self.fuel))
                .replace("@ROUNDS@", str(self.rounds)))


PROLOGUE = """\t.text
\t.globl _start, checkpoint
_start:
\tmov $stack_top, %esp
\tmov $158, %eax\t\t\t/* arch_prctl(ARCH_SET_FS) */
\tmov $0x1002, %edi
\tmov $arena, %esi
\tsyscall
\tpush $0x202
\tpopfq
\tmov $arena, %r15d
\tirp\t
""".replace("\tirp\t\n", "".join(
    f"\tmov {8 * n}(%r15), %{QUADS[n]}\n" for n in list(range(15)) if n != RSP)) + "".join(
    f"\tmovdqu {16 * n + 256}(%r15), %xmm{n}\n" for n in range(16)) + """\tmov 120(%r15), %r15
\tfninit
1:\tmovl $@FUEL@, fuel(%rip)
\tcall f0
\tdecl rounds(%rip)
\tjnz 1b
\tmovl $0xffffff, image(%rip)
\tcall checkpoint
\tmov $1, %eax
\tmov $1, %edi
\tmov $arena, %esi
\tmov $8192, %edx
\tsyscall
\tmov $231, %eax
\tmov $7, %edi
\tsyscall
plt:
\tjmp *plt_slot(%rip)
"""

VECTORS_512 = "".join(f"\tvmovdqu64 %zmm{n}, image+1024+{64 * n}(%rip)\n" for n in range(32)) + "".join(
    f"\tkmovq %k{n}, image+960+{8 * n}(%rip)\n" for n in range(8))
VECTORS_256 = "".join(f"\tvmovdqu %ymm{n}, image+1024+{64 * n}(%rip)\n" for n in range(16))

EPILOGUE = """
/* All registers are written out, and stay as they are. */
checkpoint:
\tpushfq
\tmov %rax, image+16(%rip)
\tpopq image+8(%rip)
""" + "".join(f"\tmov %{QUADS[n]}, image+{16 + 8 * n}(%rip)\n" for n in range(1, 16)) + """\tfxsave image+256(%rip)
\tmovq $0, image+264(%rip)\t\t/* the last x87 instruction: where it was */
\tmovq $0, image+272(%rip)
\tmovw $0, image+262(%rip)
@VECTORS@\tcmpl $1, rounds(%rip)
\tjg 1f
\tmov $1, %eax
\tmov $1, %edi
\tmov $image, %esi
\tmov $3072, %edx
\tsyscall
1:
""" + "".join(f"\tmov image+{16 + 8 * n}(%rip), %{QUADS[n]}\n" for n in (0, 1, 2, 6, 7, 11)) + """\tpushq image+8(%rip)
\tpopfq
\tret

\t.data
\t.balign 4096
arena:
\t.quad @VALUES@
fuel:\t.long 0
rounds:\t.long @ROUNDS@
recursion_depth: .long 0
plt_slot: .quad 0
saved_rsp: .quad 0
\t.bss
\t.balign 64
image:\t.skip 3072
image_scratch: .skip 4096
counters: .skip 256
slots:\t.skip 256
\t.balign 64
\t.skip 65536
stack_top:
\t.skip 65536
second_stack_top:
\t.skip 64
\t.section .note.GNU-stack, "", @progbits
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--fuel", type=int, default=40, help="how many functions are entered in a round")
    parser.add_argument("--rounds", type=int, default=1, help="how often; only the last writes at its checkpoints")
    parser.add_argument("--features", help="of the processor, as in /proc/cpuinfo, with commas; default: this one's")
    said = parser.parse_args()
    features = features_here() if said.features is None else set(said.features.split(","))
    print(Maker(said.seed, said.fuel, said.rounds, features).text(), end="")


main()
