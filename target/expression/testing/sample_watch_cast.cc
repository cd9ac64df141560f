// SPDX-License-Identifier: MIT
// Casts, and classes with the members that libc++'s have (and one of libstdc++'s), for the tests of
// watches. Built without the library's headers.
namespace std
{
inline namespace __1
{
template <typename T> struct default_delete {
};

template <typename T, int I, bool IS_EMPTY> struct __compressed_pair_elem {
	T __value_;
};

template <typename T, int I> struct __compressed_pair_elem<T, I, true> : T {
};

template <typename A, typename B>
struct __compressed_pair : __compressed_pair_elem<A, 0, false>, __compressed_pair_elem<B, 1, true> {
	constexpr __compressed_pair(A a) : __compressed_pair_elem<A, 0, false>{ a }
	{
	}
};

template <typename T, typename D = default_delete<T>> struct unique_ptr {
	__compressed_pair<T *, D> __ptr_;
};

template <typename T> struct shared_ptr {
	T *__ptr_;
	void *__cntrl_;
};

template <typename T> struct vector {
	T *__begin_, *__end_;
};

template <typename T, unsigned long N> struct array {
	T __elems_[N];
};

template <typename C> struct basic_string {
	C __r_[24];
};
} // namespace __1

inline namespace __2
{
template <typename T> struct unique_ptr {
	T *__ptr_;
};
} // namespace __2

inline namespace __cxx11
{
template <typename C> struct basic_string {
	struct {
		C *_M_p;
	} _M_dataplus;
	unsigned long _M_string_length;
};
} // namespace __cxx11
} // namespace std

struct Pair {
	int a, b;
};

struct Base {
	int x;
};

struct Left : Base {
	int left;
};

struct Right : Base {
	int right;
};

struct Both : Left, Right {
	int whole;
};

struct Way : virtual Base {
	int y;
};

struct Twin { // in another file it has another size
	long a;
};

struct Small {
	long low : 9;
};

using PairAt = Pair *;

Pair pairs[4] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } };
char letters[] = "words";
std::__1::unique_ptr<Pair> unique = { &pairs[1] };
std::__2::unique_ptr<Pair> newer = { &pairs[2] };
std::shared_ptr<Pair> shared = { &pairs[1], nullptr };
std::vector<Pair> row = { pairs, pairs + 3 }, &row_alias = row;
std::vector<Pair> empty;
std::array<Pair, 2> fixed = { { { 1, 2 }, { 3, 4 } } };
std::__1::basic_string<char> text;
std::__cxx11::basic_string<char> old_text = { { letters }, 5 };
Both both;
Right *right = &both;
Base *left_base = static_cast<Left *>(&both);
Way way;
Base *way_base;
void *any = &pairs[1];
Pair *pair_at = &pairs[1];
void *any_at = &pair_at;
unsigned long handle = (unsigned long)&pairs[1];
long long signed_handle = (long long)&pairs[1];
int narrow = 4;
float real = 1;
Small small;
Twin twin;
PairAt typed = pairs;

int main()
{
	return narrow;
}
