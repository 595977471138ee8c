/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The segments that readers map. */
#ifndef LODIC_LIB_SERVICE_MEMORY_MEMORY_H
#define LODIC_LIB_SERVICE_MEMORY_MEMORY_H

#include "lib/service/base/base.h"

struct memory;
struct cgroup;

/* Makes the arena. -ENOMEM and what port_memory_file() and port_map() say; ret_why then says what
 * the user can do. */
int memory_make(struct memory *s, const char **ret_why);
/* in_use: a read may still go there. What readers map ends with the process then. */
void memory_free(struct memory *s, bool in_use);
/* How many entries a context may pin. */
u32 memory_quota(const struct memory *s);
/* How many frames such a context counts for. Its reader writes its table, and may count more
 * entries than the quota. In a group that reader may be another user's, so all entries count. */
u32 memory_charge(const struct memory *s);
/* A context's memory, mapped here. ret_reader_fd is for its reader. ret_fd stays here, for
 * memory_ask(); -1: that would not tell. -EMFILE, -ENFILE: no descriptor is left. */
int memory_make_context(struct memory *s, u64 bytes, void **ret_memory, int *ret_fd,
                        int *ret_reader_fd);

/* Has anybody the memory behind fd mapped or open, but for the service's own mapping and fd?
 * MEMORY_UNKNOWN: no answer now; ask again. */
enum memory_use { MEMORY_UNUSED, MEMORY_USED, MEMORY_UNKNOWN };
enum memory_use memory_ask(int fd);
/* The same where fd is a description of the service's own that port_memory_again() has opened
 * read-only, and the service has no other one. */
enum memory_use memory_ask_own(int fd);

/* -ENOMEM: this machine, or a control group of this process, does not have so much memory left now;
 * *ret_why says so. It reads some files of /proc and /sys. Any thread may call it. */
int memory_check_room(u64 bytes, const char **ret_why);

/* A control group that leaves less than this part of its limit is tight. The kernel kills there,
 * and does not wait as on a whole machine. */
#define MEMORY_TIGHT_PART 8u
bool memory_is_tight(const struct cgroup *group);

/* The same for holds, which do not go while a program has them: they must not make a control group
 * tight. Its programs would be killed where the kernel's own copies give way. */
int memory_check_hold(u64 bytes, const char **ret_why);
/* Holds are about to take so much, and have taken it, or will not. An arena that is made meanwhile
 * leaves it to them. */
void memory_hold_comes(u64 bytes);
void memory_hold_came(u64 bytes);

#endif
