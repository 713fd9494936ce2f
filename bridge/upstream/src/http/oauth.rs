//! Logins to servers that want OAuth tokens: the flow is rmcp's; here are the place for the tokens and the local page
//! that the browser comes back to.
//!
//! Tokens lie in files that only their owner can read, one for each address. The system's keyrings would need D-Bus on
//! Linux, which is not there on servers and in containers, and a second place to look in; they can be added as another
//! [`CredentialStore`].

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::transport::auth::{AuthorizationManager, AuthorizationRequest, OAuthState};
use rmcp::transport::{AuthError, CredentialStore, StoredCredentials};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

use super::chain;

/// The user has this long to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// Longer requests to the local page are no redirect of an authorization server.
const REQUEST_BYTES: u64 = 16 * 1024;

/// The tokens for one address, in a file.
#[derive(Debug, Clone)]
pub struct Tokens {
    path: PathBuf,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The flow failed.
    #[error("login failed: {0}")]
    Flow(String),
    /// The authorization server, or the user there, said no.
    #[error("login refused: {0}")]
    Refused(String),
    /// The local page could not be served.
    #[error("cannot wait for the browser on 127.0.0.1")]
    Listen(#[from] std::io::Error),
    /// The browser did not come back in time.
    #[error("nobody came back from the browser within {} minutes", LOGIN_TIMEOUT.as_secs() / 60)]
    TimedOut,
}

impl Tokens {
    /// The place for the tokens of the server at `url`.
    pub fn of(folder: &Path, url: &str) -> Self {
        use std::fmt::Write as _;

        let digest = Sha256::digest(url.as_bytes());
        let name = digest[..16].iter().fold(String::new(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        Self {
            path: folder.join(format!("{name}.json")),
        }
    }

    /// Whether somebody has logged in.
    pub fn exist(&self) -> bool {
        self.path.exists()
    }

    /// Forgets them.
    pub fn remove(&self) -> std::io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What gives out tokens, and refreshes them when they run out.
    pub(super) async fn manager(&self, url: &str) -> Result<AuthorizationManager, String> {
        let prepare = async {
            let mut manager = AuthorizationManager::new_allowing_private_addresses(url).await?;
            manager.set_credential_store(self.clone());
            manager.initialize_from_store().await?;
            Ok(manager)
        };
        prepare
            .await
            .map_err(|error: AuthError| format!("its login cannot be used: {}", chain(&error)))
    }

    /// Logs in: `show` is given the address for the user's browser. Waits until the browser comes back.
    pub async fn login(&self, url: &str, show: impl FnOnce(&str)) -> Result<(), LoginError> {
        let flow = |error: AuthError| LoginError::Flow(chain(&error));
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let redirect = format!(
            "http://127.0.0.1:{}/callback",
            listener.local_addr()?.port()
        );
        let mut manager = AuthorizationManager::new_allowing_private_addresses(url)
            .await
            .map_err(flow)?;
        manager.set_credential_store(self.clone());
        let mut state = OAuthState::Unauthorized(manager);
        let request = AuthorizationRequest::new(redirect.as_str())
            .with_client_name("mcp-code-bridge")
            .with_initial_scope_selection();
        state.start_authorization(request).await.map_err(flow)?;
        let address = state.get_authorization_url().await.map_err(flow)?;
        show(&address);
        let expected = parameter(&address, "state").unwrap_or_default();
        let arrival =
            tokio::time::timeout(LOGIN_TIMEOUT, callback(&listener, &redirect, &expected));
        let arrived = arrival.await.map_err(|_| LoginError::TimedOut)??;
        if let Some(error) = parameter(&arrived, "error") {
            let why = parameter(&arrived, "error_description").map(|why| format!(" ({why})"));
            return Err(LoginError::Refused(format!(
                "{error}{}",
                why.unwrap_or_default()
            )));
        }
        state.handle_callback_url(&arrived).await.map_err(flow)
    }

    fn write(&self, credentials: &StoredCredentials) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        // Temporary files are readable by their owner only from the beginning.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, credentials)?;
        file.flush()?;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(0o600))?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[async_trait]
impl CredentialStore for Tokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(AuthError::CredentialStoreError(error.to_string())),
        };
        // A file that is torn or of another version is as good as none: the user logs in again.
        Ok(serde_json::from_slice(&text).ok())
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.write(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.remove()
            .map_err(|error| AuthError::CredentialStoreError(error.to_string()))
    }
}

/// A parameter of an address.
fn parameter(address: &str, name: &str) -> Option<String> {
    let address = reqwest::Url::parse(address).ok()?;
    let found = address.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Waits for the browser and gives the whole address that it was sent to. Any page may send a browser here: what does not
/// belong to this login, by its state, does not end it.
async fn callback(
    listener: &TcpListener,
    redirect: &str,
    expected: &str,
) -> std::io::Result<String> {
    let origin = redirect.trim_end_matches("/callback");
    loop {
        let (stream, _) = listener.accept().await?;
        let mut stream = BufReader::new(tokio::io::AsyncReadExt::take(stream, REQUEST_BYTES));
        let mut line = String::new();
        // A connection that says nothing must not keep the browser out.
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_line(&mut line)).await;
        let target = match read {
            Ok(Ok(_)) => line
                .strip_prefix("GET ")
                .and_then(|rest| rest.split(' ').next())
                .unwrap_or_default(),
            _ => continue,
        };
        let address = format!("{origin}{target}");
        let arrived = target.starts_with("/callback?")
            && parameter(&address, "state").is_some_and(|state| state == expected);
        let (status, page) = if arrived && parameter(&address, "error").is_some() {
            (
                "200 OK",
                "The login was refused. This page can be closed.\n",
            )
        } else if arrived {
            ("200 OK", "You are logged in. This page can be closed.\n")
        } else {
            ("404 Not Found", "There is nothing here.\n")
        };
        let length = page.len();
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
        );
        let mut stream = stream.into_inner().into_inner();
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.shutdown().await;
        if arrived {
            return Ok(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tokens_are_kept_for_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(&folder.path().join("oauth"), "https://example.test/mcp");
        assert!(tokens.load().await.unwrap().is_none());
        tokens
            .save(StoredCredentials::new(
                "client".to_owned(),
                None,
                vec![],
                Some(1),
            ))
            .await
            .unwrap();
        assert_eq!(
            fs::metadata(&tokens.path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            fs::metadata(tokens.path.parent().unwrap())
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        assert_eq!(tokens.load().await.unwrap().unwrap().client_id, "client");
        fs::write(&tokens.path, "{").unwrap();
        assert!(tokens.load().await.unwrap().is_none());
        tokens.clear().await.unwrap();
        tokens.clear().await.unwrap();
        assert!(!tokens.exist());
    }
}
