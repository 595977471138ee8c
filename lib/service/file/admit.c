/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See admit.h. Only the main thread comes here. */
#include <errno.h>
#include <string.h>

#include "lib/port.h"
#include "lib/reason.h"
#include "lib/service/file/group.h"
#include "lib/service/file/admit.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/pause.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"
#include "lib/service/file/held.h"
#include "lib/service/file/proof.h"

/* Does the kernel grant none to anybody? */
static bool admit_leases_are_off(void)
{
	char said[2];

	return port_system_text("/proc/sys/fs/leases-enable", said, sizeof(said)) ==
	               1 &&
	       said[0] == '0';
}

/* A lease first, where one is possible: it alone is told of every writer. A writer may have come
 * and gone since the worker looked. lease_take() therefore asks for the size again, under the
 * lease (L2). */
static int admit_lease(struct files *s, struct held_file *f,
                       const struct passed_file *p)
{
	if (!p->may_lease)
		return -EOPNOTSUPP;
	if (pause_left_ns(s, p->dev, p->ino) > 0)
		return -EALREADY;
	return lease_take(s, p->fd, (u32)(f - s->slots), f->id, &f->size);
}

/* Without a lease the file has another proof, and its watch tells of its mode alone. */
static int admit_other(struct files *s, struct held_file *f,
                       const struct passed_file *p)
{
	u32 slot = (u32)(f - s->slots);

	f->proof = p->other;
	f->size = p->size;
	if (s->sharing->for_group && p->local)
		return lease_watch(s, p->fd, slot, f->id, f->size);
	file_proof_admit(&s->arena->files[slot], f->id, f->size);
	return 0;
}

/* Why there is no lease. */
static int admit_explain(const struct passed_file *p, int err)
{
	if (err == -EACCES)
		return reason_encode(LODIC_REASON_OWNER);
	if (err == -EOPNOTSUPP)
		return reason_encode(p->may_lease && admit_leases_are_off()
		                             ? LODIC_REASON_LEASES_OFF
		                             : LODIC_REASON_FILE_SYSTEM);
	return err;
}

int admit_prove(struct files *s, struct held_file *f, const struct passed_file *p)
{
	int err = admit_lease(s, f, p);

	f->proof = PROOF_LEASE;
	if ((err != -EACCES && err != -EOPNOTSUPP && err != -ENOLCK) ||
	    p->other == PROOF_NONE)
		return admit_explain(p, err);
	err = admit_other(s, f, p);
	if (!err && p->promise)
		service_say(s->base, SERVICE_INFO, "promised",
		            "%s is cached because of your promise '%s'", p->path,
		            p->promise);
	return err;
}

/* Nothing here asks a file system that is not local. Its files have no watch either. */
static bool admit_is_open_to_group(const struct files *s, const struct passed_file *p)
{
	char path[PROOF_PATH_BYTES];
	struct port_file file;

	return port_look_local(p->fd, &file) == 0 &&
	       group_lets_read(s->sharing->group, &file) &&
	       proof_path(p->fd, path) == 0 && strcmp(path, p->path) == 0;
}

int admit_check(const struct files *s, const struct held_file *f,
                const struct passed_file *p)
{
	int err = proof_check_size(f->size); /* it may have another one since */

	if (!err && s->sharing->for_group && p->local && !admit_is_open_to_group(s, p))
		err = reason_encode(LODIC_REASON_GROUP);
	return err;
}
