/* SPDX-License-Identifier: MIT */
/*
 * waymark/marker.h: fields: which types there are, how a value is checked and put into a payload.
 * Names that begin with WM__ or wm__ are not for use.
 */
#ifndef WAYMARK_MARKER_FIELD_H
#define WAYMARK_MARKER_FIELD_H

#pragma GCC system_header

#include <waymark/marker/each.h>

#include <string.h>
#ifdef __cplusplus
#include <type_traits>
#endif

/* Field types, as encoded in a site's type words; 0 ends the list. */
#define WM_TYPE_I8 1
#define WM_TYPE_U8 2
#define WM_TYPE_I16 3
#define WM_TYPE_U16 4
#define WM_TYPE_I32 5
#define WM_TYPE_U32 6
#define WM_TYPE_I64 7
#define WM_TYPE_U64 8
#define WM_TYPE_BOOL 9
#define WM_TYPE_F32 10
#define WM_TYPE_F64 11
#define WM_TYPE_PTR 12
#define WM_TYPE_STR 13
#define WM_TYPE_BYTES 14
#define WM_TYPE_CHAR 15
#define WM_TYPE_ADDRESSES 16 /* no marker can have it: the kernel's events do */
#define WM_TYPE_REFUSED 31   /* compile error: this type can't be a field */

#define WM_FIELDS_MAX 16

/* A run of bytes; made by WM_BYTES(pointer, length in bytes), cut and flagged past 4 KiB. */
struct wm_bytes {
	const void *start;
	unsigned long long bytes;
};

static __inline__ __attribute__((always_inline, unused, no_instrument_function)) struct wm_bytes
wm_bytes_make(const void *start, unsigned long long bytes)
{
	struct wm_bytes run;

	run.start = start;
	run.bytes = bytes;
	return run;
}

#define WM_BYTES(p, n) (wm_bytes_make((p), (unsigned long long)(n)))
#define WM_FIELD(name, expr) (expr)

/* ---- From here on: how it is done. ---- */
/* clang-format off: it takes macros apart */

/* The type of a field, as a constant; whether a type is one that wm__put() takes as it is. */
#ifdef __cplusplus
namespace waymark_detail
{
template <class T> constexpr int type_of()
{
	if constexpr (std::is_same_v<T, wm_bytes>)
		return WM_TYPE_BYTES;
	else if constexpr (std::is_same_v<T, bool>)
		return WM_TYPE_BOOL;
	else if constexpr (std::is_same_v<T, char>)
		return WM_TYPE_CHAR;
	else if constexpr (std::is_same_v<T, char *> || std::is_same_v<T, const char *>)
		return WM_TYPE_STR;
	else if constexpr (std::is_same_v<T, float>)
		return WM_TYPE_F32;
	else if constexpr (std::is_floating_point_v<T>)
		return WM_TYPE_F64;
	else if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>)
		return WM_TYPE_PTR;
	else if constexpr (std::is_enum_v<T>)
		return type_of<std::underlying_type_t<T>>();
	else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
		return std::is_signed_v<T> ? WM_TYPE_I8 : WM_TYPE_U8;
	else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
		return std::is_signed_v<T> ? WM_TYPE_I16 : WM_TYPE_U16;
	else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
		return std::is_signed_v<T> ? WM_TYPE_I32 : WM_TYPE_U32;
	else if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
		return std::is_signed_v<T> ? WM_TYPE_I64 : WM_TYPE_U64;
	else
		return WM_TYPE_REFUSED;
}
template <class T> struct field {
	static constexpr int type = type_of<T>();
	static_assert(type != WM_TYPE_REFUSED, "waymark: a value of this type can't be a field");
};
} // namespace waymark_detail
#define WM__TYPE(e) (::waymark_detail::field<std::decay_t<decltype(e)>>::type)
#define WM__ASSERT(cond, text) static_assert(cond, text)
#else
#define WM__TYPE(e)                                                                                \
	_Generic((e),                                                                              \
		_Bool: WM_TYPE_BOOL,                                                               \
		char: WM_TYPE_CHAR,                                                                \
		signed char: WM_TYPE_I8,                                                           \
		unsigned char: WM_TYPE_U8,                                                         \
		short: WM_TYPE_I16,                                                                \
		unsigned short: WM_TYPE_U16,                                                       \
		int: WM_TYPE_I32,                                                                  \
		unsigned int: WM_TYPE_U32,                                                         \
		long: WM_TYPE_I64,                                                                 \
		unsigned long: WM_TYPE_U64,                                                        \
		long long: WM_TYPE_I64,                                                            \
		unsigned long long: WM_TYPE_U64,                                                   \
		float: WM_TYPE_F32,                                                                \
		double: WM_TYPE_F64,                                                               \
		long double: WM_TYPE_F64,                                                          \
		char *: WM_TYPE_STR,                                                               \
		const char *: WM_TYPE_STR,                                                         \
		struct wm_bytes: WM_TYPE_BYTES,                                                    \
		__int128: WM_TYPE_REFUSED,                                                         \
		unsigned __int128: WM_TYPE_REFUSED,                                                \
		default: WM__TYPE_REST(e))
/* Types without a name above: a pointer (class 5), or a bit-field (class 1), which fits 64 bits. */
#define WM__TYPE_REST(e)                                                                           \
	(__builtin_classify_type(e) == 5                                                           \
		 ? WM_TYPE_PTR                                                                     \
		 : (__builtin_classify_type(e) == 1 ? WM_TYPE_I64 : WM_TYPE_REFUSED))
#define WM__ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* Bytes that a field takes in the payload: a string is its pointer, a run is both words. */
#define WM__BYTES_OF(t)                                                                            \
	((t) == WM_TYPE_BYTES ? 16                                                                 \
	 : ((t) == WM_TYPE_I64 || (t) == WM_TYPE_U64 || (t) >= WM_TYPE_F64) && (t) != WM_TYPE_CHAR \
		 ? 8                                                                               \
	 : (t) == WM_TYPE_I32 || (t) == WM_TYPE_U32 || (t) == WM_TYPE_F32 ? 4                      \
	 : (t) == WM_TYPE_I16 || (t) == WM_TYPE_U16			  ? 2                      \
									  : 1)

#define WM__PLUS_BYTES(a, i, e) +WM__BYTES_OF(WM__TYPE(e))
#define WM__PAYLOAD_BYTES(a, ...) (0 WM__EACH(WM__PLUS_BYTES, _, ##__VA_ARGS__))
/* Four field types to a word: %c prints no constant past 32 bits. */
#define WM__TYPE_AT(first, i, e)                                                                   \
	| ((i) / 4 * 4 == (first) ? (unsigned int)WM__TYPE(e) << ((i) % 4 * 8) : 0U)
#define WM__TYPES(first, ...) (0U WM__EACH(WM__TYPE_AT, first, ##__VA_ARGS__))
#define WM__CHECK_TYPE(a, i, e)                                                                    \
	WM__ASSERT(WM__TYPE(e) != WM_TYPE_REFUSED,                                                 \
		   "waymark: a value of this type can't be a field");

#define WM__CHECK_FIELDS(a, ...)                                                                   \
	WM__ASSERT(WM__COUNT(_, ##__VA_ARGS__) <= WM_FIELDS_MAX,                                   \
		   "waymark: a marker takes at most 16 fields");                                   \
	WM__EACH(WM__CHECK_TYPE, _, ##__VA_ARGS__)

/*
 * Not instrumented: clang's calls (-finstrument-functions) would keep operands from being
 * constants.
 */
#define WM__INLINE static __inline__ __attribute__((always_inline, unused, no_instrument_function))

/*
 * The agent reads the memory that a string or run points to. A clobber would announce that to the
 * compiler, but it would slow down the hot path. Instead an empty asm before the marker and one
 * after it take that memory as input, so no store to it moves across the marker in either
 * direction.
 */
WM__INLINE void wm__touch(const void *start)
{
#ifdef __clang__
	__asm__ volatile("" : : "m"(*(const char *)start)); /* a volatile asm orders all memory */
#else
	__asm__ volatile("" : : "m"(*(const char(*)[])start));
#endif
}

#define WM__PUT(name, type)                                                                        \
	WM__INLINE unsigned char *wm__put_##name(unsigned char *to, type value)                    \
	{                                                                                          \
		__builtin_memcpy(to, &value, sizeof value);                                        \
		return to + sizeof value;                                                          \
	}
WM__PUT(char, char)
WM__PUT(i8, signed char)
WM__PUT(u8, unsigned char)
WM__PUT(i16, short)
WM__PUT(u16, unsigned short)
WM__PUT(i32, int)
WM__PUT(u32, unsigned int)
WM__PUT(i64, long long)
WM__PUT(u64, unsigned long long)
WM__PUT(f32, float)
WM__PUT(f64, double)
WM__PUT(ptr, const volatile void *)

WM__INLINE unsigned char *wm__put_str(unsigned char *to, const char *value)
{
	wm__touch(value);
	__builtin_memcpy(to, &value, sizeof value);
	return to + sizeof value;
}

WM__INLINE unsigned char *wm__put_bytes(unsigned char *to, struct wm_bytes value)
{
	wm__touch(value.start);
	__builtin_memcpy(to, &value, sizeof value);
	return to + sizeof value;
}

WM__INLINE const unsigned char *wm__touch_again(const unsigned char *from, int type, int bytes)
{
	if (type == WM_TYPE_STR || type == WM_TYPE_BYTES) {
		const void *start;

		__builtin_memcpy(&start, from, sizeof start);
		wm__touch(start);
	}
	return from + bytes;
}

#ifdef __cplusplus
namespace waymark_detail
{
template <class T> WM__INLINE unsigned char *put(unsigned char *to, T value)
{
	constexpr int type = field<T>::type;

	if constexpr (type == WM_TYPE_STR)
		return wm__put_str(to, value);
	else if constexpr (type == WM_TYPE_BYTES)
		return wm__put_bytes(to, value);
	else if constexpr (std::is_same_v<T, long double>)
		return wm__put_f64(to, static_cast<double>(value));
	else if constexpr (std::is_null_pointer_v<T>)
		return wm__put_ptr(to, nullptr);
	else {
		__builtin_memcpy(to, &value, sizeof value);
		return to + sizeof value;
	}
}
} // namespace waymark_detail
#define WM__PUT_FIELD(a, i, e)                                                                     \
	wm__to = ::waymark_detail::put<std::decay_t<decltype(e)>>(wm__to, (e));
#else
/* A bit-field or pointer as a word; the inner choices keep what has no such cast out of it. */
#define WM__WORD(e)                                                                                \
	((unsigned long long)_Generic((e), struct wm_bytes : 0, float : 0, double : 0,             \
				      long double : 0, default                                     \
				      : (e)))
#define WM__IS_NAMED(e)                                                                            \
	_Generic((e), _Bool : 1, char : 1, signed char : 1, unsigned char : 1, short : 1,          \
		 unsigned short : 1, int : 1, unsigned int : 1, long : 1, unsigned long : 1,       \
		 long long : 1, unsigned long long : 1, float : 1, double : 1, long double : 1,    \
		 char * : 1, const char * : 1, struct wm_bytes : 1, default : 0)
#define WM__PUT_FIELD(a, i, e)                                                                     \
	wm__to = _Generic((e),                                                                     \
		_Bool: wm__put_u8,                                                                 \
		char: wm__put_char,                                                                \
		signed char: wm__put_i8,                                                           \
		unsigned char: wm__put_u8,                                                         \
		short: wm__put_i16,                                                                \
		unsigned short: wm__put_u16,                                                       \
		int: wm__put_i32,                                                                  \
		unsigned int: wm__put_u32,                                                         \
		long: wm__put_i64,                                                                 \
		unsigned long: wm__put_u64,                                                        \
		long long: wm__put_i64,                                                            \
		unsigned long long: wm__put_u64,                                                   \
		float: wm__put_f32,                                                                \
		double: wm__put_f64,                                                               \
		long double: wm__put_long_double,                                                  \
		char *: wm__put_str,                                                               \
		const char *: wm__put_str,                                                         \
		struct wm_bytes: wm__put_bytes,                                                    \
		default: wm__put_u64)(                                                             \
		wm__to, __builtin_choose_expr(WM__IS_NAMED(e), (e), WM__WORD(e)));
#if defined(__clang__) && !defined(__SSE2__)
#define wm__put_long_double wm__put_f64 /* -mgeneral-regs-only: there is no such type */
#else
WM__INLINE unsigned char *wm__put_long_double(unsigned char *to, long double value)
{
	return wm__put_f64(to, (double)value);
}
#endif
#endif
#define WM__TOUCH_FIELD(a, i, e)                                                                   \
	wm__from = wm__touch_again(wm__from, WM__TYPE(e), WM__BYTES_OF(WM__TYPE(e)));

#endif
