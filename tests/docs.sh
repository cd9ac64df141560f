#!/bin/bash
# SPDX-License-Identifier: MIT
# The examples in README.md and in the manual pages run as they are printed, those in C compile; and
# manual pages and --help name the same options. What an example takes for granted is put there for it: a
# server, a PostgreSQL of our own, `pidof` and `pgrep` that find no others, /tmp below our own folder.
# shellcheck source=tests/record_setup.bash
. "$(dirname "$0")/record_setup.bash"
# shellcheck source=tests/postgres.bash
. "$source_dir/tests/postgres.bash"

needs_engine
man=$source_dir/docs/man
ran=0
trap 'pg_stop; cleanup' EXIT

# man_example PAGE: the indented text under EXAMPLE or EXAMPLES
man_example()
{
	awk '/^# /{ on = /^# EXAMPLES?$/ } on && /^    / { print substr($0, 5) } on && /^$/ { print }' "$man/$1.md"
}

# ---- C ----

# A pipe's last part runs in this shell, so that compiles() can say that the test failed.
shopt -s lastpipe

# compiles NAME FLAG...: standard input
compiles()
{
	local name=$1
	shift
	cat >"$name.c"
	cc -O2 -Wall -Werror -I"$source_dir/include" "$name.c" "$@" 2>words || fail "$name: $(cat words)"
	ran=$((ran + 1))
}

{
	echo 'struct request { int method, id; struct { const char *path; } url; const void *key; unsigned key_bytes; };
	int lookup(struct request *); void check_tables(void); int reply(struct request *);
	int handle(struct request *);
	#include <stdbool.h>
	#include <stdint.h>
	struct packet { uint16_t port, flags; int kind; };
	void received(const struct packet *, const int *, unsigned int);
	void transaction_begin(int id); void transaction_end(int id, bool committed);'
	man_example waymark-marker.3
} | compiles marker -c
{
	echo '#include <stddef.h>'
	echo 'struct wm_probe; int watch_net(struct wm_probe **probe); long unwatch_net(struct wm_probe *probe);'
	man_example waymark-probe.3
} | compiles probe -c
{
	printf '#include <stddef.h>\n#include <waymark/handler.h>\n'
	man_example waymark-handler.3
} | compiles handler -shared -fPIC
{
	echo '#include <stdio.h>
	#include <waymark/error.h>
	#include <waymark/session.h>
	int print_event(const struct wm_event *, void *); int record(char *const argv[]);
	void example(pid_t pid); void example(pid_t pid) {'
	man_example waymark-session.3 | sed 's/^int record(/}\n&/'
} | compiles session -c
{
	echo '#include <stddef.h>
	#include <waymark/session.h>
	int print_event(const struct wm_event *, void *); int record_all(struct wm_session *);
	int serve(struct wm_session *);'
	man_example waymark-session-wait.3
} | compiles session-wait -c
{
	echo '#include <stdio.h>
	#include <poll.h>
	#include <waymark/error.h>
	#include <waymark/kevent.h>
	#include <unistd.h>
	int show(const struct wm_kevent_hit *, void *); int count_calls(pid_t tid, uint64_t function, uint64_t *hits);
	void example(pid_t, uint64_t); void example(pid_t pid, uint64_t at) {'
	man_example waymark-kevent.3 | sed 's/^int count_calls(/}\n&/'
} | compiles event -c
{
	echo '#include <stdio.h>
	#include <waymark/claim.h>
	#include <waymark/error.h>
	#include <waymark/kevent.h>
	int example(pid_t, struct wm_kevent_request *); void wait_for_user(void);
	int example(pid_t pid, struct wm_kevent_request *watch) {'
	man_example waymark-claim.3
	echo 'return err; }'
} | compiles claim -c
{
	echo '#include <stdio.h>
	#include <waymark/error.h>
	#include <waymark/trail.h>
	void example(char **argv); int count(pid_t pid); void example(char **argv) {'
	man_example waymark-trail.3 | sed 's/^int count(/}\n&/'
} | compiles trail -c
{
	echo '#include <stdio.h>
	#include <waymark/trail.h>
	void print_lines(struct wm_trail *trail); void print_calls(struct wm_trail_cursor *cursor);'
	man_example waymark-trail-cursor.3
} | compiles cursor -c
{
	echo '#include <waymark/trail.h>
	void example(struct wm_trail *trail, char **argv); void example(struct wm_trail *trail, char **argv) { int err;'
	man_example waymark-trail-options.3
	echo '(void)err; }'
} | compiles options -c
{
	echo '#include <stdio.h>
	#include <waymark/error.h>
	#include <waymark/list.h>
	int list_probes(pid_t); int count_functions(const char *);'
	man_example waymark-list.3
} | compiles list -c
{
	echo '#include <stdio.h>
	#include <waymark/error.h>
	#include <waymark/trace.h>
	uint64_t lost(struct wm_trace *); void example(void); void example(void) {'
	man_example waymark-trace.3 | sed 's/^uint64_t lost(/}\n&/'
} | compiles trace -c
{
	echo '#include <stdio.h>
	#include <unistd.h>
	#include <waymark/agent.h>
	int start(void); pid_t fork_worker(void);'
	man_example waymark-agent.3
} | compiles agent -c

# ---- commands ----

mkdir bin tmp
for name in pidof pgrep less; do
	case $name in
	pidof) printf '#!/bin/bash\nfor p in /proc/[0-9]*; do [ $p/exe -ef "%s/$1" ] && echo ${p#/proc/} && exit; done; exit 1\n' "$folder" ;;
	pgrep) printf '#!/bin/sh\n[ "$*" = "-o postgres" ] && cat "%s/postgres.pid"\n' "$folder" ;;
	less) printf '#!/bin/sh\ncat\n' ;;
	esac >bin/$name
	chmod 755 bin/$name
done
export PATH=$folder:$folder/bin:$PATH
ln -s "$source_dir/include" include
ln -s "$source_dir/examples" examples
chmod 755 "$folder" # PostgreSQL's processes load the agent as a user of their own
cc -O2 -I"$source_dir/include" "$source_dir/tests/docs/server.c" -o server -ldl || exit 1

SERVER_SECONDS=600 start ./server

if pg_find >words && pg_start 1 >words; then
	head -n 1 "$pg_folder/data/postmaster.pid" >postgres.pid
	# 100 transactions a second: without a bound it takes a CPU from all that runs beside it
	pg_run pgbench -n -c 2 -R 100 -T 600 >/dev/null 2>&1 &
	started+=($!)
else
	echo "without PostgreSQL: $(cat words)"
fi

# can_run COMMAND: what it needs is there
can_run()
{
	case $1 in
	*watch[\ :]*) ! lacks breakpoint-write breakpoint-signal ;;
	*/postgresql/15/bin/*) [ -x /usr/lib/postgresql/15/bin/postgres ] ;;
	*postgres*) [ -e postgres.pid ] ;;
	*libz*) [ -e /lib/x86_64-linux-gnu/libz.so.1 ] ;;
	esac
}

# run_example COMMAND FOLDER: in a folder with the server; it may take as long as it says, or until Ctrl-C
run_example()
{
	local command=${1//\/tmp\//$folder/tmp/} status interrupt=(timeout -k 5 90)
	[[ $command != *"--for 1h"* && $command != *" --policy cyclic"* && $command == *"--for"* || $command != *" -p "* ||
		$command != *record* ]] || interrupt=(timeout --preserve-status -s INT -k 20 12)
	mkdir -p "$2"
	ln -sf "$folder/server" "$2/server"
	(cd "$2" && "${interrupt[@]}" bash -o pipefail -c "$command" >out 2>words)
	status=$?
	[ $status -eq 0 ] || echo "$1: status $status: $(cat "$2/words")" >"$2/failed"
}

# Examples that record run side by side, for some take ten seconds; what reads their traces comes after, and those
# that step through the server, one at a time.
number=0
jobs=()
while read -r line; do
	number=$((number + 1))
	can_run "$line" || { echo "left out: $line"; continue; }
	ran=$((ran + 1))
	if [[ $line == *" record "* && ! ($line == *"-e trail/"* && $line == *" -p "*) ]]; then
		run_example "$line" "example$number" &
		jobs+=($!)
	else
		later+=("$line")
	fi
done < <(for page in waymark.1 waymark-list.1 waymark-record.1; do man_example $page; done | grep '^waymark ')
wait "${jobs[@]}"
for line in "${later[@]}"; do
	number=$((number + 1))
	run_example "$line" "example$number"
done

# waymark-doctor(1): status 1 where something is missing here.
while read -r line; do
	ran=$((ran + 1))
	bash -c "$line" >out 2>words
	[ $? -le 1 ] && [ -s out ] || fail "waymark-doctor(1): $line: $(cat words)"
done < <(man_example waymark-doctor.1 | grep 'waymark doctor' | grep -v 'waymark watch')

# README.md: its commands follow each other. Without a view of the kernel, switches have no places.
sleeps_at=' clock_nanosleep'
[ "$(id -u)" -eq 0 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 1 ] || sleeps_at=
while read -r line; do
	number=$((number + 1))
	can_run "$line" || { echo "left out: $line"; continue; }
	ran=$((ran + 1))
	if [[ $line == *'&' ]]; then
		bash -c "$line" 2>/dev/null &
		name=${line##*./}
		await bin/pidof "${name% &}" >pidof_out || fail "README.md: $line: it does not run"
		started+=("$(bin/pidof "${name% &}")")
		continue
	fi
	due=0
	[[ $line != *"--on crash"* ]] || due=139 # the program's, which crashes
	[[ $line != *" /none" ]] || due=1
	[[ $line != *" watch "*corrupt ]] || due=1 # the program's, whose books don't add up
	(timeout -k 5 90 bash -o pipefail -c "$line" >out 2>words)
	status=$?
	# once in 256 runs the byte that corrupt.c writes over was 0 before
	[ $due -ne 1 ] || ! grep -q '^400000 cents' out || due=0
	[ $status -eq $due ] || fail "README.md: $line: status $status: $(cat words)"
	case $line in
	*"report --waits --top 3 calls.trace") grep -q '^clerk  *pthread_mutex_lock  *stock_lock  *[0-9].* saver-[0-9]*  *stock_find < look_up' out || fail "README.md: $line: $(cat out)" ;;
	*"report --waits"*) grep -q "^hello  *[S?]  *[0-9].*$sleeps_at" out || fail "README.md: $line: $(cat out)" ;;
	*"--by what hello.trace") grep -q '^shop:bake  bread  *[0-9]' out || fail "README.md: $line: $(cat out)" ;;
	*"report hello.trace slower.trace") grep -q '^shop:bake  *slower  *1\.[2-9]' out || fail "README.md: $line: $(cat out)" ;;
	*"report --locks"*) grep -q '^stock_lock  *clerk-[0-9]*  *saver-[0-9]* ' out || fail "README.md: $line: $(cat out)" ;;
	*"report hello.trace") grep -q 'shop:bake' out || fail "README.md: $line: $(cat out)" ;;
	*postgresql:query*) "$waymark" dump pg.trace | grep -c 'postgresql:query__done' >out || fail "README.md: $line: $(cat words)" ;;
	*"-o sums.trace"*) [ "$(grep -cE '^ +60  useconds  300000  5000.0  5000  libc:usleep  (save|stock_save) \(locks.c:[0-9]+\)$' out)" = 2 ] || fail "README.md: $line: $(cat out)" ;;
	*"dump burnt/0001") [ "$(grep -c 'shop:burnt: { order = [0-9]*, lost = 2.5 }' out)" -ge 1 ] || fail "README.md: $line: $(cat out)" ;;
	*"--on marker:shop:burnt"*) grep -q '^waymark: marker:shop:burnt: the last [0-9.]* s are in burnt/0001$' words || fail "README.md: $line: $(cat words)" ;;
	*func:malloc*) "$waymark" dump malloc.trace | grep -c 'libc:malloc(.*) = 0x' >out || fail "README.md: $line: $(cat words)" ;;
	*now.trail*) "$waymark" trail -n 3 now.trail | grep -q 'by soft' || fail "README.md: $line: $(cat words)" ;;
	*"--on crash"*) grep -q '^  #0   length (crash.c:' words && grep -q 'killed by SIGSEGV at length (crash.c:[0-9]*): cmpb' words || fail "README.md: $line: $(cat out words)" ;;
	*" watch "*) grep -q '^ *1  *[0-9]*  write_name (corrupt.c:40)' out || fail "README.md: $line: $(cat out words)" ;;
	*"trail --calls"*) grep -q 'widest \[crash\] from .*crash.c:' out || fail "README.md: $line: $(cat out)" ;;
	*"trail --functions"*) grep -q 'widest  *crash  *crash.c:' out || fail "README.md: $line: $(tail -3 out)" ;;
	*"trail --lines"*) grep -q 'text\[count\]' out || fail "README.md: $line: $(cat out)" ;;
	*"dump open.trace") grep -qE 'libc:open\("/none", O_RDONLY\) = -1 ENOENT <[0-9.]+>$' out || fail "README.md: $line: $(cat out)" ;;
	*"dump failed.trace") [ "$(grep -cE 'libc:open: \{ file = "/none", oflag = O_RDONLY, ret = -1, errno = ENOENT, duration = [0-9]+ \}$' out) $(wc -l <out)" = "1 1" ] || fail "README.md: $line: $(cat out)" ;;
	*"dump handled.trace") [ "$(grep -cE 'libc:open: \{ arg1 = "/none", arg2 = 0, ret = -1, duration = [0-9]+ \}$' out) $(wc -l <out)" = "1 1" ] || fail "README.md: $line: $(cat out)" ;;
	*"dump --limit 2 callers.trace") grep -q '^    #1 stock_save (locks.c:[0-9]*)$' out || fail "README.md: $line: $(cat out)" ;;
	*"dump"*) grep -q 'shop:bake:.*order = ' out || fail "README.md: $line: $(cat out)" ;;
	esac
done < <(awk '/^```console/ { on = 1; next } /^```/ { on = 0 } on && sub(/^\$ /, "")' "$source_dir/README.md")

for file in example*/failed; do
	[ ! -e "$file" ] || fail "$(cat "$file")"
done
[ "$ran" -ge 29 ] || fail "only $ran examples were found"

# ---- form ----

# A page begins with what one does with it, and is short enough to be read as a whole.
for page in "$man"/*.md; do
	name=$(basename "$page" .md)
	[ "$(wc -l <"$page")" -le 200 ] || fail "$name has more than 200 lines"
	for section in NAME DESCRIPTION "SEE ALSO"; do
		grep -qx "# $section" "$page" || fail "$name has no section $section"
	done
	examples=$(grep -nx -m 1 '# EXAMPLES' "$page" | cut -d: -f1)
	[ "${examples:-999}" -le 60 ] || fail "$name does not begin with examples"
	grep -qF "'$name'" "$source_dir/docs/meson.build" || fail "docs/meson.build doesn't make $name"
done
[ "$(wc -l <"$source_dir/ARCHITECTURE.md")" -le 150 ] || fail "ARCHITECTURE.md has more than 150 lines"

# Pages and sections that texts name are there.
for reference in $(grep -rohE 'waymark(-[a-z-]+)?(\*\*)?\([1-9]\)' "$man" "$source_dir"/{*.md,docs/design,include,cli} |
	tr -d '*' | sort -u); do
	page=${reference%(*}.${reference: -2:1}.md
	[ -e "$man/$page" ] || fail "there is no page $reference"
done
while read -r reference; do
	page=${reference##* in }
	grep -qx "#* ${reference% in *}" "$man/${page%(*}.${page: -2:1}.md" || fail "there is no $reference"
done < <(cat "$man"/*.md | tr '\n' ' ' | tr -s ' ' | grep -oE '[^A-Z_][A-Z][A-Z ]+[A-Z] in \*\*waymark[a-z-]*\*\*\([1-9]\)' |
	tr -d '*' | cut -c2- | sort -u)

# The page of tables is made of these.
"$waymark" help --tables >tables || fail "no tables"
[ "$(grep -c '^## ' tables)" -gt 60 ] || fail "few tables: $(head -5 tables)"
expect "tables of one name" "$(grep '^## ' tables | sort | uniq -d)" ""

# ---- paragraphs ----

# A paragraph that a merge left twice begins twice with the same words.
for page in "$man"/*.md; do
	twice=$(grep -vE '^    waymark |^ {12}|^\*\*|^\|[:-]' "$page" | cut -c1-48 | awk 'length($0) == 48 && seen[$0]++')
	[ -z "$twice" ] || fail "${page##*/} has a paragraph twice: $twice"
done

# ---- options ----

for command in record list report dump trail watch doctor; do
	help=$("$waymark" $command --help)
	for option in $(grep -oE -- '--[a-z-]+' <<<"$help" | sort -u); do
		grep -qF -- "**$option**" "$man/waymark-$command.1.md" || fail "waymark-$command(1) has no $option"
	done
	for option in $(awk '/^# OPTIONS/ { on = 1; next } /^# / { on = 0 } on && /^\*\*-/' "$man/waymark-$command.1.md" |
		grep -oE -- '\*\*--[a-z-]+' | tr -d '*'); do
		grep -qF -- "$option" <<<"$help" || fail "waymark $command --help has no $option"
	done
done

# ---- trials ----

# "NAME" or "NAME (basic)" of each row
sed -nE 's/^X\([A-Z0-9_]+, "([^"]+)", [a-z0-9_]+, [01], BASIC,.*/\1 (basic)/p; t; s/^X\([A-Z0-9_]+, "([^"]+)".*/\1/p' \
	"$source_dir/target/trial/trial.def" | sort >rows
awk '/^# TRIALS/ { on = 1 } /^# SEE ALSO/ { on = 0 } on && /^\*\*/' "$man/waymark-trials.7.md" | sed 's/, /\n/g' | tr -d '*' | sort >described
diff rows described || fail "waymark-trials(7) describes other trials than there are"
exit "$failed"
