//! Where an engine answers: the address as it is written, and the certificates that go with it.

use std::path::{Path, PathBuf};

/// Where an engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// `host:port`, and the certificates where TLS is used.
    Tcp(String, Option<TlsFiles>),
}

/// A client's certificate files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The authority that signed the engine's certificate.
    pub(crate) authority: PathBuf,
    /// The certificate of the client.
    pub(crate) certificate: PathBuf,
    /// The private key of the client.
    pub(crate) key: PathBuf,
}

impl TlsFiles {
    /// The files in `folder`, with the names that Docker gives them.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            authority: folder.join("ca.pem"),
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        }
    }
}

impl Address {
    /// Reads an address; the error says what is accepted.
    pub(crate) fn parse(text: &str, tls: Option<TlsFiles>) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.starts_with('/') {
                Ok(Self::Unix(text.into()))
            } else {
                Err("not an address: use unix:///path or tcp://host:port".to_owned())
            };
        };
        let rest = rest.trim_end_matches('/');
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(rest.into())),
            "unix" => Err("needs an absolute path: unix:///path".to_owned()),
            "tcp" | "http" | "https" => {
                if rest.is_empty() || rest.contains('/') {
                    return Err(format!("needs a host and a port: {scheme}://host:port"));
                }
                let with_tls = tls.is_some() || scheme == "https";
                let port = if with_tls { 2376 } else { 2375 };
                let has_port = rest
                    .rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                let host = if has_port {
                    rest.to_owned()
                } else {
                    format!("{rest}:{port}")
                };
                match (scheme, tls) {
                    ("https", None) => Err(
                        "needs client certificates: set DOCKER_CERT_PATH and DOCKER_TLS_VERIFY=1"
                            .to_owned(),
                    ),
                    (_, tls) => Ok(Self::Tcp(host, tls)),
                }
            }
            "ssh" => Err(format!(
                "ssh is not supported: forward the engine's socket: ssh -nNT -L /tmp/engine.sock:/run/user/1000/podman/podman.sock {text}, and set DOCKER_HOST=unix:///tmp/engine.sock"
            )),
            _ => Err(format!(
                "unsupported scheme {scheme}://: use unix:///path or tcp://host:port"
            )),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(host, _) => write!(f, "tcp://{host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_with_the_way_out() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let parsed = Address::parse(text, None).map(|address| address.to_string());
            match expected {
                Ok(address) => assert_eq!(parsed.as_deref(), Ok(address)),
                Err(part) => {
                    let problem = parsed.expect_err(text);
                    assert!(problem.contains(part), "{text}: {problem}");
                }
            }
        };
        check("unix:///run/x.sock", Ok("unix:///run/x.sock"));
        check("/run/x.sock", Ok("unix:///run/x.sock"));
        check("tcp://host", Ok("tcp://host:2375"));
        check("http://[::1]:99/", Ok("tcp://[::1]:99"));
        check("https://host", Err("DOCKER_CERT_PATH"));
        check("ssh://user@host", Err("ssh -nNT"));
        check("npipe:////./pipe/docker", Err("unsupported scheme npipe"));
        check("unix://relative", Err("absolute"));
        check("tcp://", Err("host and a port"));
        check("docker", Err("not an address"));
    }
}
