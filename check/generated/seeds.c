/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For lodic-whole with mutants: which schedules run, and what each of them reaches. The environment
 * chooses:
 *
 *   LODIC_GENERATED_SEEDS=F  only those whose numbers stand in the file F
 *   LODIC_GENERATED_EACH=F   F has, for each schedule, its seed, how many mutants it reached, and
 *                            their numbers, each in 4 bytes
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/generated/points.h"
#include "check/whole/search.h"

#define MOST_SEEDS 1000000u

static u32 seen[GENERATED_MAX];
static u8 chosen[MOST_SEEDS / 8];
static FILE *each;

static _Noreturn void give_up(const char *path)
{
	perror(path);
	exit(1);
}

static bool is_chosen(u64 seed)
{
	return seed < MOST_SEEDS && (chosen[seed / 8] >> seed % 8 & 1);
}

static void put(u32 number)
{
	if (fwrite(&number, sizeof(number), 1, each) != 1)
		give_up("LODIC_GENERATED_EACH");
}

static void note(u64 seed)
{
	u32 nr = 0;

	for (u32 i = 0; i < GENERATED_MAX; i++)
		nr += seen[i] != 0;
	put((u32)seed);
	put(nr);
	for (u32 i = 0; i < GENERATED_MAX; i++)
		if (seen[i])
			put(i);
	if (fflush(each) != 0)
		give_up("LODIC_GENERATED_EACH");
	memset(seen, 0, sizeof(seen));
}

static void read_chosen(const char *path)
{
	FILE *from = fopen(path, "re");
	unsigned long seed;

	if (!from)
		give_up(path);
	while (fscanf(from, "%lu", &seed) == 1)
		if (seed < MOST_SEEDS)
			chosen[seed / 8] |= (u8)(1 << seed % 8);
	fclose(from);
	search_watch.wants = is_chosen;
}

__attribute__((constructor)) static void seeds_begin(void)
{
	const char *from = getenv("LODIC_GENERATED_SEEDS");
	const char *to = getenv("LODIC_GENERATED_EACH");

	if (from)
		read_chosen(from);
	if (!to)
		return;
	each = fopen(to, "we");
	if (!each)
		give_up(to);
	generated_seen = seen;
	search_watch.ran = note;
}
