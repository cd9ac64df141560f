/* SPDX-License-Identifier: MIT */
/* A value whose type has bases and a union. */
struct Far {
	int far;
};
struct Base {
	int hidden, kept;
	static int shared;
};
struct Derived : Base, virtual Far {
	int hidden;
	union {
		int number;
		float real;
	};
} derived;
int Base::shared;
int main()
{
	return derived.hidden + Base::shared;
}
