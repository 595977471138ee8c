/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* All policies, by number and structure; no guard, because it is included twice. */
KLOC_POLICY(KLOC_POLICY_ALL_FAST, kloc_all_fast)
KLOC_POLICY(KLOC_POLICY_ALL_SLOW, kloc_all_slow)
KLOC_POLICY(KLOC_POLICY_NAIVE, kloc_naive)
KLOC_POLICY(KLOC_POLICY_NIMBLE, kloc_nimble)
KLOC_POLICY(KLOC_POLICY_NIMBLE_PP, kloc_nimble_pp)
KLOC_POLICY(KLOC_POLICY_NO_MIGRATION, kloc_no_migration)
KLOC_POLICY(KLOC_POLICY_KLOC, kloc_kloc)
KLOC_POLICY(KLOC_POLICY_TPP, kloc_tpp)
KLOC_POLICY(KLOC_POLICY_ORACLE, kloc_oracle)
KLOC_POLICY(KLOC_POLICY_AUTONUMA, kloc_autonuma)
KLOC_POLICY(KLOC_POLICY_KLOC_NUMA, kloc_kloc_numa)
KLOC_POLICY(KLOC_POLICY_REPLICATE, kloc_replicate)
