// SPDX-License-Identifier: MIT
// Members of C++'s classes that have one name, for the tests of watches.
namespace deep
{
struct First {
	int first = 1;
	int both = 2;
	static int only;
};
int First::only = 20;

template <typename T> struct Second {
	T second = 3;
	T both = 4;
	static T still;
};
template <typename T> T Second<T>::still = 5;
} // namespace deep

struct Hidden {
	int x = 6;
};

struct Hiding : Hidden {
	int x = 7;
};

struct Pair : deep::First, deep::Second<long> {
	int own = 8;
};

struct Left : deep::First {
	int left = 9;
};

struct Right : deep::First {
	int right = 10;
};

struct Diamond : Left, Right {
	union {
		struct {
			int low;
			int high;
		};
		long whole = 11;
	};
};

struct Static : Hidden {
	static int x;
};
int Static::x = 12;

struct Virtual {
	int pad = 13;
	int shared = 14;
	unsigned int flag : 3;
	unsigned int field : 9;
};

struct One : virtual Virtual {
	int one = 15;
};

struct Two : virtual Virtual {
	int two = 16;
	long shared = 17;
};

struct Three {
	int pad = 19;
};

struct Virtuals : One, virtual Two, Three {
	int all = 18;
};

Hiding hiding;
Hiding *hiding_at = &hiding;
Pair pair;
Diamond diamond;
Static still;
One one;
Virtuals virtuals;
Virtuals *virtuals_at = &virtuals;

int main()
{
	// A cast makes GCC leave Static::x out of the class's own unit of debug information.
	return hiding.x + pair.own + diamond.left + ((Static *)&still)->x +
	       deep::Second<long>::still + one.one + virtuals.all;
}
