//! The guest image: a lock in, the same OCI image out, byte for byte, on any machine.
