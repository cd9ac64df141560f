#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Builds the marker tests with each compiler, language level and way of linking, warnings being
# errors, runs each, and looks at the object code. Prints a line for what failed, then the counts.
#
#	matrix.sh [--quick]	quick: one line of the matrix for each compiler and language

set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quick=${1:-}

warnings="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"
include="-I$root -I$root/include"
sources="main.c fields.c shapes.c inline_a.c inline_b.c"

have() { command -v "$1" >/dev/null 2>&1; }

# build NAME OUTPUT CC LANGUAGE STANDARD FLAGS: the test program.
build() {
	local cc=$3 files=() file more=() output=$2
	[ "$4" = c++ ] && { cc=${cc/gcc/g++}; cc=${cc/clang/clang++}; }
	[ "$4" = c ] && more+=(-D_POSIX_C_SOURCE=200809L)
	for file in $sources; do files+=("$here/$file"); done
	[ "$4" = c++ ] && files+=("$here/classes.cc")
	case $5 in
	*++1[14]) ;;
	*++*) files+=("$here/cxx.cc"); more+=(-DWITH_CXX) ;; # it is C++17
	esac
	# shellcheck disable=SC2086 # flags are words
	if [[ $6 = *-shared* ]]; then
		local flags=${6/-shared/}
		$cc -x "$4" -std="$5" "${more[@]}" $warnings $include $flags -fPIC -shared \
			"$here/library.c" -o "$output.so" || return 1
		$cc -x "$4" -std="$5" "${more[@]}" $warnings $include $flags -DWITH_LIBRARY \
			"${files[@]}" -x none "$work/arm.o" "$output.so" -o "$output"
	else
		$cc -x "$4" -std="$5" "${more[@]}" $warnings $include $6 "${files[@]}" \
			-x none "$work/arm.o" -o "$output"
	fi
}

# One line of the matrix, in a process of its own.
one() {
	local name=$1 output=$work/$1
	if ! build "$@" 2>"$output.log"; then
		echo "not ok: $name: does not build: $(grep -m1 -E 'error|undefined' "$output.log")"
	elif [ -s "$output.log" ]; then
		echo "not ok: $name: the compiler says: $(head -n1 "$output.log")"
	elif ! timeout 60 "$output" >"$output.out" 2>&1; then
		echo "not ok: $name: $(head -n2 "$output.out" | tr '\n' ' ')"
	elif ! { strip -s "$output" && timeout 60 "$output" >/dev/null; }; then
		echo "not ok: $name: stripped, it fails"
	else
		echo "ok: $name"
	fi
	rm -f "$output" "$output".*
}

# name=NAME and the arguments of build, divided by |.
matrix() {
	local cc language standard level flags standards
	for cc in gcc clang; do
		have $cc || continue
		for language in c c++; do
			standards="c11 gnu11 gnu17"
			[ $language = c++ ] && standards="c++17 gnu++17 c++20 c++11"
			standard=${standards%% *}
			if [ -n "$quick" ]; then
				echo "$cc|$language|$standard|-O2"
				continue
			fi
			for standard in $standards; do
				for level in -O0 -O2; do echo "$cc|$language|$standard|$level"; done
			done
			standard=${standards%% *}
			while read -r flags; do
				# libstdc++ lacks inline functions then: even a std::string does not
				# link
				[ "$cc $language $flags" = "clang c++ -O2 -finstrument-functions" ] && continue
				[ -n "$flags" ] && echo "$cc|$language|$standard|$flags"
			done <<-END
				-O1
				-O3
				-Os
				-Og -g3
				-O0 -fPIC -shared
				-O2 -fPIC -shared
				-O2 -fPIC -shared -DWAYMARK_PORTABLE
				-O2 -fPIE -pie
				-O2 -fno-pie -no-pie
				-O0 -static
				-O2 -static
				-O2 -fPIE -static-pie
				-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections
				-O2 -fno-omit-frame-pointer
				-O2 -mno-red-zone
				-O2 -fcf-protection=full
				-O2 -fstack-protector-all
				-O2 -fvisibility=hidden -fno-plt
				-O3 -march=x86-64-v3
				-O0 -DWAYMARK_PORTABLE
				-O2 -DWAYMARK_PORTABLE
				-O2 -DWAYMARK_PORTABLE -static
				-O2 -finstrument-functions
				-O1 -fsanitize=address,undefined
				-O1 -fsanitize=thread
			END
			if [ $cc = gcc ]; then
				echo "$cc|$language|$standard|-O3 -funroll-all-loops -fipa-cp-clone"
				echo "$cc|$language|$standard|-O2 -flto"
				echo "$cc|$language|$standard|-O2 -fno-reorder-blocks-and-partition"
				[ $language = c ] && echo "$cc|$language|$standard|-O2 -fexceptions"
				have ld.gold && echo "$cc|$language|$standard|-O2 -fuse-ld=gold"
			fi
			if have ld.lld; then
				echo "$cc|$language|$standard|-O2 -fuse-ld=lld"
				[ $cc = clang ] && echo "$cc|$language|$standard|-O2 -flto -fuse-ld=lld"
				[ $cc = clang ] && echo "$cc|$language|$standard|-O2 -flto=thin -fuse-ld=lld"
			fi
		done
	done
}

# The instructions of a function up to its first return, one address and text a line.
hot_path() {
	objdump -d --no-show-raw-insn "$1" | awk -v name="<$2>:" '
		done { print; exit }
		index($0, name) { inside = 1; next }
		inside { print } inside && /\tret/ { done = 1 }'
}

# Bytes from the function's start to the end of its first return, a one-byte instruction.
hot_bytes() {
	local first last
	first=$(hot_path "$@" | head -n1 | sed 's/[ \t]*\([0-9a-f]*\):.*/\1/')
	last=$(hot_path "$@" | grep -m1 -P '\tret' | sed 's/[ \t]*\([0-9a-f]*\):.*/\1/')
	echo $((0x$last + 1 - 0x$first))
}

expect() { # NAME CONDITION...
	local name=$1
	shift
	if "$@"; then echo "ok: $name"; else echo "not ok: $name"; fi
}

leaf_check() { # CC FLAGS
	local cc=$1 object=$work/leaf-$1.o function plain marked hot
	# shellcheck disable=SC2086
	$cc -std=gnu11 $2 $include -c "$here/leaf.c" -o "$object" || return
	for function in leaf_marked:leaf_plain leaf_string:leaf_string_plain; do
		marked=$(hot_bytes "$object" "${function%:*}")
		plain=$(hot_bytes "$object" "${function#*:}")
		expect "$cc $2: ${function%:*} costs $((marked - plain)) bytes" [ $((marked - plain)) -eq 5 ]
		hot=$(hot_path "$object" "${function%:*}" | sed '/ret/q')
		expect "$cc $2: ${function%:*} has no push and no frame" \
			[ "$(grep -cE 'push|sub .*rsp' <<<"$hot")" -eq 0 ]
	done
}

disable_check() { # CC LANGUAGE STANDARD
	local cc=$1 file object=$work/disable.o found=""
	[ "$2" = c++ ] && cc=${cc/gcc/g++} && cc=${cc/clang/clang++}
	for file in fields.c shapes.c inline_a.c; do
		# shellcheck disable=SC2086
		$cc -x "$2" -std="$3" -D_POSIX_C_SOURCE=200809L -DWAYMARK_DISABLE $warnings -O2 $include \
			-c "$here/$file" -o "$object" 2>"$work/disable.log" || found="$found $(head -n1 "$work/disable.log")"
		found="$found$(readelf -SW "$object" | grep -iE 'waymark|stapsdt')$(nm "$object" | grep -E 'waymark\.|wm__')"
	done
	expect "$1 $2: -DWAYMARK_DISABLE leaves nothing $found" [ -z "$found" ]
}

wrong_check() { # CC LANGUAGE STANDARD
	local cc=$1 use text
	[ "$2" = c++ ] && cc=${cc/gcc/g++} && cc=${cc/clang/clang++}
	while IFS='|' read -r use text; do
		# shellcheck disable=SC2086
		if $cc -x "$2" -std="$3" $include -D"$use" -fsyntax-only "$here/wrong.c" 2>"$work/wrong.log"; then
			echo "not ok: $1 $2: $use compiles"
		else
			expect "$1 $2: $use is refused in words" grep -qE "error:.*$text" <(sed 's/[\\]//g' <"$work/wrong.log")
		fi
	done <<-END
		WRONG_STRUCT|waymark: a value of this type can't be a field
		WRONG_INT128|waymark: a value of this type can't be a field
		WRONG_17|waymark: a marker takes at most 16 fields
		WRONG_17_EXPRESSIONS|waymark: a marker takes at most 16 fields
		WRONG_SDT_13|waymark: WAYMARK_SDT takes 12 fields
		WRONG_SDT_BYTES|waymark: WM_BYTES, WM_ARRAY and what has a length are not for WAYMARK_SDT
		WRONG_SDT_ARRAY|waymark: WM_BYTES, WM_ARRAY and what has a length are not for WAYMARK_SDT
		WRONG_ARRAY|waymark: an array can't be a field; WM_ARRAY
		WRONG_MEMBER_ARRAY|waymark: an array can't be a field; WM_ARRAY
		WRONG_STRUCT_ARRAY|waymark: an array can't be a field; WM_ARRAY
		WRONG_ARRAY_OF_STRUCT|waymark: WM_ARRAY takes an array of numbers
		WRONG_ARRAY_OF_LONG_DOUBLE|waymark: WM_ARRAY takes an array of numbers
		WRONG_NET_BYTE|waymark: WM_NET takes an integer of 16, 32 or 64 bits
		WRONG_NET_FLOAT|waymark: WM_NET takes an integer of 16, 32 or 64 bits
		WRONG_HEX|waymark: WM_HEX takes an integer
		WRONG_HEX_ARRAY|waymark: WM_HEX takes an integer
		WRONG_ENUM|waymark: WM_ENUM takes an integer or an enumeration
		WRONG_SCOPE|waymark: a value of this type can't be a field
	END
}

# A handler of other types is an error in each language level, without an option that asks for it.
handler_check() { # CC
	local cc standard
	for standard in c11 gnu11 c17 gnu17 c2x gnu2x c++11 gnu++14 c++17 c++20 gnu++2b; do
		cc="$1 -x c"
		[[ $standard = *++* ]] && cc="$1++ -x c++" && cc=${cc/gcc++/g++}
		# shellcheck disable=SC2086
		$cc -std=$standard -w $include -fsyntax-only "$here/handler.c" 2>"$work/handler.log"
		expect "$cc -std=$standard: these handlers of other types are errors, and no others" \
			cmp -s <(grep -n '/\* refused \*/$' "$here/handler.c" | cut -d: -f1) \
			<(sed -n 's/.*handler\.c:\([0-9]*\):.* error: .*/\1/p' "$work/handler.log" | uniq)
	done
}

# A function's instructions, without the parts that depend on their length. With -masm=intel a
# register is pushed instead of a constant.
plain_code() {
	# shellcheck disable=SC2016 # $0 is the assembler's
	objdump -d --no-show-raw-insn "$1" | sed -E '1,3d; s/push +%rsp$/push   $0x0/
		s/^ *[0-9a-f]+:\t//; s/^[0-9a-f]+ </</; s/\b(j[a-z]+|call) +[0-9a-f]+ .*/\1/
		s/#.*//; /nop|xchg +%ax,%ax/d; s/ +$//'
}

is_same() { [ -f "$1.o" ] && cmp -s <(plain_code "$1-att.o") <(plain_code "$1.o"); }
is_silent() { [ -f "$1.o" ] && [ ! -s "$1.log" ]; }

# Options under which a header of assembler and C11 may not compile.
narrow_check() { # CC
	local cc level flags language portable object=$work/narrow-$1
	while read -r language flags; do
		for level in -O0 -O2; do
			cc=$1
			[ "$language" = c++ ] && cc=${cc/gcc/g++} && cc=${cc/clang/clang++}
			# shellcheck disable=SC2086
			$cc -x "$language" -Wall -Wextra $include $level $flags -c "$here/narrow.c" \
				-o "$object.o" >"$object.log" 2>&1
			expect "$cc $level $flags: $(head -n1 "$object.log")" is_silent "$object"
			rm -f "$object.o"
		done
	done <<-END
		c -std=c89
		c -std=gnu89
		c -std=c99
		c -finstrument-functions -DWITH_SDT
		c -mgeneral-regs-only -DWITH_SDT
		c++ -std=c++11
		c++ -std=c++14
		c++ -std=c++17 -finstrument-functions -DWITH_SDT
		c++ -std=c++17 -mgeneral-regs-only
		c++ -std=c++20
	END
	for language in "c -std=gnu11" "c++ -std=c++17"; do
		cc=$1
		[ "${language%% *}" = c++ ] && cc=${cc/gcc/g++} && cc=${cc/clang/clang++}
		for level in -O0 -O2; do
			for portable in "" -DWAYMARK_PORTABLE; do
				# shellcheck disable=SC2086
				{
					$cc -x $language $include $level $portable -c "$here/narrow.c" \
						-o "$object-att.o"
					$cc -x $language $include $level $portable -masm=intel \
						-c "$here/narrow.c" -o "$object.o"
				} >"$object.log" 2>&1
				expect "$cc $level $portable -masm=intel: the code is the same" \
					is_same "$object"
				rm -f "$object.o" "$object-att.o"
			done
		done
	done
}

# No warning, whatever is asked for, in each language level.
every_check() { # CC
	local cc standard level portable object=$work/every-$1 strict
	strict="$warnings -Wcast-qual -Wundef -Wcast-align -Wunused"
	for standard in c11 gnu11 c17 gnu17 c2x c++11 c++14 gnu++14 c++17 c++20 c++2b gnu++2b; do
		for level in -O0 -O2 "-O2 -DWAYMARK_PORTABLE" "-O2 -DWAYMARK_DISABLE"; do
			cc="$1 -x c -Wdeclaration-after-statement"
			[[ $standard = *++* ]] && cc="$1++ -x c++" && cc=${cc/gcc++/g++}
			# shellcheck disable=SC2086
			$cc -std=$standard $strict $include $level -c "$here/every.c" -o "$object.o" \
				>"$object.log" 2>&1
			expect "$cc -std=$standard $level: $(head -n1 "$object.log")" is_silent "$object"
			rm -f "$object.o"
		done
	done
}

# What can't be served is refused in the header's words.
refused_check() { # CC
	local cc language flags text
	while IFS='|' read -r language flags text; do
		cc=$1
		[ "$language" = c++ ] && cc=${cc/gcc/g++} && cc=${cc/clang/clang++}
		# shellcheck disable=SC2086
		if $cc -x "$language" $include $flags -c "$here/narrow.c" -o "$work/refused.o" \
			2>"$work/refused.log"; then
			echo "not ok: $cc $flags compiles"
		else
			expect "$cc $flags is refused in words" \
				grep -qE "[Ee]rror:.*waymark: $text" "$work/refused.log"
		fi
	done < <(
		echo "c++|-std=c++98|marker.h needs C..11"
		echo "c|-masm=intel -DWITH_SDT|WAYMARK_SDT needs -masm=att"
		[ "$1" = gcc ] &&
			echo "c|-mcmodel=large|gcc has no constant addresses under -mcmodel=large"
	)
}

sdt_check() { # CC
	local notes program=$work/sdt
	build sdt "$program" "$1" c gnu11 -O2 || return
	notes=$(readelf -n "$program")
	expect "$1: readelf shows the SDT note" grep -q 'Name: sdt_twelve' <<<"$notes"
	expect "$1: its arguments have sizes" \
		grep -qE 'Arguments: -8@\S+ 8@\S+ 8@\S+ 8@\S+ -8@\S+ 8@\S+ 8@\S+' <<<"$notes"
	expect "$1: a marker that is never called is dropped by --gc-sections" \
		build gc "$work/gc" "$1" c gnu11 "-O2 -ffunction-sections -Wl,--gc-sections -Wl,-z,start-stop-gc"
	expect "$1: ... its site too" [ "$("$work/gc" shape dead)" -eq 0 ]
}

facts() {
	local cc level
	for cc in gcc clang; do
		have $cc || continue
		for level in "-O2" "-O3" "-O2 -fPIC"; do leaf_check $cc "$level"; done
		disable_check $cc c c11
		disable_check $cc c++ c++17
		wrong_check $cc c gnu11
		wrong_check $cc c++ c++17
		handler_check $cc
		sdt_check $cc
		narrow_check $cc
		every_check $cc
		refused_check $cc
	done
}

# shellcheck disable=SC2086
gcc -std=gnu11 -D_GNU_SOURCE -O2 -fPIE $include -Wall -Wextra -Werror -c "$here/arm.c" -o "$work/arm.o" || exit 1
export -f one build have
export here root work warnings include sources

number=0
while IFS='|' read -r cc language standard flags; do
	number=$((number + 1))
	name=$(tr -cs 'A-Za-z0-9+\n' _ <<<"$number $cc $language $standard $flags")
	printf '%s\0' "$name" "$work/$name" "$cc" "$language" "$standard" "$flags"
done < <(matrix) >"$work/list"
xargs -0 -n 6 -P "$(nproc)" bash -c 'one "$@"' one <"$work/list" >"$work/results"
facts >>"$work/results"

grep -v '^ok' "$work/results"
passed=$(grep -c '^ok' "$work/results")
failed=$(grep -vc '^ok' "$work/results")
echo "marker matrix: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
