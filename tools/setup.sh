#!/bin/bash
# SPDX-License-Identifier: MIT
# Install what is missing of tools/packages.txt: setup.sh SECTION...
# Says nothing and does nothing when all is there. Asks no question.
set -euo pipefail

cd "$(dirname "$0")/.."

wanted()
{
	local section
	for section in "$@"; do
		awk -v section="[$section]" '
			/^\[/ { here = $1 == section; found = found || here; next }
			here && NF && !/^#/ { print $1 }
			END { exit !found }' tools/packages.txt ||
			{ echo "setup: no section [$section] in tools/packages.txt" >&2; exit 1; }
	done
}

is_installed()
{
	# shellcheck disable=SC2016 # a format of dpkg-query's, not of the shell's
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | head -c 9)" = installed ]
}

packages=$(wanted "$@" | sort -u)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "setup: this is not Debian; see to it that you have what Debian calls:" >&2
	echo "  ${packages//$'\n'/ }" >&2
	exit 0
fi

missing=()
for package in $packages; do
	is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		echo "setup: installing needs root, and sudo can't be used without a password. Run:" >&2
		echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
		echo "as root, then try again." >&2
		exit 1
	fi
	as_root=(sudo -n "${as_root[@]}")
fi

install()
{
	"${as_root[@]}" apt-get install --yes -qq --no-install-recommends \
		-o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" "${missing[@]}" </dev/null
}

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Package lists that are absent or old show as a package that can't be found or fetched.
if ! { install --simulate && install; } >"$log" 2>&1; then
	echo "setup: fetching the package lists first"
	"${as_root[@]}" apt-get update -qq -o DPkg::Lock::Timeout=300 </dev/null
	install >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
for package in "${missing[@]}"; do
	is_installed "$package" || { echo "setup: $package could not be installed" >&2; exit 1; }
done
