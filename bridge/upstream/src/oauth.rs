//! Logins to servers that want OAuth tokens. rmcp does the protocol: finding the authorization
//! server, registration, PKCE, refreshing. Here are the place for the tokens, the local page that
//! the browser comes back to, and what is asked for.
//!
//! Tokens lie in files that only their owner can read, one for each address. The system's keyrings
//! would need D-Bus on Linux, which servers and containers do not have, and a second place to look
//! in; they can be added as another [`CredentialStore`].

mod callback;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bridge_common::error::chain;
use bridge_common::fs::{read_bounded, write_atomic};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationRequest, CredentialStore, OAuthState,
    StoredCredentials, WWWAuthenticateParams,
};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use self::callback::{parameter, wait_for_browser};
use crate::http_client::challenge_of;

/// Time for the user to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// More than any tokens take.
const MOST_BYTES: u64 = 1024 * 1024;

/// The tokens of one server, in a file of their own.
#[derive(Debug, Clone)]
pub struct Tokens {
    path: PathBuf,
}

/// Why a login did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The protocol came to an end.
    #[error("login failed: {}", chain(.0))]
    Flow(#[source] AuthError),
    /// The authorization server, or the user there, said no.
    #[error("login refused: {0}")]
    Denied(String),
    /// The authorization server does not protect logins against stolen codes.
    #[error(
        "login refused: the authorization server does not support PKCE with S256, without which a login can be stolen"
    )]
    NoPkce,
    /// The local page could not be served.
    #[error("cannot wait for the browser on 127.0.0.1")]
    Listen(#[from] io::Error),
    /// The browser did not come back in time.
    #[error("the browser did not come back within {} minutes", LOGIN_TIMEOUT.as_secs() / 60)]
    TimedOut,
}

impl Tokens {
    /// The place for the tokens of the server at `url`.
    pub fn of(folder: &Path, url: &str) -> Self {
        let digest = Sha256::digest(url.as_bytes());
        Self {
            path: folder.join(format!("{}.json", hex::encode(&digest[..16]))),
        }
    }

    /// Whether somebody has logged in.
    pub fn exist(&self) -> bool {
        self.path.exists()
    }

    /// Deletes the tokens, and what was kept for the next login.
    pub fn remove(&self) -> io::Result<()> {
        remove_file(&self.challenge_path())?;
        remove_file(&self.path)
    }

    /// Logs in: `show` is given the address for the user's browser. Waits until the browser comes
    /// back. What the server last wanted to be shown decides which rights are asked for.
    pub async fn login(&self, url: &str, show: impl FnOnce(&str)) -> Result<(), LoginError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let redirect = format!(
            "http://127.0.0.1:{}/callback",
            listener.local_addr()?.port()
        );
        let mut manager = AuthorizationManager::new_allowing_private_addresses(url)
            .await
            .map_err(LoginError::Flow)?;
        manager.set_credential_store(self.clone());
        let challenge = self.challenge(url).await;
        require_pkce(&manager, challenge.as_deref()).await?;
        let request = self.request(&redirect, url, challenge).await;
        let mut state = OAuthState::Unauthorized(manager);
        state
            .start_authorization(request)
            .await
            .map_err(LoginError::Flow)?;
        let address = state
            .get_authorization_url()
            .await
            .map_err(LoginError::Flow)?;
        show(&address);
        let expected = parameter(&address, "state").unwrap_or_default();
        let arrival = wait_for_browser(&listener, &redirect, &expected);
        let arrived = tokio::time::timeout(LOGIN_TIMEOUT, arrival)
            .await
            .map_err(|_| LoginError::TimedOut)??;
        if let Some(error) = parameter(&arrived, "error") {
            let why = parameter(&arrived, "error_description").map(|why| format!(" ({why})"));
            return Err(LoginError::Denied(format!(
                "{error}{}",
                why.unwrap_or_default()
            )));
        }
        state
            .handle_callback_url(&arrived)
            .await
            .map_err(LoginError::Flow)?;
        let challenge = self.challenge_path();
        let _ = blocking(move || remove_file(&challenge)).await;
        Ok(())
    }

    /// What to ask the authorization server for. Rights that a server wants beyond those of an
    /// earlier login are added to them.
    async fn request(
        &self,
        redirect: &str,
        url: &str,
        challenge: Option<String>,
    ) -> AuthorizationRequest {
        let mut request = AuthorizationRequest::new(redirect)
            .with_client_name("mcp-code-bridge")
            .with_initial_scope_selection();
        let Some(challenge) = challenge else {
            return request;
        };
        if let Ok(url) = reqwest::Url::parse(url)
            && let Some(wanted) = WWWAuthenticateParams::parse(&challenge, &url).scope
            && let Ok(Some(earlier)) = self.load().await
            && !earlier.granted_scopes.is_empty()
        {
            let mut scopes = earlier.granted_scopes;
            scopes.extend(wanted.split_whitespace().map(str::to_owned));
            scopes.sort_unstable();
            scopes.dedup();
            request = request.with_scopes(scopes);
        }
        request.with_challenge(challenge)
    }

    /// What the server wants to be shown: where it wanted more rights for a call, that; else what
    /// it answers now.
    async fn challenge(&self, url: &str) -> Option<String> {
        let tokens = self.clone();
        let kept = blocking(move || tokens.kept_challenge()).await;
        let wants_more = |challenge: &String| {
            reqwest::Url::parse(url).is_ok_and(|url| {
                WWWAuthenticateParams::parse(challenge, &url).is_insufficient_scope()
            })
        };
        if kept.as_ref().is_some_and(wants_more) {
            return kept;
        }
        challenge_of(url).await.or(kept)
    }

    /// Keeps what the server wants to be shown, for the next login.
    pub(crate) async fn keep_challenge(&self, challenge: String) {
        let path = self.challenge_path();
        let kept = blocking(move || write(&path, challenge.as_bytes())).await;
        if let Err(error) = kept {
            tracing::debug!(%error, "challenge of a server cannot be kept");
        }
    }

    fn kept_challenge(&self) -> Option<String> {
        let text = read_bounded(&self.challenge_path(), MOST_BYTES).ok()?;
        String::from_utf8(text).ok()
    }

    fn challenge_path(&self) -> PathBuf {
        self.path.with_extension("challenge")
    }
}

/// Refuses an authorization server whose metadata does not name the method of PKCE that protects a
/// login. One without metadata is of the time before: then the flow itself insists on PKCE.
async fn require_pkce(
    manager: &AuthorizationManager,
    challenge: Option<&str>,
) -> Result<(), LoginError> {
    let found = manager
        .resolve_metadata_from_challenge(challenge)
        .await
        .map_err(LoginError::Flow)?;
    let methods = found.metadata.code_challenge_methods_supported;
    let supported = methods
        .unwrap_or_default()
        .iter()
        .any(|method| method == "S256");
    if found.source.is_discovered() && !supported {
        return Err(LoginError::NoPkce);
    }
    Ok(())
}

#[async_trait]
impl CredentialStore for Tokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let path = self.path.clone();
        match blocking(move || read_bounded(&path, MOST_BYTES)).await {
            // A file that is torn or of another version is as good as none: the user logs in again.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(store_error(&error)),
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let path = self.path.clone();
        blocking(move || write(&path, &serde_json::to_vec(&credentials)?))
            .await
            .map_err(|error| store_error(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let path = self.path.clone();
        blocking(move || remove_file(&path))
            .await
            .map_err(|error| store_error(&error))
    }
}

fn store_error(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    write_atomic(path, bytes, 0o600)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Runs what waits for a disk on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Gives out access tokens of an earlier login, and refreshes them when they run out.
pub(crate) struct Login(tokio::sync::Mutex<AuthorizationManager>);

impl Login {
    pub(crate) async fn open(tokens: &Tokens, url: &str) -> Result<Self, AuthError> {
        let mut manager = AuthorizationManager::new_allowing_private_addresses(url).await?;
        manager.set_credential_store(tokens.clone());
        manager.initialize_from_store().await?;
        Ok(Self(tokio::sync::Mutex::new(manager)))
    }

    /// The token to send; `None` where the user has to log in again.
    pub(crate) async fn token(&self) -> Result<Option<String>, AuthError> {
        usable(self.0.lock().await.get_access_token().await)
    }

    /// A token in place of one that the server rejected; `None` where the user has to log in again.
    pub(crate) async fn renewed(&self, rejected: &str) -> Result<Option<String>, AuthError> {
        let manager = self.0.lock().await;
        // Another request may have renewed it meanwhile.
        let token = usable(manager.get_access_token().await)?;
        if token.as_deref().is_some_and(|token| token != rejected) {
            return Ok(token);
        }
        if usable(manager.refresh_token().await)?.is_none() {
            return Ok(None);
        }
        let token = usable(manager.get_access_token().await)?;
        Ok(token.filter(|token| token != rejected))
    }
}

fn usable<T>(token: Result<T, AuthError>) -> Result<Option<T>, AuthError> {
    match token {
        Ok(token) => Ok(Some(token)),
        Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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

    #[tokio::test]
    async fn challenge_is_kept_for_the_next_login_and_goes_with_the_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(&folder.path().join("oauth"), "https://example.test/mcp");
        assert_eq!(tokens.kept_challenge(), None);
        tokens.keep_challenge("Bearer scope=\"a\"".to_owned()).await;
        assert_eq!(
            tokens.kept_challenge().as_deref(),
            Some("Bearer scope=\"a\"")
        );
        tokens.remove().unwrap();
        assert_eq!(tokens.kept_challenge(), None);
    }
}
