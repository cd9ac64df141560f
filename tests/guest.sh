#!/bin/bash
# SPDX-License-Identifier: MIT
# Watches, because not every machine has debug registers that fire. And what this machine's own kernel can't be asked: processors
# that go and come, other levels of kernel.perf_event_paranoid, a kernel as old as Debian 12's. A machine of qemu's, without a
# network, boots that kernel, has this one's files read-only and runs tests/guest/list.txt. Emulated throughout, so that it is
# the same everywhere, and no user's privileges matter.
#
# WAYMARK_GUEST_LIST: names of that list, to run these alone, also those marked `more`; or `all`.
# WAYMARK_GUEST_SECONDS: how long it may take at most.
# shellcheck source=tests/folder_setup.bash
. "$(dirname "$0")/folder_setup.bash"

processors=3
seconds=${WAYMARK_GUEST_SECONDS:-570}
kernel=$WAYMARK_BUILD/guest/vmlinuz
! is_sanitized inside/libwaymark-agent.so ||
	skip "a build with sanitizers takes too long on an emulated processor"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64; tools/setup.sh guest installs it"
[ -e "$kernel" ] || skip "no kernel for the guest; tools/guest-kernel $WAYMARK_BUILD fetches it"
[ -e "$WAYMARK_BUILD/tests/guest-init" ] || skip "there is no static C library to link the guest's init with"

# What runs there: NAME SECONDS [more] COMMAND..., as the guest is to see it.
mkdir out
printf '%s\n%s\n' "$source_dir" "$(realpath "$WAYMARK_BUILD")" >out/plan
while read -r name limit command; do
	case $name in '#'* | '') continue ;; esac
	if [ -n "${WAYMARK_GUEST_LIST:-}" ]; then
		[ "$WAYMARK_GUEST_LIST" = all ] || [[ " $WAYMARK_GUEST_LIST " == *" $name "* ]] || continue
	elif [ "${command%% *}" = more ]; then
		continue
	fi
	command=${command#more }
	command=${command//SOURCE/$source_dir}
	echo "$name $limit ${command//BUILD/$(realpath "$WAYMARK_BUILD")}"
done <"$source_dir/tests/guest/list.txt" >out/list

python3 "$source_dir/tests/guest/initramfs.py" "$WAYMARK_BUILD/guest/modules" "$WAYMARK_BUILD/tests/guest-init" initramfs || exit 1
share() { # TAG PATH [OPTION]
	echo "-fsdev local,id=$1,path=$2,security_model=none,multidevs=remap${3:-} -device virtio-9p-pci,fsdev=$1,mount_tag=$1"
}
# One thread for all its processors: with several, qemu now and then loses an access to a watched word. No five-level page tables,
# by which more addresses would be a program's than the tests take for one.
# shellcheck disable=SC2046 # they are words
timeout -k 2 "$seconds" qemu-system-x86_64 -accel tcg,thread=single -cpu max,-la57 -smp $processors -m 1024 \
	-nodefaults -no-user-config -nic none -display none -no-reboot -serial stdio \
	$(share host / ,readonly=on) $(share out "$folder/out") \
	-kernel "$kernel" -initrd initramfs \
	-append "console=ttyS0 quiet panic=-1 GUEST_RUN=$source_dir/tests/guest/inside.sh" </dev/null >console 2>&1
status=$?

# Its results are ours, each by its own name, where somebody counts them (tools/run-tests).
tap=/dev/null
[[ ${CRITERION_OUTPUTS:-} != tap:* ]] || tap=${CRITERION_OUTPUTS#tap:}
: >results
while read -r name _; do
	got=$(cat "out/$name.status" 2>/dev/null || echo none)
	why=$(tail -n 1 "out/$name.log" 2>/dev/null)
	case $got in
	0) echo "ok - guest::$name" >>results ;;
	77) echo "ok - guest::$name # SKIP ${why:-no reason given}" >>results ;;
	*)
		echo "not ok - guest::$name" >>results
		fail "$name in the guest: status $got"
		cat "out/$name.log" "out/$name.tap" 2>/dev/null | grep -v '^ok' | tail -n 40
		;;
	esac
done <out/list
{
	echo "1..$(wc -l <results)"
	cat results
} >"$tap"
[ $status -eq 0 ] || fail "the guest: status $status after $(tail -n 1 out/times)"
[ $failed -eq 0 ] || tail -n 20 console
cat results
[ -z "${WAYMARK_GUEST_TIMES:-}" ] || cat out/times
exit $failed
