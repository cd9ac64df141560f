/* SPDX-License-Identifier: MIT */
/*
 * A marker that other tools know too: WAYMARK_SDT adds SystemTap's note, so that all of these see
 * it.
 *
 *	waymark list ./sdt
 *	readelf -n sdt
 *	gdb -batch -ex 'info probes' ./sdt
 *	bpftrace -e 'usdt:./sdt:queue:push { @[arg1] = count(); }' -c ./sdt
 *	perf buildid-cache --add ./sdt && perf list sdt
 */
#include <unistd.h>
#include <waymark/marker.h>

int main(void)
{
	for (int job = 0; job < 3000; job++) {
		WAYMARK_SDT(queue, push, job, WM_FIELD(priority, job % 3), "mail");
		usleep(1000);
	}
}
