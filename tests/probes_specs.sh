#!/bin/bash
# SPDX-License-Identifier: MIT
# What specs name, and what is read there: forms, types, strings, names, filler, and all registers kept.
# shellcheck source=tests/probes_setup.bash
. "$(dirname "$0")/probes_setup.bash"

# fields TRACE NAME: the fields of the first such event
fields()
{
	"$waymark" dump --event "$2" "$1" | sed -n '1s/.*: { \(.*\) }$/\1/p'
}

# USDT arguments, in a position-independent program and in one that is not.
for way in "" -no-pie; do
	# shellcheck disable=SC2086 # perhaps no word
	cc -O2 -g $way "$probes_dir/forms.c" -o forms || exit 1
	launched "trace$way" 'usdt:forms:*' ./forms
	expect "forms $way" "$(fields "trace$way" forms:one)" "arg1 = -1, arg2 = 18446744073709551614, \
arg3 = -3, arg4 = 253, arg5 = -1, arg6 = -2, arg7 = -3, arg8 = -4, arg9 = 200, arg10 = 22, arg11 = -5, \
arg12 = 300, arg13 = 77, arg14 = 7, arg15 = 1.25, arg16 = -2.5"
	expect "forms $way" "$(fields "trace$way" forms:two)" "arg1 = 65535, arg2 = 4294967294, arg3 = 0, \
arg4 = 200, arg5 = 1311768467294899695, arg6 = 2427178479, arg7 = 52719, arg8 = 239, \
arg9 = 18446744073709551615, arg10 = 11, arg11 = 33"
done

# Strings, wherever the pointer leads.
launched texts func:text@forms/p:str/ ./forms
"$waymark" dump --event forms:text texts | sed 's/.*{ p = \(.*\) }$/\1/' >got
cat >wanted <<'TEXTS'
"plain"
""
"end"
"start"
"\xff\xfe not UTF-8"
"quote\" back\\slash\n"
NULL
(unreadable)
(unreadable)
(unreadable)
(unreadable)
(unreadable)
(unreadable)
TEXTS
head -13 got | cmp -s - wanted || fail "strings: $(diff got wanted)"
[ "$(sed -n 14p got | tr -dc x | wc -c)" -gt 100 ] || fail "a string of a MiB: $(sed -n 14p got)"

# Types by debug information; a structure has its members.
launched types func:types@forms/ret/ ./forms
expect "types" "$(fields types forms:types:begin | sed 's/, at = 0x.*//')" \
	"c = NOTHING, b = true, pair_a = 1, pair_b = 2, y = 200, s = -5, f = 1.5, d = 2.5, ch = 'q'"
expect "types: result" \
	"$("$waymark" dump --event forms:types:end types | grep -o 'ret = [A-Z]*' | xargs)" \
	"ret = NOTHING ret = GREEN"
launched members func:types@forms/pair.b,y,arg3/ ./forms
expect "a member" "$(fields members forms:types)" "pair_b = 2, y = 200, arg3_a = 1, arg3_b = 2"
run 1 -o none -e func:types@forms/pair:u64/ -- ./forms
says "pair"
says "can't be read as this type"
rm -rf none
# The same where debug information is in files of its own; and where these are gone.
for version in 4 5; do
	cc -O2 -g -gsplit-dwarf "-gdwarf-$version" "$probes_dir/forms.c" -o split || exit 1
	launched "split$version" func:types@split/pair.b,y,arg3/ ./split
	expect "split DWARF $version" "$(fields "split$version" split:types)" "pair_b = 2, y = 200, arg3_a = 1, arg3_b = 2"
	chmod o+w ./*.dwo
	run 1 -o none -e func:types@split/pair.b/ -- ./split
	says ".dwo, with debug information, was not read: it must be a file that root or this user"
	touch split.dwp && rm -rf none ./*.dwo
	run 1 -o none -e func:types@split/pair.b/ -- ./split
	says "/split.dwp, with debug information, was not read: keep the .dwo files"
	rm -rf none split.dwp
	run 1 -o none -e func:types@split/pair.b/ -- ./split
	says ".dwo, with debug information, was not read"
	rm -rf none
done
run 1 -o none -e func:types@forms/pair.c/ -- ./forms
says "pair.c"

# Without debug information the result may be in another register: the field has the name of the one recorded.
build_target record/bare.c -O2 -g0
launched unknown 'func:*@bare/ret/' ./bare
expect "no debug information: int" "$(fields unknown bare:twice:end)" "rax = 0x2a"
expect "no debug information: double" "$(fields unknown bare:half:end | sed 's/0x[0-9a-f]*$/0x/')" "rax = 0x"
launched told_int func:twice@bare/ret:i32/ ./bare
launched told_double func:half@bare/ret:f64/ ./bare
expect "its type is given: int" "$(fields told_int bare:twice:end)" "ret = 42"
expect "its type is given: double" "$(fields told_double bare:half:end)" "ret = 2.5"
timeout 60 "$waymark" list -e func:half@bare/ret/ ./bare >out
grep -q ' rax pointer ' out || fail "list without debug information: $(cat out)"

# Names of C++.
if command -v c++ >/dev/null; then
	c++ -O2 -g "$probes_dir/names.cc" -o names || exit 1
	number=0
	while read -r times spec; do
		number=$((number + 1))
		launched "names$number" "func:$spec" ./names
		expect "$spec" "$("$waymark" dump --no-spans "names$number" | wc -l)" "$times"
	done <<'NAMES'
2 shop::order::add
1 shop::order::add(int)
1 shop::order::add(double)/this,n/
1 shop::order::operator()
1 shop::order::operator[]
1 shop::(anonymous namespace)::hidden
1 shop::box<int>::get
2 shop::box<*>::get
2 shop::box<int>::get/ret/
1 main::{lambda(int)#1}::operator()
7 shop::*@names
1 _ZN4shop5order3addEi
NAMES
	rm -rf none
	run 1 -o none -e func:order::add@names -- ./names
	says "did you mean shop::order::add?"
fi

# Filler that the compiler left: at the entry, part of it before, behind endbr64.
for way in -fcf-protection=none -fcf-protection=full "-fcf-protection=full -no-pie"; do
	# shellcheck disable=SC2086 # words
	build_target record/filler.c -O2 -g0 $way
	timeout 60 "$waymark" list --func at_entry --func before ./filler >out 2>words
	expect "$way: places" "$(grep -cE ' (byte|behind|first) ' out)" 2
	rm -rf filled
	launched filled func:at_entry@filler/arg1:i32,ret:i32/ ./filler
	expect "$way: calls" "$(whole filled filler:at_entry:begin arg1)" 10
	expect "$way: returns" "$(whole filled filler:at_entry:end ret)" 10
done

# A program goes by the link that started it, by its file and by its argv[0]; its events have the link's name.
ln -s forms started
printf '#!%s/started\n' "$folder" >script
chmod +x script
echo 'exec -a another ./started' >renames
number=0
while read -r module program; do
	number=$((number + 1))
	# shellcheck disable=SC2086 # words
	launched "module$number" "func:types@$module" $program
	expect "$module: $program" "$("$waymark" dump "module$number" | grep -o '[a-z]*:types' | sort -u)" started:types
done <<'MODULES'
started ./started
forms ./started
another bash renames
started ./script
MODULES
# one file by two names, in one recording
launched names_both func:types@forms bash -c './started; ./forms'
expect "two names" "$("$waymark" dump names_both | grep -o '[a-z]*:types' | sort | uniq -c | xargs)" "2 forms:types 2 started:types"
# A library goes by the link that it was opened by, too.
ln -s libprobed.so plugin.so
launched plugin func:library_add@plugin.so/arg1:i32/ ./loads ./plugin.so 2 3 armed
expect "a library by a link" "$(values plugin libprobed:library_add arg1 | grep -vc '^-1$')" 6

# Every register there is, flags, the red zone: as they were.
cc -O2 "$probes_dir/registers.c" -o registers -lpthread || exit 1
if ./registers 1; then
	launched kept_by_entry func:passed/rdi:str,xmm1,ret/ ./registers 500
	expect "registers: entries and returns" "$("$waymark" dump --no-spans kept_by_entry | wc -l)" 2000
	inner=$(printf '0x%x' $((0x$(nm registers | awk '$3 == "passed_inner" { print $1 }'))))
	launched kept_inside "addr:registers+$inner/rdi:str,xmm3/" ./registers 500
	expect "registers: an address" "$("$waymark" dump kept_inside | wc -l)" 1000
	grep -qw avx512bw /proc/cpuinfo || echo "no AVX-512 here: registers were kept as far as AVX has them"
else
	echo "no AVX here: whether registers are kept was not seen"
fi

# All flags, DF and AC among them, and a thread's first hit under these: by each way into the agent.
cc -O2 $has_sdt -I"$source_dir/include" "$probes_dir/flags.c" "$probes_dir/flags_portable.c" -o flags -lpthread || exit 1
middle=$(printf '0x%x' $((0x$(nm flags | awk '$3 == "placed_middle" { print $1 }'))))
unkept=$(flags_unkept ./flags) || fail "flags.c: natively it does not pass"
[ "$unkept" = 0 ] || echo "not compared, this machine loses them natively: flags $unkept (NT)"
./flags 1 "$unkept" >flags.native
for spec in func:plain/arg1:u8,arg3:u64/ "addr:flags+$middle" func:returned/arg1:u8,arg3,ret/ func:chained/ret/ \
	func:string/arg1:str/ ${has_sdt:+usdt:flags:noted} marker:flags:marked marker:flags:marked_portably; do
	launched "flags_$((++number))" "$spec" ./flags 1 "$unkept"
	grep 'wrong' out | cmp -s - flags.native || fail "$spec: $(grep -v ' wrong 0' out)"
	[ "$(json recorded)" -ge 256 ] || fail "$spec: $(json recorded) events"
done
# hand-written code that keeps the carry flag over a call
cc -O1 "$probes_dir/sums.c" -o sums || exit 1
launched sums_entry func:load_next/arg2/ ./sums
launched sums_return func:load_next/ret/ ./sums

# Returns that the function, or what it ends in, looks at: refused by name, the entry is recorded.
cc -O2 -w -DLIBRARY -fPIC -shared "$probes_dir/caller.c" -o libcaller.so && mkdir plugins &&
	cc -O2 -DPLUGIN -fPIC -shared "$probes_dir/caller.c" -o plugins/plugin.so &&
	cc -O2 -w "$probes_dir/caller.c" -o caller -L. -lcaller '-Wl,-rpath,$ORIGIN:$ORIGIN/plugins' || exit 1
for name in find_next load_plugin who load_by_library who_by_library load_here load_by_pointer; do
	run 1 -o "look_$name" -e "func:$name/ret/" -- ./caller
	grep -qx ok out || fail "$name: $(cat out)"
	says "looks at the return address"
	launched "entry_$name" "func:$name" ./caller
	grep -qx ok out || fail "the entry of $name: $(cat out)"
done
ways=0
for flags in -fno-plt -mcmodel=large '-fno-plt -mindirect-branch=thunk' \
	'-fno-plt -mindirect-branch=thunk-inline'; do
	cc -O2 -w $flags "$probes_dir/caller.c" -o caller_by -L. -lcaller \
		'-Wl,-rpath,$ORIGIN:$ORIGIN/plugins' || continue
	run 1 -o "look_by_$((++ways))" -e func:load_here/ret/ -- ./caller_by
	grep -qx ok out || fail "$flags: $(cat out)"
	says "looks at the return address"
done
for name in main start_thread savectx assert_failures puts@libcaller.so; do
	launched "return_$name" "func:$name/ret/" ./caller
	grep -qx ok out || fail "$name: $(cat out)"
	[ "$(json recorded)" -ge 2 ] || fail "the return of $name: $(json recorded) events"
done
cc -O1 -w -pg "$probes_dir/sums.c" -o profiled || exit 1
run 1 -o profiled_return -e func:main@profiled/ret/ -- ./profiled
says "it calls mcount"
launched profiled_entry func:main@profiled ./profiled

exit "$failed"
