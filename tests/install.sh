#!/bin/bash
# SPDX-License-Identifier: MIT
# What is installed can be used: headers, libraries by pkg-config, manual pages, completion.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"
# shellcheck source=tests/install_setup.bash
. "$source_dir/tests/install_setup.bash"
set -e

# expect TEXT OUTPUT
expect()
{
	[[ $2 == *"$1"* ]] || { printf 'expected "%s" in:\n%s\n' "$1" "$2"; exit 1; }
}

targets=$source_dir/tests/targets/library
pages=$source_dir/docs/man
prefix=$(dirname "$(dirname "$(find root -path '*/bin/waymark')")")

for page in "$pages"/*.md; do
	page=$(basename "$page" .md)
	[ -s "$prefix/share/man/man${page##*.}/$page" ] || { echo "$page: no manual page"; exit 1; }
done

# A program with a marker links nothing.
gcc -I"$prefix/include" "$targets/marked.c" -o marked
./marked
expect install:test "$("$prefix/bin/waymark" list marked)"

# A tool of one's own.
# shellcheck disable=SC2046 # words
gcc "$targets/tool.c" -o tool $(pkg-config --cflags --libs waymark)
expect "event spec" "$(LD_LIBRARY_PATH=$libdir ./tool)"

# The agent is beside the library, wherever that is; or where the program says. Launching loads it.
# shellcheck disable=SC2046 # words
gcc "$targets/launch.c" -o launch $(pkg-config --cflags --libs waymark)
expect launched "$(env -u WAYMARK_AGENT LD_LIBRARY_PATH="$libdir" ./launch)"
mkdir alone elsewhere
cp "$libdir/libwaymark.so.0" alone
cp "$libdir/libwaymark-agent.so" elsewhere/agent.so
expect "not found" "$(env -u WAYMARK_AGENT LD_LIBRARY_PATH=alone ./launch)"
expect launched \
	"$(env -u WAYMARK_AGENT LD_LIBRARY_PATH=alone ./launch "$folder/elsewhere/agent.so")"
expect launched \
	"$(WAYMARK_AGENT=/nowhere LD_LIBRARY_PATH=alone ./launch "$folder/elsewhere/agent.so")"

# The static library: the agent is beside the program, or in ../lib.
# shellcheck disable=SC2046 # words
gcc "$targets/launch.c" -o launch-static -I"$prefix/include" "$libdir/libwaymark.a" \
	$(pkg-config --static --libs waymark | sed 's/-lwaymark //')
if readelf -d launch-static | grep 'NEEDED.*libwaymark'; then
	exit 1
fi
expect "not found" "$(env -u WAYMARK_AGENT ./launch-static)"
cp "$libdir/libwaymark-agent.so" .
expect launched "$(env -u WAYMARK_AGENT ./launch-static)"

# A program that gains privileges ignores the file that its caller names, and one in the caller's
# folder.
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 .
	mkdir -m 755 theirs
	cp launch-static marked libwaymark-agent.so "$(command -v id)" theirs
	chown -R nobody theirs
	chown root theirs/launch-static theirs/id
	chmod 4755 theirs/launch-static theirs/id
	cd theirs
	as_them=(env "WAYMARK_AGENT=$PWD/libwaymark-agent.so" setpriv --reuid nobody --clear-groups)
	if [ "$("${as_them[@]}" ./id -u)" -eq 0 ]; then # no nosuid mount
		expect "not found: /" "$("${as_them[@]}" ./launch-static)"
	fi
	cd ..
fi

# A program with handlers of its own, against the shared and the static agent.
# shellcheck disable=SC2046 # words
gcc "$targets/probed.c" -o probed $(pkg-config --cflags --libs waymark-agent)
LD_LIBRARY_PATH=$libdir ./probed
gcc -I"$prefix/include" "$targets/probed.c" -o probed-static "$libdir/libwaymark-agent.a"
./probed-static
# shellcheck disable=SC2046 # words
gcc -I"$prefix/include" "$targets/probed.c" -o probed-both \
	"$libdir/libwaymark-agent.a" "$libdir/libwaymark.a" \
	$(pkg-config --static --libs waymark | sed 's/-lwaymark //')
./probed-both

# ThreadSanitizer knows the order of wm_probe_add(), a handler, and wm_probe_remove().
# shellcheck disable=SC2046 # words
if gcc -g -fsanitize=thread "$targets/ordered.c" -o ordered -pthread \
	$(pkg-config --cflags --libs waymark-agent); then
	LD_LIBRARY_PATH=$libdir timeout 60 ./ordered >ordered.log 2>&1 ||
		{ head -50 ordered.log; exit 1; }
fi

# Completion offers the commands, to each shell that is here.
share=$prefix/share
expect "record report" "$(PATH=$prefix/bin:$PATH bash -c '. "$0"; COMP_LINE="waymark re" COMP_POINT=10; _waymark; echo "${COMPREPLY[@]}"' \
	"$share/bash-completion/completions/waymark")"
# A name that the shell would expand is not offered: the program's owner chose it.
# shellcheck disable=SC2016 # of the other shell
expect ma_b "$(bash -c '. "$0"; waymark() { printf "%s\n" "func:ma_\$(id)" "func:ma_\`id\`" "func:ma_;id" func:ma_b; }
	COMP_LINE="waymark record -p 1 -e func:ma" COMP_POINT=${#COMP_LINE}; _waymark; echo "${COMPREPLY[@]}"' \
	"$share/bash-completion/completions/waymark")"
# shellcheck disable=SC2016 # fish's own variable
! type -P fish >/dev/null ||
	expect report "$(PATH=$prefix/bin:$PATH fish -c 'source $argv[1]; complete -C "waymark re"' \
		"$share/fish/vendor_completions.d/waymark.fish")"
! type -P zsh >/dev/null || zsh -n "$share/zsh/site-functions/_waymark"

# Two builds of one folder at once: neither fails, and the archive is whole.
for round in {1..10}; do
	for archive in first second; do
		"$source_dir/tools/localize-archive" "$folder/both.a" --localize-hidden "$libdir/libwaymark-agent.a" \
			2>"$archive.err" &
	done
	wait -n && wait -n || { cat first.err second.err; exit 1; }
	[ "$(nm both.a | grep -c ' T wm_')" -gt 0 ] || { echo "round $round: the archive is not whole"; exit 1; }
done
