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

#define WM_TYPE_MASK 31	  /* the bits of the types above */
#define WM_TYPE_HEX 32	  /* an integer, or integers, for base 16; no site has it, its text does */
#define WM_TYPE_ARRAY 128 /* any number of that type */

#define WM_FIELDS_MAX 16
#define WM_RUN_BYTES_MAX 4096 /* of a string, a byte run or an array: cut there, and flagged */

/* A run of bytes; made by WM_BYTES(pointer, length in bytes). */
struct wm_bytes {
	const void *start;
	unsigned long long bytes;
};

/* Numbers in a row, made by WM_ARRAY(pointer, count). */
struct wm_array {
	const volatile void *start;
	unsigned long long count;
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

/*
 * Not instrumented: clang's calls (-finstrument-functions) would keep operands from being
 * constants.
 */
#define WM__INLINE static __inline__ __attribute__((always_inline, unused, no_instrument_function))

/* Instead of a type: what a macro was given wrongly. */
#define WM__WRONG_ARRAY 30
#define WM__WRONG_NET 29
#define WM__WRONG_HEX 28
#define WM__WRONG_ENUM 27

#define WM__ARRAY_TEXT "waymark: WM_ARRAY takes an array of numbers, or a pointer to them"
#define WM__NET_TEXT "waymark: WM_NET takes an integer of 16, 32 or 64 bits"
#define WM__HEX_TEXT "waymark: WM_HEX takes an integer, or a WM_ARRAY of integers"
#define WM__ENUM_TEXT "waymark: WM_ENUM takes an integer or an enumeration"

#define WM__IS_INTEGER(t) ((unsigned int)(t)-WM_TYPE_I8 <= WM_TYPE_U64 - WM_TYPE_I8)

#define WM__NET_FUNCTION(name, type, bits)                                                         \
	WM__INLINE type wm__net_##name(type value)                                                 \
	{                                                                                          \
		return (type)__builtin_bswap##bits((unsigned type)value);                          \
	}
WM__NET_FUNCTION(i16, short, 16)
WM__NET_FUNCTION(i32, int, 32)
WM__NET_FUNCTION(i64, long, 64)

/* The type of a field, as a constant; whether a type is one that wm__put() takes as it is. */
#ifdef __cplusplus
namespace waymark_detail
{
template <class T>
using plain = typename std::remove_cv<typename std::remove_reference<T>::type>::type;

template <class T> const T &sample();

template <class T, bool = std::is_integral<T>::value> struct integer {
	static constexpr int type = WM_TYPE_REFUSED;
};
template <class T> struct integer<T, true> {
	static constexpr int type = std::is_same<T, bool>::value   ? WM_TYPE_BOOL
				    : std::is_same<T, char>::value ? WM_TYPE_CHAR
				    : sizeof(T) == 1
					    ? (std::is_signed<T>::value ? WM_TYPE_I8 : WM_TYPE_U8)
				    : sizeof(T) == 2
					    ? (std::is_signed<T>::value ? WM_TYPE_I16 : WM_TYPE_U16)
				    : sizeof(T) == 4
					    ? (std::is_signed<T>::value ? WM_TYPE_I32 : WM_TYPE_U32)
				    : sizeof(T) == 8
					    ? (std::is_signed<T>::value ? WM_TYPE_I64 : WM_TYPE_U64)
					    : WM_TYPE_REFUSED;
};

/* The type of a number, a pointer or an enumeration. */
template <class T, bool = std::is_enum<T>::value> struct number {
	static constexpr int type = std::is_same<T, float>::value    ? WM_TYPE_F32
				    : std::is_same<T, double>::value ? WM_TYPE_F64
				    : std::is_pointer<T>::value	     ? WM_TYPE_PTR
								     : integer<T>::type;
};
template <class T> struct number<T, true> : integer<typename std::underlying_type<T>::type> {
};

template <int Type> struct array_of {
	static constexpr int type = Type;
	wm_array array;
};
template <class T> struct is_array_of : std::false_type {
};
template <int Type> struct is_array_of<array_of<Type>> : std::true_type {
};

/*
 * The classes that can be fields. We know them by their members, so that no header is
 * needed: data() and size() of strings, views, vectors; period and count() of durations;
 * time_since_epoch() of time points; load() of atomics.
 */
enum object_kind { OBJECT_OTHER, OBJECT_RUN, OBJECT_DURATION, OBJECT_TIME, OBJECT_ATOMIC };

template <class T> struct object_is {
	template <class U>
	static char run(decltype(sample<U>().data()) *, decltype(sample<U>().size()) *);
	template <class U> static long run(...);
	template <class U>
	static char duration(typename U::period *, decltype(sample<U>().count()) *);
	template <class U> static long duration(...);
	template <class U> static char time(decltype(sample<U>().time_since_epoch()) *, int *);
	template <class U> static long time(...);
	template <class U> static char atomic(decltype(sample<U>().load()) *, int *);
	template <class U> static long atomic(...);

	static constexpr object_kind kind = sizeof(run<T>(nullptr, nullptr)) == 1 ? OBJECT_RUN
					    : sizeof(duration<T>(nullptr, nullptr)) == 1
						    ? OBJECT_DURATION
					    : sizeof(time<T>(nullptr, nullptr)) == 1 ? OBJECT_TIME
					    : sizeof(atomic<T>(nullptr, nullptr)) == 1
						    ? OBJECT_ATOMIC
						    : OBJECT_OTHER;
};

/*
 * A field: its type; how its value is held until it is recorded, so that a temporary object lives
 * so long; what is stored of it.
 */
template <int Type, class T> struct scalar {
	static constexpr int type = Type;
	typedef T held;
	static T stored(T value)
	{
		return value;
	}
};

template <class T> struct refused {
	static constexpr int type = WM_TYPE_REFUSED;
	typedef const T &held;
	static int stored(const T &)
	{
		return 0;
	}
};

template <class T, object_kind kind = object_is<T>::kind> struct object : refused<T> {
};

template <class T, class = void> struct field : refused<T> {
};
template <class T>
struct field<T, typename std::enable_if<!std::is_same<T, long double>::value &&
					number<T>::type != WM_TYPE_REFUSED>::type>
    : scalar<number<T>::type, T> {
};
template <class T>
struct field<T, typename std::enable_if<std::is_same<T, long double>::value>::type> {
	static constexpr int type = WM_TYPE_F64;
	typedef T held;
	static double stored(T value)
	{
		return static_cast<double>(value);
	}
};
template <> struct field<char *> : scalar<WM_TYPE_STR, const char *> {
};
template <> struct field<const char *> : scalar<WM_TYPE_STR, const char *> {
};
template <> struct field<char[]> : scalar<WM_TYPE_STR, const char *> {
};
template <decltype(sizeof(0)) n> struct field<char[n]> : scalar<WM_TYPE_STR, const char *> {
};
template <> struct field<decltype(nullptr)> : scalar<WM_TYPE_PTR, const void *> {
};
template <> struct field<wm_bytes> : scalar<WM_TYPE_BYTES, wm_bytes> {
};
template <class T>
struct field<T, typename std::enable_if<std::is_function<T>::value>::type>
    : scalar<WM_TYPE_PTR, T *> {
};
template <class T>
struct field<T, typename std::enable_if<is_array_of<T>::value>::type> : scalar<T::type, T> {
};
template <class T>
struct field<T, typename std::enable_if<std::is_class<T>::value && !is_array_of<T>::value>::type>
    : object<T> {
};

template <class T> struct object<T, OBJECT_RUN> {
	typedef plain<typename std::remove_pointer<decltype(sample<T>().data())>::type> element;
	static constexpr int type = number<element>::type == WM_TYPE_REFUSED
					    ? WM_TYPE_REFUSED
					    : WM_TYPE_ARRAY | number<element>::type;
	typedef const T &held;
	static array_of<type> stored(const T &value)
	{
		array_of<type> made = { { value.data(),
					  static_cast<unsigned long long>(value.size()) } };

		return made;
	}
};

/* As std::chrono::duration_cast rounds. */
template <class T, class Count> long long nanoseconds(Count count, std::true_type)
{
	return static_cast<long long>(count * static_cast<Count>(T::period::num) *
				      static_cast<Count>(1000000000) /
				      static_cast<Count>(T::period::den));
}
template <class T, class Count> long long nanoseconds(Count count, std::false_type)
{
	__extension__ typedef __int128 wide;

	return static_cast<long long>(static_cast<wide>(count) * T::period::num * 1000000000 /
				      T::period::den);
}

template <class T> struct object<T, OBJECT_DURATION> {
	typedef plain<decltype(sample<T>().count())> count;
	static constexpr int type = WM_TYPE_I64;
	typedef const T &held;
	static long long stored(const T &value)
	{
		return nanoseconds<T>(value.count(), std::is_floating_point<count>());
	}
};

template <class T> struct object<T, OBJECT_TIME> {
	typedef object<plain<decltype(sample<T>().time_since_epoch())>> duration;
	static constexpr int type = duration::type;
	typedef const T &held;
	static long long stored(const T &value)
	{
		return duration::stored(value.time_since_epoch());
	}
};

template <class T> struct object<T, OBJECT_ATOMIC> {
	typedef field<plain<decltype(sample<T>().load())>> loaded;
	static constexpr int type = loaded::type;
	typedef const T &held;
	static auto stored(const T &value) -> decltype(loaded::stored(value.load()))
	{
		return loaded::stored(value.load());
	}
};

template <class T>
WM__INLINE array_of<WM_TYPE_ARRAY | number<plain<T>>::type> array_make(T *start,
								       unsigned long long count)
{
	array_of<WM_TYPE_ARRAY | number<plain<T>>::type> made = { { start, count } };

	static_assert(number<plain<T>>::type != WM_TYPE_REFUSED, WM__ARRAY_TEXT);
	return made;
}

template <class T> WM__INLINE T net(T value)
{
	static_assert(std::is_integral<T>::value && sizeof(T) >= 2 && sizeof(T) <= 8, WM__NET_TEXT);
	return static_cast<T>(sizeof(T) == 2   ? wm__net_i16(static_cast<short>(value))
			      : sizeof(T) == 4 ? wm__net_i32(static_cast<int>(value))
					       : wm__net_i64(static_cast<long>(value)));
}

template <class T> WM__INLINE auto hex(const T &value) -> decltype(field<plain<T>>::stored(value))
{
	static_assert(WM__IS_INTEGER(field<plain<T>>::type & ~WM_TYPE_ARRAY), WM__HEX_TEXT);
	return field<plain<T>>::stored(value);
}

template <class T>
WM__INLINE auto labelled(const T &value) -> decltype(field<plain<T>>::stored(value))
{
	static_assert(WM__IS_INTEGER(field<plain<T>>::type), WM__ENUM_TEXT);
	return field<plain<T>>::stored(value);
}
} // namespace waymark_detail
#define WM_ARRAY(p, n) (::waymark_detail::array_make((p), (unsigned long long)(n)))
#define WM_NET(e) (::waymark_detail::net(e))
#define WM_HEX(e) (::waymark_detail::hex(e))
#define WM_ENUM(e, ...) (::waymark_detail::labelled(e))
#define WM__FIELD_OF(e) ::waymark_detail::field<::waymark_detail::plain<decltype(e)>>
#define WM__TYPE(e) (WM__FIELD_OF(e)::type)
#define WM__IS_ARRAY(e)                                                                            \
	(std::is_array<::waymark_detail::plain<decltype(e)>>::value &&                             \
	 WM__TYPE(e) == WM_TYPE_REFUSED)
#define WM__ASSERT(cond, text) static_assert(cond, text)
#else
/*
 * A WM_ARRAY is a pointer to an array that is never there: its length is the elements' type, so
 * that the type is known where nothing is evaluated. It points to a struct wm_array.
 */
#define WM_ARRAY(p, n)                                                                             \
	((struct wm_array(*)[WM__ELEMENT(p)]) & (struct wm_array){ (p), (unsigned long long)(n) })
#define WM__ELEMENT(p)                                                                             \
	_Generic(*(p), long double                                                                 \
		 : WM__WRONG_ARRAY, default                                                        \
		 : WM__TYPE_NUMBER(*(p), WM__WRONG_ARRAY))
#define WM__AS_ARRAY(e)                                                                            \
	_Generic((e), struct wm_array(*)[] : (e), default : (struct wm_array(*)[1])0)

#define WM__WRONG(type) ((struct wm_array(*)[type])0)
#define WM_HEX(e)                                                                                  \
	__builtin_choose_expr(WM__IS_INTEGER(WM__TYPE(e) & ~WM_TYPE_ARRAY), (e),                   \
			      WM__WRONG(WM__WRONG_HEX))
#define WM_ENUM(e, ...)                                                                            \
	__builtin_choose_expr(WM__IS_INTEGER(WM__TYPE(e)), (e), WM__WRONG(WM__WRONG_ENUM))
#define WM_NET(e)                                                                                  \
	_Generic((e), short                                                                        \
		 : wm__net_i16, unsigned short                                                     \
		 : wm__net_u16, int                                                                \
		 : wm__net_i32, unsigned int                                                       \
		 : wm__net_u32, long                                                               \
		 : wm__net_i64, unsigned long                                                      \
		 : wm__net_u64, long long                                                          \
		 : wm__net_i64, unsigned long long                                                 \
		 : wm__net_u64, default                                                            \
		 : wm__net_wrong)(e)
WM__INLINE struct wm_array (*wm__net_wrong())[WM__WRONG_NET]
{
	return 0;
}
WM__INLINE unsigned short wm__net_u16(unsigned short value)
{
	return __builtin_bswap16(value);
}
WM__INLINE unsigned int wm__net_u32(unsigned int value)
{
	return __builtin_bswap32(value);
}
WM__INLINE unsigned long wm__net_u64(unsigned long value)
{
	return __builtin_bswap64(value);
}

/* A number's type; `other` for what has no name here. */
#define WM__TYPE_NAMED(e, other, ...)                                                              \
	_Generic((e), _Bool                                                                        \
		 : WM_TYPE_BOOL, char                                                              \
		 : WM_TYPE_CHAR, signed char                                                       \
		 : WM_TYPE_I8, unsigned char                                                       \
		 : WM_TYPE_U8, short                                                               \
		 : WM_TYPE_I16, unsigned short                                                     \
		 : WM_TYPE_U16, int                                                                \
		 : WM_TYPE_I32, unsigned int                                                       \
		 : WM_TYPE_U32, long                                                               \
		 : WM_TYPE_I64, unsigned long                                                      \
		 : WM_TYPE_U64, long long                                                          \
		 : WM_TYPE_I64, unsigned long long                                                 \
		 : WM_TYPE_U64, float                                                              \
		 : WM_TYPE_F32, double                                                             \
		 : WM_TYPE_F64, long double                                                        \
		 : WM_TYPE_F64, __int128                                                           \
		 : WM_TYPE_REFUSED, unsigned __int128                                              \
		 : WM_TYPE_REFUSED, __VA_ARGS__ default                                            \
		 : other)
#define WM__TYPE_NUMBER(e, wrong) WM__TYPE_NAMED(e, WM__TYPE_REST(e, wrong), )
#define WM__TYPE(e)                                                                                \
	WM__TYPE_NAMED(e, WM__TYPE_REST(e, WM_TYPE_REFUSED), char *: WM_TYPE_STR, const char *: WM_TYPE_STR,        \
		       struct wm_bytes: WM_TYPE_BYTES,                                             \
		       struct wm_array(*)[]: WM_TYPE_ARRAY | (int)(sizeof(*WM__AS_ARRAY(e)) /      \
								   sizeof(struct wm_array)), )
/* Types without a name above: a pointer (class 5), or a bit-field (class 1), which fits 64 bits. */
#define WM__TYPE_REST(e, wrong)                                                                    \
	(__builtin_classify_type(e) == 5                                                           \
		 ? WM_TYPE_PTR                                                                     \
		 : (__builtin_classify_type(e) == 1 ? WM_TYPE_I64 : (wrong)))
/*
 * An array, by its type before it becomes a pointer; a bit-field has no __typeof__. A function has
 * the type of what it points to.
 */
#define WM__POINTER_OF(e) __builtin_choose_expr(__builtin_classify_type(e) == 5, (e), (int *)0)
#define WM__IS_ARRAY(e)                                                                            \
	_Generic((e), char * : 0, const char * : 0, default                                        \
		 : !__builtin_types_compatible_p(__typeof__(WM__POINTER_OF(e)),                    \
						 __typeof__(((void)0, WM__POINTER_OF(e)))) &&      \
			   !__builtin_types_compatible_p(__typeof__(WM__POINTER_OF(e)),            \
							 __typeof__(*WM__POINTER_OF(e))))
#define WM__ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* Bytes that a field takes in the payload: a string is its pointer, a run is both words. */
#define WM__BYTES_OF(t)                                                                            \
	((t) == WM_TYPE_BYTES || ((t)&WM_TYPE_ARRAY) ? 16                                          \
	 : ((t) == WM_TYPE_I64 || (t) == WM_TYPE_U64 || (t) >= WM_TYPE_F64) && (t) != WM_TYPE_CHAR \
		 ? 8                                                                               \
	 : (t) == WM_TYPE_I32 || (t) == WM_TYPE_U32 || (t) == WM_TYPE_F32 ? 4                      \
	 : (t) == WM_TYPE_I16 || (t) == WM_TYPE_U16			  ? 2                      \
									  : 1)

/*
 * The fields' types, as constants of the block. Each is found once, since each use of an argument
 * is compiled again. By way of a size, because clang takes a compound literal within an enum's
 * braces for one of file scope.
 */
#define WM__TYPE_SIZE(a, i, e) typedef char wm__size##i[WM__TYPE(e)];
#define WM__TYPE_CONSTANT(a, i, e) wm__type##i = sizeof(wm__size##i),

#define WM__PLUS_BYTES(a, i, e) +WM__BYTES_OF(wm__type##i)
#define WM__PAYLOAD_BYTES(a, ...) (0 WM__EACH(WM__PLUS_BYTES, _, ##__VA_ARGS__))
/* Four field types to a word: %c prints no constant past 32 bits. */
#define WM__TYPE_AT(first, i, e)                                                                   \
	| ((i) / 4 * 4 == (first) ? (unsigned int)wm__type##i << ((i) % 4 * 8) : 0U)
#define WM__TYPES(first, ...) (0U WM__EACH(WM__TYPE_AT, first, ##__VA_ARGS__))
#define WM__CHECK_TYPE(a, i, e)                                                                    \
	WM__ASSERT(!WM__IS_ARRAY(e), "waymark: an array can't be a field; WM_ARRAY(array, n) "     \
				     "records its elements");                                      \
	WM__ASSERT(wm__type##i != WM_TYPE_REFUSED || WM__IS_ARRAY(e),                              \
		   "waymark: a value of this type can't be a field");                              \
	WM__ASSERT((wm__type##i & WM_TYPE_MASK) != WM__WRONG_ARRAY, WM__ARRAY_TEXT);               \
	WM__ASSERT((wm__type##i & WM_TYPE_MASK) != WM__WRONG_NET, WM__NET_TEXT);                   \
	WM__ASSERT((wm__type##i & WM_TYPE_MASK) != WM__WRONG_HEX, WM__HEX_TEXT);                   \
	WM__ASSERT((wm__type##i & WM_TYPE_MASK) != WM__WRONG_ENUM, WM__ENUM_TEXT);

#define WM__CHECK_FIELDS(a, ...)                                                                   \
	WM__ASSERT(WM__COUNT(_, ##__VA_ARGS__) <= WM_FIELDS_MAX,                                   \
		   "waymark: a marker takes at most 16 fields");                                   \
	WM__EACH(WM__TYPE_SIZE, _, ##__VA_ARGS__)                                                  \
	enum { WM__EACH(WM__TYPE_CONSTANT, _, ##__VA_ARGS__) wm__types_end };                      \
	WM__EACH(WM__CHECK_TYPE, _, ##__VA_ARGS__)

/*
 * The agent reads the memory that a string or run points to. A clobber would announce that to the
 * compiler, but it would slow down the hot path. Instead an empty asm before the marker and one
 * after it take that memory as input, so no store to it moves across the marker in either
 * direction.
 */
WM__INLINE void wm__touch(const volatile void *start)
{
#ifdef __clang__
	/* a volatile asm orders all memory */
	__asm__ volatile("" : : "m"(*(const volatile char *)start));
#else
	__asm__ volatile("" : : "m"(*(const volatile char(*)[])start));
#endif
}

WM__INLINE const unsigned char *wm__touch_again(const unsigned char *from, int type, int bytes)
{
	if (type == WM_TYPE_STR || type == WM_TYPE_BYTES || type & WM_TYPE_ARRAY) {
		const volatile void *start;

		__builtin_memcpy(&start, from, sizeof start);
		wm__touch(start);
	}
	return from + bytes;
}

#ifdef __cplusplus
namespace waymark_detail
{
template <int Type, class T> WM__INLINE unsigned char *put(unsigned char *to, T value)
{
	__builtin_memcpy(to, &value, sizeof value);
	wm__touch_again(to, Type, 0);
	return to + sizeof value;
}
} // namespace waymark_detail
#define WM__HOLD_FIELD(a, i, e) typename WM__FIELD_OF(e)::held wm__held##i = (e);
#define WM__PUT_FIELD(a, i, e)                                                                     \
	wm__to = ::waymark_detail::put<wm__type##i>(wm__to, WM__FIELD_OF(e)::stored(wm__held##i));
#else
#define WM__HOLD_FIELD(a, i, e)
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

WM__INLINE unsigned char *wm__put_array(unsigned char *to, const void *array)
{
	struct wm_array value;

	__builtin_memcpy(&value, array, sizeof value);
	wm__touch(value.start);
	__builtin_memcpy(to, &value, sizeof value);
	return to + sizeof value;
}

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
	wm__to = _Generic((e), struct wm_array(*)[]                                                \
			  : wm__put_array(wm__to, WM__AS_ARRAY(e)), default                        \
			  : WM__PUT_VALUE(e));
#define WM__PUT_VALUE(e)                                                                           \
	_Generic((e),                                                                              \
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
		wm__to, __builtin_choose_expr(WM__IS_NAMED(e), (e), WM__WORD(e)))
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
	wm__from = wm__touch_again(wm__from, wm__type##i, WM__BYTES_OF(wm__type##i));

#endif
