//! The guest's system calls: one list, and the profile that docker and podman are given.
//!
//! Podman's own profile lets a guest make a user namespace and have every capability in it, and
//! Docker's differs from release to release. This one is narrower than both and the same
//! everywhere: no namespaces, no mounts, no sockets but unix ones, no tracing, no kernel keys, no
//! `io_uring`.

use serde_json::{Value, json};

/// Allowed whatever their arguments.
const ALLOWED: &str = "
accept accept4 access alarm arch_prctl bind brk capget chdir chmod clock_getres clock_gettime clock_nanosleep close
close_range connect copy_file_range creat dup dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait
eventfd2 execve exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchmodat2 fcntl
fdatasync fgetxattr flistxattr flock fork fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_wake getcpu
getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid
getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid
getxattr getxattrat ioctl kill lgetxattr link linkat listen listxattr listxattrat llistxattr lseek lstat madvise
membarrier memfd_create mkdir mkdirat mmap mprotect mremap mseal msync munmap nanosleep newfstatat open openat openat2
pause pidfd_open pidfd_send_signal pipe pipe2 poll ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev
pwritev2 read readlink readlinkat readv recvfrom recvmmsg recvmsg rename renameat renameat2 restart_syscall rmdir rseq
rt_sigaction rt_sigpending rt_sigprocmask rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_yield select sendfile sendmmsg sendmsg sendto set_robust_list set_tid_address setitimer setpgid
setpriority setrlimit setsid setsockopt shutdown sigaltstack socketpair stat statfs statx symlink symlinkat sysinfo
tgkill time timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utimensat
utimes vfork wait4 waitid write writev
";

/// Flags of `clone` that make namespaces; none of them may be set.
const NAMESPACE_FLAGS: u64 = 0x7E02_0080;
/// The family of unix sockets.
const AF_UNIX: u64 = 1;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The profile for an architecture, in the form that docker and podman share; `None` for an
/// architecture without guests.
pub(super) fn profile(architecture: &str) -> Option<Value> {
    let architecture = match architecture {
        "amd64" => "SCMP_ARCH_X86_64",
        "arm64" => "SCMP_ARCH_AARCH64",
        _ => return None,
    };
    let names: Vec<&str> = ALLOWED.split_whitespace().collect();
    Some(json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": [architecture],
        "syscalls": [
            {"names": names, "action": "SCMP_ACT_ALLOW"},
            {
                "names": ["clone"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
            },
            // Its flags lie in memory, where a filter cannot look; libc falls back to clone.
            {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS},
            {
                "names": ["socket"],
                "action": "SCMP_ACT_ALLOW",
                "args": [{"index": 0, "value": AF_UNIX, "op": "SCMP_CMP_EQ"}],
            },
        ],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_sorted_and_has_no_way_out_of_the_sandbox() {
        let names: Vec<&str> = ALLOWED.split_whitespace().collect();
        assert_eq!(names.len(), 192);
        assert!(names.is_sorted_by(|one, next| one < next));
        for way_out in [
            "unshare",
            "setns",
            "mount",
            "umount2",
            "pivot_root",
            "ptrace",
            "process_vm_readv",
            "bpf",
            "keyctl",
            "io_uring_setup",
            "perf_event_open",
            "userfaultfd",
            "clone",
            "clone3",
            "socket",
            "personality",
            "mknod",
            "chroot",
            "init_module",
            "kexec_load",
            "open_by_handle_at",
            "modify_ldt",
            "add_key",
        ] {
            assert!(!names.contains(&way_out), "{way_out}");
        }
    }

    #[test]
    fn profile_allows_one_architecture() {
        let profile = profile("amd64").expect("a profile");
        assert_eq!(profile["architectures"], json!(["SCMP_ARCH_X86_64"]));
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(super::profile("s390x"), None);
    }
}
