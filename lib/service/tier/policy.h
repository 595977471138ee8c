/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A policy of core/kloc, driven by the running cache: it decides in which tier a block begins, and
 * which blocks move. Without one, a file's globs say where its blocks begin, and users move them.
 * Only the main thread comes here.
 *
 * A held file has a knode, and each of its frames is an object, from the moment at which it is
 * chosen for a read. Programs' opens are the knode's; the service's own descriptor is none. What
 * readers note as visits are the objects' uses, as late as they are collected. They count for the
 * CPU from which the file was opened last: no visit says where it was made. Holds are no objects:
 * their memory is in no tier's size. Their file's knode says where they belong.
 */
#ifndef LODIC_LIB_SERVICE_TIER_POLICY_H
#define LODIC_LIB_SERVICE_TIER_POLICY_H

#include "lib/look.h"
#include "lib/service/tier/tier.h"

struct tier_file;

struct tiers;

/* -EINVAL: there is no such policy, or not for this service; *ret_why says so. 0: also where the
 * user wants none. After tier_shape(). */
int policy_check(const struct tiers *s, const char **ret_why);
/* After tier_init(). -errno: the record cannot be written, or there is no memory. */
int policy_init(struct tiers *s, const char **ret_why);
void policy_fini(struct tiers *s);
/* The service serves: its record gets its name. */
void policy_serves(struct tiers *s);

/* The file is held from now on; its globs say where its blocks go, and whether holds have copies if
 * they may.
 */
void policy_hold(struct tiers *s, struct tier_file *f, u32 id, const char *path,
                 bool may_copy);
/* By a program on that CPU, as the program says. */
void policy_open(struct tiers *s, struct tier_file *f, u64 cpu);
void policy_close(struct tiers *s, const struct tier_file *f, u32 nr);
/* The file goes. Its frames follow, one by one. */
void policy_retire(struct tiers *s, struct tier_file *f, u32 nr_opens);

/* Where a new hold of f belongs. *ret_moves: so do those that lie elsewhere. There is a policy. */
enum tier policy_hold_tier(const struct tiers *s, const struct tier_file *f,
                           bool *ret_moves);

/* A free frame for a block of f that comes in; tiers.nr_free is not 0. */
u32 policy_frame(struct tiers *s, const struct tier_file *f, u64 index);
/* The same for one that lay in a tier of another arena. There it stays, if no policy and no glob
 * says otherwise. */
u32 policy_frame_again(struct tiers *s, const struct tier_file *f, u64 index,
                       enum tier old);
/* Where f's new blocks went in another arena, and who had said so. What a user has said stays. */
void policy_stays(struct tiers *s, struct tier_file *f, enum tier_sayer said,
                  enum tier tier);
/* The frame is nobody's. */
void policy_free(struct tiers *s, u32 frame);
/* Readers came by the frame, which counts for that CPU. */
void policy_visit(struct tiers *s, u32 frame, u32 cpu);
void policy_tick(struct tiers *s);
/* What the policy thinks of the file. */
enum look_knode policy_knode(const struct tiers *s, const struct tier_file *f);

/* Where there is a policy: the next block to move. false: none now. policy_moved() must end each.
 */
struct policy_move {
	u32 object, frame;
	enum tier to;
};
bool policy_next(struct tiers *s, struct policy_move *ret_move);
enum policy_result { POLICY_MOVED, POLICY_BUSY, POLICY_NO_ROOM };
void policy_moved(struct tiers *s, u32 object, enum policy_result result);
/* The object of the block that has moved is in target now. */
void policy_follow(struct tiers *s, u32 source, u32 target);

#endif
