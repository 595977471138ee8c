/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic doctor`: what would lodic gain for this program, here? Its steps, a file each:
 *
 *   doctor.c           options, and the order of the steps
 *   run.c              runs the program, with the shim that counts and serves nothing
 *   proc.c             what /proc says of a process: bytes, CPU time, mappings, offsets
 *   try.c              starts a private service, and measures reads
 *   ask.c              asks it which files it would cache, and the service that runs already
 *   promise.c          which lines of a configuration would have more files cached
 *   reader.c           the processes that read for the measurement
 *   forecast.c         from the counts and the measured times to the gain
 *   advice.c           how much of the program was seen, the advice, and what to do
 *   host.c             what this host lacks, and whether its memory has room for a cache
 *   report.c           for people; json.c for machines
 */
#ifndef LODIC_CLI_DOCTOR_DOCTOR_H
#define LODIC_CLI_DOCTOR_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "cli/series.h"
#include "lib/settings.h"
#include "preload/run_seen.h"

#define DOCTOR_FOLDER_BYTES 64u
#define DOCTOR_MAPPED 8u  /* mapped files that are named */
#define DOCTOR_ASKED 256u /* files that the service is asked about */
#define DOCTOR_WHY_BYTES 512u
#define DOCTOR_GLOBS 16u /* that an advice has */
#define DOCTOR_USERS 8u  /* that are named */
#define DOCTOR_STEPS 24u /* of an advice */
#define DOCTOR_STEP_BYTES 1024u

struct doctor_counts {
	uint64_t reads[RUN_NR_WHYS];
	uint64_t bytes[RUN_NR_WHYS];
	uint64_t size_reads[SEEN_SIZES];
	uint64_t size_bytes[SEEN_SIZES];
	uint64_t in_order_bytes, askew_reads;
};

/* A file that the program's processes read. */
struct doctor_file {
	char path[SEEN_PATH_BYTES];
	uint64_t dev, ino, size, mtime_ns;
	uint64_t blocks; /* different ones: the most of one process */
	struct doctor_counts counts;
	bool asked;
	int refused; /* -errno, as lodic_file_cached(); 0: it would be cached */
	char refused_why[DOCTOR_WHY_BYTES]; /* in the words of `lodic files` */
	bool gone;                          /* its path leads elsewhere by now */
	bool written;                       /* it has another time of change by now */
	bool promised; /* a glob of the advice is of it, and then it would be cached */
	/* The same, as the service says that runs already. */
	bool service_asked;
	int service_refused;
	char service_why[DOCTOR_WHY_BYTES];
	bool service_promised;  /* its proof is a promise */
	uint64_t service_bytes; /* that it has in its cache */
};

/* What /proc says of a process, and of the children that it has waited for. */
struct doctor_io {
	bool known;
	uint64_t read_bytes, reads; /* by system calls that read */
	uint64_t device_bytes;      /* that came from devices */
};

struct doctor_mapped {
	char path[SEEN_PATH_BYTES];
	unsigned int place; /* from the top, the first is 1 */
	uint64_t bytes, resident_bytes;
};

/* The mappings of one process, when it was last looked at. */
struct doctor_maps {
	int pid; /* 0: none was looked at */
	unsigned int nr;
	unsigned int nr_of_files;       /* data files: no program, no library */
	uint64_t bytes, resident_bytes; /* of these */
	struct doctor_mapped files[DOCTOR_MAPPED]; /* the first of these */
	bool rings;                                /* it has an io_uring */
	bool ours;                                 /* it has the shim's counts */
};

/* Sizes that are measured, and ways to read. Hot: nothing else happens between two reads. Cold: as
 * much as the CPU's nearer caches hold. */
enum doctor_state { DOCTOR_HOT, DOCTOR_COLD, DOCTOR_STATES };
#define DOCTOR_SIZES (SEEN_SIZES - 1) /* seen_size_ends */
enum doctor_way { DOCTOR_PLAIN, DOCTOR_COUNTED, DOCTOR_SERVED, DOCTOR_WAYS };
#define DOCTOR_ROUNDS 21u
/* Reads of a file, after which it is surely served. */
#define DOCTOR_NEW_READS 24u

struct doctor_price {
	bool known;
	char why[DOCTOR_WHY_BYTES]; /* it is not */
	char path[PATH_MAX];        /* what was read */
	uint64_t span_bytes;
	/* Of a read. */
	double ns[DOCTOR_STATES][DOCTOR_WAYS][DOCTOR_SIZES][DOCTOR_ROUNDS];
	/* Of the second way while hot, taken by the shim. */
	uint64_t times[SEEN_SIZES][SEEN_TIMES];
	double start_ns; /* of `lodic run`, once */
	/* The CPU time of the same short program, again and again: the ratio of its quartiles. */
	double noise;
	double new_ns; /* more that a file takes for its first DOCTOR_NEW_READS reads */
	double fstat_ns; /* what a read that is counted otherwise costs */
};

/* What the program's memory says of the forecast, which is for a cache that has all. */
enum doctor_fit {
	DOCTOR_FITS,
	DOCTOR_CROWDED, /* the files fit, but not twice: in the cache and in the page cache */
	DOCTOR_EXCEEDS, /* the files do not fit */
	DOCTOR_PASSES /* the files are read in order, and the cache holds a part of them */
};

struct doctor_memory {
	uint64_t bytes; /* that the program may use */
	uint64_t
		room_bytes; /* that the doctor's own groups leave it; no limit: UINT64_MAX */
	bool grouped;       /* a control group says so, and not the machine */
	uint64_t touched_bytes; /* of files: what the page cache would hold of them */
};

/* What the configuration would have to say. */
struct doctor_promise {
	char globs[DOCTOR_GLOBS][PATH_MAX]; /* as a line has them */
	unsigned int nr;
	/* Of these, so many stand elsewhere, and the new lines would hide them. */
	unsigned int nr_old;
	const char *file; /* that the lines belong into */
	bool of_memory;   /* some of the files lie in tmpfs */
};

/* The service that runs already. */
struct doctor_service {
	bool found;
	int error; /* -errno: it does not answer, or nobody may ask it */
	int pid;   /* 0: not known */
	char socket[SETTINGS_SOCKET_BYTES];
	uint64_t cache_bytes, cached_bytes, hold_limit;
	uint64_t memory_limit; /* of blocks and holds together */
	bool by_option; /* its command line has promises, which win over those of files */
	char unit[64]; /* of systemd, which runs it; "": none that has lodic's name */
	bool unit_of_user; /* it is one of the user's own */
};

/* What the counts do not show, in bytes. */
struct doctor_unseen {
	uint64_t all;              /* that the program used, as far as anybody knows */
	uint64_t past, past_reads; /* by calls that went past the shim */
	uint64_t mapped;           /* in memory, in mappings of its data files */
	uint64_t device;           /* that devices gave beyond what calls read */
	uint64_t unjudged;         /* of files that no service was asked about */
	bool rings, go;            /* it has an io_uring; some program is in Go */
	bool unknown;              /* nobody knows what the kernel read */
	double most_gain; /* if all of it came by pread, and took no time any more */
	bool decides;     /* no advice can say that there is no gain */
};

/* A smaller gain is not worth the trouble. */
#define DOCTOR_LEAST_GAIN 1.02
/* The ends of a range differ by no more. */
#define DOCTOR_WIDEST 1.3
enum doctor_advice {
	DOCTOR_NOTHING,
	DOCTOR_LITTLE,
	DOCTOR_RUN,
	DOCTOR_PERHAPS,
	DOCTOR_PROMISE, /* it gains by a promise, or by one that a service must read */
	DOCTOR_UNSEEN,  /* too little was seen for an advice */
	DOCTOR_NOT_KNOWN
};

/* What the forecast takes for granted. */
enum doctor_case {
	DOCTOR_NOW,
	DOCTOR_PROMISED, /* that the configuration has the promises, and services know it */
	DOCTOR_CASES
};

struct doctor_gain {
	double low, expected, high;     /* CPU time without, over CPU time with */
	double first_run;               /* expected, with an empty cache */
	double time_low, time_high;     /* the same of the time by the clock */
	double rounds_low, rounds_high; /* of the measured rounds' quartiles alone */
	uint64_t cache_bytes;           /* that it takes */
	enum doctor_fit fit;
};

struct doctor {
	/* What the user said. */
	const char *json; /* NULL: none; a path */
	int pid;          /* 0: the program */
	uint64_t watch_ms;
	char **command;

	char folder[DOCTOR_FOLDER_BYTES]; /* for what other users must not reach */
	char counts_folder
		[DOCTOR_FOLDER_BYTES]; /* where the processes leave their counts */
	int json_fd;

	/* What was seen. */
	struct doctor_file *files;
	size_t nr_files;
	struct doctor_counts counts; /* of all files and processes */
	unsigned int nr_programs;    /* that the shim was in */
	unsigned int nr_lost;        /* with the shim, and without room for counts */
	unsigned int users[DOCTOR_USERS], nr_users; /* that these ran as, at last */
	uint64_t marks;                             /* of any: SEEN_RING, SEEN_GO */
	bool interrupted; /* somebody or something has ended the program, or the watch */
	unsigned int nr_served; /* of these: with reads that could be served */
	double nr_new; /* files in all of these; one that was read less counts as a part */
	uint64_t times[SEEN_SIZES][SEEN_TIMES]; /* of some reads */
	uint64_t cpu_ns, system_ns, wall_ns;    /* with the shim's counting */
	uint64_t counted_ns; /* what the counting took, as far as known */
	int child;           /* the program's process */
	struct doctor_io io;
	bool io_by_proc; /* and not by the program itself */
	struct doctor_maps maps;
	int looked_at;             /* the last process in a look at mappings, */
	unsigned int nr_looked_at; /* and how many so far */
	/* --pid: bytes by which the offsets of regular files moved, and what else can be read. */
	uint64_t moved_bytes;
	unsigned int nr_read_only, nr_others;

	struct doctor_price price;
	struct doctor_memory memory;
	unsigned int user; /* who asks */
	struct settings settings;
	uint64_t
		cache_setting; /* the size of the cache that `lodic run` finds, or starts */
	struct doctor_service service;
	struct doctor_promise promise;
	struct doctor_unseen unseen;
	struct doctor_gain gain, promised_gain;
	enum doctor_advice advice;
	char why[DOCTOR_WHY_BYTES]; /* of the advice; "": it needs none */
	char steps[DOCTOR_STEPS][DOCTOR_STEP_BYTES];
	unsigned int nr_steps;
};

#endif
