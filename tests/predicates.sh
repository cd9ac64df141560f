#!/bin/bash
# SPDX-License-Identifier: MIT
# What is recorded with conditions is what the full trace has for which they hold: no more, no less.
# shellcheck source=tests/filtered_setup.bash
. "$(dirname "$0")/filtered_setup.bash"

# same WHAT EXPRESSION: ./some.events has what ./full.events has where a Python expression of their fields holds
same()
{
	python3 "$source_dir/tests/predicates.py" "$2" <full.events | sort >wanted
	python3 "$source_dir/tests/predicates.py" True <some.events | sort >got
	[ -s wanted ] || fail "$1: nothing is wanted"
	cmp -s wanted got || fail "$1: $(wc -l <got) events, expected $(wc -l <wanted): $(diff wanted got | head -n 5)"
}

# accounted WHAT NAME: the last recording's events and the hits that it rejected are all hits of that event
accounted()
{
	expect "$1: recorded and rejected" "$(($(json recorded) + $(found rejected)))" "$(grep -c "\"$2" full.events)"
}

# ---- markers: each way a process continues or ends, with eight threads ----

for way in plain fork late kill; do
	recorded full "$way" 'shop:*'
	recorded some "$way" 'shop:order/if=rows==0/'
	same "order, $way" 'name == "shop:order" and f.rows == 0'
	accounted "order, $way" shop:order
	recorded some "$way" 'shop:query/if=sql~"UPDATE*",if=thread>=2,if=thread<6/'
	same "query, $way" 'name == "shop:query" and str(f.sql).startswith("UPDATE") and 2 <= f.thread < 6'
done
recorded full late 'shop:*'
recorded some late 'shop:late/if=round&6/'
same "late library" 'name == "shop:late" and f.round & 6'

# every relation, floats, text with commas and slashes in it, alternatives
recorded full plain 'shop:*'
for test in 'order/if=round!=7/|f.rows is not None and f.round != 7' 'order/if=price>=199.5/|f.price is not None and f.price >= 199.5' \
	'order/if=rows>0xfa/|f.rows is not None and f.rows > 250' 'order/if=round<=1K,if=rows<3/|f.rows is not None and f.round <= 1024 and f.rows < 3' \
	'query/if=sql=="UPDATE u SET a=1, b=2"/|f.sql == "UPDATE u SET a=1, b=2"' \
	'query/if=sql!="UPDATE t"/|name == "shop:query" and f.sql is not None and f.sql != "UPDATE t"' \
	'query/if=sql~*[12]/|f.sql in ("SELECT 1", "UPDATE u SET a=1, b=2")'; do
	recorded some plain "shop:${test%%|*}"
	same "${test%%|*}" "${test#*|}"
done
recorded some plain 'shop:order/if=rows==0/' 'shop:ord*/if=thread==3,if=round<10/'
same "alternatives" 'name == "shop:order" and (f.rows == 0 or f.thread == 3 and f.round < 10)'
recorded some plain 'shop:order/if=rows==0/' 'shop:*'
same "a spec without conditions takes all" 'True'

# ---- functions: arguments, enumerators, texts, in each way ----

for way in plain fork kill; do
	recorded full "$way" 'func:place@filtered/thread,size,name:str,colour/'
	recorded some "$way" 'func:place@filtered/thread,size,name:str,colour,if=size>=1990,if=colour==BLUE/'
	same "place, $way" 'f.size >= 1990 and f.colour == -3'
	accounted "place, $way" filtered:place
done
recorded full plain 'func:place@filtered/thread,size,name:str,colour/'
recorded some plain 'func:place@filtered/args,if=arg2>1990,if=name~"n[3-5]"/'
same "place: arg2, name" 'f.size > 1990 and f.name in ("n3", "n4", "n5")'

# with the return: a call that is rejected has neither begin nor end
recorded some plain 'func:place@filtered/ret,if=size==11/'
expect "begins of a span" "$(grep -c place:begin some.events)" 8
expect "ends of a span" "$(grep -c place:end some.events)" 8

# ---- a condition on the result or the duration: one event, with the arguments of the entry ----

for way in plain fork kill; do
	recorded full "$way" 'func:place@filtered/thread,size,name:str,colour/'
	recorded some "$way" 'func:place@filtered/thread,size,name:str,colour,if=ret<0,if=thread!=5/'
	sed -i 's/,"duration":[0-9]*//; s/,"ret":-[0-9]*//' some.events
	same "ret, $way" 'f.size % 11 == 0 and f.size and f.thread != 5'
	accounted "ret, $way" filtered:place
done
run 0 -o nothing -e 'func:place@filtered/if=size>1M/' -- ./filtered
grep -q '16,000 hits did not meet the conditions' words || fail "rejected hits are not reported: $(cat words)"
recorded some plain 'func:wait_for@filtered/if=duration>1ms/'
expect "slow calls" "$(grep -c '"is_slow":1' some.events)" 4
expect "calls in all" "$(grep -c wait_for some.events)" 4
python3 -c 'import json
for line in open("some.events"):
	fields = json.loads(line)["fields"]
	assert 2e6 <= fields["duration"] < 2e9 and fields["ret"] == 1, fields' || fail "duration: $(head -n 2 some.events)"

# ---- the caller: a module that calls, by the return address ----

recorded full late 'func:place@filtered/thread,size,name:str,colour/'
recorded some late 'func:place@filtered/thread,size,name:str,colour,if=caller=="late"/'
same "a caller that is loaded late" 'f.size < 0'
accounted "a caller that is loaded late" filtered:place
recorded some late 'func:place@filtered/thread,size,name:str,colour,if=caller!="late.so",if=size<9/'
same "not that caller" '0 <= f.size < 9'
recorded some late 'func:place@filtered/thread,size,name:str,colour,if=caller~"*/lat?.so",if=ret==3/'
sed -i 's/,"duration":[0-9]*//; s/,"ret":3//' some.events
same "a caller by its path, and the result" 'f.size < 0 and f.size % 11 and f.thread == 3'
recorded some late 'func:place@filtered/sum=size,by=caller,if=caller~"late*"/'
expect "by=caller of a caller" "$("$waymark" report --sums some | grep -c 'late_call')" 1
for way in fork kill; do
	recorded full "$way" 'func:place@filtered/thread,size,name:str,colour/'
	recorded some "$way" 'func:place@filtered/thread,size,name:str,colour,if=caller=="filtered",if=size>=1990/'
	same "the program calls, $way" 'f.size >= 1990'
done
# a function that ends in a jump to another one: the stub of its return is in the place of the address
cat >jumping.c <<-'END'
	#define PROBED __attribute__((noinline, noclone, patchable_function_entry(5)))
	PROBED int last(int n) { __asm__ volatile("" : "+r"(n)); return n; }
	PROBED int first(int n) { __asm__ volatile("" : "+r"(n)); return last(n + 1); }
	int main(void)
	{
		int sum = 0;
		for (int i = 0; i < 10; i++)
			sum += first(i);
		return sum == 0;
	}
END
cc -O2 -g jumping.c -o jumping || exit 1
run 0 --json -o jumps -e 'func:first@jumping/ret/' -e 'func:last@jumping/if=caller=="jumping"/' -- ./jumping
expect "callers behind a stub" "$(json recorded)" $((10 * 3))
! grep -q 'caller is compared' words || fail "a module that is there: $(cat words)"
# a function is no module
run 0 --json -o nowhere -e 'func:last@jumping/if=caller=="first"/' -- ./jumping
says 'func:last@jumping/if=caller=="first"/: caller is compared with modules, and none was called so: first'
says 'of functions that call, by=caller has sums, and bt=N each hit'

# ---- USDT probes: arguments, texts ----

if "$waymark" list --usdt ./filtered | grep -q filtered:pass; then
	for way in plain fork kill; do
		recorded full "$way" 'usdt:filtered:pass/arg1,arg2,arg3:str/'
		recorded some "$way" 'usdt:filtered:pass/arg1,arg2,arg3:str,if=arg3~"UPDATE*",if=arg2>=1990/'
		same "USDT, $way" 'f.arg2 >= 1990 and str(f.arg3).startswith("UPDATE")'
		accounted "USDT, $way" filtered:pass
	done
else
	echo "left out, USDT: no sys/sdt.h"
fi

# errno is a result of libc's functions: 0 where they succeed
cat >failing.c <<-'FAILING'
	#include <fcntl.h>
	#include <unistd.h>
	int main(void)
	{
		for (int i = 0; i < 12; i++)
			close(open((const char *[]){ "/none", "/dev/null", "/dev" }[i % 3], i % 3 == 2 ? O_WRONLY : O_RDONLY));
		return 0;
	}
FAILING
cc -O1 failing.c -o failing || exit 1
for test in 'errno==ENOENT|"/none" -1 2' 'errno!=0,if=errno!=ENOENT|"/dev" -1 21' 'errno==0,if=file~"/dev*"|"/dev/null" [0-9]* 0'; do
	rm -rf some
	run 0 -o some -e "func:open@libc.so.6/args,if=${test%%|*}/" -- ./failing
	"$waymark" dump --json some | python3 -c 'import json, sys
for line in sys.stdin:
	f = json.loads(line).get("fields")
	if f: print(json.dumps(f["file"]), f["ret"], f["errno"])' >got
	expect "${test%%|*}" "$(wc -l <got) $(grep -cvx "${test#*|}" got)" "4 0"
done

# ---- levels: a marker of another level is not armed ----

recorded full plain 'log:*'
for test in 'level<=info|f.said == 1 or name.startswith("log:long_one") or name == "log:failed" or
		f.level is not None and f.level <= 6' \
	'level==debug_line|name.startswith("log:scope")' 'level<err|f.level is not None and f.level < 3' \
	'level==debug|f.said == 0'; do
	recorded some plain "log:*/if=${test%%|*}/"
	same "${test%%|*}" "${test#*|}"
done
# begins alone have that field
recorded some plain 'log:[fls]*/if=level<=debug,if=number>=5/'
same "a level and a field" 'f.number is not None and f.number >= 5 and
	name in ("log:failed", "log:long_one:begin", "log:scope:begin")'
recorded some plain 'log:*/if=level==err/' 'log:opened/if=level>info/'
same "levels of two specs" 'name == "log:failed" or f.said == 0 or f.level == 3'
rm -rf some
start_ready "$waymark" record -o some -e 'log:opened/if=level<=info/' -e log:failed -- ./filtered wait
child_of "$pid" filtered
# has_armed NAME SITES ARMED: so many places of the marker are
has_armed() { "$waymark" list -p "$child" | grep -qE "^$1 +[a-z]+ +$2 +$3 "; }
await has_armed log:failed 1 1 || fail "levels: not armed: $("$waymark" list -p "$child")"
has_armed log:opened 2 1 && has_armed log:plain 1 - ||
	fail "levels: armed: $("$waymark" list -p "$child")"
echo >&7
await has_ended "$pid"
run 1 -o none -e 'log:*/if=level<=inf/' -- ./filtered
grep -q 'names no level: these are emerg,' words || fail "no level: $(cat words)"

# ---- two recordings of one process: each has its own condition ----

start_ready "$waymark" record -o first -e 'shop:order/if=rows==0/' -- ./filtered wait
first_recorder=$pid
child_of "$first_recorder" filtered
start "$waymark" record -o second -p "$child" -e 'shop:order/if=rows==255/' -e shop:query
# is_armed_for_both: only the second has this marker
is_armed_for_both()
{
	"$waymark" list -p "$child" | grep -qE '^shop:query +event +1 +1 '
}
await is_armed_for_both || fail "the second recording does not arm"
# Of a running process too, a marker that is refused alone has its reason printed.
run 1 -o none -e 'shop:query/if=sqk=="a"/' -p "$child"
grep -qF 'no field sqk; did you mean sql?' words || fail "in a running process: $(cat words)"
echo >&7
await has_ended "$child"
await has_ended "$pid"
await has_ended "$first_recorder"
recorded full plain 'shop:*'
"$waymark" dump --json first >some.events
same "the first of two recordings" 'name == "shop:order" and f.rows == 0'
"$waymark" dump --json second >some.events
same "the second of two recordings" 'name == "shop:query" or name == "shop:order" and f.rows == 255'

# ---- what can't be is refused before anything is armed ----

# refused SPEC WORDS: nothing is recorded, and the words say why
refused()
{
	rm -rf none
	run 1 -o none -e "$1" -- ./filtered
	grep -qF -e "$2" words || fail "$1: no '$2' in: $(cat words)"
}

refused 'shop:order/if=rowz==0/' 'no field rowz; did you mean rows?'
refused 'shop:order/if=caller~"a*"/' "functions' entries alone; by=caller and bt=1 have it"
refused 'func:place@filtered/if=time>5/' 'waymark dump takes --from and --to'
refused 'func:place@filtered/if=errno==5/' "only returns of libc's functions have it"
refused 'func:place@filtered/if=caller==late/' 'caller is text: write "late" in quotes'
refused 'func:place@filtered/if=caller>5/' "caller can't be compared so"
refused 'shop:order/if=rows==256/' "can't be compared so"
refused 'shop:order/if=rows~"a*"/' "can't be compared so"
refused 'shop:query/if=sql==3/' "can't be compared so"
refused 'func:place@filtered/if=siz>3/' 'siz; did you mean size?'
refused 'func:place@filtered/if=colour==BLEU/' 'BLEU is no enumerator of its type; did you mean BLUE?'
refused 'func:open@libc.so.6/if=errno==ENOEN/' 'ENOEN is no enumerator of its type; did you mean ENOENT'
refused 'func:place@filtered/if=thread~"a"/' 'thread is no text'
refused 'func:place@filtered/if=thread==0x100000000/' "thread can't have this value"

# or it can't be read
refused 'shop:order/if=rows/' 'is no condition'
refused 'shop:order/if=rows==/' 'is no condition'
refused 'shop:order/if=rows=="a/' 'has no quote'
refused 'shop:order/if=rows==RED/' 'compares with a word'
refused 'shop:order/if=rows==5q/' 'has no value'
refused 'shop:order/if=a==1,if=b==1,if=c==1,if=d==1,if=e==1/' 'one too many'

# ---- a text that can't be read: the hit is left out, and counted ----

cat >unreadable.c <<-'END'
	__attribute__((noinline, noclone, patchable_function_entry(5))) void take(const char *text) { __asm__ volatile("" : : "r"(text) : "memory"); }
	int main(void)
	{
		for (int i = 0; i < 10; i++)
			take(i % 2 ? "yes" : (const char *)8);
		return 0;
	}
END
cc -O1 -g unreadable.c -o unreadable || exit 1
rm -rf some
run 0 --json -o some -e 'func:take@unreadable/if=text~"y*"/' -- ./unreadable
expect "readable texts" "$(json recorded)" 5
run 0 -o some2 -e 'func:take@unreadable/if=text~"y*"/' -- ./unreadable
grep -q '5 hits left out' words || fail "unreadable texts are not reported: $(cat words)"

exit $failed
