/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The cases and mutants of all files of this folder, in one list each. */
#include <stdlib.h>
#include <string.h>

#include "check/case.h"

#define ROOM_FIRST 256u /* cases; the list grows */

void check_list_add(struct check_list *list, const struct check_case *c)
{
	if (list->nr == list->room) {
		list->room = list->room ? 2 * list->room : ROOM_FIRST;
		list->cases = realloc(list->cases, list->room * sizeof(*list->cases));
		CHECK_ASSERT(list->cases, "memory for the list of cases");
	}
	list->cases[list->nr++] = *c;
}

void check_list_all(struct check_list *list)
{
	list->nr = 0;
	check_cases_count(list);
	check_cases_fork(list);
	check_cases_init(list);
	check_cases_arena(list);
	check_cases_page(list);
	check_cases_hold(list);
	check_cases_own(list);
	check_cases_kloc(list);
}

const struct check_mutant *check_mutant_at(u32 i)
{
	for (const struct check_mutant *m = check_mutants; m->number != CHECK_NO_MUTANT;
	     m++)
		if (i-- == 0)
			return m;
	return NULL;
}

const struct check_mutant *check_mutant_find(u32 number)
{
	const struct check_mutant *m;

	for (u32 i = 0; (m = check_mutant_at(i)); i++)
		if (m->number == number)
			return m;
	return NULL;
}

const struct check_mutant *check_mutant_named(const char *name)
{
	const struct check_mutant *m;

	for (u32 i = 0; (m = check_mutant_at(i)); i++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

const struct check_case *check_list_find(const struct check_list *list,
                                         const char *scenario, const char *scheme)
{
	for (u32 i = 0; i < list->nr; i++)
		if (strcmp(list->cases[i].scenario, scenario) == 0 &&
		    strcmp(list->cases[i].scheme, scheme) == 0)
			return &list->cases[i];
	return NULL;
}
