//! The guard against bridges within bridges: a counter that every started server inherits.
//!
//! The catalog puts it into the environment of each stdio server; a bridge that finds it set at its own start refuses.

use std::collections::BTreeMap;

/// The variable that counts bridges above this process.
pub const VARIABLE: &str = "MCP_BRIDGE_DEPTH";

/// The deepest nesting that can be allowed.
const DEEPEST: u32 = 3;

/// Why a nested bridge does not start.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A server of another bridge started this one.
    #[error(
        "this bridge was started by a server of another bridge (MCP_BRIDGE_DEPTH={0}) and would offer the same servers \
         again; set MCP_BRIDGE_ALLOW_SELF_SERVER=1 if that is meant"
    )]
    Nested(u32),
    /// Nesting is allowed, but too deep.
    #[error("bridges start each other {0} deep (MCP_BRIDGE_DEPTH); the limit is {DEEPEST}")]
    TooDeep(u32),
    /// The variable is not a number.
    #[error(
        "MCP_BRIDGE_DEPTH is not a number; it is set by the bridge itself and should be unset otherwise"
    )]
    NotANumber,
}

/// How many bridges are above this one, or why that is one too many.
pub fn check(environment: &BTreeMap<String, String>, allow_self: bool) -> Result<u32, Error> {
    let depth = match environment.get(VARIABLE).map(|text| text.trim()) {
        None | Some("") => 0,
        Some(text) => text.parse().map_err(|_| Error::NotANumber)?,
    };
    match depth {
        0 => Ok(0),
        depth if !allow_self => Err(Error::Nested(depth)),
        depth if depth >= DEEPEST => Err(Error::TooDeep(depth)),
        depth => Ok(depth),
    }
}

/// The value for servers started by a bridge with this environment.
pub(super) fn below(environment: &BTreeMap<String, String>) -> String {
    let depth = environment
        .get(VARIABLE)
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(0);
    depth.saturating_add(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(VARIABLE.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_bridge_inside_a_bridge_refuses_to_start() {
        assert_eq!(check(&BTreeMap::new(), false), Ok(0));
        assert_eq!(check(&environment(""), false), Ok(0));
        assert_eq!(check(&environment("0"), false), Ok(0));
        assert_eq!(check(&environment("1"), false), Err(Error::Nested(1)));
        assert_eq!(check(&environment("1"), true), Ok(1));
        assert_eq!(check(&environment("3"), true), Err(Error::TooDeep(3)));
        assert_eq!(check(&environment("-1"), true), Err(Error::NotANumber));
        assert!(!Error::Nested(1).to_string().contains('\n'), "one line");
    }

    #[test]
    fn each_level_counts_one_more() {
        assert_eq!(below(&BTreeMap::new()), "1");
        assert_eq!(below(&environment("1")), "2");
        assert_eq!(below(&environment("junk")), "1");
    }
}
