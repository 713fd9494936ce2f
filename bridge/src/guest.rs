//! The wire to the guest: newline-delimited JSON frames and their codec. The only place that knows the protocol.

/// What the guest says of itself in its `ready` frame, read from `/proc/self/status` and its cgroup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct GuestReport {
    /// Effective capabilities, as in `CapEff`.
    pub cap_eff: String,
    /// Bounding capabilities, as in `CapBnd`.
    pub cap_bnd: String,
    /// `NoNewPrivs` is 1.
    pub no_new_privs: bool,
    /// `Seccomp`: 2 is a filter.
    pub seccomp: u8,
    /// Real user ID.
    pub uid: u32,
    /// Real group ID.
    pub gid: u32,
    /// Memory limit of the cgroup in bytes, `None` where unlimited or not to be seen.
    pub memory_max: Option<u64>,
    /// Process limit of the cgroup, likewise.
    pub pids_max: Option<u64>,
}
