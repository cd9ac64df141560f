/* SPDX-License-Identifier: MIT */
/*
 * waymark/marker.h: WAYMARK_SDT: a note for SystemTap's readers beside a site. Nothing in here is
 * for use.
 */
#ifndef WAYMARK_MARKER_SDT_H
#define WAYMARK_MARKER_SDT_H

#pragma GCC system_header

#include <waymark/marker/note.h>
#include <waymark/marker/site.h>

/* clang-format off: it takes assembler in macros apart */

/*
 * The note's nop is beside the site, never on it: the kernel writes there. Every argument is a
 * word, so that one evaluation serves both.
 */
/* The note names its arguments as the assembler does. Its readers know AT&T syntax alone. */
#define WM__SDT_ATT "{|.error \"waymark: WAYMARK_SDT needs -masm=att\"\n\t}"
#define WM__SDT_DECLARE(a, i, e) const unsigned long long wm__word##i = WM__SDT_WORD(e);
#define WM__SDT_ARG(a, i, e) "%c[wm_s" #i "]@%[wm_a" #i "] "
#define WM__SDT_OPERAND(a, i, e)                                                                   \
	[wm_s##i] "n"(wm__type##i <= WM_TYPE_I64 && wm__type##i % 2 ? -8 : 8),                     \
		[wm_a##i] "nor"(wm__word##i),
#define WM__SDT_PUT(a, i, e)                                                                       \
	if (wm__type##i == WM_TYPE_STR)                                                            \
		wm__touch((const void *)wm__word##i);                                              \
	__builtin_memcpy(wm__to, &wm__word##i, WM__BYTES_OF(wm__type##i));                         \
	wm__to += WM__BYTES_OF(wm__type##i);
#define WM__SDT_CHECK(a, i, e)                                                                     \
	WM__ASSERT(WM__BYTES_OF(wm__type##i) <= 8,                                                 \
		   "waymark: WM_BYTES, WM_ARRAY and what has a length are not for WAYMARK_SDT");

#ifdef __cplusplus
namespace waymark_detail
{
template <class T, bool = std::is_integral<T>::value || std::is_enum<T>::value> struct word {
	WM__INLINE unsigned long long of(T value)
	{
		return static_cast<unsigned long long>(value);
	}
};
template <class T> struct word<T, false> {
	WM__INLINE unsigned long long of(T value)
	{
		unsigned long long made = 0;

		__builtin_memcpy(&made, &value, sizeof value < 8 ? sizeof value : 8);
		return made;
	}
};
template <class T> WM__INLINE unsigned long long word_of(T value)
{
	return word<T>::of(value);
}
} // namespace waymark_detail
#define WM__SDT_WORD(e) (::waymark_detail::word_of(WM__FIELD_OF(e)::stored(e)))
#else
WM__INLINE unsigned long long wm__word_of_f32(float value)
{
	unsigned int word;

	__builtin_memcpy(&word, &value, sizeof word);
	return word;
}

WM__INLINE unsigned long long wm__word_of_f64(double value)
{
	unsigned long long word;

	__builtin_memcpy(&word, &value, sizeof word);
	return word;
}

#define WM__IS_FLOAT(e) _Generic((e), float : 1, double : 1, long double : 1, default : 0)
#define WM__SDT_WORD(e)                                                                            \
	_Generic((e), float                                                                        \
		 : wm__word_of_f32, double                                                         \
		 : wm__word_of_f64, long double                                                    \
		 : wm__word_of_long_double, default                                                \
		 : wm__word_of_word)(__builtin_choose_expr(WM__IS_FLOAT(e), (e), WM__WORD(e)))
#if defined(__clang__) && !defined(__SSE2__)
#define wm__word_of_long_double wm__word_of_f64 /* as wm__put_long_double */
#else
WM__INLINE unsigned long long wm__word_of_long_double(long double value)
{
	return wm__word_of_f64((double)value);
}
#endif
WM__INLINE unsigned long long wm__word_of_word(unsigned long long value)
{
	return value;
}
#endif

#define WM__SDT(subsys, event, fields, ...)                                                        \
	WM__SDT1(WM__NAME("m", subsys, event), WM__SITE_TEXT("m", "", subsys, event, fields),      \
		 subsys, event, ##__VA_ARGS__)
#define WM__SDT1(name, text, subsys, event, ...)                                                   \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		WM__EACH(WM__SDT_CHECK, _, ##__VA_ARGS__)                                          \
		WM__ASSERT(WM__COUNT(_, ##__VA_ARGS__) <= 12,                                      \
			   "waymark: WAYMARK_SDT takes 12 fields");                                \
		WM__EACH(WM__SDT_DECLARE, _, ##__VA_ARGS__)                                        \
		__asm__ volatile(WM__SDT_ATT WM__SDT_NOTE("nop", 0, subsys, event,                 \
							  WM__EACH(WM__SDT_ARG, _, ##__VA_ARGS__)) \
				 :                                                                 \
				 : WM__EACH(WM__SDT_OPERAND, _, ##__VA_ARGS__)[wm__last] "n"(0));  \
		WM__OPEN(name, text, ##__VA_ARGS__)                                                \
		{                                                                                  \
			unsigned char wm__payload[WM__PAYLOAD_ROOM(_, ##__VA_ARGS__)]              \
				__attribute__((aligned(8)));                                       \
			unsigned char *wm__to = wm__payload;                                       \
			const unsigned char *wm__from = wm__payload;                               \
			WM__EACH(WM__SDT_PUT, _, ##__VA_ARGS__)                                    \
			WM__ENTER(name, wm__payload, wm__payload);                                 \
			WM__EACH(WM__TOUCH_FIELD, _, ##__VA_ARGS__)                                \
			(void)wm__to;                                                              \
			(void)wm__from;                                                            \
		}                                                                                  \
		WM__CLOSE                                                                          \
	} while (0)

#endif
