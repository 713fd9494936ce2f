//! What the integration tests share: the bridge under test over real stdio, the engines that it
//! runs on, and the checks for what it must not leave behind.
//!
//! Tests assert on what a client and an engine see, never on the internals of the bridge.

pub mod answer;
pub mod bridge;
pub mod cli;
pub mod engine;
pub mod home;
pub mod process;
pub mod sdk;
pub mod setup;
pub mod tokens;
pub mod wait;

pub use answer::Answer;
pub use bridge::Bridge;
pub use engine::{EngineUnderTest, Kind};
pub use home::Home;
pub use wait::{limit, until};

/// Runs functions of `&EngineUnderTest` as one test per engine: `each_engine!(keeps_variables,
/// stops_in_time);`.
#[macro_export]
macro_rules! each_engine {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn docker() {
                $crate::engine::with_shared($crate::Kind::Docker, module_path!(), super::$name);
            }

            #[test]
            fn podman_rootful() {
                $crate::engine::with_shared($crate::Kind::PodmanRootful, module_path!(), super::$name);
            }

            #[test]
            fn podman_rootless() {
                $crate::engine::with_shared($crate::Kind::PodmanRootless, module_path!(), super::$name);
            }
        }
    )+};
}
