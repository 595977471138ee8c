# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rules of the patch, each broken on purpose, and the case of test.c that must notice."""

# name, case, {text of the source: what stands there instead}
BROKEN = [
    ("return-here", "moved", {
        "		if (anchor->cpu == cpu) {\n"
        "			uc_entry_add":
            "		if (true) {\n"
            "			uc_entry_add",
    }),
    ("own-anchor-last", "nested", {
        "		return here;\n":
            "		;\n",
    }),
    ("oldest-goes", "nested", {
        "(here != oldest || here->nr > 1)":
            "oldest",
    }),
    ("any-memory", "fork", {
        "return siphash_1u64((unsigned long)mm, &uc_key);":
            "return 0 * (unsigned long)mm;",
        "		if (entry->obj == obj && entry->mm == mm)\n"
        "			return entry;":
            "		if (entry->obj == obj)\n"
            "			return entry;",
        "			if (entry->obj == obj && entry->mm == mm)\n"
        "				sum":
            "			if (entry->obj == obj)\n"
            "				sum",
    }),
    ("entry-in-use", "table-full", {
        "if (!unused && !uc_entry_sum(entry))":
            "if (!unused)",
    }),
    ("local-first", "sum-while-moving", {
        "	long away = atomic_long_read_acquire(&entry->away);\n"
        "\n"
        "	/* Acquire: what users did before a return that this sees. */\n"
        "	return smp_load_acquire(&entry->local) + away;":
            "	long local = smp_load_acquire(&entry->local), i;\n"
            "\n"
            "	for (i = 0; i < 1000; i++)\n"
            "		cpu_relax();\n"
            "	return local + atomic_long_read_acquire(&entry->away);",
    }),
    ("spills-forgotten", "table-full", {
        "	sum = uc_spill_sum(mm, obj);":
            "	sum = 0 * uc_spill_sum(mm, obj);",
    }),
    ("exit-keeps", "thread-ends", {
        "		atomic_long_sub_return_release(anchor->nr, &anchor->entry->away);":
            "		;",
    }),
    ("exit-keeps-spills", "table-full", {
        "			uc_spill_set(anchor, tsk->mm, 0);\n"
        "			continue;":
            "			continue;",
    }),
    ("user-never-discharged", "users-limit", {
        "	dec_ucount(mine->ucounts, UCOUNT_COUNTING_THREADS);\n":
            "",
    }),
]
