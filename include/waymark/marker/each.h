/* SPDX-License-Identifier: MIT */
/*
 * waymark/marker.h: what is done to each argument of a macro. Nothing in here is for use.
 */
#ifndef WAYMARK_MARKER_EACH_H
#define WAYMARK_MARKER_EACH_H

#pragma GCC system_header

/* clang-format off: it takes assembler in macros apart */

/* Apply m(a, b, argument) to each argument; the count of arguments. */
#define WM__COUNT(a, ...)                                                                          \
	WM__PICK(a, ##__VA_ARGS__, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, 17, \
		 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, _)
#define WM__PICK(_, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17,    \
		 a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, n,     \
		 ...)                                                                              \
	n
#define WM__GLUE(a, b) WM__GLUE1(a, b)
#define WM__GLUE1(a, b) a##b
#define WM__TEXT(x) WM__TEXT1(x)
#define WM__TEXT1(x) #x
#define WM__EACH(m, a, ...) WM__GLUE(WM__EACH, WM__COUNT(_, ##__VA_ARGS__))(m, a, ##__VA_ARGS__)
#define WM__EACH0(m, a)
#define WM__EACH17(m, a, ...) /* refused by WM__CHECK_FIELDS */
#define WM__EACH1(m, a, x) m(a, 0, x)
#define WM__EACH2(m, a, x1, x2) WM__EACH1(m, a, x1) m(a, 1, x2)
#define WM__EACH3(m, a, x1, x2, x3) WM__EACH2(m, a, x1, x2) m(a, 2, x3)
#define WM__EACH4(m, a, x1, x2, x3, x4) WM__EACH3(m, a, x1, x2, x3) m(a, 3, x4)
#define WM__EACH5(m, a, x1, x2, x3, x4, x5) WM__EACH4(m, a, x1, x2, x3, x4) m(a, 4, x5)
#define WM__EACH6(m, a, x1, x2, x3, x4, x5, x6) WM__EACH5(m, a, x1, x2, x3, x4, x5) m(a, 5, x6)
#define WM__EACH7(m, a, x1, x2, x3, x4, x5, x6, x7)                                                \
	WM__EACH6(m, a, x1, x2, x3, x4, x5, x6) m(a, 6, x7)
#define WM__EACH8(m, a, x1, x2, x3, x4, x5, x6, x7, x8)                                            \
	WM__EACH7(m, a, x1, x2, x3, x4, x5, x6, x7) m(a, 7, x8)
#define WM__EACH9(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9)                                        \
	WM__EACH8(m, a, x1, x2, x3, x4, x5, x6, x7, x8) m(a, 8, x9)
#define WM__EACH10(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10)                                  \
	WM__EACH9(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9) m(a, 9, x10)
#define WM__EACH11(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11)                             \
	WM__EACH10(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10) m(a, 10, x11)
#define WM__EACH12(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12)                        \
	WM__EACH11(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11) m(a, 11, x12)
#define WM__EACH13(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13)                   \
	WM__EACH12(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12) m(a, 12, x13)
#define WM__EACH14(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14)              \
	WM__EACH13(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13) m(a, 13, x14)
#define WM__EACH15(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15)         \
	WM__EACH14(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14) m(a, 14, x15)
#define WM__EACH16(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16)    \
	WM__EACH15(m, a, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15)         \
	m(a, 15, x16)

#endif
