//! Where the login to one server is kept: a file for its owner alone, which is replaced as a whole, and a lock beside it, so
//! that of all processes that share the folder one at a time renews it. The file knows for which address the login is.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tollgate_types::Secret;

use super::client::{Client, ClientProof, Method};
use super::error::AuthError;
use super::request::random;
use super::token::Tokens;

const FORMAT: u8 = 1;
const FILE_BYTES_MAX: u64 = 512 * 1024;

/// Where the login to one server is kept.
#[derive(Debug, Clone)]
pub struct LoginFile {
    path: PathBuf,
}

/// A login as people may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoggedIn {
    /// Who gave the tokens.
    pub issuer: String,
    /// For what they are.
    pub resource: String,
    /// What was asked for.
    pub scopes: Vec<String>,
    /// When the access token ends, where that was said.
    pub expires_at: Option<Timestamp>,
    /// Whether it is renewed by itself.
    pub is_renewed: bool,
}

/// Whose turn it is, until this is dropped.
pub(super) struct Turn {
    _file: File,
}

/// What came of a login.
#[derive(Debug, Clone)]
pub(super) struct Login {
    /// The server's address. A login for another is none for this.
    pub(super) url: String,
    pub(super) issuer: String,
    pub(super) resource: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) client: Client,
    /// None once the authorization server took them back; the client stays known there.
    pub(super) tokens: Option<Tokens>,
    /// What was asked for.
    pub(super) scopes: Vec<String>,
    /// What the server wants besides, which a human did not agree to yet.
    pub(super) wanted: Vec<String>,
}

impl Login {
    /// The login as people may see it.
    pub(super) fn seen(&self) -> LoggedIn {
        let tokens = self.tokens.as_ref();
        LoggedIn {
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            is_renewed: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        }
    }
}

/// The file's content. Of a client that was registered by hand it holds the name alone: the operator has the rest.
#[derive(Serialize, Deserialize)]
struct Kept {
    format: u8,
    url: String,
    issuer: String,
    resource: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    client_id: String,
    client_secret: Option<String>,
    client_method: Method,
    redirect_uri: Option<String>,
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_at: Option<Timestamp>,
    scopes: Vec<String>,
    wanted: Vec<String>,
}

impl LoginFile {
    /// The file of the server `name` in a folder of its own, which is made with the first login.
    pub fn new(folder: &Path, name: &str) -> Self {
        Self { path: folder.join(format!("{name}.json")) }
    }

    /// Waits for this process's turn.
    pub(super) async fn turn(&self) -> Result<Turn, AuthError> {
        let path = self.path.with_extension("lock");
        let locked = spawn_blocking(move || {
            make_folder(&path)?;
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
            file.lock()?;
            Ok(Turn { _file: file })
        });
        locked.await.map_err(io::Error::other).flatten().map_err(|error| self.fault("be locked", &error))
    }

    /// The login that is kept.
    pub(super) fn load(&self) -> Result<Option<Login>, AuthError> {
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.fault("be read", &error)),
        }
        // What is broken is not quoted: it may be the token.
        let kept = serde_json::from_str::<Kept>(&text).ok().filter(|kept| kept.format == FORMAT);
        let why = io::Error::other("it is no login of this version: log out, and in again");
        kept.map(|kept| Some(kept.into())).ok_or_else(|| self.fault("be read", &why))
    }

    /// Keeps a login in place of the one that was.
    pub(super) async fn save(&self, login: &Login) -> Result<(), AuthError> {
        let text = serde_json::to_vec_pretty(&Kept::from(login)).map_err(|error| AuthError::File(error.to_string()))?;
        let path = self.path.clone();
        let saved = spawn_blocking(move || replace(&path, &text));
        saved.await.map_err(io::Error::other).flatten().map_err(|error| self.fault("be written", &error))
    }

    /// Forgets it.
    pub(super) fn remove(&self) -> Result<(), AuthError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.fault("be removed", &error)),
            _ => Ok(()),
        }
    }

    fn fault(&self, what: &str, error: &io::Error) -> AuthError {
        AuthError::File(format!("the login in `{}` cannot {what}: {error}", self.path.display()))
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder))
}

/// Whoever reads meanwhile finds the old or the new, and never a part.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    make_folder(path)?;
    let aside = path.with_extension(random().ok_or_else(|| io::Error::other("the system gives no random numbers"))?);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

impl From<&Login> for Kept {
    fn from(login: &Login) -> Self {
        let expose = |secret: &Secret| secret.expose().to_owned();
        let tokens = login.tokens.as_ref();
        let client_secret = match (&login.client.redirect_uri, &login.client.proof) {
            (Some(_), ClientProof::Secret(secret)) => Some(expose(secret)),
            _ => None,
        };
        Self {
            format: FORMAT,
            url: login.url.clone(),
            issuer: login.issuer.clone(),
            resource: login.resource.clone(),
            token_endpoint: login.token_endpoint.clone(),
            revocation_endpoint: login.revocation_endpoint.clone(),
            client_id: login.client.id.clone(),
            client_secret,
            client_method: login.client.method,
            redirect_uri: login.client.redirect_uri.clone(),
            access_token: tokens.map(|tokens| expose(&tokens.access)),
            refresh_token: tokens.and_then(|tokens| tokens.refresh.as_ref()).map(expose),
            expires_at: tokens.and_then(|tokens| tokens.expires_at),
            scopes: login.scopes.clone(),
            wanted: login.wanted.clone(),
        }
    }
}

impl From<Kept> for Login {
    fn from(kept: Kept) -> Self {
        let proof = kept.client_secret.map_or(ClientProof::Nothing, |secret| ClientProof::Secret(Secret::new(secret)));
        let (refresh, expires_at) = (kept.refresh_token.map(Secret::new), kept.expires_at);
        let tokens = kept.access_token.map(|access| Tokens { access: Secret::new(access), refresh, expires_at });
        Self {
            url: kept.url,
            issuer: kept.issuer,
            resource: kept.resource,
            token_endpoint: kept.token_endpoint,
            revocation_endpoint: kept.revocation_endpoint,
            client: Client { id: kept.client_id, method: kept.client_method, proof, redirect_uri: kept.redirect_uri },
            tokens,
            scopes: kept.scopes,
            wanted: kept.wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn login(secret: &str, redirect_uri: Option<&str>) -> Login {
        Login {
            url: "https://a.example/mcp".into(),
            issuer: "https://as.example".into(),
            resource: "https://a.example".into(),
            token_endpoint: "https://as.example/token".into(),
            revocation_endpoint: None,
            client: Client {
                id: "id".into(),
                method: Method::ClientSecretPost,
                proof: ClientProof::Secret(Secret::new(secret)),
                redirect_uri: redirect_uri.map(ToOwned::to_owned),
            },
            tokens: Some(Tokens {
                access: Secret::new("access-1"),
                refresh: Some(Secret::new("refresh-1")),
                expires_at: Some(Timestamp::UNIX_EPOCH),
            }),
            scopes: vec!["a".into()],
            wanted: vec!["b".into()],
        }
    }

    #[tokio::test]
    async fn a_login_is_its_owners_alone_and_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = LoginFile::new(&folder.path().join("logins"), "x");
        assert!(file.load().unwrap().is_none());
        file.save(&login("own-secret", Some("http://127.0.0.1:1/callback"))).await.unwrap();
        let back = file.load().unwrap().unwrap();
        assert!(matches!(&back.client.proof, ClientProof::Secret(secret) if secret.expose() == "own-secret"));
        let tokens = back.tokens.as_ref().unwrap();
        assert_eq!((tokens.access.expose(), tokens.refresh.as_ref().unwrap().expose()), ("access-1", "refresh-1"));
        assert_eq!((back.scopes, back.wanted), (vec!["a".to_owned()], vec!["b".to_owned()]));
        let _turn = file.turn().await.unwrap();
        for entry in fs::read_dir(folder.path().join("logins")).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::metadata(folder.path().join("logins")).unwrap().permissions().mode() & 0o777, 0o700);
        file.remove().unwrap();
        file.remove().unwrap();
        assert!(file.load().unwrap().is_none());
    }

    #[tokio::test]
    async fn the_operators_secret_is_not_kept_twice_and_what_is_broken_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let file = LoginFile::new(folder.path(), "x");
        file.save(&login("operators-secret", None)).await.unwrap();
        assert!(!fs::read_to_string(folder.path().join("x.json")).unwrap().contains("operators-secret"));
        for broken in ["", "access-1", r#"{"format": 2, "access_token": "access-1"}"#] {
            fs::write(folder.path().join("x.json"), broken).unwrap();
            let error = file.load().unwrap_err().to_string();
            assert!(error.contains("log out") && !error.contains("access-1"), "{error}");
        }
    }
}
