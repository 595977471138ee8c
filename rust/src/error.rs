// SPDX-License-Identifier: GPL-2.0-only OR MIT
use std::ffi::CStr;
use std::os::raw::c_int;
use std::{error, fmt, io};

use crate::ffi;

/// An error of liblodic: an errno value, in the words of `lodic_strerror()`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error {
    errno: c_int,
}

/// What fallible functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The errno value, which is positive.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    pub(crate) fn of(errno: c_int) -> Error {
        Error { errno }
    }

    /// What a function of lodic.h has returned.
    pub(crate) fn check(result: isize) -> Result<usize> {
        if result < 0 {
            return Err(Error::of(-result as c_int));
        }
        Ok(result as usize)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the text stays.
        let text = unsafe { CStr::from_ptr(ffi::lodic_strerror(self.errno)) };
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
