#!/bin/bash
# SPDX-License-Identifier: MIT
# waymark record of a trail by the engine together with markers and probes, and of chosen modules.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"

needs_engine
soft=(-e trail/soft/)

build_target trail/both.c

# counted NAME EVENT COUNT: so many in the trace
counted()
{
	timeout 60 "$waymark" report "$1" >shown 2>report_words || fail "report $1: $(cat report_words)"
	grep -qE "^$2 +$3 " shown || fail "$1: not $3 of $2: $(cat shown)"
}

# whole NAME: its trails are
whole()
{
	timeout 60 "$waymark" trail "$1" >shown 2>trail_words || fail "trail $1: $(cat trail_words)"
	grep -v 'has other code than ran there' trail_words >shown_words # where a probe is
	[ ! -s shown_words ] || fail "trail $1: $(cat trail_words)"
	timeout 60 "$waymark" trail --functions "$1" 2>trail_words >/dev/null
	! grep memfd trail_words || fail "trampolines have no names: $(cat trail_words)"
	timeout 60 "$waymark" dump "$1" 2>/dev/null >dumped
	expect "$1: trails with an end" "$(grep -c 'trail:end' dumped)" "$(grep -c 'trail:begin' dumped)"
}

# Markers and probes of all ways, with every thread's branches, in one trace.
rm -rf ran
run 7 --json "${soft[@]}" -e marker:both:turn -e func:leaf/ret/ -o ran -- ./both 5000
says "by translation"
counted ran both:turn 10000
counted ran both:leaf:begin 10000
counted ran both:leaf:end 10000
whole ran
expect "threads whose way was recorded" "$(grep -c 'by soft: [0-9]*,[0-9,]* blocks' shown)" 2
line=$(grep -n LINE "$source_dir/tests/targets/trail/both.c" | cut -d: -f1)
for spec in func:leaf "addr:both.c:$line"; do
	rm -rf ran
	run 7 --json "${soft[@]}" -e "$spec" -o ran -- ./both 500
	expect "$spec" "$(json recorded)" 1000
	whole ran
done

# The trail shows as many calls as a probe counts beside it.
rm -rf ran
run 7 --json "${soft[@]}" -e marker:both:turn -o ran -- ./both 500
timeout 60 "$waymark" trail --functions -n 0 ran >shown 2>words || fail "trail --functions: $(cat words)"
grep -qE "^ *[0-9.]+% +[0-9.]+% +1000 .*\bleaf\b" shown || fail "leaf was not called 1,000 times: $(grep leaf shown)"

# Children run natively, with their agent, and their trail is reported as missing.
rm -rf ran
run 7 --json "${soft[@]}" -e func:leaf -o ran -- ./both 100 x
expect "with a child" "$(json recorded)" 200
whole ran

# It may be over before the program.
rm -rf ran
run 7 --json "${soft[@]}" -e marker:both:turn --for 500ms -o ran -- ./both 3000000
[ "$(json recorded)" -gt 0 ] || fail "nothing in 500 ms"
whole ran

# Chosen modules: the calls that lead elsewhere come back, and what elsewhere calls are calls.
rm -rf ran all
run 7 --json -e trail/soft,only=both/ -o ran -- ./both 100
whole ran
chosen=$(json blocks)
grep -q "gap: ran unrecorded in other modules" shown || fail "no gap"
run 7 --json "${soft[@]}" -o all -- ./both 100
[ "$chosen" -lt "$(json blocks)" ] || fail "chosen: $chosen blocks"
for name in ran all; do
	timeout 60 "$waymark" trail --functions -n 0 $name 2>words | grep -E ' (leaf|order|work|main) +both' |
		awk '{ print $3, $4, $5, $6 }' | sort >$name.text
done
cmp ran.text all.text || fail "only=: $(cat ran.text), all: $(cat all.text)"
[ -s all.text ] || fail "no functions"
# --module chooses them when the trail is read: the last N are those of the module.
shows()
{
	timeout 60 "$waymark" trail --json "$@" all 2>words
}
for way in instructions branches; do
	shows --$way -n 0 | grep '^{"type":"[ib]' | grep '[_"]module":"[^"]*/both"' >full
	shows --$way -n 0 --module both | grep '^{"type":"[ib]' >chosen
	cmp full chosen || fail "--$way --module"
	for tid in $(sed 's/.*"tid":\([0-9]*\).*/\1/' full | uniq); do
		grep "\"tid\":$tid," full | tail -n 9
	done >last
	expect "threads, 9 of each" "$(wc -l <last)" 18
	shows --$way -n 9 --module both | grep '^{"type":"[ib]' >chosen
	cmp last chosen || fail "--$way --module -n 9"
done
blocks=$(shows --instructions -n 0 --module both | grep '^{"type":"i' |
	sed 's/.*"tid":\([0-9]*\).*"block":\([0-9]*\).*/\1 \2/' | uniq | wc -l)
timeout 60 "$waymark" trail --blocks --module both -n 1 all >shown 2>words
grep -q "^$blocks blocks ran, " shown || fail "--blocks --module: not $blocks: $(head -1 shown)"
shows --functions -n 0 --module both >shown
grep -q '"function":"work"' shown || fail "--functions --module lacks work: $(cat shown)"
grep -v '"module":"[^"]*/both"' shown && fail "--functions --module has other modules"
timeout 60 "$waymark" trail --lines --module 'libc.so*' all >shown 2>words
grep -q 'leaf' shown && fail "--lines --module has another module's lines"
shows --module 'libnone*' >shown
expect "status where no module matches" $? 1
says "no module of the trace matches --module libnone*"
shows --calls --module both >shown
expect "status of --calls --module" $? 2

# What was left out on request is not missing where two runs part.
rm -rf some
run 7 -e trail/soft,only=both/ -o some -- ./both 3
timeout 60 "$waymark" diff ran some >shown 2>words
expect "diff of chosen modules" $? 1
grep -q "runs unrecorded in other modules" shown || fail "diff does not name other modules: $(cat shown)"
grep -q "missing" shown && fail "diff of chosen modules has blocks missing: $(cat shown)"
rm -rf ran
run 7 --json -e trail/soft,only=libc.so,libnone.so,libnot/ -o ran -- ./both 100
says "never had a module of the name libnone.so, libnot"
[ "$(json blocks)" -gt 0 ] || fail "nothing in libc"

# Each name that a library has means it, and a name in brackets is no glob: when it is recorded, and
# when it is read.
printf 'int named(int a) { __asm__ volatile(""); return a + 1; }\n' >named.c
printf '#include <time.h>
int named(int); int main(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return named(6); }\n' >names.c
cc -shared -fPIC -Wl,-soname,libnamed.so.1 named.c -o other.bin && ln -s other.bin libnamed.so.1 &&
	cc names.c ./libnamed.so.1 -Wl,-rpath,"$PWD" -o names || exit 1
cc -shared -fPIC -Wl,-soname,libnumber.so.1 named.c -o libnumber.so.1.2.3 && ln -s libnumber.so.1.2.3 libnumber.so.1 &&
	cc names.c ./libnumber.so.1 -Wl,-rpath,"$PWD" -o numbers || exit 1
for only in names/libnamed.so.1 names/other.bin numbers/libnumber.so.1 numbers/libnumber.so.1.2.3 numbers/libnumber 'numbers/libnum*'; do
	rm -rf ran
	run 7 --json -e "trail/soft,only=${only#*/}/" -o ran -- "./${only%%/*}"
	timeout 60 "$waymark" trail --functions ran 2>words | grep -q ' named ' || fail "only=${only#*/}: $(cat words)"
	rm -rf ran
	run 7 --json -e "func:named@${only#*/}" -o ran -- "./${only%%/*}"
	expect "func:named@${only#*/}" "$(json recorded)" 1
done
rm -rf all
run 7 "${soft[@]}" -o all -- ./numbers
for module in libnumber.so.1 libnumber '[vdso]'; do
	shows --blocks -n 0 --module "$module" >shown
	[ "$(grep -c '"type":"block"' shown)" -gt 0 ] || fail "--module $module: $(head -3 shown; cat words)"
done

# All of a static program is main.
build_target trailed.c -ffreestanding -fno-stack-protector -nostdlib -static -no-pie
rm -rf ran
run 7 --json -e trail/soft,only=main/ -o ran -- ./trailed l 20
blocks=$(json blocks)
rm -rf ran
run 7 --json -e trail/soft/ -o ran -- ./trailed l 20
expect "all is main" "$blocks" "$(json blocks)"

# A running program is taken by the engine alone, without markers.
start ./both 2000000000
bad 1 "soft takes no running program together with markers" "${soft[@]}" -e marker:both:turn --for 100ms -p "$pid"

# What can't be, before anything runs.
bad 1 "is there twice: name each module once" -e trail/soft,only=main,main/ -- ./both 1
bad 1 "needs a value: only=NAME" -e trail/only=/ -- ./both 1
bad 2 "--on marker:both:turn: the events before one of a spec are kept by --last" -e trail/soft,last=1M/ --on marker:both:turn -- ./both 1
[ ! -s out ] || fail "it ran: $(cat out)"

exit $failed
