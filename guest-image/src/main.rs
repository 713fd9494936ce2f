//! `guest-image`: lock, build, verify and describe the guest image.

fn main() {}
