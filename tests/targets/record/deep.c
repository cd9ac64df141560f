/* SPDX-License-Identifier: MIT */
__attribute__((noipa)) int descend(int left)
{
	return left ? descend(left - 1) + 1 : 0;
}
int main(void)
{
	return descend(50000) != 50000;
}
