// SPDX-License-Identifier: GPL-2.0-only OR MIT
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_uint};
use std::{error, fmt, io};

use crate::ffi;

/// An error of liblodic: an errno value, and which cause it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error {
    errno: c_int,
    reason: c_uint,
}

/// What fallible functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The errno value, which is positive.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// The cause as a word, `"no-folder"`: lodic/reason.h has them all. `"none"`: it is not known.
    pub fn reason(&self) -> &'static str {
        // SAFETY: the name stays, and is ASCII.
        let name = unsafe { CStr::from_ptr(ffi::lodic_reason_name(self.reason)) };
        name.to_str().unwrap_or("none")
    }

    pub(crate) fn of(errno: c_int) -> Error {
        Error { errno, reason: 0 }
    }

    /// What a function of lodic.h has returned.
    pub(crate) fn check(result: isize) -> Result<usize> {
        if result < 0 {
            let errno = -result as c_int;
            // SAFETY: any number may be asked about.
            let reason = unsafe { ffi::lodic_reason(errno) };
            return Err(Error { errno, reason });
        }
        Ok(result as usize)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What this thread was told last may be of another error of that errno by now.
        // SAFETY: the text stays until this thread's next call, or for ever.
        let text: *const c_char = unsafe {
            if self.reason == 0 || ffi::lodic_reason(self.errno) == self.reason {
                ffi::lodic_strerror(self.errno)
            } else {
                ffi::lodic_reason_text(self.reason)
            }
        };
        let text = unsafe { CStr::from_ptr(text) };
        f.write_str(&text.to_string_lossy())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error {{ errno: {}, \"{}\" }}", self.errno, self)
    }
}

impl error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::from_raw_os_error(error.errno)
    }
}

/// For errors of the system, such as those of `std::fs::File::open()`.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        const EIO: c_int = 5;
        Error::of(error.raw_os_error().unwrap_or(EIO))
    }
}
