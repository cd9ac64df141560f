# SPDX-License-Identifier: MIT
# For tests of CPUs that come into the machine later: which there are is what the kernel's files say, and here others are bound over these.
# shellcheck shell=bash
cpus=/sys/devices/system/cpu

# Why CPU 1 can't be kept back here; 1: it can be.
cpus_trouble()
{
	if ! [ -d $cpus/cpu1 ] || ! grep -q '^0-' $cpus/online; then
		echo "one CPU"
	elif ! one_cpu true 2>cpus_words; then
		echo "no mount of our own: $(head -1 cpus_words)"
	else
		return 1
	fi
}

# one_cpu COMMAND...: to it the machine has CPU 0 alone, until ./online is written to
one_cpu()
{
	local ours=-m
	[ "$(id -u)" = 0 ] || ours=-rm
	echo 0 >online
	cp online present
	# shellcheck disable=SC2016 # its own parameters
	unshare $ours sh -c 'mount --bind online "$0/online" && mount --bind present "$0/present" && exec "$@"' $cpus "$@"
}
