/* SPDX-License-Identifier: MIT */
/*
 * Markers: named points in a program that cost nothing until a tool arms them.
 *
 *	WAYMARK(net, rx, len, peer);                  an event with two fields
 *	WAYMARK(net, rx, WM_FIELD(size, p->n), WM_BYTES(p->buf, p->n));
 *	WAYMARK_IF(net, audit) { check_tables(); }    code that runs while armed
 *	WAYMARK_BEGIN(db, query, sql); ... WAYMARK_END(db, query, rows);
 *	WAYMARK_SCOPE(db, commit, id);                ends where the block ends
 *	WAYMARK_SDT(db, busy, retries);               perf, gdb, bpftrace see it too
 *
 * This header links nothing and starts nothing. A marker is named SUBSYSTEM:EVENT; both are plain
 * identifiers, taken as written even where a macro has the same name. Each takes up to 16 fields:
 * signed and unsigned integers of 8 to 64 bits, bool, float, double (long double is narrowed to it),
 * enumerations, pointers, strings (char *; NULL is recorded as NULL; past 4 KiB they are cut and
 * flagged), and byte runs. A field is called what its argument's text says (a byte run is called what
 * its pointer is), or as WM_FIELD names it.
 *
 * Arguments are evaluated once, and only while the marker is armed, except that WAYMARK_SDT always
 * evaluates them. A string or byte run must be readable for as long as the statement runs.
 * Every macro may stand in any thread and in a signal handler, in inlined and in recursive code.
 *
 * -DWAYMARK_DISABLE   every macro expands to nothing; arguments are type-checked, never evaluated.
 * -DWAYMARK_PORTABLE  a site is a test of a flag in data instead of an instruction that is patched:
 *                     for programs whose text can never be written.
 *
 * What a site compiles to, and what stands in the sections, is told in abi/site.h of the sources.
 */
#ifndef WAYMARK_MARKER_H
#define WAYMARK_MARKER_H

/* GNU extensions are used throughout: asm goto, local labels, one-argument variadics. */
#pragma GCC system_header

#ifndef __x86_64__
#if !defined(WAYMARK_DISABLE)
#define WAYMARK_DISABLE 1 /* no site encoding for this processor: markers compile to nothing */
#endif
#endif

/* Field types, as they stand in a site's type words; 0 ends the list. */
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
#define WM_TYPE_REFUSED 31 /* compile error: this type can't be a field */

#define WM_FIELDS_MAX 16

/* A run of bytes; made by WM_BYTES(pointer, length in bytes), cut and flagged past 4 KiB. */
struct wm_bytes {
	const void *start;
	unsigned long long bytes;
};

static inline __attribute__((always_inline, unused)) struct wm_bytes
wm_bytes_make(const void *start, unsigned long long bytes)
{
	struct wm_bytes run;

	run.start = start;
	run.bytes = bytes;
	return run;
}

#define WM_BYTES(p, n) (wm_bytes_make((p), (unsigned long long)(n)))
#define WM_FIELD(name, expr) (expr)

#if defined(WAYMARK_DISABLE)

#define WAYMARK(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_IF(subsys, event) if (0)
#define WAYMARK_BEGIN(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_END(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_SCOPE(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_SDT(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)

#else

/* Record an event with the given fields. A statement. */
#define WAYMARK(subsys, event, ...) WM__MARK("m", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * Run the block that follows while armed; each pass is also recorded, as an event without fields.
 * The block is compiled out of line.
 */
#define WAYMARK_IF(subsys, event) if (WM__ARMED("i", #subsys, #event))

/* A span, within one thread: from BEGIN to the END of the same name. Spans nest. */
#define WAYMARK_BEGIN(subsys, event, ...)                                                          \
	WM__MARK("b", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)
#define WAYMARK_END(subsys, event, ...)                                                            \
	WM__MARK("e", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * A span from here to the end of the enclosing block, however it is left (return, break, goto, a
 * C++ exception; in C, an exception or cancellation only with -fexceptions; never longjmp).
 * A declaration: it can't be the sole body of an if or a loop. The end has no fields, and is
 * recorded only if the beginning was.
 */
#define WAYMARK_SCOPE(subsys, event, ...) WM__SCOPE(#subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * As WAYMARK, and a standard .note.stapsdt beside it, so that perf, bpftrace, gdb and SystemTap
 * see the point SUBSYSTEM:EVENT without Waymark. At most 12 fields, no WM_BYTES. Float and double
 * fields reach those tools as their bits.
 */
#define WAYMARK_SDT(subsys, event, ...) WM__SDT(#subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

#endif

/*
 * ---- From here on: how it is done. Names that begin with WM__ or wm__ are not for use. ----
 */
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

/* The type of a field, as a constant; whether a type is one that wm__put() takes as it is. */
#ifdef __cplusplus
#include <string.h>
#include <type_traits>
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
#include <string.h>
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
/* What has no name in the list: a pointer (class 5), or a bit-field (class 1), which fits 64 bits. */
#define WM__TYPE_REST(e)                                                                           \
	(__builtin_classify_type(e) == 5                                                           \
		 ? WM_TYPE_PTR                                                                     \
		 : (__builtin_classify_type(e) == 1 ? WM_TYPE_I64 : WM_TYPE_REFUSED))
#define WM__ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* Bytes that a field of a type takes in the payload: a string is its pointer, a run is both words. */
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

#define WM__INLINE static inline __attribute__((always_inline, unused))

/*
 * The agent reads what a string or run points to, and the compiler isn't told of it by a clobber,
 * which would cost the hot path. Instead an empty asm before and one after take that memory as
 * their input: no store to it moves over the marker, in either direction.
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
WM__INLINE unsigned char *wm__put_long_double(unsigned char *to, long double value)
{
	return wm__put_f64(to, (double)value);
}
#endif
#define WM__TOUCH_FIELD(a, i, e)                                                                   \
	wm__from = wm__touch_again(wm__from, WM__TYPE(e), WM__BYTES_OF(WM__TYPE(e)));

/*
 * A site, in assembler, since only there one object can stand in the COMDAT group of whatever
 * function the compiler copied the site into (flag ?), be dropped with that function's section
 * (flag o), and keep its marker's record once per module (a COMDAT group of its own). abi/site.h
 * describes the three sections and the note.
 */
#define WM__NAME(kind, subsys, event) "waymark." kind "." subsys "." event

#define WM__RECORDS(name)                                                                          \
	".ifndef " name "\n\t"                                                                     \
	".pushsection waymark_markers,\"awG\",@progbits," name ",comdat\n\t"                       \
	".balign 8\n\t"                                                                            \
	".hidden " name "\n\t"                                                                     \
	".weak " name "\n\t"                                                                       \
	".type " name ",@object\n\t"                                                               \
	".size " name ",32\n" name ":\n\t"                                                         \
	".quad 0, 0, 0, 0\n\t"                                                                     \
	".popsection\n\t"                                                                          \
	".endif\n\t"                                                                               \
	".ifndef .Lwaymark_note\n\t"                                                               \
	".pushsection .note.waymark,\"a\",@note\n\t"                                               \
	".balign 4\n"                                                                              \
	".Lwaymark_note:\n\t"                                                                      \
	".hidden __start_waymark_sites, __stop_waymark_sites\n\t"                                  \
	".hidden __start_waymark_markers, __stop_waymark_markers\n\t"                              \
	".long 8, 16, 1\n\t"                                                                       \
	".asciz \"Waymark\"\n\t"                                                                   \
	".long __start_waymark_sites - ., __stop_waymark_sites - .\n\t"                            \
	".long __start_waymark_markers - ., __stop_waymark_markers - .\n\t"                        \
	".popsection\n\t"                                                                          \
	".endif\n\t"

#define WM__ENTRY(name, site, cold, types)                                                         \
	".pushsection waymark_sites,\"ao?\",@progbits,.Lwm_site%=\n\t"                             \
	".balign 8\n\t"                                                                            \
	".long " site ", " cold "\n\t"                                                             \
	".long " name " - ., %c[wm_text] - .\n\t"                                                  \
	".long " types "\n\t"                                                                      \
	".popsection\n"

#ifdef WAYMARK_PORTABLE
#define WM__WAY "p"
#define WM__TEST(name, cold)                                                                       \
	".Lwm_site%=: cmpl $0, " name "+16(%%rip)\n\t"                                             \
	"jne " cold "\n\t"
#else
#define WM__WAY "j"
#define WM__TEST(name, cold)                                                                       \
	".Lwm_site%=: .byte 0x3d\n\t"                                                              \
	".long " cold " - . - 4\n\t"
#endif

/* What a site's text operand says, line by line; the fields' text comes last, as written. */
#define WM__SITE_TEXT(kind, subsys, event, fields)                                                 \
	kind WM__WAY "\n" subsys "\n" event "\n" __FILE__ "\n" WM__TEXT(__LINE__) "\n" fields

#define WM__TABLES(name, cold)                                                                     \
	WM__RECORDS(name)                                                                          \
	WM__ENTRY(name, ".Lwm_site%= - .", cold " - .",                                            \
		  "%c[wm_t0], %c[wm_t4], %c[wm_t8], %c[wm_t12]")
#define WM__SITE(name, ...)                                                                        \
	__asm__ goto(WM__TEST(name, "%l[wm__armed]") WM__TABLES(name, "%l[wm__armed]")             \
		     :                                                                             \
		     : __VA_ARGS__                                                                 \
		     : "cc"                                                                        \
		     : wm__armed)

/* A marker's record, as the agent fills it in: struct wm_record of abi/site.h. */
struct wm__record {
	void *enter;
	void *agent_word;
	unsigned long long rest[2];
};

/*
 * WM__OPEN opens the block that runs while armed, WM__CLOSE closes it.
 *
 * clang 14 takes it that each asm goto of a function jumps to the labels of all of them, and
 * refuses that where the initialization of a variable, a cleanup or a VLA stands between. So there
 * every asm goto has a function of its own that is always inlined. In C one serves all: its
 * operands are constants once inlined, which needs an optimizer; without one the asm sets a flag.
 */
#define WM__TYPE_WORDS(a, ...)                                                                     \
	WM__TYPES(0, ##__VA_ARGS__), WM__TYPES(4, ##__VA_ARGS__), WM__TYPES(8, ##__VA_ARGS__),     \
		WM__TYPES(12, ##__VA_ARGS__)
#define WM__INPUTS(...) WM__INPUTS1(__VA_ARGS__)
#define WM__INPUTS1(text, t0, t4, t8, t12)                                                         \
	[wm_text] "i"(text), [wm_t0] "i"(t0), [wm_t4] "i"(t4), [wm_t8] "i"(t8), [wm_t12] "i"(t12)

#ifndef __clang__
#define WM__OPEN(kind, subsys, event, fields, ...)                                                 \
	{                                                                                          \
		__label__ wm__armed;                                                               \
		WM__SITE(WM__NAME(kind, subsys, event),                                            \
			 WM__INPUTS(WM__SITE_TEXT(kind, subsys, event, fields),                    \
				    WM__TYPE_WORDS(_, ##__VA_ARGS__)));                            \
		if (0) {                                                                           \
wm__armed:                                                                                         \
			__attribute__((cold));
#elif defined(__cplusplus)
#define WM__OPEN(kind, subsys, event, fields, ...)                                                 \
	{                                                                                          \
		constexpr unsigned int wm__types0 = WM__TYPES(0, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types4 = WM__TYPES(4, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types8 = WM__TYPES(8, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types12 = WM__TYPES(12, ##__VA_ARGS__);                 \
		struct wm__site {                                                                  \
			WM__INLINE bool is_armed()                                                 \
			{                                                                          \
				WM__SITE(WM__NAME(kind, subsys, event),                            \
					 WM__INPUTS(WM__SITE_TEXT(kind, subsys, event, fields),    \
						    wm__types0, wm__types4, wm__types8,            \
						    wm__types12));                                 \
				return false;                                                      \
wm__armed:                                                                                         \
				return true;                                                       \
			}                                                                          \
		};                                                                                 \
		if (__builtin_expect(wm__site::is_armed(), false)) {
#elif defined(__OPTIMIZE__)
WM__INLINE _Bool wm__is_armed(struct wm__record *record, const char *text, unsigned int types0,
			      unsigned int types4, unsigned int types8, unsigned int types12)
{
	WM__SITE("%c[wm_record]",
		 WM__INPUTS(text, types0, types4, types8, types12), [wm_record] "i"(record));
	return 0;
wm__armed:
	return 1;
}
#define WM__OPEN(kind, subsys, event, fields, ...)                                                 \
	WM__OPEN1(WM__GLUE(wm__record_, __COUNTER__), kind, subsys, event, fields, ##__VA_ARGS__)
#define WM__OPEN1(record, kind, subsys, event, fields, ...)                                        \
	{                                                                                          \
		extern struct wm__record record __asm__(WM__NAME(kind, subsys, event))             \
			__attribute__((visibility("hidden")));                                     \
		if (__builtin_expect(wm__is_armed(&record,                                         \
						  WM__SITE_TEXT(kind, subsys, event, fields),      \
						  WM__TYPE_WORDS(_, ##__VA_ARGS__)),               \
				     0)) {
#else
#define WM__OPEN(kind, subsys, event, fields, ...)                                                 \
	{                                                                                          \
		int wm__is_armed;                                                                  \
		__asm__ volatile(WM__TEST(WM__NAME(kind, subsys, event),                           \
					  ".Lwm_cold%=") "movl $0, %[wm_flag]\n\t"                 \
							 "jmp .Lwm_done%=\n"                       \
							 ".Lwm_cold%=: movl $1, %[wm_flag]\n"      \
							 ".Lwm_done%=:\n\t" WM__TABLES(            \
								 WM__NAME(kind, subsys, event),    \
								 ".Lwm_cold%=")                    \
				 : [wm_flag] "=r"(wm__is_armed)                                    \
				 : WM__INPUTS(WM__SITE_TEXT(kind, subsys, event, fields),          \
					      WM__TYPE_WORDS(_, ##__VA_ARGS__))                    \
				 : "cc");                                                          \
		if (wm__is_armed) {
#endif
#define WM__CLOSE                                                                                  \
	}                                                                                          \
	}

/*
 * Enter the agent. No register is clobbered and the compiler is told of no call: its stub keeps
 * all it uses, so a leaf function stays a leaf and the hot path gains no push. First step over the
 * red zone (System V ABI 3.2.2), then push the payload and the agent's own word. The stub's CFI
 * counts all of it, so unwinding is right everywhere but at the boundaries of these four
 * instructions themselves.
 */
#define WM__ENTER(kind, subsys, event, payload, input)                                             \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"                                              \
			 "pushq %[wm_at]\n\t"                                                      \
			 "pushq " WM__NAME(kind, subsys,                                           \
					   event) "+8(%%rip)\n\t"                                  \
						  "call *" WM__NAME(kind, subsys,                  \
								    event) "(%%rip)\n\t"           \
									   "lea 144(%%rsp), %%rsp" \
			 :                                                                         \
			 : [wm_at] "l"(payload), "m"(input)                                        \
			 : "cc")

#define WM__MARK(kind, subsys, event, fields, ...)                                                 \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		WM__OPEN(kind, subsys, event, fields, ##__VA_ARGS__)                               \
		WM__COLD_BLOCK(kind, subsys, event, ##__VA_ARGS__)                                 \
		WM__CLOSE                                                                          \
	} while (0)

/* The payload is rounded up to words, and has one at least: the agent copies it by words. */
#define WM__PAYLOAD_ROOM(a, ...)                                                                   \
	((WM__PAYLOAD_BYTES(_, ##__VA_ARGS__) + 7) / 8 * 8 + 8 * !WM__COUNT(_, ##__VA_ARGS__))
#define WM__COLD_BLOCK(kind, subsys, event, ...)                                                   \
	unsigned char wm__payload[WM__PAYLOAD_ROOM(_, ##__VA_ARGS__)] __attribute__((aligned(8))); \
	unsigned char *wm__to = wm__payload;                                                       \
	const unsigned char *wm__from = wm__payload;                                               \
	WM__EACH(WM__PUT_FIELD, _, ##__VA_ARGS__)                                                  \
	WM__ENTER(kind, subsys, event, wm__payload, wm__payload);                                  \
	WM__EACH(WM__TOUCH_FIELD, _, ##__VA_ARGS__)                                                \
	(void)wm__to;                                                                              \
	(void)wm__from;

/* True while armed. The event has no payload; what the stub is given is never read. */
#define WM__ARMED(kind, subsys, event)                                                             \
	(__extension__({                                                                           \
		int wm__passed = 0;                                                                \
		WM__OPEN(kind, subsys, event, "")                                                  \
		WM__ENTER(kind, subsys, event, 0L, *(const char *)"");                             \
		wm__passed = 1;                                                                    \
		WM__CLOSE                                                                          \
		wm__passed;                                                                        \
	}))

WM__INLINE void wm__scope_leave(struct wm__record **scope)
{
	if (__builtin_expect(*scope != 0, 0))
		__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
				 "pushq $0\n\t"
				 "pushq 8(%[wm_record])\n\t"
				 "call *(%[wm_record])\n\t"
				 "lea 144(%%rsp), %%rsp"
				 :
				 : [wm_record] "r"(*scope)
				 : "cc");
}

/* The end has an entry in the table too, with no site: it is armed along with its beginning. */
#define WM__SCOPE(subsys, event, fields, ...)                                                      \
	WM__SCOPE1(WM__GLUE(wm__scope_, __COUNTER__), subsys, event, fields, ##__VA_ARGS__)
#define WM__SCOPE1(scope, subsys, event, fields, ...)                                              \
	struct wm__record *scope __attribute__((cleanup(wm__scope_leave), unused)) = 0;            \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		WM__OPEN("b", subsys, event, fields, ##__VA_ARGS__)                                \
		WM__COLD_BLOCK("b", subsys, event, ##__VA_ARGS__)                                  \
		__asm__ volatile(                                                                  \
			".Lwm_site%=: lea " WM__NAME(                                              \
				"e", subsys,                                                       \
				event) "(%%rip), %[wm_record]\n\t" WM__RECORDS(WM__NAME("e",       \
											subsys,    \
											event))    \
				WM__ENTRY(WM__NAME("e", subsys, event), "0", "0", "0, 0, 0, 0")    \
			: [wm_record] "=r"(scope)                                                  \
			: [wm_text] "i"(WM__SITE_TEXT("e", subsys, event, "")));                   \
		WM__CLOSE                                                                          \
	} while (0)

/*
 * SystemTap's note, version 3 (its wiki, "UserSpaceProbeImplementation"). The nop stands beside the
 * site, never on it: the kernel writes there. Every argument is a word, so that one evaluation
 * serves both.
 */
#define WM__SDT_DECLARE(a, i, e) const unsigned long long wm__word##i = WM__SDT_WORD(e);
#define WM__SDT_ARG(a, i, e) "%c[wm_s" #i "]@%[wm_a" #i "] "
#define WM__SDT_OPERAND(a, i, e)                                                                   \
	[wm_s##i] "n"(WM__TYPE(e) <= WM_TYPE_I64 && WM__TYPE(e) % 2 ? -8 : 8),                     \
		[wm_a##i] "nor"(wm__word##i),
#define WM__SDT_PUT(a, i, e)                                                                       \
	if (WM__TYPE(e) == WM_TYPE_STR)                                                            \
		wm__touch((const void *)wm__word##i);                                              \
	__builtin_memcpy(wm__to, &wm__word##i, WM__BYTES_OF(WM__TYPE(e)));                         \
	wm__to += WM__BYTES_OF(WM__TYPE(e));
#define WM__SDT_CHECK(a, i, e)                                                                     \
	WM__ASSERT(WM__TYPE(e) != WM_TYPE_BYTES, "waymark: WM_BYTES is not for WAYMARK_SDT");

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

#ifdef __cplusplus
namespace waymark_detail
{
template <class T> WM__INLINE unsigned long long word(T value)
{
	if constexpr (std::is_same_v<T, float>)
		return wm__word_of_f32(value);
	else if constexpr (std::is_floating_point_v<T>)
		return wm__word_of_f64(static_cast<double>(value));
	else if constexpr (std::is_pointer_v<T>)
		return reinterpret_cast<unsigned long long>(value);
	else if constexpr (std::is_null_pointer_v<T> || std::is_same_v<T, wm_bytes>)
		return 0;
	else
		return static_cast<unsigned long long>(value);
}
} // namespace waymark_detail
#define WM__SDT_WORD(e) (::waymark_detail::word<std::decay_t<decltype(e)>>(e))
#else
#define WM__IS_FLOAT(e) _Generic((e), float : 1, double : 1, long double : 1, default : 0)
#define WM__SDT_WORD(e)                                                                            \
	_Generic((e), float                                                                        \
		 : wm__word_of_f32, double                                                         \
		 : wm__word_of_f64, long double                                                    \
		 : wm__word_of_long_double, default                                                \
		 : wm__word_of_word)(__builtin_choose_expr(WM__IS_FLOAT(e), (e), WM__WORD(e)))
WM__INLINE unsigned long long wm__word_of_long_double(long double value)
{
	return wm__word_of_f64((double)value);
}
WM__INLINE unsigned long long wm__word_of_word(unsigned long long value)
{
	return value;
}
#endif

#define WM__SDT(subsys, event, fields, ...)                                                                           \
	do {                                                                                                          \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                                    \
		WM__EACH(WM__SDT_CHECK, _, ##__VA_ARGS__)                                                             \
		WM__ASSERT(WM__COUNT(_, ##__VA_ARGS__) <= 12,                                                         \
			   "waymark: WAYMARK_SDT takes 12 fields");                                                   \
		WM__EACH(WM__SDT_DECLARE, _, ##__VA_ARGS__)                                                           \
		__asm__ volatile(                                                                                     \
			"990: nop\n\t"                                                                                \
			".pushsection .note.stapsdt,\"?\",@note\n\t"                                                  \
			".balign 4\n\t"                                                                               \
			".4byte 992f-991f, 994f-993f, 3\n"                                                            \
			"991: .asciz \"stapsdt\"\n"                                                                   \
			"992: .balign 4\n"                                                                            \
			"993: .8byte 990b, _.stapsdt.base, 0\n\t"                                                     \
			".asciz \"" subsys "\"\n\t"                                                                   \
			".asciz \"" event "\"\n\t"                                                                    \
			".asciz \"" WM__EACH(                                                                         \
				WM__SDT_ARG, _,                                                                       \
				##__VA_ARGS__) "\"\n"                                                                 \
					       "994: .balign 4\n\t"                                                   \
					       ".popsection\n\t"                                                      \
					       ".ifndef _.stapsdt.base\n\t"                                           \
					       ".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n\t" \
					       ".weak _.stapsdt.base\n\t"                                             \
					       ".hidden _.stapsdt.base\n"                                             \
					       "_.stapsdt.base: .space 1\n\t"                                         \
					       ".size _.stapsdt.base, 1\n\t"                                          \
					       ".popsection\n\t"                                                      \
					       ".endif"                                                               \
			:                                                                                             \
			: WM__EACH(WM__SDT_OPERAND, _, ##__VA_ARGS__)[wm__last] "n"(0));                              \
		WM__OPEN("m", subsys, event, fields, ##__VA_ARGS__)                                                   \
		unsigned char wm__payload[WM__PAYLOAD_ROOM(_, ##__VA_ARGS__)]                                         \
			__attribute__((aligned(8)));                                                                  \
		unsigned char *wm__to = wm__payload;                                                                  \
		const unsigned char *wm__from = wm__payload;                                                          \
		WM__EACH(WM__SDT_PUT, _, ##__VA_ARGS__)                                                               \
		WM__ENTER("m", subsys, event, wm__payload, wm__payload);                                              \
		WM__EACH(WM__TOUCH_FIELD, _, ##__VA_ARGS__)                                                           \
		(void)wm__to;                                                                                         \
		(void)wm__from;                                                                                       \
		WM__CLOSE                                                                                             \
	} while (0)

/* Disabled: the fields' types are checked and their variables count as used; nothing is left. */
#define WM__CHECK(a, ...)                                                                          \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		if (0) {                                                                           \
			WM__EACH(WM__USE, _, ##__VA_ARGS__)                                        \
		}                                                                                  \
	} while (0)
#define WM__USE(a, i, e) (void)(e);

#endif
