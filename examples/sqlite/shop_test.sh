#!/bin/bash
# SPDX-License-Identifier: MIT
# The shop alone, for a moment: it must find its own database intact.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" "$folder/shop.db" 0.3
