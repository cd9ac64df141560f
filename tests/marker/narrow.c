/* SPDX-License-Identifier: MIT */
/* All of marker.h but WAYMARK_SDT: compiles also without AT&T syntax, floating point or C99. */
#include <waymark/marker.h>

int narrow_fields(int n, const char *text);
int narrow_spans(int n, char *run);

int narrow_fields(int n, const char *text)
{
	WAYMARK(narrow, fields, n, text);
	WAYMARK(narrow, bare);
	WAYMARK_IF(narrow, block)
	{
		n++;
	}
	return n;
}

int narrow_spans(int n, char *run)
{
	WAYMARK_SCOPE(narrow, scope, n);
	WAYMARK_BEGIN(narrow, span, WM_BYTES(run, n));
	WAYMARK_END(narrow, span);
	return n + 1;
}

#ifdef WITH_SDT
void narrow_sdt(int n)
{
	WAYMARK_SDT(narrow, sdt, n);
}
#endif

#ifdef __cplusplus
inline int narrow_marked(int n)
{
	WAYMARK(narrow, marked, n);
	return n + 1;
}

#if __cplusplus >= 201402L
constexpr int narrow_other(int n)
{
	if (__builtin_is_constant_evaluated())
		return n + 1;
	return narrow_marked(n);
}
static_assert(narrow_other(1) == 2, "");
#endif

#if __cplusplus >= 202002L
constexpr int narrow_itself(int n)
{
	if (!__builtin_is_constant_evaluated())
		WAYMARK(narrow, itself, n);
	return n + 1;
}
static_assert(narrow_itself(1) == 2, "");
#endif
#endif
