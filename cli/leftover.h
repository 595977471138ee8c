/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a measurement puts on disk goes when the program ends, however it ends: in order, by a
 * second Ctrl-C, or by SIGKILL.
 */
#ifndef LODIC_CLI_LEFTOVER_H
#define LODIC_CLI_LEFTOVER_H

/* Chooses a name for a new file or folder: random letters in the place of the six X at path's
 * end. What the caller then makes there goes with the program, also if that is killed while it
 * makes it. A folder goes with its files, and a service that listens at a socket in it ends.
 * -errno: nobody would remove it. */
int leftover_name(char *path);

/* The folder for such files: `build` in the current folder, if there is one, else TMPDIR
 * or /tmp. */
const char *leftover_folder(void);

/* Removes all of it now, and waits until that is done. */
void leftover_sweep(void);

#endif
