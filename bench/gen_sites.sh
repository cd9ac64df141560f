#!/bin/bash
# SPDX-License-Identifier: MIT
# A C file with COUNT markers many:site_0.., a hundred to a function, with GAP bytes of other code after
# each (0): gen_sites.sh COUNT [GAP]
set -eu
count=$1
gap=${2:-0}
echo '#include <waymark/marker.h>'
echo 'void sites_pass(int i);'
for ((group = 0; group * 100 < count; group++)); do
	echo "void group_$group(int i);"
	echo "__attribute__((noinline)) void group_$group(int i)"
	echo '{'
	for ((site = group * 100; site < count && site < group * 100 + 100; site++)); do
		echo "	WAYMARK(many, site_$site, i, (long)i);"
		[ "$gap" -eq 0 ] || echo "	__asm__ volatile(\".skip $gap, 0x90\");"
	done
	echo '}'
done
echo 'void sites_pass(int i)'
echo '{'
for ((group = 0; group * 100 < count; group++)); do
	echo "	group_$group(i);"
done
echo '}'
