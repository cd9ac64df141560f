/* SPDX-License-Identifier: MIT */
/* Stores: the instructions before them have the new value, the old one, or neither. */
long word, *volatile to = &word;
long shifted = 1, *volatile to_shifted = &shifted;

int main(void)
{
	for (long i = 1; i < 4; i++) {
		__atomic_exchange_n(to, i, __ATOMIC_SEQ_CST);
		__asm__ volatile("shlq $1, %0" : "+m"(shifted));
	}
	*to_shifted = 9;
	return __atomic_fetch_add(to, 5, __ATOMIC_SEQ_CST) != 3;
}
