/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The settings, one row each, in the order of doc/settings.md. The parser, the options of `lodic
 * serve` with their help, SOCKET.conf, SIGHUP, man page and completion are made of these rows:
 *
 *	SETTING(id, name, kind, taker, sighup, successor, default, key, value, help)
 *
 * id         SETTING_id, for C.
 * name       Its key in files, and its long option.
 * kind       What its values are, and the member of struct settings that holds one. A number is
 *            from least to most. A time is in seconds for users, and in ms here.
 * taker      PLACE, TABLES, KEEPING, PLACING: that part of struct service_options, the member with
 *            the same name.
 *            COMMAND: cli/serve.c and cli/serve_run.c.
 *            PROGRAM: a program that attaches. `lodic serve` has no such option.
 * sighup     LIVE: a running service takes another value.
 *            AT_START: it says in its log that it must be started anew.
 * successor  LEFT: SOCKET.conf has it for the next service.
 *            NOT_LEFT: the next service gets its own. This is for where a service listens, how
 *            long it stays, and what it logs. A service that is run by hand stays for ever. The
 *            next one, which a program starts and which has no log, must not.
 * default    The value if nobody says one, or words for how it is chosen. tools/tidy.py checks
 *            that doc/settings.md has the same.
 * key        Its short option; 0: none.
 * value      What --help calls the value; NULL: the option alone stands for `yes'.
 * help       What --help says.
 *
 * There is no guard, because the includer says what a row means.
 */
SETTING(SOCKET, "socket", KIND_SOCKET(socket), PLACE, AT_START, NOT_LEFT, "see below",
        's', "PATH", "Listen here (default: the user's own place)")
SETTING(MEMORY, "memory",
        KIND_SIZE(memory_bytes, SERVICE_MIN_CACHE_BYTES, SERVICE_MAX_CACHE_BYTES),
        COMMAND, LIVE, LEFT,
        "half of the machine's memory, or of the least limit of its control groups; 256M with "
        "fast-memory",
        'm', "SIZE",
        "What cached blocks and holds may have together, as 256M or 4G; 32K at least, and less "
        "than 8T (default: half of what the machine or the control group has)")
SETTING(HOLDS, "holds", KIND_SIZE(hold_bytes, 0, SERVICE_MAX_CACHE_BYTES), COMMAND,
        AT_START, LEFT,
        "what blocks do not use; a quarter with fast-memory; none if memory is below 8M",
        0, "SIZE",
        "What holds (lodic_hold) may have of the memory at most; 0: none (default: what blocks "
        "do not use)")
SETTING(FAST_MEMORY, "fast-memory", KIND_SIZE(fast_bytes, 0, SERVICE_MAX_CACHE_BYTES),
        COMMAND, AT_START, LEFT, "0", 0, "SIZE",
        "How much of the memory for blocks is fast; the rest is slow, on another node where "
        "there is one; 0: all memory is alike (default)")
SETTING(FAST, "fast", KIND_GLOBS(fast), PLACING, AT_START, LEFT, "none", 0, "GLOB",
        "Files whose blocks go to fast memory, as /srv/db/*.sst; may be given again")
SETTING(SLOW, "slow", KIND_GLOBS(slow), PLACING, AT_START, LEFT, "none", 0, "GLOB",
        "Files whose blocks go to slow memory; may be given again")
SETTING(REPLICATE, "replicate", KIND_GLOBS(replicate), PLACING, AT_START, LEFT, "none",
        0, "GLOB",
        "Files that never change and whose holds each node of memory has a copy of; may be "
        "given again")
SETTING(POLICY, "policy", KIND_POLICY(policy), COMMAND, AT_START, LEFT, "none", 0,
        "NAME",
        "What places blocks in the two tiers and moves them: kloc, naive, nimble, tpp and "
        "others of doc/tier.md; none: you do (default)")
SETTING(POLICY_TICK, "policy-tick", KIND_SECONDS(policy_tick_ms, 1), PLACING, AT_START,
        LEFT, "1", 0, "SECONDS",
        "How fast time passes for the policy: a tick in so long (default: 1)")
SETTING(BARRIER, "barrier", KIND_WORD(barrier, settings_barriers), TABLES, AT_START,
        LEFT, "auto", 0, "KIND",
        "What a pin costs: light (plain stores, and a slow fence in the service), lock (an "
        "atomic exchange), auto (default)")
SETTING(SCHEME, "scheme", KIND_WORD(scheme, settings_schemes), TABLES, AT_START, LEFT,
        "lodic", 0, "NAME",
        "How pins are counted: lodic (default), atomic, frozen, hazard")
SETTING(IDLE_EXIT, "idle-exit", KIND_SECONDS(idle_exit_ms, 0), PLACE, AT_START,
        NOT_LEFT, "10 if a program has started it, else 0", 0, "SECONDS",
        "End when no program has been connected for so long; 0: never (default)")
SETTING(IMMUTABLE, "immutable", KIND_GLOBS(immutable), KEEPING, AT_START, LEFT, "none",
        'i', "GLOB",
        "Files that you promise never change, as /srv/models/*; may be given again")
SETTING(BUFFERED, "buffered", KIND_YES(buffered), KEEPING, AT_START, LEFT, "no", 0,
        NULL, "Read files through the kernel's page cache, not by O_DIRECT")
SETTING(QUOTA, "quota", KIND_NUMBER(quota, 1, UINT32_MAX), TABLES, AT_START, LEFT,
        "1/128 of the cache, 4096 at most", 0, "N",
        "How many blocks one context may pin at a time")
SETTING(ENTRIES, "entries", KIND_NUMBER(nr_entries, 1, UINT32_MAX), TABLES, AT_START,
        LEFT, "as many as the cache has blocks, 32768 at most; for a group twice the quota", 0,
        "N",
        "How many entries a context's table has: a power of two")
SETTING(FILES, "files", KIND_NUMBER(nr_files, 1, UINT32_MAX), KEEPING, AT_START, LEFT,
        "4096", 0, "N", "How many files the cache may hold at once")
SETTING(KEEP, "keep", KIND_SECONDS(keep_ms, 0), KEEPING, AT_START, LEFT,
        "600; 10 on other mounts than those of / and lodic", 0, "SECONDS",
        "How long a file stays cached that no program has open, unless `lodic load' has "
        "loaded it (default: 600; 10 on other mounts than / and that of this program)")
SETTING(LEASE_PAUSE, "lease-pause", KIND_SECONDS(lease_pause_ms, 0), KEEPING, AT_START,
        LEFT, "10", 0, "SECONDS",
        "How long a file that a program has opened for writing is let alone; up to 30 times "
        "as long if that goes on; 0: cache it again at once (default: 10)")
SETTING(HUGE_PAGES, "huge-pages", KIND_WORD(small_pages, settings_huge_pages), TABLES,
        AT_START, LEFT, "auto", 0, "auto|off",
        "Keep blocks in huge pages, as far as the kernel gives them (auto), or in "
        "small ones (default: auto)")
SETTING(PRESSURE, "pressure", KIND_PRESSURE(pressure), COMMAND, AT_START, LEFT,
        "/proc/pressure/memory, where it is", 0, "FILE|off",
        "Give memory back when this file says that it is short (default: "
        "/proc/pressure/memory), or when a control group's limit is near; off: never")
SETTING(ESCAPE, "escape", KIND_YES(escape), COMMAND, AT_START, LEFT, "no", 0, "yes|no",
        "Leave the control group of the program that starts the service: its limit no "
        "longer holds, and the service does not end with it (default: no)")
SETTING(LOG, "log", KIND_WORD(log_json, settings_logs), COMMAND, LIVE, NOT_LEFT, "text",
        0, "text|json",
        "Write the log as text (default), or as JSON: an object in each line")
SETTING(TRUST, "trust", KIND_USER(trust), PROGRAM, LIVE, NOT_LEFT, "nobody", 0, NULL,
        NULL)
SETTING(LOG_LEVEL, "log-level", KIND_WORD(log_level, settings_levels), COMMAND, LIVE,
        NOT_LEFT, "info", 0, "LEVEL",
        "What the log has: error, warning, info (default) or debug, each with those "
        "before it")
