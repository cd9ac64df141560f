/* SPDX-License-Identifier: MIT */
/* Looked at as object code by matrix.sh: a marker costs a leaf five bytes and nothing else. */
#include <waymark/marker.h>

int leaf_plain(int a, int b);
int leaf_marked(int a, int b);
int leaf_string(int a, int b, const char *text);
int leaf_string_plain(int a, int b, const char *text);

int leaf_plain(int a, int b)
{
	return a * 3 + b;
}

int leaf_marked(int a, int b)
{
	WAYMARK(leaf, marked, a, (long)b);
	return a * 3 + b;
}

int leaf_string_plain(int a, int b, const char *text)
{
	return a * 3 + b + (text != 0);
}

int leaf_string(int a, int b, const char *text)
{
	WAYMARK(leaf, string, a, text);
	return a * 3 + b + (text != 0);
}
