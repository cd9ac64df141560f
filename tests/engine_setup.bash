# SPDX-License-Identifier: MIT
# Shared by the tests of the engine: a program that has it without a recording, and what it prints, beside what it
# prints natively.
# shellcheck shell=bash disable=SC2034 # what is set here is used there
# shellcheck source=tests/folder_setup.bash
. "$(dirname "${BASH_SOURCE[0]}")/folder_setup.bash"

load=$WAYMARK_BUILD/tests/engine-load
engine=$WAYMARK_BUILD/inside/engine/libwaymark-trail.so
[ -e "$engine" ] || skip "the engine is not built"
