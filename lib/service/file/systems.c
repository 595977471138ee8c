/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See systems.h. A dead server, or a process that does not answer, keeps a worker that asks it.
 * So the kernel is asked first which file system a descriptor is of. statx(2) with
 * AT_STATX_DONT_SYNC, for no field but the mount's, gives the device's number as well. FUSE then
 * sends no request (tests/outside/opens.c). NFS does not either, by its source; 9p does.
 *
 * A number of a device is used again after an unmount, for another system. A kernel since 6.8
 * numbers mounts, and never uses such a number again. There the kind of a system is remembered.
 * Elsewhere it counts only while a worker is inside: that one has a file of it open. One system
 * may have many mounts; workers are counted by its device.
 *
 *   unknown --one worker asks--> known
 *   known, and may not answer: SYSTEMS_INSIDE workers at most ask it anything
 *
 * A worker that comes on top waits until the last one to enter has been inside for
 * SYSTEMS_WAIT_NS. Then it gives up. So a dead system keeps SYSTEMS_INSIDE workers, and all
 * others for one such time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "core/check.h"
#include "host/host.h"
#include "lib/service/file/systems.h"

/* More than workers, so that one is always free. Our choice: as many mounts have files that
 * programs read. */
#define SYSTEMS_MOST 64u
#define SYSTEMS_INSIDE 2u
/* Of WORKERS_MOST, if several systems do not answer. Half of them look at other files; and two are
 * left where that many do not even say what they are. */
#define SYSTEMS_INSIDE_ALL 4u
#define SYSTEMS_ASKED 6u
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif

struct system {
	u64 dev, mount;
	u64 type;
	bool used, known;
	u32 nr_inside;  /* workers that ask it something */
	u64 entered_ns; /* when the last one of these began */
};

static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t left;
	struct system each[SYSTEMS_MOST];
	u32 nr_inside; /* of all */
	/* The mounts that stay as long as this process; they stand still. */
	struct own_mount {
		u64 dev, place;
	} own[2];
} systems = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

/* Asks no server. ret_place: the number of the mount, which may be used again; 0: the kernel has
 * none (before Linux 5.8). */
static int systems_number(int fd, const char *path, int flags,
                          struct systems_kind *ret_kind, u64 *ret_place)
{
	u32 mask = STATX_MNT_ID | STATX_MNT_ID_UNIQUE;
	struct statx st;

	if (statx(fd, path, flags | AT_STATX_DONT_SYNC, mask, &st) != 0)
		return -errno;
	*ret_place = st.stx_mask & mask ? st.stx_mnt_id : 0;
	*ret_kind = (struct systems_kind){
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.mount = st.stx_mask & STATX_MNT_ID_UNIQUE ? st.stx_mnt_id : 0,
	};
	return 0;
}

static void systems_init(void)
{
	static const char *const paths[] = { "/", "/proc/self/exe" };
	pthread_condattr_t monotonic;
	struct systems_kind kind;
	u64 place;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&systems.left, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (u32 i = 0; i < 2; i++)
		if (systems_number(AT_FDCWD, paths[i], 0, &kind, &place) == 0)
			systems.own[i] = (struct own_mount){ kind.dev, place };
}

static bool systems_is_away(u64 dev, u64 place)
{
	for (u32 i = 0; i < 2; i++)
		if (systems.own[i].dev == dev && systems.own[i].place == place)
			return false;
	return true;
}

/* The entry of that system, made if need be. While a worker is inside, its number is no other
 * one's. The lock is held. */
static struct system *systems_entry(const struct systems_kind *k)
{
	struct system *oldest = NULL;

	for (u32 i = 0; i < SYSTEMS_MOST; i++) {
		struct system *e = &systems.each[i];

		if (e->used && e->dev == k->dev) {
			if (e->nr_inside == 0 && e->mount != k->mount) {
				e->known = false;
				e->mount = k->mount;
			}
			return e;
		}
		if (e->nr_inside == 0 &&
		    (!oldest || e->entered_ns < oldest->entered_ns))
			oldest = e;
	}
	if (oldest)
		*oldest = (struct system){ .dev = k->dev,
			                   .mount = k->mount,
			                   .used = true };
	return oldest;
}

/* Waits for one who is inside to leave. false: they do not, it seems. The lock is held. */
static bool systems_wait(const struct system *e, u64 since_ns)
{
	u64 end_ns =
		(e->entered_ns < since_ns ? e->entered_ns : since_ns) + SYSTEMS_WAIT_NS;
	struct timespec end = { (time_t)(end_ns / 1000000000),
		                (long)(end_ns % 1000000000) };

	return pthread_cond_timedwait(&systems.left, &systems.lock, &end) == 0;
}

/* One more is inside, and most at most. *ret_known: nobody needs to ask for the type, and then
 * this one is not inside. The lock is held. */
static int systems_go_in(const struct systems_kind *k, u32 most, u32 most_of_all,
                         u64 *ret_known)
{
	u64 since_ns = host_now_ns();
	struct system *e;

	/* Each turn but the last waits; systems_wait() has a deadline. */
	for (;;) {
		e = systems_entry(k);
		if (!e)
			return -EBUSY;
		if (ret_known && e->known) {
			*ret_known = e->type;
			return 1;
		}
		if (e->nr_inside < most && systems.nr_inside < most_of_all)
			break;
		if (!systems_wait(e, since_ns))
			return -EBUSY;
	}
	e->nr_inside++;
	systems.nr_inside++;
	e->entered_ns = host_now_ns();
	return 0;
}

/* type: what the system has said, or NULL. */
static void systems_go_out(const struct systems_kind *k, const u64 *type)
{
	struct system *e;

	pthread_mutex_lock(&systems.lock);
	e = systems_entry(k); /* it stays while somebody is inside */
	e->nr_inside--;
	systems.nr_inside--;
	if (type)
		e->type = *type;
	e->known = (e->known || type) && (k->mount != 0 || e->nr_inside > 0);
	pthread_cond_broadcast(&systems.left);
	pthread_mutex_unlock(&systems.lock);
}

int systems_find(int fd, struct systems_kind *ret_kind)
{
	struct systems_kind k;
	struct statfs system;
	u64 place;
	int err;

	pthread_once(&systems.once, systems_init);
	err = systems_number(fd, "", AT_EMPTY_PATH, &k, &place);
	if (err)
		return err;
	k.away = systems_is_away(k.dev, place);
	pthread_mutex_lock(&systems.lock);
	err = systems_go_in(&k, 1, SYSTEMS_ASKED, &k.type);
	pthread_mutex_unlock(&systems.lock);
	if (err == 0) {
		if (fstatfs(fd, &system) != 0)
			err = -errno;
		else
			k.type = (u64)(unsigned long)system.f_type;
		systems_go_out(&k, err ? NULL : &k.type);
	}
	if (err >= 0)
		*ret_kind = k;
	return err < 0 ? err : 0;
}

int systems_enter(const struct systems_kind *kind)
{
	int err;

	pthread_mutex_lock(&systems.lock);
	err = systems_go_in(kind, SYSTEMS_INSIDE, SYSTEMS_INSIDE_ALL, NULL);
	pthread_mutex_unlock(&systems.lock);
	return err;
}

void systems_leave(const struct systems_kind *kind)
{
	systems_go_out(kind, NULL);
}
