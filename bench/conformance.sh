#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Whether programs behave under the engine as they do natively:
#
#	conformance.sh WAYMARK ENGINE SOURCES [NAME...]
#
# SOURCES is a checkout of the record-and-replay debugger rr. Its src/test has some 690 small
# programs; each uses one corner of the kernel. This script fetches nothing:
#
#	git clone --depth 1 https://github.com/rr-debugger/rr
#
# It builds the C and C++ programs (or those of NAME) and runs each of them $WAYMARK_BENCH_RUNS
# times (3; at least 2) natively and as often recorded. A program conforms if each recorded run has
# the status and the output of a native run. Where the output of the native runs varies, the numbers
# in it and the order of its lines are ignored; where it still varies, only the status counts.
# What some programs do depends on luck, for example on which thread the kernel runs next. So if a
# recorded run has something that no native run had, the program runs natively up to 30 times more.
# Programs that do not end natively within 10 seconds, most of them for a debugger, are left out.
#
# Lines `differs NAME: HOW` name the exceptions, lines `said NAME: WORDS` have Waymark's messages,
# and the last line is the share of programs that conform. Use a machine that is yours alone: some
# of the programs send signals to their process group, fill memory, or mount.
# shellcheck disable=SC2046 # words of a list
set -u
waymark=$(realpath "$1")
WAYMARK_ENGINE=$(realpath "$2") # not the installed one
export WAYMARK_ENGINE
sources=$(realpath "$3")/src/test
shift 3
runs=${WAYMARK_BENCH_RUNS:-3}
more=30 # native runs, where a recorded one differs
work=$(mktemp -d "${TMPDIR:-/tmp}/waymark-conformance.XXXXXX")
trap 'rm -rf "$work"' EXIT
ulimit -c 0

# build SOURCE: the program of the same name, where it can be built without rr
build()
{
	"${CC:-cc}" -O0 -w -DMQUEUE_H=1 -DFANOTIFY_H=1 "$1" -o "$work/bin/$(basename "${1%.*}")" \
		-I "$work" -I "$sources/../preload" -I "$sources/../../include" \
		-pthread -ldl -lrt -lm -lutil -lstdc++ 2>/dev/null
}

# one NAME COMMAND...: runs the program in a folder of its own. Prints its status; its output is in
# $work/out
one()
{
	local name=$1 folder status parent=() left
	shift
	# it sends a signal to its parent, which would be ours
	# shellcheck disable=SC2016 # that shell expands it
	[ "$name" != restart_abnormal_exit ] || parent=(sh -c '"$0"; exit $?')
	folder=$(mktemp -d "$work/run.XXXXXX")
	cp "$work/bin/$name" "$folder"
	(cd "$folder" && exec timeout -k 2 "$limit" "$@" setsid "${parent[@]}" "./$name") \
		>"$work/out" 2>"$work/words" </dev/null
	status=$?
	# children that outlive it may print, too
	for ((left = 20; left > 0; left--)); do
		[ -n "$(left_in "$folder")" ] || break
		sleep 0.1
	done
	left_in "$folder" | xargs -r kill -KILL 2>/dev/null
	rm -rf "$folder"
	echo $status
}

# left_in FOLDER: the processes that work there
left_in()
{
	find /proc -maxdepth 2 -name cwd -lname "$1*" 2>/dev/null | cut -d / -f 3
}

# digest: of the output; and without its numbers and the order of its lines
digest() { md5sum <"$work/out"; }
numberless() { sed -E 's/0x[0-9a-f]+|-?[0-9]+/N/g' "$work/out" | sort | md5sum; }

# kept FILE: whether each line of it is the same
kept() { [ "$(sort -u "$1" | wc -l)" -le 1 ]; }

# natively NAME: one more run. 2 if it does not end
natively()
{
	local status
	limit=10
	status=$(one "$1" env)
	[ "$status" -ne 124 ] || return 2
	echo "$status" >>"$work/native.status"
	digest >>"$work/native.exact"
	numberless >>"$work/native.rough"
}

# difference NAME: what no native run had, in words; fails if there is nothing
difference()
{
	local kind
	for kind in status exact rough; do
		sort -u "$work/native.$kind" -o "$work/native"
		sort -u "$work/soft.$kind" -o "$work/soft"
		case $kind in
		exact) kept "$work/native.exact" || continue ;;
		rough)
			if kept "$work/native.exact" || ! kept "$work/native.rough"; then
				continue
			fi
			;;
		esac
		[ -n "$(comm -13 "$work/native" "$work/soft")" ] || continue
		[ $kind = status ] || { echo "differs $1: its output" && return 0; }
		echo "differs $1: natively" $(sort "$work/native.status" | uniq -c), \
			recorded $(sort "$work/soft.status" | uniq -c) "(runs, status)"
		return 0
	done
	return 1
}

# compare NAME: 0 if it conforms, 2 if it is left out
compare()
{
	local name=$1 run status
	rm -f "$work"/native.* "$work"/soft.*
	for ((run = 0; run < runs; run++)); do
		natively "$name" || return 2
	done
	limit=40
	for ((run = 0; run < runs; run++)); do
		status=$(one "$name" "$waymark" record -e trail/soft,last=4M/ -o "$work/trail" --)
		rm -rf "$work/trail"
		echo "$status" >>"$work/soft.status"
		digest >>"$work/soft.exact"
		numberless >>"$work/soft.rough"
		sed -nE "/ natively |unrecorded/s/^waymark:/said $name:/p" "$work/words"
	done
	for ((run = 0; run < more; run++)); do
		difference "$name" >/dev/null || return 0
		natively "$name"
	done
	! difference "$name"
}

mkdir "$work/bin"
export PYTHONDONTWRITEBYTECODE=1
(cd "$work" && python3 "$sources/../generate_syscalls.py" SyscallEnumsForTestsX64.generated) ||
	exit 1
for file in "$sources"/*.c "$sources"/*.cc "$sources"/x86/*.c; do
	case " ${*:-all} " in " all " | *" $(basename "${file%.*}") "*) ;; *) continue ;; esac
	build "$file" || echo "not built: $(basename "$file")"
done
count=0 conform=0
# it executes itself without end if it has no arguments
rm -f "$work/bin/mmap_shared_extern"
for program in "$work"/bin/*; do
	compare "$(basename "$program")"
	case $? in
	0) conform=$((conform + 1)) && count=$((count + 1)) ;;
	1) count=$((count + 1)) ;;
	*) echo "left out $(basename "$program"): it does not end natively" ;;
	esac
done
[ $count -gt 0 ] || { echo "no program could be built" && exit 77; }
awk "BEGIN { printf \"figure soft.conformance %.4f ratio\\n\", $conform / $count }"
