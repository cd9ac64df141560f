#!/bin/bash
# SPDX-License-Identifier: MIT
# What init.c has run in the guest: make its file systems, run the tests that the host asks for, one after the other. /mnt/out
# is the host's folder: `plan` there has the folders of source and build, `list` what is to run, NAME.log and NAME.status are what came of it.
{
	IFS= read -r source_dir
	IFS= read -r build
} </mnt/out/plan
exec </dev/null

mkdir -p /mnt/host /dev/shm /dev/pts
mount --bind / /mnt/host
for folder in /tmp /run /var/tmp /dev/shm; do
	mount -t tmpfs -o mode=1777 tmpfs $folder
done
mount -t devpts devpts /dev/pts
mount -t tracefs tracefs /sys/kernel/tracing
ln -s /proc/self/fd /dev/fd
# what is to be tested may lie below one of these
for folder in "$source_dir" "$build"; do
	[ ! -d "$folder" ] || continue
	mkdir -p "$folder"
	mount --bind "/mnt/host$folder" "$folder"
done
ip link set lo up 2>/dev/null
ulimit -c 0

export WAYMARK_BUILD=$build WAYMARK_GUEST=1 WAYMARK_TEST_CPUS=1 TMPDIR=/tmp LC_ALL=C
cd /tmp || exit 1
while read -r name seconds command; do
	[ -n "$name" ] || continue
	# as most users have it; a test that wants another sets it
	echo 2 >/proc/sys/kernel/perf_event_paranoid
	echo "began $(cut -d' ' -f1 /proc/uptime)" >>/mnt/out/times
	# shellcheck disable=SC2086 # it is words
	CRITERION_OUTPUTS=tap:/mnt/out/$name.tap setsid timeout -k 2 "$seconds" $command >"/mnt/out/$name.log" 2>&1
	echo $? >"/mnt/out/$name.status"
	echo "ended $name $(cut -d' ' -f1 /proc/uptime)" >>/mnt/out/times
done </mnt/out/list
