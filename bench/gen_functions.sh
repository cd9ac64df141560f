#!/bin/bash
# SPDX-License-Identifier: MIT
# A C file with COUNT different functions many_0.., and a table of them: gen_functions.sh COUNT
set -eu
echo '#include "bench/functions.h"'
for ((i = 0; i < $1; i++)); do
	echo "uint64_t many_$i(uint64_t a, uint64_t b);"
	echo "MANY uint64_t many_$i(uint64_t a, uint64_t b) { return a * $((i + 3)) + (b ^ $i); }"
done
echo "uint64_t (*const many[$1])(uint64_t a, uint64_t b) = {"
for ((i = 0; i < $1; i++)); do
	echo "many_$i,"
done
echo '};'
