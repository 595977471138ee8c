/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the scenarios of the whole product share: programs, files, and what a reader may see. */
#ifndef LODIC_CHECK_WHOLE_WORLD_H
#define LODIC_CHECK_WHOLE_WORLD_H

#include "host/whole/files.h"
#include "lodic/lodic.h"

#define WORLD_USER 1000u
#define WORLD_SOCKET "/run/cache.sock"
#define WORLD_DEV 1u /* where all files lie */
#define WORLD_FILES 4u
#define WORLD_FILE_BYTES ((u64)64 << 10)
/* One more, for holds that the service has. */
#define WORLD_BIG "/big"
#define WORLD_BIG_BYTES ((u64)1280 << 10)
/* And one of a file system that asks a server: no service caches it. */
#define WORLD_FAR "/far"
#define WORLD_FAR_BYTES ((u64)8 << 10)
/* With those that take another's name. A word of a file has room for so many. */
#define WORLD_MOST_FILES 128u

struct service_options;

struct world {
	bool wide; /* the run draws more of everything: settings, readers */
	u64 nr_reads, nr_pins, nr_services;
	u64 cache_bytes[MACHINE_MOST_PROCESSES + 1]; /* of a service, by its number */
	u64 hold_bytes;  /* of its services; 0: as they like */
	/* Changes what the run has drawn for a service; NULL: it stays. */
	void (*adjust)(struct service_options *options);
	/* What it reads at its start; -errno: it does not start, and *ret_why. started: by a
	 * program. Then: it serves; it has ended. NULL: nothing (config.h). */
	int (*configure)(struct service_options *options, bool started, const char **ret_why);
	void (*serves)(void), (*ends)(void);
	/* A successor has socket and lock, and is about to say so; NULL: nothing. */
	void (*taking)(void);
	bool calm; /* nothing fails but what the scenario does; calls may be somewhat late */
	void (*refused)(int err); /* it could not run; NULL: nobody asks */
	bool leaks_pins; /* of readers that die: the scheme does not know whose they are */
	bool few_fds; /* programs may lack descriptors now and then */
	bool few_files; /* the service may hold fewer than there are */
	bool servers; /* of file systems: they are silent now and then */
	u32 start_call_ns; /* a call of a service that starts takes so long at most; 0: as others */
	/* Nobody tells a service to end: each serves for so long at least. 0: any may end. */
	u64 least_serves_ns;
	char why[256]; /* what the last service has said that did not start */
};
extern struct world world;

/* A file that a reader has open. */
struct world_open {
	struct lodic_file *file;
	u32 number; /* which of the files it is: several may have had one path */
};

/* Where the files lie. */
extern const char *const world_paths[WORLD_FILES];

/* A machine with files, and nobody who reads them yet. */
void world_begin(u64 seed);
/* A program that reads files by liblodic, nr_rounds times, and checks each byte. */
struct process *world_reader(u32 nr_rounds);
/* A program that holds ranges of files, and takes their descriptors. */
struct process *world_holder(u32 nr_rounds);
/* Somebody who replaces services, starts others, and ends them. */
struct process *world_operator(u32 nr_rounds);
/* A program that writes to them now and then. */
struct process *world_writer(u32 nr_rounds);
/* A service at the socket, as `lodic serve' starts one; takeover: in the place of another. */
struct process *world_service(bool takeover);
/* The same, at a socket that listens: fd of the running process. NULL: too many have started. */
struct process *world_service_lent(int fd);
bool world_is_service(const struct process *process);
/* The youngest one that lives. NULL: there is none. */
struct process *world_youngest_service(void);
/* A program that renames one of them, and back, and changes a file of its own. At most one. */
struct process *world_mover(u32 nr_rounds);
/* A program that cuts them, and breaks no lease. Nobody may write to them then. */
struct process *world_cutter(u32 nr_rounds);
/* A program that attaches now and then, and must come in. */
struct process *world_comer(u32 nr_rounds);
/* From now on nothing fails. */
void world_no_faults(void);
/* The same, but calls may be somewhat late. */
void world_calm(void);

/* ---- for the programs of scenarios ---- */

/* Writes a new version of all of it; anew: it cuts it first, as O_TRUNC does. */
void world_rewrite(const char *path, bool anew);
/* Cuts it, by a descriptor that may only read: no lease breaks (doc/proofs.md). */
void world_cut(const char *path);
/* It is about to be cut in another way: nobody knows when a read sees its length. */
void world_unsure(const char *path);
/* Another file takes its path. */
void world_replace(const char *path);

int world_attach(struct lodic **ret_lodic);
int world_context_open(struct lodic *lodic, struct lodic_context **ret_context);
void world_context_close(struct lodic_context *context);
/* This process asks the service for one by hand, which it has until it ends. */
void world_context_by_hand(void);
/* How many contexts living programs have. */
u32 world_nr_contexts(void);
/* The running program: it attaches, works for so many rounds (arg), and has given all back. */
void world_works(void (*work)(struct lodic *lodic, u32 nr_rounds), void *arg);
/* The same in a context. */
void world_works_in(void (*work)(struct lodic *lodic, struct lodic_context *context,
                                 u32 nr_rounds),
                    void *arg);
/* false: it cannot be opened now. */
bool world_open(struct lodic *lodic, const char *path, struct world_open *ret_open);
void world_close(const struct world_open *open);
/* Reads a block at most, and checks the bytes and where they end. */
void world_read_at(struct lodic_context *context, const struct world_open *open, u64 offset,
                   u32 bytes);
/* The same somewhere. */
void world_read(struct lodic_context *context, const struct world_open *open);
/* The running program opens the file at WORLD_FAR, reads some of it, and closes it. */
void world_visit_far(struct lodic *lodic, struct lodic_context *context);
/* Reads all of it. Nobody has changed it for long: the bytes are as the file has them. */
void world_compare(struct lodic_context *context, const struct world_open *open);
/* Reads some, and pins some. */
void world_rounds(struct lodic_context *context, const struct world_open *open, u32 nr_open,
                  u32 nr_rounds);
/* How many objects of liblodic the running program has opened, or tried to: it closes each. */
u32 *world_closed(void);
/* How many there have been. */
u32 world_nr_files(void);
const char *world_path(const struct world_open *open);
/* How long the file is now. */
u64 world_bytes(const struct world_open *open);
/* Has its length changed, or may it? */
bool world_has_cuts(const struct world_open *open);
/* The least version that a read may see that begins now. */
u64 world_version(const struct world_open *open);
/* Bytes that came from there, by a read that began when world_version() was that. */
void world_check(const struct world_open *open, u64 offset, const void *bytes, u64 nr_bytes,
                 u64 least_version);

#endif
