#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs as Debian ships them, and their own suites, do under the engine what they do natively:
# case by case the same result, byte by byte the same output; some once more with SIGALRM at 1 kHz.
# And what was recorded reads to its last block.
#
#	engine_suites.sh [NAME]...
#
# Each NAME is a function real_NAME, here or in tests/real/*.bash. It prepares files in an empty
# folder and calls `same`, or `missing` with what it lacks. `all`: all of them. If a
# recorded run has something that the native run had not, up to five more native runs may have it.
# The last lines are the share of programs whose runs were all as natively, and their number.
#
# WAYMARK_REAL_RUNS: recorded runs of each command (1)
# WAYMARK_REAL_SECONDS: no program begins after so many seconds (110); unused with NAMEs
# WAYMARK_REAL_LAST: the flight recorder's size (4M); or `no`: all is written
# WAYMARK_REAL_LIMIT: seconds that one run may take (250)
# PYTHON_MODULES: modules of Python's own suite, instead of the few that every run has
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"
# shellcheck source=tests/postgres.bash
. "$source_dir/tests/postgres.bash"
# shellcheck source=tests/real/languages.bash
. "$source_dir/tests/real/languages.bash"
# shellcheck source=tests/real/tools.bash
. "$source_dir/tests/real/tools.bash"
# shellcheck source=tests/real/servers.bash
. "$source_dir/tests/real/servers.bash"
waymark=$WAYMARK_BUILD/cli/waymark
real=$source_dir/tests/real
runs=${WAYMARK_REAL_RUNS:-1}
option=last=${WAYMARK_REAL_LAST:-4M}
[ "$option" != last=no ] || option=
chmod 755 "$folder"
unset DISPLAY
export PYTHONDONTWRITEBYTECODE=1 HOME=$folder/run LC_ALL=C.UTF-8
PATH=/usr/bin:/bin:/usr/sbin:/sbin:/usr/games:/usr/lib/postgresql/15/bin
limit=${WAYMARK_REAL_LIMIT:-250}
storm_seconds=2 # of Java
preload=()
normal=   # for sed: what differs natively
not_here= # what this program lacks

# missing WHAT: this program can't run here
missing()
{
	not_here="$*"
}

# has COMMAND...: all of them are installed; or this program can't run here
has()
{
	local one
	for one in "$@"; do
		command -v "$one" >/dev/null || { missing "$one" && return 1; }
	done
}

# left_behind: processes that work in the program's folder, or below it
left_behind()
{
	find /proc -maxdepth 2 -name cwd -lname "$folder/run*" 2>/dev/null | cut -d / -f 3
}

# run_one RESULT RECORDER COMMAND...: in a fresh copy of the prepared folder, whose name is always
# the same. RECORDER is `recorded` or `env`. The program's standard error goes to `said`, the tool's
# to `words`.
run_one()
{
	local result=$1 recorder=$2 status seconds=$((end_by - SECONDS))
	shift 2
	[ $seconds -lt "$limit" ] || seconds=$limit
	[ $seconds -gt 0 ] || seconds=1
	rm -rf "$folder/run"
	cp -a "$folder/made" "$folder/run"
	# shellcheck disable=SC2016 # that shell expands it
	(cd "$folder/run" && "$recorder" sh -c 'exec 2>"$0" && exec "$@"' "$folder/said" \
		timeout -k 5 "$seconds" env "${preload[@]}" "$@") \
		<"$folder/input" >"$folder/out" 2>"$folder/words"
	status=$?
	left_behind | xargs -r kill -KILL 2>/dev/null
	{
		cat "$folder/out"
		echo "status $status"
		cat "$folder/said"
	} | sed -E -e "$normal" >"$result"
}

recorded()
{
	timeout -k 5 $((seconds + 15)) "$waymark" record -v -o "$folder/trail" \
		-e "trail/soft${option:+,$option}/" -- "$@"
}

# is_late: no run has time any more; what the last one did is not known
is_late()
{
	[ "$SECONDS" -ge "$end_by" ] || return
	missing "time"
}

# same COMMAND...: its output and status are those of a native run; the trail has the last of it
same()
{
	local number more
	run_one "$folder/native" env "$@"
	for ((number = 1; number <= runs; number++)); do
		rm -rf "$folder/trail"
		run_one "$folder/engine" recorded "$@"
		! is_late || return
		grep -E '^waymark: .*(natively|unrecorded|not recorded)' "$folder/words" |
			sed "s/^waymark:/said $name $case_number:/"
		for ((more = 0; more < 5; more++)); do
			! cmp -s "$folder/native" "$folder/engine" || break
			run_one "$folder/native.more" env "$@"
			! cmp -s "$folder/native.more" "$folder/engine" || break
		done
		[ $more -lt 5 ] || is_late || fail "$name $case_number, run $number:" \
			"$(diff "$folder/native" "$folder/engine" | head -n 8)"
		timeout 60 "$waymark" trail -n 3 "$folder/trail" >"$folder/shown" 2>&1 || is_late ||
			fail "$name $case_number: its trail can't be read:" \
				"$(tail -n 3 "$folder/shown")"
		[ -s "$folder/shown" ] || fail "$name $case_number: its trail is empty"
	done
	case_number=$((case_number + 1))
}

# twice COMMAND...: also with SIGALRM at 1 kHz
twice()
{
	same "$@"
	preload=(LD_PRELOAD="$folder/alarmed.so")
	same "$@"
	preload=()
}

real_python_suite()
{
	local module
	[ -e /usr/lib/python3.11/test/test_weakref.py ] || { missing "libpython3.11-testsuite"; return; }
	for module in ${PYTHON_MODULES:-test_generators test_exceptions test_coroutines \
		test_threading_local test_weakref}; do
		same /usr/bin/python3 -E "$real/cases.py" "$module"
	done
	preload=(LD_PRELOAD="$folder/alarmed.so")
	same /usr/bin/python3 -E "$real/cases.py" test_struct
	preload=()
}

real_sqlite()
{
	has sqlite3 || return
	cat >"$folder/input" <<-'END'
		create table t(a integer primary key, b text, c real);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
			insert into t select i, hex(i * 7919 % 10007), i / 7.0 from n;
		create index tb on t(b);
		select count(*), sum(a), round(avg(c), 6) from t where b like '3%';
		select b, count(*) from t group by substr(b, 1, 2) order by 2 desc, 1 limit 7;
		begin; delete from t where a % 3 = 0; savepoint s; update t set c = -c;
		rollback to s; commit;
		select count(*), total(c) from t join (select a x from t where a < 500) on x = a;
		select group_concat(value) from
			(select value from json_each('[3,1,2]') order by value);
		pragma integrity_check;
	END
	twice sqlite3 :memory:
}

real_postgres()
{
	pg_find >"$folder/why" || { missing "$(cat "$folder/why")"; return; }
	export PG_AS="${pg_as[*]}"
	[ ${#pg_as[@]} -eq 0 ] || chown -R "${pg_as[2]}:${pg_as[4]}" "$folder/made"
	cat >work.sql <<-'END'
		create temp table t as select i, md5(i::text) m from generate_series(1, 3000) i;
		select count(*), min(m), max(m), sum(length(m)) from t where m < '8';
		select i % 7, count(*) from t group by 1 order by 1;
	END
	# shellcheck disable=SC2016 # that shell expands it
	same sh -c '$PG_AS initdb -D $PWD/data -U waymark -A trust -N \
			--no-instructions >log; echo $?
		$PG_AS postgres --single -c log_checkpoints=off -D $PWD/data template1 <work.sql'
}

real_stress()
{
	local one
	has stress-ng || return
	for one in "cpu 1 --cpu-ops 20" "sigsegv 1 --sigsegv-ops 2000" \
		"sigpending 1 --sigpending-ops 2000" "sigq 1 --sigq-ops 2000" \
		"timer 1 --timer-ops 2000" \
		"context 1 --context-ops 200" "pthread 1 --pthread-ops 30"; do
		# shellcheck disable=SC2086 # words
		same stress-ng -q --verify --timeout 30 --$one
	done
}

: >input
command -v cc >/dev/null || skip "no C compiler"
cc -O2 -shared -fPIC -o alarmed.so "$real/alarmed.c" || exit 1
"$waymark" record -e trail/soft/ -o probe -- true >out 2>&1 ||
	skip "no trail by translation: $(head -n 1 out)"
names=("$@")
begin_by=${WAYMARK_REAL_SECONDS:-110} end_by=270 # of the 300 that tests/list.txt allows
[ $# -eq 0 ] || begin_by=1000000 end_by=1000000
case ${*-} in
"" | all)
	mapfile -t names < <({
		printf '%s\n' perl gcc python3 sqlite postgres node lua stress # first
		declare -F | sed -n 's/^declare -f real_//p'
	} | awk '!seen[$0]++')
	;;
esac
ran=0 fine=0 any=0
SECONDS=0
for name in "${names[@]}"; do
	declare -F "real_$name" >/dev/null || { fail "there is no program $name" && any=1 && continue; }
	[ $SECONDS -le "$begin_by" ] || { echo "skipped $name: lacks time"; continue; }
	failed=0 not_here='' normal='' case_number=0
	rm -rf made
	mkdir made
	: >input
	cd made || exit 1
	"real_$name"
	cd "$folder" || exit 1
	any=$((any | failed))
	if [ $case_number -eq 0 ] && [ $failed -eq 0 ]; then
		echo "skipped $name: lacks $not_here"
		continue
	fi
	ran=$((ran + 1))
	[ $failed -ne 0 ] || { fine=$((fine + 1)) && echo "fine: $name"; }
done
[ $ran -gt 0 ] || [ $any -ne 0 ] || skip "nothing of it is installed"
[ $ran -eq 0 ] || awk "BEGIN { f = $fine / $ran
	printf \"figure soft.real_programs %.4f ratio\n%d programs\n\", f, $ran }"
exit "$any"
