#!/bin/bash
# SPDX-License-Identifier: MIT
# A value that takes several debug registers is shown by its parts that change: elements, members, text; a number is one hit.
no_ticker=1
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
needs breakpoint-write breakpoint-signal

build_target watch/parts.c

# parts HITS WORDS [OPTION]... <LINES: of the hits of WORDS their part, its name and the values; as many in the JSON output
parts()
{
	local hits=$1
	shift
	timeout -k 5 60 "$waymark" watch -f "$@" -- ./parts >out 2>words || fail "watch $*: $(cat words)"
	sed -n '/ -> /s/^ *[0-9.]* *[0-9]*  \(.*\)main (parts.c:[0-9]*)  /\1/p' out >lines
	cmp -s - lines || fail "watch $*: $(cat out words)"
	timeout -k 5 60 "$waymark" watch --json "$@" -- ./parts >out 2>words || fail "watch --json $*: $(cat words)"
	python3 - "$hits" <<'END' || fail "watch --json $*: $(cat out)"
import json, sys
said = json.load(open("out"))
lines = open("lines").read().splitlines()
assert said["hits"] == len(lines), said
for hit, line in zip(said["hit"], lines):
    assert line.replace("~", "").endswith(hit["before"] + " -> " + hit["after"]), (hit, line)
assert said["watch"][0]["hits"] == int(sys.argv[1]), said
END
}

parts 4 ext <<'END'
ext[1]  0 -> 4
ext[2]  0 -> 5
ext[0..1]  {0, 4} -> {0, 4}
ext[2..3]  {5, 0} -> {2, 3}
END
parts 3 text <<'END'
text.text[0..7]  "\000\000\000\000\000\000\000" -> "hello wo"
text.text[8..15]  "\000\000\000\000\000\000\000" -> "\000l\000\000\000\000\000"
text.text[0..7]  "hello wo" -> "cello wo"
END
parts 12 pk.l <<'END'
0 -> -1
-1 -> 0
0 -> 1
END
parts 9 pk <<'END'
pk.l  0 -> -1
pk.l  -1 -> 0
pk.l  0 -> 1
pk.i  0 -> 7
pk.c  0 '\000' -> 120 'x'
END
parts 2 members <<'END'
members.b  0 -> 3
members.a..c  {a = 0, b = 3, c = 0} -> {a = 6, b = 7, c = 9}
END
parts 2 bits <<'END'
bits.high  0 -> 9
bits.low  0 -> 2
END
parts 4 extended <<'END'
0 -> ~1.25
~1.25 -> ~-3
END
parts 2 number <<'END'
number.real  0 -> 1.5
number.imag  0 -> 2.5
END
# Two instructions: what is known is the half.
parts 2 wide <<'END'
wide+0  0 -> 18446744073709551615
wide+8  0 -> 18446744073709551615
END
parts 4 ext --hex <<'END'
ext[1]  0x0 -> 0x4
ext[2]  0x0 -> 0x5
ext[0..1]  {0x0, 0x4} -> {0x0, 0x4}
ext[2..3]  {0x5, 0x0} -> {0x2, 0x3}
END

# Fortran: an element is found by columns, and binary128 is no long double.
if command -v gfortran >/dev/null; then
	cat >columns.f90 <<-'END'
		module shop
		  integer, save :: g(3,4) = 0, low(-1:1) = 0
		  real(16), save :: q = 1.5_16
		  real(10), save :: x = 1.5_10
		  complex(16), save :: z = (1.5_16, -2.25_16)
		  integer, allocatable, save :: a(:)
		  type pair
		    integer :: m(2,3) = 0
		  end type
		  type(pair), save :: kept
		end module
		program main
		  use shop
		  allocate(a(4))
		  g(2,1) = 7
		  g(1,2) = 8
		  low(-1) = 9
		  q = q + 1
		  x = x + 1
		  z = (1.5_16, 0.5_16)
		  a(2) = 1
		  kept%m(2,1) = 3
		  kept%m(1,2) = 4
		end program
	END
	gfortran -g -O0 columns.f90 -o columns || fail "columns.f90"
	for seen in 'g[2][1]:0 -> 7' 'g[1][2]:0 -> 8' 'low[-1]:0 -> 9' 'low:shop::low\[-1\] .*0 -> 9' 'z:shop::z.\(real .*1.5 -> 1.5\|imag .*-2.25 -> 0.5\)$' 'q: 1.5 -> 2.5' 'x:1.5 -> ~2.5' \
		'kept.m[2][1]:0 -> 3' 'kept.m[1][2]:0 -> 4'; do
		timeout -k 5 60 "$waymark" watch -f "shop::${seen%%:*}" -- ./columns >out 2>words || fail "${seen%%:*}: $(cat words)"
		[ "$(grep -c -- ' -> ' out)" -eq "$(grep -c -- "${seen#*:}" out)" ] && grep -q -- "${seen#*:}" out ||
			fail "$seen: $(cat out words)"
	done
	for seen in 'a[2]:whose place and bounds are in a descriptor' 'a:whose place and bounds are in a descriptor' \
		'g[2]:in one piece only with all its indices'; do
		timeout -k 5 60 "$waymark" watch "shop::${seen%%:*}" -- ./columns >out 2>words && fail "${seen%%:*} is watched"
		grep -q -- "${seen#*:}" words || fail "$seen: $(cat words)"
	done
fi

# A number in the other byte order is shown by its bytes.
cat >foreign.c <<-'END'
	struct __attribute__((scalar_storage_order("big-endian"))) foreign { int number; } foreign = { 1 };
	int main(void) { foreign.number = 2; return 0; }
END
if cc -g foreign.c -o foreign 2>foreign.words && [ ! -s foreign.words ]; then
	timeout -k 5 60 "$waymark" watch -f foreign.number -- ./foreign >out 2>words || fail "foreign: $(cat words)"
	grep -q '  {0x00, 0x00, 0x00, 0x01} -> {0x00, 0x00, 0x00, 0x02}$' out || fail "foreign: $(cat out words)"
fi

# Conditions ask of one register's number; why not of more is said.
refused()
{
	timeout -k 5 60 "$waymark" watch "$1" -- ./parts >out 2>words && fail "$1 is watched"
	grep -q -- "$2" words || fail "$1: not said: $2: $(cat words)"
}
refused 'ext/if=value==4/' "name a member or an element"
refused 'pk.l/if=value==1/' "each sees its own bytes only"
refused 'extended/if=value>1/' "can't be compared so with this type"
exit $failed
