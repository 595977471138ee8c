// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A page cache that processes share: safe guards over liblodic.
//!
//! ```no_run
//! # fn main() -> lodic::Result<()> {
//! let cache = lodic::Cache::attach(&lodic::Options::default())?; // starts the service if needed
//! let file = lodic::File::open(&cache, "/srv/words")?;
//! let context = lodic::Context::open(&cache)?; // one for each thread
//!
//! let mut sum = 0u64;
//! let mut buffer = [0u8; lodic::BLOCK_BYTES];
//! let mut at = 0;
//! loop {
//!     if let Some(pin) = context.pin(&file, at) {
//!         sum += pin.iter().map(|byte| u64::from(*byte)).sum::<u64>(); // in place
//!         at += pin.len() as u64;
//!         continue;
//!     }
//!     // Not cached now, or the end: read_at() works in any case.
//!     let n = context.read_at(&file, &mut buffer, at)?;
//!     if n == 0 {
//!         break;
//!     }
//!     sum += buffer[..n].iter().map(|byte| u64::from(*byte)).sum::<u64>();
//!     at += n as u64;
//! }
//!
//! let whole = lodic::Hold::of(&cache, &file)?; // all of it; Send + Sync
//! std::thread::spawn(move || println!("{} bytes, {}", whole.len(), sum));
//! # Ok(())
//! # }
//! ```
//!
//! What each call guarantees and costs stands in lodic.h.
//!
//! - A [`Pin`] borrows its context, which is neither `Send` nor `Sync`. So the compiler keeps a pin
//!   in its context's thread, and ends it before the context.
//! - A [`Hold`] is `Send` and `Sync`, and depends on nothing. It derefs to bytes that nobody can
//!   change, whatever becomes of the file. It is an owner for `bytes::Bytes::from_owner()`
//!   (bytes 1.9); with the feature `bytes` a `Hold` converts itself.
//! - There are no views (`lodic_view_begin()`). Their bytes may change while a program looks at
//!   them, which Rust forbids for a `&[u8]`: it would be undefined behaviour.
//! - fork(2) is the caller's `unsafe`. A forked child may use what its parent holds, and must not
//!   look at what its parent has pinned.
//!
//! A pin cannot leave its thread, nor outlive its context:
//!
//! ```compile_fail,E0277
//! fn sends<T: Send>(_: T) {}
//! fn f(pin: lodic::Pin<'_>) {
//!     sends(pin);
//! }
//! ```
//! ```compile_fail,E0277
//! fn sends<T: Send>(_: T) {}
//! fn f(context: lodic::Context) {
//!     sends(context);
//! }
//! ```
//! ```compile_fail,E0505
//! fn f(context: lodic::Context, file: lodic::File) -> u8 {
//!     let pin = context.pin(&file, 0).unwrap();
//!     drop(context);
//!     pin[0]
//! }
//! ```
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

mod cache;
mod context;
mod error;
#[allow(missing_docs)]
mod ffi;
mod hold;

pub use cache::{Cache, File, Options};
pub use context::{Context, Pin};
pub use error::{Error, Result};
pub use ffi::lodic_context_stat as ContextStat;
pub use ffi::lodic_stat as Stat;
pub use hold::Hold;

/// How large a block is: a pin ends where its block does.
pub const BLOCK_BYTES: usize = 4096;
