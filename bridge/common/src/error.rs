//! Errors with their causes.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

/// An error and its causes on one line, as in `cannot read "x": permission denied`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // Many errors repeat their cause in their own text.
        if !text.ends_with(&inner_text) {
            text.extend([": ", &inner_text]);
        }
        cause = inner.source();
    }
    text
}

/// An error, its cause, the cause of that, and so on.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error| <dyn Error>::source(*error))
}

/// An input or output error in few words, the same on every platform.
pub fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            "connection closed".to_owned()
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Outer(&'static str, io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.1)
        }
    }

    #[test]
    fn causes_are_appended_unless_they_are_repeated() {
        let error = Outer("cannot read", io::Error::other("the disk is gone"));
        assert_eq!(chain(&error), "cannot read: the disk is gone");
        let error = Outer("cannot read (the disk is gone)", io::Error::other("x"));
        assert_eq!(chain(&error), "cannot read (the disk is gone): x");
        let error = Outer("cannot read: gone", io::Error::other("gone"));
        assert_eq!(chain(&error), "cannot read: gone");
        assert_eq!(causes(&error).count(), 2);
    }
}
