/* SPDX-License-Identifier: MIT */
#include <waymark/marker.h>
int main(int argc, char **argv)
{
	WAYMARK(install, test, argc, argv[0]);
	return 0;
}
