#!/bin/bash
# SPDX-License-Identifier: MIT
# What is installed can be used: headers, libraries by pkg-config, manual pages, completion.
set -euo pipefail

if [ "$(nm -D "$WAYMARK_BUILD/libwaymark.so" |
	grep -cE "__((asan|tsan)_init|ubsan_handle)")" -gt 0 ]; then
	echo "a library built for a sanitizer can't be linked by programs that are not"
	exit 77
fi
# expect TEXT OUTPUT
expect()
{
	[[ $2 == *"$1"* ]] || { printf 'expected "%s" in:\n%s\n' "$1" "$2"; exit 1; }
}

pages=$(cd "$(dirname "$0")/../docs/man" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

DESTDIR=$work/root meson install -C "$WAYMARK_BUILD" --no-rebuild --quiet >install.log 2>&1 ||
	{ cat install.log; exit 1; }
prefix=$(dirname "$(dirname "$(find root -path '*/bin/waymark')")")
libdir=$(dirname "$(dirname "$(find root -name waymark.pc)")")
export PKG_CONFIG_PATH=$work/$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root

for page in "$pages"/*.md; do
	page=$(basename "$page" .md)
	[ -s "$prefix/share/man/man${page##*.}/$page" ] || { echo "$page: no manual page"; exit 1; }
done

# A program with a marker links nothing.
cat >marked.c <<'C'
#include <waymark/marker.h>
int main(int argc, char **argv)
{
	WAYMARK(install, test, argc, argv[0]);
	return 0;
}
C
gcc -I"$prefix/include" marked.c -o marked
./marked
expect install:test "$("$prefix/bin/waymark" list marked)"

# A tool of one's own.
cat >tool.c <<'C'
#include <stdio.h>
#include <waymark/error.h>
#include <waymark/session.h>
int main(void)
{
	struct wm_session *session;
	int err = wm_session_open(&session, NULL);

	if (!err && wm_session_add(session, "nonsense") < 0)
		puts(wm_error_text(-WM_E_SPEC));
	wm_session_close(session);
	return err != 0;
}
C
# shellcheck disable=SC2046 # words
gcc tool.c -o tool $(pkg-config --cflags --libs waymark)
expect "event spec" "$(LD_LIBRARY_PATH=$libdir ./tool)"

# The agent is beside the library, wherever that is; or where the program says. Launching loads it.
cat >launch.c <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <waymark/error.h>
#include <waymark/session.h>
int main(int argc, char **argv)
{
	struct wm_session_options options = { .size = sizeof(options), .agent_path = argv[1] };
	struct wm_session *session;
	int err = wm_session_open(&session, &options);

	if (!err)
		err = wm_session_add(session, "marker:install:test");
	if (!err)
		err = wm_session_launch(session, (char *[]){ "./marked", NULL });
	printf("%s: %s\n", err > 0 ? "launched" : wm_error_text(err), wm_session_detail(session));
	wm_session_close(session);
	return (void)argc, err > 0 && waitpid(err, NULL, 0) != err;
}
C
# shellcheck disable=SC2046 # words
gcc launch.c -o launch $(pkg-config --cflags --libs waymark)
expect launched "$(env -u WAYMARK_AGENT LD_LIBRARY_PATH="$libdir" ./launch)"
mkdir alone elsewhere
cp "$libdir/libwaymark.so.0" alone
cp "$libdir/libwaymark-agent.so" elsewhere/agent.so
expect "not found" "$(env -u WAYMARK_AGENT LD_LIBRARY_PATH=alone ./launch)"
expect launched "$(env -u WAYMARK_AGENT LD_LIBRARY_PATH=alone ./launch "$work/elsewhere/agent.so")"
expect launched \
	"$(WAYMARK_AGENT=/nowhere LD_LIBRARY_PATH=alone ./launch "$work/elsewhere/agent.so")"

# The static library: the agent is beside the program, or in ../lib.
# shellcheck disable=SC2046 # words
gcc launch.c -o launch-static -I"$prefix/include" "$libdir/libwaymark.a" \
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
cat >probed.c <<'C'
#include <string.h>
#include <waymark/probe.h>
WM_PROBE(install, probed, int);
static volatile int sum;
static void add(void *data, int value)
{
	(void)data;
	sum += value;
}
int main(void)
{
	struct wm_probe *probe;
	int err = wm_probe_add_install_probed(&probe, add, 0);

	for (int i = 0; i < 3; i++)
		WAYMARK(install, probed, i + 1);
	return err || wm_probe_remove(probe) || sum != 6 || !*wm_error_text(-WM_E_FIELD_TYPES) ||
	       !*wm_error_text(-2) || strcmp(wm_error_name(-2), "ENOENT") ||
	       !wm_error_name(-WM_E_SPEC) || !wm_error_hint(-WM_E_SPEC);
}
C
# shellcheck disable=SC2046 # words
gcc probed.c -o probed $(pkg-config --cflags --libs waymark-agent)
LD_LIBRARY_PATH=$libdir ./probed
gcc -I"$prefix/include" probed.c -o probed-static "$libdir/libwaymark-agent.a"
./probed-static
# shellcheck disable=SC2046 # words
gcc -I"$prefix/include" probed.c -o probed-both \
	"$libdir/libwaymark-agent.a" "$libdir/libwaymark.a" \
	$(pkg-config --static --libs waymark | sed 's/-lwaymark //')
./probed-both

# ThreadSanitizer knows the order of wm_probe_add(), a handler, and wm_probe_remove().
cat >ordered.c <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <waymark/probe.h>
WM_PROBE(install, ordered, int);
static int is_over, calls;
static void add(void *data, int value)
{
	*(int *)data += value;
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}
static void *pass(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
		WAYMARK(install, ordered, 1);
	return unused;
}
int main(void)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, pass, NULL);

	for (int i = 0; i < 20 && !err; i++) {
		int *sum = malloc(sizeof(*sum));
		struct wm_probe *probe;

		*sum = 1000;
		__atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
		err = wm_probe_add_install_ordered(&probe, add, sum);
		while (!err && __atomic_load_n(&calls, __ATOMIC_RELAXED) < 100)
			;
		if (!err)
			err = wm_probe_remove(probe);
		if (!err && *sum < 1100)
			err = 1;
		free(sum);
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	return pthread_join(thread, NULL) || err;
}
C
# shellcheck disable=SC2046 # words
if gcc -g -fsanitize=thread ordered.c -o ordered -pthread \
	$(pkg-config --cflags --libs waymark-agent); then
	LD_LIBRARY_PATH=$libdir timeout 60 ./ordered >ordered.log 2>&1 ||
		{ head -50 ordered.log; exit 1; }
fi

# Completion offers the commands.
expect "record report" "$(bash -c '. "$0"; COMP_WORDS=(waymark re) COMP_CWORD=1; _waymark; echo "${COMPREPLY[@]}"' \
	"$prefix/share/bash-completion/completions/waymark")"
