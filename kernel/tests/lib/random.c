// SPDX-License-Identifier: GPL-2.0
#include "random.h"

u64 random_mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

u64 random_next(u64 *state)
{
	*state += 0x9e3779b97f4a7c15ull;
	return random_mix(*state);
}
