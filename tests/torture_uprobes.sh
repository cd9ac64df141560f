#!/bin/bash
# SPDX-License-Identifier: MIT
# Uprobes and breakpoints of gdb over armed probes, USDT places and markers: 10,000 times.
ROUNDS=${ROUNDS:-10000} exec bash "$(dirname "$0")/probes_uprobes.sh"
