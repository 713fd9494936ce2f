//! JSON as such: how much a value is, without writing it anywhere.

use std::io::{self, Write};

use serde_json::Value;

/// Bytes of a value as JSON.
pub fn size_of(value: &Value) -> usize {
    let mut counter = Counter(0);
    // Neither counting nor a value can fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
