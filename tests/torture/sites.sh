#!/bin/bash
# SPDX-License-Identifier: MIT
# A C file with a thousand markers torture:site_0.., a hundred to a function.
set -eu
echo '#include "victim.h"'
for group in 0 1 2 3 4 5 6 7 8 9; do
	echo "static __attribute__((noinline)) void group_$group(void)"
	echo '{'
	for ((site = group * 100; site < group * 100 + 100; site++)); do
		echo "	MARK(site_$site, $site);"
	done
	echo '}'
done
echo 'void (*const groups[10])(void) = {'
for group in 0 1 2 3 4 5 6 7 8 9; do
	echo "	group_$group,"
done
echo '};'
