/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kinds of values that settings have: how each is read, stored and written. For the files of
 * settings alone. A new setting of a known kind needs nothing here, but its row in
 * settings_list.h.
 */
#ifndef LODIC_LIB_SETTINGS_VALUE_H
#define LODIC_LIB_SETTINGS_VALUE_H

#include "lib/settings.h"

/* What a valid value says, until it is stored. A glob stays the text that it was. */
struct settings_value {
	uint64_t number;
	char text[SETTINGS_PATH_BYTES];
};

bool settings_value_is_globs(enum setting setting);

/* Reads a value as text. from_file: a file says it, and not this process.
 * -EINVAL: it is not valid, and s->why says why. -ENAMETOOLONG: so is a socket's path. */
int settings_value_take(struct settings *s, enum setting setting, const char *text,
                        bool from_file, struct settings_value *ret);
/* What was taken of text becomes the setting's value, or one more of its globs. -EINVAL, s->why:
 * there are too many globs. -ENOMEM. */
int settings_value_store(struct settings *s, enum setting setting,
                         const struct settings_value *value, const char *text);
/* Where the globs of a setting are, NULL-ended. Of another setting: an empty list. */
char *const *settings_value_globs(const struct settings *s, enum setting setting);
/* Another struct settings has the same globs: makes copies for s. -ENOMEM: some are missing. */
int settings_value_own_globs(struct settings *s, enum setting setting);
void settings_value_free_globs(struct settings *s, enum setting setting);
/* The value as text that can be taken again; the row's default if nobody says one. Not for globs.
 * text: where it is written, if need be. */
const char *settings_value_text(const struct settings *s, enum setting setting,
                                char text[SETTINGS_PATH_BYTES]);

#endif
