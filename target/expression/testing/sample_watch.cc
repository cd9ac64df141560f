// SPDX-License-Identifier: MIT
// C++'s variables, for the tests of watches.
namespace shop
{
int orders = 1;

inline namespace v1
{
int stock = 2;
}

namespace
{
volatile int till = 3;
}

struct Item {
	int price = 4;
	static int count;
	static constexpr int most = 99;
};
int Item::count = 5;

template <typename T> struct Box {
	T inside;
	static T last;
};
template <typename T> T Box<T>::last = 6;

enum class Level : unsigned char { low, high = 200 };

struct Named {
	long id = 7;
	virtual ~Named()
	{
	}
};

struct Offer : Named, Item {
	int percent = 8;
	Level level = Level::high;
};

struct Shared : virtual Item {
	int own = 9;
};

struct Counter {
	int next()
	{
		static volatile int calls = 10;

		return ++calls;
	}
};

Offer offer;
Offer *offer_at = &offer;
Item *item_at = &offer;
Shared lent;
Box<int> box = { 11 };
Box<Box<long>> boxes = { { 12 } };
int &alias = orders;
Offer &offer_alias = offer;
int Item::*member = &Item::price;
char16_t wide = u'w';
wchar_t wider = L'x';
decltype(nullptr) nothing = nullptr;
Level level = Level::low;
} // namespace shop

static volatile int mine = 13;
int shared_name = 14;

int f(int);
int f(double);

int f(int a)
{
	static volatile int kept = 15;

	return kept + a;
}

int f(double a)
{
	static volatile long kept = 16;

	return (int)kept + (int)a;
}

int main()
{
	return shop::till + mine + f(1) + f(1.5) + shop::Counter().next() + shop::Box<int>::last +
	       shop::Item::count;
}
